//! The training and test part of a data set on disk.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::scan;
use crate::data::decompressed_file::corrupt;
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
    /// Sentences on folders that are not read.
    pub(super) notices: Vec<String>,
}

/// Names of the folder of the training part, in any case.
const TRAIN_NAMES: [&str; 2] = ["train", "training"];
/// Names of the folder of the test part, in any case; of several folders the first is read.
const TEST_NAMES: [&str; 5] = ["test", "testing", "val", "valid", "validation"];
/// Names that always mean a part. The others may also be names of classes.
const RESERVED_NAMES: [&str; 3] = ["train", "test", "val"];

/// Returns whether a folder of this name is a training or test part.
pub(super) fn is_part_name(name: &OsStr) -> bool {
    TRAIN_NAMES.iter().chain(&TEST_NAMES).any(|part| name.eq_ignore_ascii_case(part))
}

/// The visible folders of a data set, by their names.
struct Folders {
    train: Vec<PathBuf>,
    /// Folders with names of a test part, in the order of preference.
    test: Vec<PathBuf>,
    others: Vec<PathBuf>,
}

impl Folders {
    fn list(path: &Path, kind: &LayoutKind) -> Result<Self> {
        let folders = scan::folders(path)?;
        let only_parts = folders.iter().all(|folder| is_part_name(name(folder)));
        let mut found = Self { train: Vec::new(), test: Vec::new(), others: Vec::new() };
        for folder in folders {
            let is_reserved = RESERVED_NAMES.iter().any(|reserved| name(&folder) == *reserved);
            let may_be_class = !is_reserved && !only_parts;
            match rank(&folder) {
                None => found.others.push(folder),
                _ if may_be_class && !(kind.is_present)(&folder)? => found.others.push(folder),
                Some((false, _)) => found.train.push(folder),
                Some((true, _)) => found.test.push(folder),
            }
        }
        found.test.sort_by_key(|folder| rank(folder));
        Ok(found)
    }
}

/// Returns whether a folder has a name of the test part, and the place of the name among them;
/// `None` if it has none of a part.
fn rank(folder: &Path) -> Option<(bool, usize)> {
    let place = |names: &[&str]| names.iter().position(|n| name(folder).eq_ignore_ascii_case(n));
    let train = place(&TRAIN_NAMES).map(|place| (false, place));
    train.or_else(|| place(&TEST_NAMES).map(|place| (true, place)))
}

impl Layout {
    /// Returns the layout of the folder at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::MissingData`] if it has none that is read; [`ErrorKind::CorruptData`] if two
    /// folders may be the training part.
    pub(super) fn detect(path: &Path, kind: &LayoutKind) -> Result<Self> {
        let missing = |what: String, why: &str| {
            Err(Error::new(ErrorKind::MissingData, what, why).fix(kind.fix))
        };
        let shown = path.display();
        if !path.is_dir() {
            return missing(format!("{shown} is missing"), "the folder does not exist");
        }
        let folders = Folders::list(path, kind)?;
        match (folders.train.as_slice(), folders.test.first()) {
            ([], Some(test)) => missing(
                format!("{shown} has no folder train/"),
                &format!("there is {}, so the training part must be in train/", test.display()),
            ),
            ([], None) if !(kind.is_present)(path)? => {
                missing(format!("{shown} has no {}", kind.name), kind.why)
            }
            ([], None) => Ok(Self {
                train: path.to_owned(),
                test: None,
                description: format!("{}, without train/ and test/", kind.name),
                remark: NO_TEST_PART,
                notices: Vec::new(),
            }),
            ([train], _) => Self::in_parts(train.clone(), folders, kind),
            ([first, second, ..], _) => {
                let what =
                    format!("{} and {} may be its training part", slash(first), slash(second));
                Err(corrupt(path, what).fix("keep one of them, or rename the other"))
            }
        }
    }

    /// Returns the layout with this training part. The first folder with content that has a name
    /// of a test part is the test part.
    fn in_parts(train: PathBuf, folders: Folders, kind: &LayoutKind) -> Result<Self> {
        let (mut test, mut notices): (Option<PathBuf>, _) = (None, Vec::new());
        for folder in folders.test {
            match &test {
                _ if !(kind.is_present)(&folder)? => {
                    notices.push(format!(
                        "{} was not read: it has no {}.",
                        slash(&folder),
                        kind.name
                    ));
                }
                Some(test) => notices.push(format!(
                    "The images of {} were not read: {} is the test part.",
                    slash(&folder),
                    slash(test)
                )),
                None => test = Some(folder),
            }
        }
        if !folders.others.is_empty() {
            let names: Vec<String> = folders.others.iter().map(|folder| slash(folder)).collect();
            notices.push(format!(
                "Folders beside {} were not read: {}.",
                slash(&train),
                names.join(", ")
            ));
        }
        let (description, remark) = match &test {
            Some(test) => (format!("{} and {}", slash(&train), slash(test)), ""),
            None => (slash(&train), NO_TEST_PART),
        };
        Ok(Self { train, test, description, remark, notices })
    }
}

fn name(folder: &Path) -> &OsStr {
    folder.file_name().unwrap_or_default()
}

/// Returns the name of a folder with a slash.
fn slash(folder: &Path) -> String {
    format!("{}/", name(folder).to_string_lossy())
}

pub(super) const NO_TEST_PART: &str =
    " They have no test part of their own; .split(0.8, 7) makes one.";
