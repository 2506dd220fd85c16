//! Fetches the libraries of interactive figures with `npm`, which knows proxies and mirrors.

use std::path::Path;
use std::process::{Command, Stdio};

use epsilab::{Error, ErrorKind, Result, file};

use super::libraries::{LIBRARIES, how_to_bring_them};
use crate::prebuilt::tail;
use crate::programs;
use crate::temp::TempFolder;

/// Puts the minified builds into the folder `cache`, after a look at their hashes.
///
/// # Errors
/// There is no npm, it can't fetch the packages, or they are not the known ones.
pub fn fetch(cache: &Path) -> Result<()> {
    let names = LIBRARIES.map(|library| library.to_string()).join(", ");
    let missing = |why: String| {
        let what = format!("the libraries of interactive figures ({names}) are not here");
        Error::new(ErrorKind::Notebook, what, why)
    };
    let npm = programs::on_path("npm").ok_or_else(|| {
        missing("npm, which would fetch them, was not found".into())
            .fix(format!("install Node.js, which contains npm; or {}", how_to_bring_them()))
    })?;
    eprintln!("fetching {names} with npm into {} (once)", cache.display());
    let making = |e: std::io::Error| Error::io(format!("writing into {}", cache.display()), &e);
    std::fs::create_dir_all(cache).map_err(making)?;
    let folder = TempFolder::new(cache, "npm").map_err(making)?;
    let packages = LIBRARIES.map(|library| format!("{}@{}", library.name, library.version));
    let output = Command::new(&npm)
        .args(["pack", "--ignore-scripts", "--silent", "--fetch-retries=1"])
        .args(packages)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::io(format!("starting {}", npm.display()), &e))?;
    let fetched = |reason: &str| {
        missing(format!("npm could not fetch them{reason}"))
            .fix(format!("is this machine online? Else {}", how_to_bring_them()))
    };
    if !output.status.success() {
        let last = tail(&String::from_utf8_lossy(&output.stderr), 1);
        return Err(fetched(&if last.is_empty() { last } else { format!(" ({})", last.trim()) }));
    }
    for library in &LIBRARIES {
        let text = library.in_folder(folder.path()).map_err(|error| match error.kind() {
            ErrorKind::CorruptData => error.fix(how_to_bring_them()),
            _ => fetched(""),
        })?;
        file::write(cache.join(library.file()), &text)?;
    }
    Ok(())
}
