//! Paths of redacted copies, which replace nothing but an earlier copy.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use epsilab::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::run::notebook::parent_of;
use crate::run::result_paths::ResultPaths;

impl ResultPaths {
    /// Chooses the paths of a copy: `NB.redacted.ipynb` beside the notebook, the file `out` if it
    /// ends in `.ipynb`, or a file in the folder `out`, which is created.
    ///
    /// # Errors
    /// The copy would replace the notebook, another copy of this call (`written`), or a file that
    /// is no redacted copy.
    pub fn of_copy(
        source: &Path,
        out: Option<&Path>,
        with_page: bool,
        written: &mut HashSet<PathBuf>,
    ) -> Result<Self> {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let is_file = |out: &&Path| out.extension().is_some_and(|e| e == "ipynb") && !out.is_dir();
        let notebook = match out {
            None => source.with_file_name(format!("{stem}.redacted.ipynb")),
            Some(out) => match Some(out).filter(is_file) {
                Some(file) => file.to_owned(),
                None => out.join(format!("{stem}.ipynb")),
            },
        };
        let folder = parent_of(&notebook);
        let making =
            |e: &std::io::Error| Error::io(format!("creating the folder {}", folder.display()), e);
        std::fs::create_dir_all(folder).map_err(|e| making(&e))?;
        let real = folder.canonicalize().map_err(|e| making(&e))?;
        let real = real.join(notebook.file_name().unwrap_or_default());
        let target = Self { page: notebook.with_extension("html"), notebook };
        target.check(source)?;
        let is_copy = target.notebook.exists();
        if with_page && !is_copy && target.page.exists() {
            return Err(conflict_error(
                &target.page,
                "the file is not the page of a redacted copy",
            ));
        }
        if !written.insert(real) {
            return Err(conflict_error(
                &target.notebook,
                "the file is the copy of another notebook",
            ));
        }
        Ok(target)
    }

    fn check(&self, source: &Path) -> Result<()> {
        let Ok(existing) = self.notebook.canonicalize() else { return Ok(()) };
        if source.canonicalize().is_ok_and(|real| real == existing) {
            return Err(Error::new(
                ErrorKind::Setting,
                format!("the copy {} would be the notebook itself", self.notebook.display()),
                "what is removed would be lost",
            )
            .fix("name another folder or file with `--out`, or leave out `--out`"));
        }
        let bytes = std::fs::read(&existing)
            .map_err(|e| Error::io(format!("reading {}", self.notebook.display()), &e))?;
        let json: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if json["metadata"]["epsilab"]["redacted"].is_object() {
            Ok(())
        } else {
            Err(conflict_error(&self.notebook, "the file is not a redacted copy"))
        }
    }
}

fn conflict_error(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Setting, format!("{} is in the way", path.display()), why)
        .fix("move that file, or name another folder or file with `--out`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_copy_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.ipynb");
        std::fs::write(&source, "{}").unwrap();
        let choose = |out: Option<&Path>, page: bool| {
            ResultPaths::of_copy(&source, out, page, &mut HashSet::new())
        };
        let beside = folder.path().join("a.redacted.ipynb");
        assert_eq!(choose(None, true).unwrap().notebook, beside);
        for foreign in ["{}", "text", r#"{"metadata":{"epsilab":{"redacted":true}}}"#] {
            std::fs::write(&beside, foreign).unwrap();
            let error = choose(None, false).unwrap_err().to_string();
            assert!(error.contains("not a redacted copy"), "{error}");
        }
        std::fs::write(&beside, r#"{"metadata":{"epsilab":{"redacted":{}}}}"#).unwrap();
        assert_eq!(choose(None, false).unwrap().notebook, beside);
        // The page of the notebook itself is not the page of a copy.
        std::fs::create_dir(folder.path().join("out")).unwrap();
        std::fs::write(folder.path().join("out/a.html"), "page").unwrap();
        let out = folder.path().join("out");
        assert!(choose(Some(&out), true).is_err());
        assert_eq!(choose(Some(&out), false).unwrap().notebook, out.join("a.ipynb"));
    }

    #[test]
    fn a_copy_is_never_the_notebook_or_the_copy_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.ipynb");
        std::fs::write(&source, "{}").unwrap();
        let mut written = HashSet::new();
        for same in [folder.path().to_owned(), source.clone(), folder.path().join("new/..")] {
            let error =
                ResultPaths::of_copy(&source, Some(&same), false, &mut written).unwrap_err();
            assert!(error.to_string().contains("notebook itself"), "{error}");
        }
        let file = folder.path().join("new/b.ipynb");
        let target = ResultPaths::of_copy(&source, Some(&file), false, &mut written).unwrap();
        assert_eq!((&target.notebook, target.page), (&file, folder.path().join("new/b.html")));
        let again = folder.path().join("new/../new/b.ipynb");
        let error = ResultPaths::of_copy(&source, Some(&again), false, &mut written).unwrap_err();
        assert!(error.to_string().contains("another notebook"), "{error}");
    }
}
