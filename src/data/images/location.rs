//! Location of the bytes of an image.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::data::decompressed_file::{corrupt, read_range, read_raw};
use crate::{Error, Result};

/// Largest file in bytes: the size of the pixels of the largest image that is read.
pub(super) const MAX_IMAGE_BYTES: usize = 512 << 20;

/// Location of the bytes of an image.
pub(super) enum ImageLocation {
    /// File of its own.
    File(PathBuf),
    /// Member of a tar shard: position of its first byte in the shard, and number of bytes.
    Member { shard: Arc<Path>, name: Box<str>, from: u64, length: usize },
}

impl ImageLocation {
    /// Reads the bytes of the image. Only a hash tells whether they are those that were there
    /// before.
    ///
    /// # Errors
    /// If the file can't be read, or is too large.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        match self {
            Self::File(path) => read_raw(path, MAX_IMAGE_BYTES),
            Self::Member { shard, from, length, .. } => read_range(shard, *from, *length),
        }
    }

    /// Returns the error for an image with this defect.
    pub(super) fn corrupt(&self, what: impl Into<String>) -> Error {
        corrupt(Path::new(&self.to_string()), what)
    }
}

/// Formats the path of the file, or the path of the shard and the name of its member.
impl fmt::Display for ImageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Member { shard, name, .. } => write!(f, "{}: {name}", shard.display()),
        }
    }
}
