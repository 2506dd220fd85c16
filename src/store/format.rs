//! The format number of a project folder.
//!
//! A folder of another format is refused before any of its files are read: a ledger that is read in
//! part would count less than was spent.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::if_exists;
use crate::{Error, ErrorKind, Result, file};

/// The name of the file.
const FILE: &str = "format.json";

/// The format that this version reads and writes. It is raised when the files of runs, ledgers or
/// grids change; formats of released versions are then converted.
const FORMAT: u32 = 1;

/// The last commit that reads folders without a format.
const LAST_COMMIT_WITHOUT_FORMAT: &str = "7a0e458";

/// The folders that a project can't have without a format.
const FOLDERS: [&str; 2] = ["ledger", "runs"];

#[derive(Serialize, Deserialize)]
struct FormatFile {
    format: u32,
}

/// Checks that this version reads the project in `home`. A folder without runs and ledgers needs no
/// format file.
///
/// # Errors
/// `CorruptData` if the project has another format, or none; `Io` if that can't be read.
pub(super) fn check(home: &Path) -> Result<()> {
    let path = home.join(FILE);
    let text = match fs::read(&path) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            for name in FOLDERS {
                if has_entries(&home.join(name))? {
                    return Err(without_format(home));
                }
            }
            return Ok(());
        }
        text => text.map_err(|e| Error::io(format!("reading {}", path.display()), &e))?,
    };
    match serde_json::from_slice(&text) {
        Ok(FormatFile { format: FORMAT }) => Ok(()),
        Ok(FormatFile { format }) => {
            let what = format!("the project {} has format {format}", home.display());
            let why = format!("this version reads format {FORMAT}");
            Err(Error::new(ErrorKind::CorruptData, what, why).fix(
                "use the version that wrote it; or set EPSILAB_HOME to a new folder, which \
                 starts without any spent epsilon",
            ))
        }
        Err(e) => {
            let what = format!("the format of the project, {}", path.display());
            Err(Error::new(ErrorKind::CorruptData, what, e.to_string())
                .fix(format!("restore it: {{\"format\":{FORMAT}}}")))
        }
    }
}

/// Writes the format of a project before its first run or ledger.
///
/// # Errors
/// `Io` if it can't be written.
pub(super) fn write(home: &Path) -> Result<()> {
    let path = home.join(FILE);
    if path.exists() { Ok(()) } else { file::write(&path, format!("{{\"format\":{FORMAT}}}\n")) }
}

/// Returns whether a folder exists and is not empty.
fn has_entries(folder: &Path) -> Result<bool> {
    let entries = if_exists(folder, fs::read_dir(folder))?;
    Ok(entries.is_some_and(|mut entries| entries.next().is_some()))
}

fn without_format(home: &Path) -> Error {
    let what = format!("the project {} has no {FILE}", home.display());
    let why = "an earlier version without formats wrote the project, and its spending would not be \
               counted here";
    Error::new(ErrorKind::CorruptData, what, why).fix(format!(
        "use commit {LAST_COMMIT_WITHOUT_FORMAT}, the last that reads it; or set EPSILAB_HOME to a \
         new folder, which starts without any spent epsilon"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_read_in_its_own_format_only() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        check(&home.join("nowhere")).unwrap();
        check(home).unwrap();
        fs::create_dir_all(home.join("runs")).unwrap();
        check(home).expect("an empty folder has spent nothing");
        let unreadable = tempfile::tempdir().unwrap();
        fs::write(unreadable.path().join("ledger"), "no folder").unwrap();
        assert_eq!(check(unreadable.path()).unwrap_err().kind(), ErrorKind::Io);
        for name in FOLDERS {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir_all(home.path().join(name).join("one")).unwrap();
            let error = check(home.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
            assert!(error.advice().contains(LAST_COMMIT_WITHOUT_FORMAT), "{error}");
        }
        write(home).unwrap();
        fs::create_dir_all(home.join("ledger/one")).unwrap();
        check(home).unwrap();
        for (text, word) in [("{\"format\":2}", "has format 2"), ("{", "restore it")] {
            fs::write(home.join(FILE), text).unwrap();
            let error = check(home).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
