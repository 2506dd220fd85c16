//! MNIST and Fashion-MNIST: the four original files, checked byte for byte.

use std::path::Path;

use super::dataset::Dataset;
use super::idx::Pair;
use super::known_datasets::{FASHION_MNIST, KnownDataset, MNIST};
use crate::{ErrorKind, Result};

/// The constants in which the two data sets differ.
struct Spec {
    known: KnownDataset,
    /// SHA-256 of the unpacked files, in the order of [`KnownDataset::files`].
    sha256: [&'static str; 4],
    mean: f32,
    std: f32,
    class_names: [&'static str; 10],
}

const DIGITS: Spec = Spec {
    known: MNIST,
    sha256: [
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ],
    mean: 0.1307,
    std: 0.3081,
    class_names: super::glyphs::DIGIT_NAMES,
};

const FASHION: Spec = Spec {
    known: FASHION_MNIST,
    sha256: [
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ],
    mean: 0.2860,
    std: 0.3530,
    class_names: [
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ],
};

/// Loads MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey, 10 classes.
///
/// Looks for the four original files (with or without `.gz`) in the subfolder `mnist` of
/// `$EPSILAB_DATA`, then of `datasets/` in the current folder and those above. Features are
/// `(x / 255 - 0.1307) / 0.3081`, with two public constants that cost no privacy.
///
/// # Guarantee
/// As [`idx`](super::idx()), which shares the ledger of the same file of images.
///
/// # Errors
/// [`crate::ErrorKind::MissingData`] lists the missing files, the folders that were searched and
/// how to get the files; [`crate::ErrorKind::CorruptData`] if a file is not the original (by the
/// SHA-256 of its unpacked bytes).
pub fn mnist() -> Result<Dataset> {
    load(&DIGITS, None)
}

/// Reads MNIST from the given folder only; otherwise as [`mnist`].
///
/// # Errors
/// [`crate::ErrorKind::MissingData`] if the folder lacks a file; [`crate::ErrorKind::CorruptData`]
/// if a file is not the original.
pub fn mnist_in(folder: impl AsRef<Path>) -> Result<Dataset> {
    load(&DIGITS, Some(folder.as_ref()))
}

/// Loads MNIST if its files are found, otherwise the built-in [`glyphs`](super::glyphs()), for
/// notebooks that must run on any machine. The name of the data set says which of them it is.
///
/// # Errors
/// Only if files exist and are damaged: a damaged MNIST is never replaced silently.
pub fn mnist_or_glyphs() -> Result<Dataset> {
    match mnist() {
        Err(error) if error.kind() == ErrorKind::MissingData => super::glyphs(),
        found => found,
    }
}

/// Loads Fashion-MNIST: 60,000 + 10,000 images of clothes, 28x28 grey, 10 classes.
///
/// Found like [`mnist`], in the subfolder `fashion-mnist`. Features are
/// `(x / 255 - 0.2860) / 0.3530`, with public constants.
///
/// # Errors
/// [`crate::ErrorKind::MissingData`] lists the missing files and how to get them;
/// [`crate::ErrorKind::CorruptData`] if a file is not the original.
pub fn fashion_mnist() -> Result<Dataset> {
    load(&FASHION, None)
}

/// Reads Fashion-MNIST from the given folder only.
///
/// # Errors
/// [`crate::ErrorKind::MissingData`] if the folder lacks a file; [`crate::ErrorKind::CorruptData`]
/// if a file is not the original.
pub fn fashion_mnist_in(folder: impl AsRef<Path>) -> Result<Dataset> {
    load(&FASHION, Some(folder.as_ref()))
}

/// Loads a data set; `folder`, if it is given, is the only folder that is searched.
fn load(spec: &Spec, folder: Option<&Path>) -> Result<Dataset> {
    let files = spec.known.find(folder)?.train;
    let read = |images: &Path, labels: &Path| -> Result<Pair> {
        let pair = Pair::read(images, labels)?;
        pair.labels.check_labels(labels, spec.class_names.len())?;
        Ok(pair)
    };
    let (train, test) = (read(&files[0], &files[1])?, read(&files[2], &files[3])?);
    // Last, because an error about the format says more than one about a hash.
    let unpacked = [&train.images, &train.labels, &test.images, &test.labels];
    let alternative = "; a file of your own is read by data::idx(images, labels)";
    for ((path, idx), expected) in files.iter().zip(unpacked).zip(spec.sha256) {
        spec.known.check_hash(path, &idx.sha256(), expected, alternative)?;
    }
    let source = "Original files, SHA-256 checked.".to_owned();
    let names = spec.class_names.map(String::from).to_vec();
    let origin = train.images.origin();
    let scale = |x: f32| (x - spec.mean) / spec.std;
    let (train, test) = (train.examples(scale), test.examples(scale));
    let data = Dataset::new(spec.known.name, source, names, train, test);
    Ok(data.with_origin(origin))
}
