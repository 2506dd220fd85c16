//! Lists folders.

use std::path::{Path, PathBuf};

/// The paths of what is in a folder; none if it can't be read.
pub fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
