//! The head of a ledger: the number of entries and the last link.
//!
//! The chain detects changes inside a ledger, but not that its last lines, or the whole file, are
//! missing. The head, a small file `<data-hash>.head`, records the end of the ledger. It is written
//! after the line is on disk, under the same lock, and replaced atomically. Between the two writes,
//! or after a crash there, the ledger is one entry ahead. Before many entries are appended
//! together, the head announces where they will end: until then, the ledger may be ahead by any
//! part of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file;

/// The recorded end of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The number of entries.
    pub(super) entries: usize,
    /// The link of the last entry.
    pub(super) chain: String,
    /// Future end of the ledger while entries are being appended together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "coming")]
    pub(super) pending: Option<Box<Head>>,
}

/// Returns the path of the head for the ledger in `ledger`.
pub(super) fn path_beside(ledger: &Path) -> PathBuf {
    ledger.with_extension("head")
}

impl Head {
    /// Creates the head of a ledger that ends in this entry.
    pub(super) fn at(entries: usize, chain: String) -> Self {
        Self { entries, chain, pending: None }
    }

    /// Reads the head of a ledger; `None` if it does not exist.
    pub(super) fn read(ledger: &Path) -> io::Result<Option<Self>> {
        match fs::read(path_beside(ledger)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).map_err(io::Error::from)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes the head of a ledger atomically. Returns when it is on disk.
    pub(super) fn write(&self, ledger: &Path) -> io::Result<()> {
        let text = format!("{}\n", self.to_json());
        file::replace_durably(&path_beside(ledger), text.as_bytes())
    }

    /// Returns the JSON text of the head.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts")
    }
}
