//! Listing of folders.

use std::path::{Path, PathBuf};

/// Returns the paths of the entries of a folder; none if it can't be read.
pub fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
