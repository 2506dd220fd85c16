//! The command `notebooks`: writes the notebooks of the course to a folder.

use std::path::{Path, PathBuf};

use clap::Args;
use epsilab::{Error, ErrorKind, Result};

/// Write the notebooks of the course to a folder. Files that exist are kept.
#[derive(Args, Debug)]
pub struct NotebooksArgs {
    /// The folder.
    #[arg(default_value = "notebooks", value_name = "DIR")]
    pub dir: PathBuf,
}

/// The folder with the notebooks of the course beside the library's sources.
pub fn source() -> PathBuf {
    Path::new(epsilab::SOURCE_DIR).join("notebooks")
}

/// Writes the notebooks.
///
/// # Errors
/// The sources of the library are gone, or the folder can't be written.
pub fn notebooks(args: &NotebooksArgs) -> Result<()> {
    let from = source();
    let mut files = notebooks_in(&from);
    files.sort();
    if files.is_empty() {
        let what = format!("{} (no notebooks)", from.display());
        let why = "the notebooks come with the sources that this program was built from";
        return Err(Error::new(ErrorKind::Notebook, what, why)
            .fix("install the program again: `cargo install epsilab-kernel --locked --force`"));
    }
    let dir = &args.dir;
    std::fs::create_dir_all(dir).map_err(|e| Error::io(format!("making {}", dir.display()), &e))?;
    let mut kept = 0;
    for file in &files {
        match write_new(file, dir) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => kept += 1,
            Err(e) => return Err(Error::io(format!("writing into {}", dir.display()), &e)),
        }
    }
    let written = files.len() - kept;
    eprintln!("{written} notebooks written to {}, {kept} were there", dir.display());
    Ok(())
}

fn notebooks_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".ipynb") && !name.contains(".executed.")
    };
    paths.filter(is_ours).collect()
}

fn write_new(file: &Path, dir: &Path) -> std::io::Result<()> {
    let text = std::fs::read(file)?;
    let mut to = std::fs::File::create_new(dir.join(file.file_name().unwrap_or_default()))?;
    std::io::Write::write_all(&mut to, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notebooks_that_exist_are_kept() {
        let dir = tempfile::tempdir().expect("temp");
        let first = dir.path().join("01_first_private_model.ipynb");
        std::fs::write(&first, "mine").expect("written");
        notebooks(&NotebooksArgs { dir: dir.path().into() }).expect("written");
        assert_eq!(std::fs::read_to_string(first).expect("read"), "mine");
        assert_eq!(notebooks_in(dir.path()).len(), notebooks_in(&source()).len());
        assert!(notebooks_in(dir.path()).len() > 5);
    }
}
