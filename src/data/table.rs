//! The user's own data: vectors, CSV tables, IDX files. All examples are training examples;
//! [`Dataset::split`] makes a test part.

mod inference;
mod labels;
mod reader;
mod schema;
#[cfg(test)]
mod tests;

pub(super) use labels::{Labels, label_column};
pub use reader::{TableReader, csv, table};
pub use schema::{ColumnKind, ColumnSchema, MissingRule, TableSchema};

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

use super::dataset::Dataset;
use super::decompressed_file::corrupt;
use super::digest::format_count;
use super::examples::{Examples, format_shape};
use super::idx::{Idx, Pair};
use crate::{Error, ErrorKind, Result};

/// Allowed numbers of classes: a larger number means that the labels are not classes.
pub(super) const CLASSES: RangeInclusive<usize> = 2..=65_536;
pub(super) const CLASSES_FIX: &str = "use labels of 2 to 65,536 classes";

/// Creates a data set from vectors: `x` holds the features of all examples, `[examples, shape…]`
/// row-major, and `y` their labels, below `classes`.
///
/// # Guarantee
/// [`Dataset::origin`], the name of the ledger, is a hash of the features alone: other labels,
/// another shape or another number of classes keep the ledger. Features that were scaled, selected
/// or sorted differently have another hash and start a new ledger, because nothing else identifies
/// the people: derive such data from one [`Dataset`].
///
/// # Errors
/// [`ErrorKind::Setting`] if shape, number of classes and lengths don't fit together;
/// [`ErrorKind::CorruptData`] if a label is out of range or a feature is not finite (says which).
pub fn from_vecs(x: Vec<f32>, shape: &[usize], y: Vec<u32>, classes: usize) -> Result<Dataset> {
    check_classes(classes)?;
    let named = (0..classes).map(|class| class.to_string()).collect();
    let train = checked(x, shape, y, classes)?;
    let data = Dataset::new("table", "Vectors given by the program.", named, train, empty(shape));
    Ok(data.with_feature_origin())
}

/// Reads a data set from two IDX files (plain or gzip), grey images and their labels. Features are
/// `x / 255`, from 0 to 1.
///
/// The number of classes is the largest label plus one, and each class must occur: that makes
/// damaged labels visible. [`idx_with_classes`] takes the number of classes instead.
///
/// # Guarantee
/// [`Dataset::origin`], the name of the ledger, is a hash of the unpacked file of images: other
/// labels, and another number of classes, keep the ledger.
///
/// # Errors
/// [`ErrorKind::MissingData`] if there is no such file; [`ErrorKind::CorruptData`] if one is
/// truncated, too long, of the wrong kind or empty, if the numbers of images and labels differ, or
/// labels are out of range.
pub fn idx(images: impl AsRef<Path>, labels: impl AsRef<Path>) -> Result<Dataset> {
    read_idx(images.as_ref(), labels.as_ref(), None)
}

/// Reads IDX files with a known number of classes: labels must be below it and need not all occur.
///
/// # Errors
/// [`ErrorKind::MissingData`] if there is no such file; [`ErrorKind::CorruptData`] if one is
/// damaged, or labels are out of range; [`ErrorKind::Setting`] if `classes` is not from 2 to
/// 65,536.
pub fn idx_with_classes(
    images: impl AsRef<Path>,
    labels: impl AsRef<Path>,
    classes: usize,
) -> Result<Dataset> {
    read_idx(images.as_ref(), labels.as_ref(), Some(classes))
}

fn read_idx(images: &Path, labels: &Path, classes: Option<usize>) -> Result<Dataset> {
    classes.map_or(Ok(()), check_classes)?;
    let pair = Pair::read(images, labels)?;
    let classes = classes.map_or_else(|| classes_of(labels, &pair.labels), Ok)?;
    pair.labels.check_labels(labels, classes)?;
    let train = pair.examples(|x| x);
    let source = format!("IDX files {} and {}.", images.display(), labels.display());
    let names = (0..classes).map(|class| class.to_string()).collect();
    let test = empty(train.shape());
    let data = Dataset::new(stem(images), source, names, train, test);
    Ok(data.with_origin(pair.images.origin()))
}

/// Returns the largest label plus one, if every class occurs.
fn classes_of(path: &Path, labels: &Idx) -> Result<usize> {
    let seen: BTreeSet<u8> = labels.values().iter().copied().collect();
    let greatest = seen.last().map_or(0, |&label| usize::from(label));
    if let Some(gap) = (0..=greatest).find(|&class| !seen.contains(&(class as u8))) {
        let at = labels.values().iter().position(|&y| usize::from(y) == greatest).unwrap_or(0);
        let what = format!(
            "label {greatest} at position {} is out of range: no example has label {gap}, so \
             these are not labels 0, 1, 2 …",
            format_count(at)
        );
        return Err(corrupt(path, what).fix(
            "if the file is correct, give the number of classes: data::idx_with_classes(images, \
             labels, classes)",
        ));
    }
    if greatest == 0 {
        return Err(corrupt(path, "all labels are 0").fix(CLASSES_FIX));
    }
    Ok(greatest + 1)
}

fn check_classes(classes: usize) -> Result<()> {
    if CLASSES.contains(&classes) {
        return Ok(());
    }
    let why = "the number of classes must be from 2 to 65,536";
    Err(Error::setting("classes", classes, why).fix("give the number of different labels"))
}

fn checked(x: Vec<f32>, shape: &[usize], y: Vec<u32>, classes: usize) -> Result<Examples> {
    let size = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n)).unwrap_or(0);
    if shape.is_empty() || size == 0 {
        let why = "each example needs at least one feature, and all of them must fit into memory";
        return Err(Error::setting("shape", format!("{shape:?}"), why)
            .fix("for instance &[1, 28, 28] for small grey images, &[4] for four columns"));
    }
    if y.is_empty() {
        let why = "a data set needs at least one example";
        return Err(Error::setting("y", "[]", why).fix("give features and labels"));
    }
    if u32::try_from(y.len()).is_err() {
        let why = "indices of examples are 32-bit numbers";
        return Err(Error::setting("examples", format_count(y.len()), why).fix("give fewer"));
    }
    if y.len().checked_mul(size) != Some(x.len()) {
        let value = format!("{} numbers", format_count(x.len()));
        let why = format!(
            "{} labels and examples of shape {} ({size} numbers each) do not match",
            format_count(y.len()),
            format_shape(shape)
        );
        return Err(Error::setting("x", value, why).fix("x must hold y.len() * size numbers"));
    }
    if let Some(at) = y.iter().position(|&label| label as usize >= classes) {
        let what = format!("label {} of example {at} is out of range", y[at]);
        let why = format!("with {classes} classes, labels are 0 to {}", classes - 1);
        let fix = "number the classes from 0, or give the right number of classes";
        return Err(Error::new(ErrorKind::CorruptData, what, why).fix(fix));
    }
    if let Some(at) = x.iter().position(|value| !value.is_finite()) {
        let what = format!("feature {} of example {} is {}", at % size, at / size, x[at]);
        let why = "one value that is not finite makes every gradient computed from it not finite";
        let fix = "fill in missing values, or leave out such examples";
        return Err(Error::new(ErrorKind::CorruptData, what, why).fix(fix));
    }
    Ok(Examples::new(shape, x, y))
}

pub(super) fn empty(shape: &[usize]) -> Examples {
    Examples::new(shape, Vec::new(), Vec::new())
}

/// Returns the name of a file without folders and extensions (`.csv`, `.csv.gz`).
pub(super) fn stem(path: &Path) -> String {
    let packed = path.extension().is_some_and(|ending| ending == "gz");
    let path = if packed { path.with_extension("") } else { path.to_path_buf() };
    path.file_stem().map_or_else(|| "data".into(), |stem| stem.to_string_lossy().into_owned())
}
