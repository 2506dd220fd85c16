//! Finds the files of public data sets: first in the folder that `EPSILAB_DATA` names, then in
//! `datasets/` of the current folder and of each folder above it. Each data set has a subfolder of
//! its own there.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::decompressed_file::corrupt;
use crate::{Error, ErrorKind, Result};
/// A public data set: its subfolder, its original files and their publisher.
pub(super) struct KnownDataset {
    pub(super) name: &'static str,
    /// Subfolder of the data set, then alternatives that are searched too.
    pub(super) folders: &'static [&'static str],
    /// File names without `.gz`; each may be packed or unpacked. Training files come first.
    pub(super) files: &'static [&'static str],
    pub(super) required: RequiredFiles,
    pub(super) publisher: &'static str,
    /// Synthetic data that can be used instead, without a download.
    pub(super) synthetic_substitute: &'static str,
}

/// Files of a data set that must be present.
#[derive(Clone, Copy)]
pub(super) enum RequiredFiles {
    /// All files.
    All,
    /// One of the first `train` files. If there is none, the largest other file whose name begins
    /// and ends as `stand_in` says is used instead.
    Any { train: usize, stand_in: Option<(&'static str, &'static str)> },
}

/// The files found of a data set that may be incomplete.
pub(super) struct LocatedFiles {
    pub(super) train: Vec<PathBuf>,
    /// Other files found, in the order of [`KnownDataset::files`].
    pub(super) test_files: Vec<PathBuf>,
    /// Original files that are missing.
    pub(super) missing: Vec<&'static str>,
}

impl LocatedFiles {
    /// Returns the end of the sentence on the files that were read, with the missing files and a
    /// remark if there is no test part.
    pub(super) fn remark(&self, has_test: bool) -> String {
        let missing = match self.missing[..] {
            [] => String::new(),
            ref missing => format!("; not there: {}", missing.join(", ")),
        };
        let no_test = if has_test { "" } else { " No test part: .split(0.8, 7) makes one." };
        format!("{missing}.{no_test}")
    }
}

const IDX_FILES: &[&str] = &[
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

pub(super) const MNIST: KnownDataset = KnownDataset {
    name: "MNIST",
    folders: &["mnist"],
    files: IDX_FILES,
    required: RequiredFiles::All,
    publisher: "Y. LeCun, C. Cortes and C. Burges at http://yann.lecun.com/exdb/mnist/",
    synthetic_substitute: "data::glyphs()",
};

pub(super) const FASHION_MNIST: KnownDataset = KnownDataset {
    name: "Fashion-MNIST",
    folders: &["fashion-mnist"],
    files: IDX_FILES,
    required: RequiredFiles::All,
    publisher: "Zalando Research at https://github.com/zalandoresearch/fashion-mnist",
    synthetic_substitute: "data::glyphs()",
};

pub(super) const CIFAR_10: KnownDataset = KnownDataset {
    name: "CIFAR-10",
    folders: &["cifar-10", "cifar-10-batches-bin"],
    files: &[
        "data_batch_1.bin",
        "data_batch_2.bin",
        "data_batch_3.bin",
        "data_batch_4.bin",
        "data_batch_5.bin",
        "test_batch.bin",
    ],
    required: RequiredFiles::Any { train: 5, stand_in: None },
    publisher: "A. Krizhevsky at https://www.cs.toronto.edu/~kriz/cifar.html (binary version)",
    synthetic_substitute: "data::patterns()",
};

pub(super) const CIFAR_100: KnownDataset = KnownDataset {
    name: "CIFAR-100",
    folders: &["cifar-100", "cifar-100-binary", "cifar-100-subset"],
    files: &["train.bin", "test.bin"],
    required: RequiredFiles::Any { train: 1, stand_in: Some(("train", ".bin")) },
    publisher: "A. Krizhevsky at https://www.cs.toronto.edu/~kriz/cifar.html (binary version)",
    synthetic_substitute: "data::patterns()",
};

pub(super) const AG_NEWS: KnownDataset = KnownDataset {
    name: "AG News",
    folders: &["ag_news_csv"],
    files: &["train.csv", "test.csv"],
    required: RequiredFiles::Any { train: 1, stand_in: Some(("train", ".csv")) },
    publisher: "X. Zhang, J. Zhao and Y. LeCun with the paper arXiv:1509.01626",
    synthetic_substitute: "data::sentences()",
};

impl KnownDataset {
    /// Returns all files of the first complete folder; otherwise the files of the most complete
    /// folder, if they are enough to train on. Only `folder` is searched if it is given.
    pub(super) fn find(&self, folder: Option<&Path>) -> Result<LocatedFiles> {
        match folder {
            Some(folder) => self.find_in(&[folder.to_path_buf()]),
            None => self.find_below(&roots()),
        }
    }

    fn find_below(&self, roots: &[PathBuf]) -> Result<LocatedFiles> {
        let below = |root: &PathBuf| self.folders.iter().map(|f| root.join(f)).collect::<Vec<_>>();
        self.find_in(&roots.iter().flat_map(below).collect::<Vec<_>>())
    }

    fn find_in(&self, folders: &[PathBuf]) -> Result<LocatedFiles> {
        let seen: Vec<LocatedFiles> = folders.iter().map(|folder| self.files_in(folder)).collect();
        // The error lists what the most complete folder lacks: that is where the user began.
        let lacking = seen.iter().map(|found| found.missing.as_slice());
        let least = std::iter::once(self.files).chain(lacking).min_by_key(|files| files.len());
        let error = self.not_found(least.unwrap_or(self.files), folders);
        let is_enough = |found: &LocatedFiles| match self.required {
            RequiredFiles::All => found.missing.is_empty(),
            RequiredFiles::Any { .. } => !found.train.is_empty(),
        };
        // The first of equally complete folders.
        seen.into_iter().filter(is_enough).min_by_key(|found| found.missing.len()).ok_or(error)
    }

    /// Returns the files that are in a folder.
    fn files_in(&self, folder: &Path) -> LocatedFiles {
        let (training, stand_in) = match self.required {
            RequiredFiles::All => (self.files.len(), None),
            RequiredFiles::Any { train, stand_in } => (train, stand_in),
        };
        let mut found =
            LocatedFiles { train: Vec::new(), test_files: Vec::new(), missing: Vec::new() };
        for (i, file) in self.files.iter().enumerate() {
            match find_packed_or_unpacked(folder, file) {
                None => found.missing.push(file),
                Some(path) if i < training => found.train.push(path),
                Some(path) => found.test_files.push(path),
            }
        }
        if let (true, Some((start, end))) = (found.train.is_empty(), stand_in) {
            found.train.extend(largest(folder, start, end));
        }
        found
    }

    /// Checks the SHA-256 of the unpacked bytes of an original file. `alternative` ends the advice.
    pub(super) fn check_hash(
        &self,
        path: &Path,
        found: &str,
        expected: &str,
        alternative: &str,
    ) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        let what = format!(
            "not the original file of {}: SHA-256 of the unpacked bytes is {found}, expected \
             {expected}",
            self.name
        );
        Err(corrupt(path, what)
            .fix(format!("get the file again as published by {}{alternative}", self.publisher)))
    }

    fn not_found(&self, missing: &[&str], folders: &[PathBuf]) -> Error {
        let what = if missing.len() == self.files.len() {
            format!("{} is not on this machine", self.name)
        } else {
            format!("{} is not complete on this machine", self.name)
        };
        let looked: Vec<String> =
            folders.iter().map(|folder| format!("\n    {}", folder.display())).collect();
        let why = format!(
            "missing {} (as they are, or with .gz). Searched:{}",
            missing.join(", "),
            looked.concat()
        );
        let folder = self.folders[0];
        let fix = format!(
            "get these files as published by {}, and put them into datasets/{folder}/ of your \
             project (or set EPSILAB_DATA to the folder that holds {folder}/). Files are never \
             downloaded automatically; {} works without any download",
            self.publisher, self.synthetic_substitute
        );
        Error::new(ErrorKind::MissingData, what, why).fix(fix)
    }
}

/// Returns the largest file of a folder whose name, without `.gz`, has this prefix and suffix.
fn largest(folder: &Path, start: &str, end: &str) -> Option<PathBuf> {
    let fits = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let unpacked = name.strip_suffix(".gz").unwrap_or(name);
        unpacked.starts_with(start) && unpacked.ends_with(end)
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.is_file() && fits(path));
    files.sort();
    files.into_iter().max_by_key(|path| path.metadata().map_or(0, |about| about.len()))
}

/// Returns the folders to search, in order, for this process.
pub(super) fn roots() -> Vec<PathBuf> {
    let current = env::current_dir().ok();
    roots_from(env::var_os("EPSILAB_DATA"), current.as_deref())
}

fn roots_from(variable: Option<OsString>, current: Option<&Path>) -> Vec<PathBuf> {
    let named = variable.filter(|value| !value.is_empty()).map(PathBuf::from);
    let above = current.into_iter().flat_map(Path::ancestors).map(|f| f.join("datasets"));
    named.into_iter().chain(above).collect()
}

fn find_packed_or_unpacked(folder: &Path, file: &str) -> Option<PathBuf> {
    let candidates = [folder.join(file), folder.join(format!("{file}.gz"))];
    candidates.into_iter().find(|path| path.is_file())
}

/// Result of the search for a public data set on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatasetAvailability {
    /// Name of the data set, for instance `MNIST`.
    pub name: &'static str,
    /// Subfolder of the data set, for instance `mnist`.
    pub subfolder: &'static str,
    /// The folder with its files, if they were found.
    pub folder: Option<PathBuf>,
    /// Whether all files of the data set were found: some data sets can be used incomplete.
    pub complete: bool,
}

/// Lists the public data sets known by name, and where each was found on this machine. Only file
/// names are checked; the contents are checked when they are read.
pub fn available() -> Vec<DatasetAvailability> {
    let look = |known: &KnownDataset| {
        let found = known.find(None).ok();
        let folder = found.as_ref().and_then(|found| found.train[0].parent());
        DatasetAvailability {
            name: known.name,
            subfolder: known.folders[0],
            folder: folder.map(Path::to_path_buf),
            complete: found.as_ref().is_some_and(|found| found.missing.is_empty()),
        }
    };
    [MNIST, FASHION_MNIST, CIFAR_10, CIFAR_100, AG_NEWS].iter().map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, files: &[&str]) {
        fs::create_dir_all(root.join("mnist")).unwrap();
        files.iter().for_each(|file| fs::write(root.join("mnist").join(file), "").unwrap());
    }

    #[test]
    fn the_named_folder_comes_first_then_the_current_one_and_those_above() {
        let roots = roots_from(Some("/named".into()), Some(Path::new("/a/b")));
        let expected = ["/named", "/a/b/datasets", "/a/datasets", "/datasets"];
        assert_eq!(roots, expected.map(PathBuf::from));
        assert_eq!(roots_from(Some("".into()), Some(Path::new("/"))), [Path::new("/datasets")]);
        assert!(roots_from(None, None).is_empty());
    }

    #[test]
    fn the_first_complete_folder_wins_packed_or_not() {
        let (half, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(half.path(), &IDX_FILES[..3]);
        put(whole.path(), &IDX_FILES[..2]);
        put(whole.path(), &["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]);
        let found = MNIST.find_below(&[half.path().into(), whole.path().into()]).unwrap().train;
        assert!(found.iter().all(|file| file.starts_with(whole.path())));
        let names: Vec<_> = found.iter().map(|f| f.file_name().unwrap().to_owned()).collect();
        assert_eq!(names[..2], IDX_FILES[..2]);
        assert_eq!(names[2..], ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]);
    }

    #[test]
    fn missing_files_are_reported_for_the_fullest_folder() {
        let (empty, half) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(half.path(), &IDX_FILES[..3]);
        let found = MNIST.find_below(&[empty.path().into(), half.path().into()]);
        let error = found.err().expect("no folder has all files");
        assert_eq!(error.kind(), ErrorKind::MissingData);
        let text = error.to_string();
        assert!(text.contains("missing t10k-labels-idx1-ubyte (as they are"), "{text}");
        for folder in [empty.path(), half.path()] {
            assert!(text.contains(&folder.join("mnist").display().to_string()), "{text}");
        }
        for advice in ["yann.lecun.com", "datasets/mnist/", "EPSILAB_DATA", "data::glyphs()"] {
            assert!(error.advice().contains(advice), "{text}");
        }
    }

    #[test]
    fn five_data_sets_are_known_by_name() {
        let folders: Vec<&str> = available().iter().map(|found| found.subfolder).collect();
        let expected = ["mnist", "fashion-mnist", "cifar-10", "cifar-100", "ag_news_csv"];
        assert_eq!(folders, expected);
    }

    fn names(files: &[PathBuf]) -> Vec<String> {
        files.iter().map(|f| f.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_complete_folder_wins_over_an_earlier_part() {
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [part, whole] = roots.each_ref().map(|root| root.path().to_path_buf());
        let put = |folder: PathBuf, files: &[&str]| {
            fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|file| fs::write(folder.join(file), "").unwrap());
        };
        put(part.join("cifar-10"), &["data_batch_3.bin", "test_batch.bin.gz"]);
        let found = CIFAR_10.find_below(&[part.clone(), whole.clone()]).unwrap();
        assert_eq!(names(&found.train), ["data_batch_3.bin"]);
        assert_eq!(names(&found.test_files), ["test_batch.bin.gz"]);
        assert_eq!(found.missing.len(), 4);
        put(whole.join("cifar-10-batches-bin"), CIFAR_10.files);
        let found = CIFAR_10.find_below(&[part, whole.clone()]).unwrap();
        assert_eq!((found.train.len(), found.test_files.len(), found.missing.len()), (5, 1, 0));
        assert!(found.train.iter().all(|file| file.starts_with(&whole)));
    }

    #[test]
    fn the_largest_other_training_file_stands_in() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("ag_news_csv");
        fs::create_dir_all(&folder).unwrap();
        for (file, size) in [("train-a.csv", 5), ("train-b.csv.gz", 9), ("train-c.txt", 99)] {
            fs::write(folder.join(file), vec![b'x'; size]).unwrap();
        }
        let found = AG_NEWS.find_below(&[root.path().into()]).unwrap();
        assert_eq!(names(&found.train), ["train-b.csv.gz"]);
        assert_eq!(found.missing, ["train.csv", "test.csv"]);
        fs::write(folder.join("train.csv"), "").unwrap();
        let found = AG_NEWS.find_below(&[root.path().into()]).unwrap();
        assert_eq!(names(&found.train), ["train.csv"]);
    }
}
