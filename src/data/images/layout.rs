//! The training and test part of a data set on disk.

use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result};

/// Kind of content of the parts of a data set.
pub(super) struct LayoutKind {
    /// Function that returns whether a folder has any content of this kind.
    pub(super) is_present: fn(&Path) -> Result<bool>,
    /// Name of the content, in the plural.
    pub(super) name: &'static str,
    /// Reason why a folder without such content can't be read.
    pub(super) why: &'static str,
    /// Advice on what to give, for a user whose folder has no layout that is read.
    pub(super) fix: &'static str,
}

/// Paths of the parts of a data set.
pub(super) struct Layout {
    pub(super) train: PathBuf,
    pub(super) test: Option<PathBuf>,
    /// The layout in words.
    pub(super) description: String,
    /// Sentence on what follows from the layout, with a space before it; may be empty.
    pub(super) remark: &'static str,
}

impl Layout {
    /// Returns the layout of the folder at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::MissingData`] if it has none that is read.
    pub(super) fn detect(path: &Path, kind: &LayoutKind) -> Result<Self> {
        let folder = |name: &str| Some(path.join(name)).filter(|folder| folder.is_dir());
        let (test, val) = (folder("test"), folder("val"));
        if let Some(train) = folder("train") {
            let unread = " The images of val/ were not read: test/ is the test part.";
            let (found, remark) = match (&test, &val) {
                (Some(_), Some(_)) => ("train/ and test/", unread),
                (Some(_), None) => ("train/ and test/", ""),
                (None, Some(_)) => ("train/ and val/", ""),
                (None, None) => ("train/", NO_TEST_PART),
            };
            return Ok(Self { train, test: test.or(val), description: found.to_owned(), remark });
        }
        let missing = |what: String, why: &str| {
            Err(Error::new(ErrorKind::MissingData, what, why).fix(kind.fix))
        };
        let shown = path.display();
        match (path.is_dir(), test.or(val)) {
            (false, _) => missing(format!("{shown} is missing"), "the folder does not exist"),
            (true, Some(test)) => missing(
                format!("{shown} has no folder train/"),
                &format!("there is {}, so the training part must be in train/", test.display()),
            ),
            (true, None) if !(kind.is_present)(path)? => {
                missing(format!("{shown} has no {}", kind.name), kind.why)
            }
            (true, None) => Ok(Self {
                train: path.to_owned(),
                test: None,
                description: format!("{}, without train/ and test/", kind.name),
                remark: NO_TEST_PART,
            }),
        }
    }
}

pub(super) const NO_TEST_PART: &str =
    " They have no test part of their own; .split(0.8, 7) makes one.";
