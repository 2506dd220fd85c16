//! The command `notebooks`: writes the notebooks of the course to a folder.

use clap::Args;
use epsilab::{Error, ErrorKind, Result, program};
use std::path::{Path, PathBuf};

use crate::prebuilt::{self, Origin};
use crate::run::notebook::{Notebook, list_notebooks};

/// Write the notebooks of the course to a folder, without their saved outputs, and the pages that
/// they link to. Files that exist are kept.
#[derive(Args, Debug)]
pub struct NotebooksArgs {
    /// The folder.
    #[arg(default_value = "notebooks", value_name = "DIR")]
    pub dir: PathBuf,
}

/// Extensions of the files that pages consist of.
const PAGE_EXTENSIONS: [&str; 5] = ["md", "svg", "png", "json", "py"];

/// Returns the folder with the notebooks of the course beside the library's sources.
pub fn source_dir() -> PathBuf {
    Path::new(epsilab::SOURCE_DIR).join("notebooks")
}

/// Writes the notebooks.
///
/// # Errors
/// The sources of the library are gone, or the folder can't be written.
pub fn notebooks(args: &NotebooksArgs) -> Result<()> {
    write_course(&source_dir(), &args.dir)
}

fn write_course(from: &Path, dir: &Path) -> Result<()> {
    let files = list_notebooks(from);
    if files.is_empty() {
        let what = format!("{} (no notebooks)", from.display());
        let why = "the notebooks come with the sources that this program was built from";
        return Err(Error::new(ErrorKind::Notebook, what, why)
            .fix(Origin::of_this_binary().restore(prebuilt::is_installed())));
    }
    std::fs::create_dir_all(dir).map_err(|e| Error::io(format!("making {}", dir.display()), &e))?;
    let mut kept = 0;
    for file in &files {
        let mut notebook = Notebook::open_with_outputs(file)?;
        notebook.clear_outputs();
        let text = notebook.to_text()?.replace("](../book/", "](book/");
        let text = text.replace("](../datasets/", "](datasets/");
        let to = dir.join(file.file_name().unwrap_or_default());
        kept += usize::from(!write_if_absent(&to, text.as_bytes())?);
    }
    copy_pages(&from.with_file_name("book").join("src"), &dir.join("book/src"))?;
    // Only the page: the folder is where users put their own data.
    let about = from.with_file_name("datasets").join("README.md");
    if let Ok(page) = std::fs::read(&about) {
        let to = dir.join("datasets");
        std::fs::create_dir_all(&to)
            .map_err(|e| Error::io(format!("making {}", to.display()), &e))?;
        write_if_absent(&to.join("README.md"), &page)?;
    }
    let written = files.len() - kept;
    let first = files[0].file_name().unwrap_or_default().to_string_lossy();
    let first = dir.join(first.as_ref());
    eprintln!("{written} notebooks written to {}, {kept} were there", dir.display());
    let run = program::command(&format!("run {}", first.display()));
    eprintln!("to run one: `{run}`; in Jupyter: `{}`, then open it", program::command("install"));
    Ok(())
}

/// Copies the pages that the notebooks link to, with their pictures. Files that exist are kept.
fn copy_pages(from: &Path, to: &Path) -> Result<()> {
    let write_error = |e: &std::io::Error| Error::io(format!("writing {}", to.display()), e);
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_pages(&path, &target)?;
        } else if path
            .extension()
            .is_some_and(|ending| PAGE_EXTENSIONS.iter().any(|page| ending == *page))
        {
            std::fs::create_dir_all(to).map_err(|e| write_error(&e))?;
            let page = std::fs::read(&path).map_err(|e| write_error(&e))?;
            write_if_absent(&target, &page)?;
        }
    }
    Ok(())
}

/// Writes a file unless it exists; returns whether it was written.
fn write_if_absent(path: &Path, content: &[u8]) -> Result<bool> {
    let written = std::fs::File::create_new(path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, content));
    match written {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(Error::io(format!("writing {}", path.display()), &e)),
        Ok(()) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const FIRST: &str = "01_first_private_model.ipynb";

    /// Returns the targets of the links in a page or notebook.
    fn links(text: &str) -> impl Iterator<Item = &str> {
        text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next())
    }

    /// Returns the paths of the notebooks that the index names. Users keep their own in the same
    /// folder.
    fn of_the_course() -> Vec<PathBuf> {
        let index = std::fs::read_to_string(source_dir().join("README.md")).expect("the index");
        let names = links(&index).filter(|link| link.ends_with(".ipynb"));
        names.map(|name| source_dir().join(name)).collect()
    }

    /// Returns the number of entries in a folder of pages and in the folders in it.
    fn count_pages(dir: &Path) -> usize {
        let entries = std::fs::read_dir(dir).expect("a folder").flatten();
        entries
            .map(|entry| 1 + if entry.path().is_dir() { count_pages(&entry.path()) } else { 0 })
            .sum()
    }

    /// Removes `..` from a path: `b/c` for `a/../b/c`.
    fn without_steps_up(path: &Path) -> PathBuf {
        path.components().fold(PathBuf::new(), |mut path, part| {
            if part.as_os_str() == ".." {
                path.pop();
            } else {
                path.push(part);
            }
            path
        })
    }

    /// Copies the files that the index, the notebooks and the pages link to, and nothing of the
    /// user's.
    fn clone_of_the_course(to: &Path) {
        let pages = ["README.md", "notebooks/README.md", "datasets/README.md"];
        let mut open = Vec::from(pages.map(PathBuf::from));
        let mut seen = BTreeSet::new();
        while let Some(file) = open.pop() {
            let from = Path::new(epsilab::SOURCE_DIR).join(&file);
            if !from.is_file() || !seen.insert(file.clone()) {
                continue;
            }
            std::fs::create_dir_all(to.join(&file).parent().expect("a folder")).expect("made");
            std::fs::copy(&from, to.join(&file)).expect("copied");
            if !["md", "ipynb"].iter().any(|page| file.extension().is_some_and(|e| e == *page)) {
                continue;
            }
            let text = std::fs::read_to_string(from).expect("read");
            let of_pages = ["notebooks", "book", "datasets"];
            let linked = links(&text).map(|link| without_steps_up(&file.with_file_name(link)));
            open.extend(linked.filter(|to| of_pages.iter().any(|folder| to.starts_with(folder))));
        }
    }

    #[test]
    fn the_saved_notebooks_are_small() {
        let sizes = of_the_course().into_iter().map(|path| {
            let size = std::fs::metadata(&path).expect("a file").len();
            assert!(size < 1_000_000, "{}: {size} bytes", path.display());
            size
        });
        assert!(sizes.sum::<u64>() < 5_900_000, "with the index, the folder is below 6 MB");
    }

    #[test]
    fn notebooks_that_exist_are_kept() {
        let (clone, dir) = (tempfile::tempdir().expect("temp"), tempfile::tempdir().expect("temp"));
        clone_of_the_course(clone.path());
        std::fs::write(clone.path().join("datasets/mine.csv"), "a,b\n").expect("written");
        let first = dir.path().join(FIRST);
        std::fs::write(&first, "mine").expect("written");
        write_course(&clone.path().join("notebooks"), dir.path()).expect("written");
        assert_eq!(std::fs::read_to_string(first).expect("read"), "mine");
        assert_eq!(list_notebooks(dir.path()).len(), of_the_course().len());
        assert!(list_notebooks(dir.path()).len() > 5);
        let entries = std::fs::read_dir(dir.path().join("datasets")).expect("a folder");
        assert_eq!(entries.count(), 1, "users' data are not copied");
        // Links between pages lead to pages that are there: .ci/links checks them.
        let (pages, copied) = (clone.path().join("book/src"), dir.path().join("book/src"));
        assert!(copied.join("reference/training.md").is_file());
        assert_eq!(count_pages(&pages), count_pages(&copied));
        // Links of notebooks lead to pages that are there, and notebooks have no outputs.
        for path in list_notebooks(dir.path()).into_iter().filter(|path| !path.ends_with(FIRST)) {
            let text = std::fs::read_to_string(&path).expect("read");
            assert!(!text.contains("\"output_type\"") && text.contains("\"outputs\": []"));
            for link in links(&text).filter(|link| link.ends_with(".md")) {
                assert!(dir.path().join(link).exists(), "{link} in {}", path.display());
            }
        }
    }
}
