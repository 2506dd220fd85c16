//! Assignment of the shards to the training part and the test part.

use std::path::{Path, PathBuf};

use super::archive::packed_archive;
use crate::data::decompressed_file::corrupt;
use crate::data::digest::pluralise;
use crate::data::images::layout::{Layout, LayoutKind, NO_TEST_PART};
use crate::data::images::scan;
use crate::{Error, ErrorKind, Result};

/// The shards of a data set.
pub(super) struct ShardParts {
    pub(super) train: Vec<PathBuf>,
    pub(super) test: Vec<PathBuf>,
    /// The layout in words.
    pub(super) description: String,
    /// Sentence on the test part, with a space before it; may be empty.
    pub(super) remark: &'static str,
    /// Sentences on shards and folders that are not read.
    pub(super) notices: Vec<String>,
}

const SHARDS: LayoutKind = LayoutKind {
    is_present: |folder| Ok(!shards_in(folder)?.is_empty()),
    name: "tar shards",
    why: "a shard is a file whose name ends in .tar",
    fix: "name one shard, or a folder with train/*.tar (and optionally test/*.tar) or with *.tar; \
          a relative path starts at the current folder",
};

impl ShardParts {
    /// Returns the shards at `path`: a shard, or a folder of shards.
    ///
    /// # Errors
    /// `MissingData` if there are none; `CorruptData` for packed ones, and for names that leave
    /// open which shards are the test part.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let count_text = |shards: &[PathBuf]| pluralise(shards.len(), "shard");
        if path.is_file() {
            is_shard_name(path)?;
            let (train, test) = (vec![path.to_owned()], Vec::new());
            return Ok(Self {
                train,
                test,
                description: "1 shard".into(),
                remark: NO_TEST_PART,
                notices: Vec::new(),
            });
        }
        let layout = Layout::detect(path, &SHARDS)?;
        if layout.train == path {
            return by_name(path, shards_in(path)?);
        }
        let (train, test) =
            (nonempty_shards_in(&layout.train)?, layout.test.as_deref().map(nonempty_shards_in));
        let test = test.transpose()?.unwrap_or_default();
        let mut found = format!("{} in {}", count_text(&train), layout.description);
        if !test.is_empty() {
            found = format!(
                "{} and {} in {}",
                count_text(&train),
                count_text(&test),
                layout.description
            );
        }
        let Layout { remark, notices, .. } = layout;
        Ok(Self { train, test, description: found, remark, notices })
    }
}

/// Assigns the shards in one folder to the parts, by their names.
fn by_name(folder: &Path, shards: Vec<PathBuf>) -> Result<ShardParts> {
    let named = |part_names: &[&str]| -> Vec<PathBuf> {
        let has = |path: &&PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
            name.split(|c: char| !c.is_alphabetic()).any(|word| part_names.contains(&word))
        };
        shards.iter().filter(has).cloned().collect()
    };
    let (test, val) = (named(&["test"]), named(&["val", "valid", "validation"]));
    if test.is_empty() && val.is_empty() {
        let (description, notices) = (pluralise(shards.len(), "shard"), Vec::new());
        return Ok(ShardParts { train: shards, test, description, remark: NO_TEST_PART, notices });
    }
    let train = named(&["train", "training"]);
    let parts = [&train, &test, &val];
    let count_parts = |shard: &&PathBuf| parts.iter().filter(|part| part.contains(shard)).count();
    if train.is_empty() || shards.iter().any(|shard| count_parts(&shard) != 1) {
        let what = "the names of the shards do not tell which of them are for training";
        return Err(corrupt(folder, what).fix(
            "where a name contains `test` or `val`, all others contain `train`; or put the shards \
             into train/ and test/",
        ));
    }
    let unread = "The shards named val were not read: those named test are the test part.";
    let (test, name, notices) = match (test.is_empty(), val.is_empty()) {
        (true, _) => (val, "val", Vec::new()),
        (false, true) => (test, "test", Vec::new()),
        (false, false) => (test, "test", vec![unread.to_owned()]),
    };
    let (of_train, of_test) = (pluralise(train.len(), "shard"), pluralise(test.len(), "shard"));
    let found = format!("{of_train} named train and {of_test} named {name}");
    Ok(ShardParts { train, test, description: found, remark: "", notices })
}

/// Returns the shards in a folder, at least one.
fn nonempty_shards_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let shards = shards_in(folder)?;
    if shards.is_empty() {
        let what = format!("{} has no tar shards", folder.display());
        return Err(Error::new(ErrorKind::MissingData, what, SHARDS.why).fix(SHARDS.fix));
    }
    Ok(shards)
}

/// Returns the shards in a folder, sorted by name.
fn shards_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = scan::files(folder)?.into_iter();
    files
        .filter_map(|path| {
            is_shard_name(&path).map(|is_shard| is_shard.then_some(path)).transpose()
        })
        .collect()
}

/// Returns whether a file is a shard by its name.
///
/// # Errors
/// If it is a packed one.
fn is_shard_name(path: &Path) -> Result<bool> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let packed = [".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz"];
    if packed.iter().any(|ending| name.ends_with(ending)) {
        Err(packed_archive(path))
    } else {
        Ok(name.ends_with(".tar"))
    }
}
