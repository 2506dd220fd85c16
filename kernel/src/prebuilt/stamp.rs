//! The stamp of a prebuilt lab: toolchain, sources and hash of the dylib.

use std::path::Path;

use epsilab::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::build_env::hex;

/// Contents of `stamp.json`. It is written last; a folder without it is not used.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Stamp {
    /// Commit hash of rustc.
    pub rustc_commit: String,
    /// Release of rustc.
    pub rustc_version: String,
    /// Host triple.
    pub host: String,
    /// Version of Burn.
    pub burn: String,
    /// Folder of the library's sources that it was built from.
    pub workspace: String,
    /// Fingerprint of the sources.
    pub sources: String,
    /// File name of the dylib in `lib/`.
    pub library: String,
    /// SHA-256 of the dylib.
    pub library_sha256: String,
    /// Duration of the build, the estimate for the next one.
    pub seconds: f64,
}

impl Stamp {
    const FILE: &str = "stamp.json";

    /// Reads the stamp in a lab folder.
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(dir.join(Self::FILE)).ok()?).ok()
    }

    /// Writes the stamp.
    ///
    /// # Errors
    /// The folder can't be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::io("writing the lab's stamp", &e.into()))?;
        std::fs::write(dir.join(Self::FILE), text)
            .map_err(|e| Error::io("writing the lab's stamp", &e))
    }

    /// Checks that the dylib is the one that was built.
    ///
    /// # Errors
    /// It is missing or was changed.
    pub fn check_library(&self, dir: &Path) -> Result<()> {
        let path = dir.join("lib").join(&self.library);
        let found = sha256(&path)?;
        if found == self.library_sha256 {
            return Ok(());
        }
        Err(Error::new(
            epsilab::ErrorKind::Notebook,
            format!("{} (sha256 {found})", path.display()),
            "the file is not the library that was built: cells linked to it would crash",
        ))
    }
}

/// SHA-256 of a file, in hexadecimal.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_library_is_refused() {
        let dir = tempfile::tempdir().expect("temp");
        std::fs::create_dir(dir.path().join("lib")).expect("folder");
        let library = dir.path().join("lib/liblab.so");
        std::fs::write(&library, "one").expect("write");
        let stamp = Stamp {
            rustc_commit: String::new(),
            rustc_version: String::new(),
            host: String::new(),
            burn: String::new(),
            workspace: String::new(),
            sources: String::new(),
            library: "liblab.so".into(),
            library_sha256: sha256(&library).expect("hash"),
            seconds: 1.0,
        };
        stamp.write(dir.path()).expect("write");
        assert_eq!(Stamp::read(dir.path()).as_ref(), Some(&stamp));
        assert!(stamp.check_library(dir.path()).is_ok());
        std::fs::write(&library, "two").expect("write");
        assert!(stamp.check_library(dir.path()).is_err());
    }
}
