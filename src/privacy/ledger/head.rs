//! The head of a ledger: how many entries there were, and the last link.
//!
//! The chain shows what was changed inside a ledger; that its last lines, or all of it, are gone
//! is only seen from outside. So a small file beside the ledger, `<data-hash>.head`, remembers
//! its end. It is written after the line is on the disk, under the same lock, and moved into
//! place whole: between the two writes, and after a crash there, the ledger is one entry ahead.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The end of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// How many entries the ledger holds.
    pub(super) entries: usize,
    /// The link of the last one.
    pub(super) chain: String,
}

/// Where the head of the ledger in `ledger` is.
pub(super) fn path_beside(ledger: &Path) -> PathBuf {
    ledger.with_extension("head")
}

impl Head {
    /// The head beside a ledger, if there is one.
    pub(super) fn read(ledger: &Path) -> io::Result<Option<Self>> {
        match fs::read(path_beside(ledger)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).map_err(io::Error::from)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes the head beside its ledger; on the disk, whole, when this returns. The caller holds
    /// the ledger's lock, so nobody else uses the same draft.
    pub(super) fn write(&self, ledger: &Path) -> io::Result<()> {
        let (path, draft) = (path_beside(ledger), ledger.with_extension("head-draft"));
        let mut file = File::create(&draft)?;
        file.write_all(format!("{}\n", self.to_json()).as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        sync_folder_of(&path)
    }

    /// The head as it stands in its file.
    pub(super) fn to_json(&self) -> String {
        format!(r#"{{"entries":{},"chain":"{}"}}"#, self.entries, self.chain)
    }
}

/// Makes a new file's directory entry durable. Only Unix lets a folder be synced.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all())
}
