//! The stamp of a prebuilt lab: toolchain, sources and the hash of the list of its files.

use std::path::Path;

use epsilab::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::build_env::hex;

/// Contents of `stamp.json`. It is written last; a folder without it is not used.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Stamp {
    /// Commit hash of rustc.
    pub rustc_commit: String,
    /// Release of rustc.
    pub rustc_version: String,
    /// Host triple.
    pub host: String,
    /// Version of Burn.
    pub burn: String,
    /// Folder of the library's sources that the lab was built from.
    pub workspace: String,
    /// Fingerprint of the sources.
    pub sources: String,
    /// File name of the dylib in `lib/`.
    pub library: String,
    /// SHA-256 of the list of all files.
    pub files_sha256: String,
    /// Duration of the build in seconds.
    pub seconds: f64,
}

impl Stamp {
    /// Name of the file.
    pub const FILE: &str = "stamp.json";

    /// Reads the stamp in a lab folder.
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(dir.join(Self::FILE)).ok()?).ok()
    }

    /// Writes the stamp.
    ///
    /// # Errors
    /// The folder can't be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let io = |e: std::io::Error| Error::io("writing the lab's stamp", &e);
        let text = serde_json::to_string_pretty(self).map_err(|e| io(e.into()))?;
        std::fs::write(dir.join(Self::FILE), text).map_err(io)
    }
}

/// Computes the SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// Kind `Io` if the file can't be read.
pub fn sha256(path: &Path) -> Result<String> {
    let read = |path: &Path| -> std::io::Result<String> {
        let mut hash = Sha256::new();
        let mut file = std::fs::File::open(path)?;
        let mut part = vec![0; 1 << 20];
        loop {
            match std::io::Read::read(&mut file, &mut part)? {
                0 => return Ok(hex(&hash.finalize())),
                n => hash.update(&part[..n]),
            }
        }
    };
    read(path).map_err(|e| Error::io(format!("reading {}", path.display()), &e))
}
