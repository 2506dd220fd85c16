//! Paths of the results of `run` and `redact`.

use std::path::{Path, PathBuf};

use epsilab::{Error, ErrorKind, Result};

use super::notebook;
use crate::options;

/// Paths of the results, which never overwrite the source.
#[derive(Debug)]
pub struct ResultPaths {
    pub notebook: PathBuf,
    pub page: PathBuf,
}

impl ResultPaths {
    /// Chooses the paths of the results, and creates the folder `out`.
    ///
    /// # Errors
    /// There is no notebook at `source`, the results can't be written, or they would replace it.
    pub fn resolve(source: &Path, out: Option<&Path>) -> Result<Self> {
        let real = source
            .canonicalize()
            .map_err(|e| Error::io(format!("reading {}", source.display()), &e))?;
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let notebook = match out {
            None => source.with_file_name(format!("{stem}.executed.ipynb")),
            Some(out) => out.join(format!("{stem}.ipynb")),
        };
        let to = notebook::parent_of(&notebook);
        // Fails now rather than after minutes of training.
        options::check_out(to)?;
        let page = notebook.with_file_name(format!("{stem}.html"));
        if notebook.canonicalize().is_ok_and(|target| target == real) {
            return Err(Error::new(
                ErrorKind::Setting,
                format!("--out {} is the notebook's own folder", to.display()),
                "the executed notebook would be written over its source",
            )
            .fix("name another folder, or leave out `--out`"));
        }
        Ok(Self { notebook, page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_never_land_on_the_source() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("a.ipynb");
        std::fs::write(&source, "{}").expect("written");
        let beside = ResultPaths::resolve(&source, None).expect("beside");
        assert_eq!(beside.notebook, folder.path().join("a.executed.ipynb"));
        assert_eq!(beside.page, folder.path().join("a.html"));
        let out = folder.path().join("new/out");
        let elsewhere = ResultPaths::resolve(&source, Some(&out)).expect("elsewhere");
        assert_eq!(elsewhere.notebook, out.join("a.ipynb"));
        assert!(out.is_dir());
        for same in [folder.path().to_path_buf(), folder.path().join("new/..")] {
            let refused = ResultPaths::resolve(&source, Some(&same)).expect_err("refused");
            assert!(refused.to_string().contains("over its source"), "{refused}");
        }
    }
}
