//! Download of the libraries of interactive figures by `npm`, which knows proxies and mirrors.

use std::path::Path;
use std::process::{Command, Stdio};

use epsilab::{Error, ErrorKind, Result, file};

use super::libraries::{LIBRARIES, install_advice};
use crate::prebuilt::last_lines;
use crate::programs;
use crate::temp::TempFolder;

/// Checks the hashes of the minified builds and puts them into the folder `cache`.
///
/// # Errors
/// There is no npm, it can't fetch the packages, or they are not the known ones.
pub fn fetch(cache: &Path) -> Result<()> {
    let names = LIBRARIES.map(|library| library.to_string()).join(", ");
    let missing = |why: String| {
        let what = format!("the libraries of interactive figures ({names}) are missing");
        Error::new(ErrorKind::Notebook, what, why)
    };
    let npm = programs::find_on_path("npm").ok_or_else(|| {
        missing("npm, which downloads them, was not found".into())
            .fix(format!("install Node.js, which contains npm; or {}", install_advice()))
    })?;
    eprintln!("downloading {names} with npm into {} (once)", cache.display());
    let io_error = |e: std::io::Error| Error::io(format!("writing into {}", cache.display()), &e);
    std::fs::create_dir_all(cache).map_err(io_error)?;
    let folder = TempFolder::new(cache, "npm").map_err(io_error)?;
    let packages = LIBRARIES.map(|library| format!("{}@{}", library.name, library.version));
    let output = Command::new(&npm)
        .args(["pack", "--ignore-scripts", "--silent", "--fetch-retries=1"])
        .args(packages)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::io(format!("starting {}", npm.display()), &e))?;
    let fetched = |reason: &str| {
        missing(format!("npm could not download them{reason}"))
            .fix(format!("check the network connection, or {}", install_advice()))
    };
    if !output.status.success() {
        let last = last_lines(&String::from_utf8_lossy(&output.stderr), 1);
        return Err(fetched(&if last.is_empty() { last } else { format!(" ({})", last.trim()) }));
    }
    for library in &LIBRARIES {
        let text = library.load_from(folder.path()).map_err(|error| match error.kind() {
            ErrorKind::CorruptData => error.fix(install_advice()),
            _ => fetched(""),
        })?;
        file::write(cache.join(library.cache_file_name()), &text)?;
    }
    Ok(())
}
