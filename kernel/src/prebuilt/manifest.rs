//! List of all files of a prebuilt lab, by which changed ones are found.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use epsilab::{Error, Result};

use super::stamp::{Stamp, sha256};

/// The list: one line per file, with SHA-256, size and path.
const MANIFEST_FILE: &str = "files.txt";
/// The folders whose files are listed.
const LISTED_DIRS: [&str; 3] = ["lib", "shim", super::STD_SOURCES];

/// Depth of the comparison of files with the list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckDepth {
    /// Compares sizes, and the content of the dylib and of files that were written after the
    /// stamp. Cheap enough for every start.
    Quick,
    /// Compares the content of every file.
    Full,
}

/// File that differs from the built one.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedFile {
    /// Path in the folder of the lab.
    pub path: PathBuf,
    /// SHA-256 of the file that was built.
    pub expected_sha256: String,
}

/// Writes the list of the files that are in the folder now, and returns its SHA-256.
///
/// # Errors
/// A file can't be read, or the list can't be written.
pub fn write_manifest(dir: &Path) -> Result<String> {
    let io = |e: std::io::Error| Error::io("writing the list of the lab's files", &e);
    let mut files = Vec::new();
    for part in LISTED_DIRS {
        collect_files(&dir.join(part), &mut files).map_err(io)?;
    }
    files.sort();
    let mut list = String::new();
    for file in files {
        let size = file.metadata().map_err(io)?.len();
        let path = file.strip_prefix(dir).unwrap_or(&file).display();
        let _ = writeln!(list, "{} {size} {path}", sha256(&file)?);
    }
    let path = dir.join(MANIFEST_FILE);
    std::fs::write(&path, list).map_err(io)?;
    sha256(&path)
}

/// Returns the files that are not as they were built.
///
/// # Errors
/// The list can't be read or was itself changed.
pub fn find_changed(dir: &Path, stamp: &Stamp, depth: CheckDepth) -> Result<Vec<ChangedFile>> {
    let path = dir.join(MANIFEST_FILE);
    if sha256(&path)? != stamp.files_sha256 {
        let why = "the list of the lab's files differs from the one that was built";
        return Err(Error::new(epsilab::ErrorKind::Notebook, path.display().to_string(), why));
    }
    let reading = |e: std::io::Error| Error::io(format!("reading {}", path.display()), &e);
    let list = std::fs::read_to_string(&path).map_err(reading)?;
    let library = Path::new("lib").join(&stamp.library);
    // The stamp is written last.
    let finished = dir.join(Stamp::FILE).metadata().and_then(|stamp| stamp.modified()).ok();
    let is_changed = |path: &Path, built: &str, size: &str| {
        let file = dir.join(path);
        let Ok(found) = file.metadata() else { return true };
        // A copied lab has new times, so these alone say nothing.
        let is_older = || found.modified().is_ok_and(|time| Some(time) <= finished);
        found.len().to_string() != size
            || ((depth == CheckDepth::Full || path == library || !is_older())
                && !sha256(&file).is_ok_and(|hash| hash == built))
    };
    Ok(list
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ' ');
            let (built, size) = (fields.next()?, fields.next()?);
            let path = PathBuf::from(fields.next()?);
            is_changed(&path, built, size)
                .then(|| ChangedFile { path, expected_sha256: built.to_owned() })
        })
        .collect())
}

fn collect_files(dir: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { collect_files(&path, into)? } else { into.push(path) }
    }
    Ok(())
}
