//! Where the bytes of an image are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::data::unpack::{corrupt, read_packed, read_part};
use crate::{Error, Result};

/// Largest file in bytes: the size of the pixels of the largest image that is read.
pub(super) const LARGEST: usize = 512 << 20;

/// Where the bytes of an image are.
pub(super) enum Place {
    /// In a file of its own.
    File(PathBuf),
    /// A member of a tar shard: position of its first byte in the shard, and number of bytes.
    Member { shard: Arc<Path>, name: Box<str>, from: u64, length: usize },
}

impl Place {
    /// The bytes of the image. Only a hash tells whether they are those that were there before.
    ///
    /// # Errors
    /// If the file can't be read, or is too large.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        match self {
            Self::File(path) => read_packed(path, LARGEST),
            Self::Member { shard, from, length, .. } => read_part(shard, *from, *length),
        }
    }

    /// The error for an image with this defect.
    pub(super) fn corrupt(&self, what: impl Into<String>) -> Error {
        corrupt(Path::new(&self.to_string()), what)
    }
}

/// The path of the file; of a member, that of its shard with its name.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Member { shard, name, .. } => write!(f, "{}: {name}", shard.display()),
        }
    }
}
