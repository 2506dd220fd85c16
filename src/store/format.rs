//! The format of a project folder, in a file of its own.
//!
//! What a folder holds can be read by the versions that know its format, and by no other. A folder
//! of another format is refused whole, before anything in it is read: a ledger that is only partly
//! understood would count less than was spent.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result, file};

/// The name of the file.
const FILE: &str = "format.json";

/// The format that this version reads and writes. It is raised when the files of runs, ledgers or
/// grids change; formats of released versions are then converted.
const FORMAT: u32 = 1;

/// The last commit that reads folders without a format.
const LAST_WITHOUT: &str = "7a0e458";

/// The folders that a project can't have without a format.
const CONTENT: [&str; 2] = ["ledger", "runs"];

#[derive(Serialize, Deserialize)]
struct Content {
    format: u32,
}

/// Checks that this version reads the project in `home`. A folder without a project is one that it
/// can make.
///
/// # Errors
/// `CorruptData` if the project has another format, or none; `Io` if that can't be read.
pub(super) fn check(home: &Path) -> Result<()> {
    let path = home.join(FILE);
    let text = match fs::read(&path) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return match CONTENT.iter().any(|name| has_files(&home.join(name))) {
                true => Err(without_format(home)),
                false => Ok(()),
            };
        }
        text => text.map_err(|e| Error::io(format!("reading {}", path.display()), &e))?,
    };
    match serde_json::from_slice(&text) {
        Ok(Content { format: FORMAT }) => Ok(()),
        Ok(Content { format }) => {
            let what = format!("the project {} has format {format}", home.display());
            let why = format!("this version reads format {FORMAT}");
            Err(Error::new(ErrorKind::CorruptData, what, why).fix(
                "use the version that wrote it; or set EPSILAB_HOME to a new folder, in which \
                 nothing is counted as spent yet",
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
    match path.exists() {
        true => Ok(()),
        false => file::write(&path, format!("{{\"format\":{FORMAT}}}\n")),
    }
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

fn without_format(home: &Path) -> Error {
    let what = format!("the project {} has no {FILE}", home.display());
    let why = "a version before formats wrote it, and what it spent would not be counted here";
    Error::new(ErrorKind::CorruptData, what, why).fix(format!(
        "use commit {LAST_WITHOUT}, the last that reads it; or set EPSILAB_HOME to a new folder, \
         in which nothing is counted as spent yet"
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
        for name in CONTENT {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir_all(home.path().join(name).join("one")).unwrap();
            let error = check(home.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
            assert!(error.advice().contains(LAST_WITHOUT), "{error}");
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
