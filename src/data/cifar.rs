//! CIFAR-10 and CIFAR-100: the binary files, complete or in part.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::dataset::Dataset;
use super::decompressed_file::{self, corrupt};
use super::digest::{format_count, sha256};
use super::examples::Examples;
use super::known_datasets::{CIFAR_10, CIFAR_100, KnownDataset};
use crate::{ErrorKind, Result};

/// Bytes of one image: red, green and blue planes of 32x32.
const PIXELS: usize = 3 * 32 * 32;
const SHAPE: [usize; 3] = [3, 32, 32];

/// The constants in which the two data sets differ.
struct Spec {
    known: KnownDataset,
    /// Number of classes of each label byte before an image; the last label is used.
    labels: &'static [u8],
    class_names: &'static [&'static str],
    /// Number of examples in the complete training and test part.
    sizes: (usize, usize),
    /// Names and SHA-256 of the unpacked original files that have a published hash.
    sha256: &'static [(&'static str, &'static str)],
}

const TEN: Spec = Spec {
    known: CIFAR_10,
    labels: &[10],
    class_names: &TEN_NAMES,
    sizes: (50_000, 10_000),
    sha256: &[
        ("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
        ("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
        ("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
        ("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
        ("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
        ("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
    ],
};

const HUNDRED: Spec = Spec {
    known: CIFAR_100,
    labels: &[20, 100],
    class_names: &HUNDRED_NAMES,
    sizes: (50_000, 10_000),
    sha256: &[],
};

/// Loads CIFAR-10: 50,000 + 10,000 colour images of 32x32 pixels, 10 classes.
///
/// Looks for the files of the binary version (with or without `.gz`) in the subfolder `cifar-10`
/// (or `cifar-10-batches-bin`) of `$EPSILAB_DATA`, then of `datasets/` in the current folder and
/// those above. Features are `(x / 255 - 0.5) / 0.5`, from -1 to 1, as in all built-in readers of
/// colour images. The scaling does not depend on the data.
///
/// One batch file is enough: [`Dataset::source`] lists the missing files, and the name says how
/// many training examples there are. A part read from fewer files has a ledger of its own.
///
/// # Errors
/// [`ErrorKind::MissingData`] lists the folders that were searched and how to get the files;
/// [`ErrorKind::CorruptData`] if a file is truncated, a label is out of range, or a file has the
/// size of the original but another SHA-256 (of its unpacked bytes).
pub fn cifar10() -> Result<Dataset> {
    load(&TEN, None)
}

/// Reads CIFAR-10 from the given folder only; otherwise as [`cifar10`].
///
/// # Errors
/// [`ErrorKind::MissingData`] if the folder lacks the files; [`ErrorKind::CorruptData`] if one is
/// damaged or not the original.
pub fn cifar10_in(folder: impl AsRef<Path>) -> Result<Dataset> {
    load(&TEN, Some(folder.as_ref()))
}

/// Loads CIFAR-10 if its files are found, otherwise the built-in [`patterns`](super::patterns())
/// of the same shape. The name of the data set says which of them it is.
///
/// # Errors
/// Only if files exist and are damaged: a damaged CIFAR-10 is never replaced silently.
pub fn cifar10_or_patterns() -> Result<Dataset> {
    match cifar10() {
        Err(error) if error.kind() == ErrorKind::MissingData => super::patterns(),
        found => found,
    }
}

/// Loads CIFAR-100 with its 100 fine classes: 50,000 + 10,000 colour images of 32x32 pixels.
///
/// Found like [`cifar10`], in the subfolder `cifar-100` (or `cifar-100-binary`,
/// `cifar-100-subset`): `train.bin` and `test.bin`. Without `train.bin`, the largest other
/// `train….bin` is used. Features are scaled as in [`cifar10`], so a model trained on one can be
/// used on the other.
///
/// # Errors
/// [`ErrorKind::MissingData`] lists the folders that were searched and how to get the files;
/// [`ErrorKind::CorruptData`] if a file is truncated or a label is out of range.
pub fn cifar100() -> Result<Dataset> {
    load(&HUNDRED, None)
}

/// Reads CIFAR-100 from the given folder only; otherwise as [`cifar100`].
///
/// # Errors
/// [`ErrorKind::MissingData`] if the folder lacks the files; [`ErrorKind::CorruptData`] if one is
/// damaged.
pub fn cifar100_in(folder: impl AsRef<Path>) -> Result<Dataset> {
    load(&HUNDRED, Some(folder.as_ref()))
}

/// Loads a data set; `folder`, if it is given, is the only folder that is searched.
fn load(spec: &Spec, folder: Option<&Path>) -> Result<Dataset> {
    let found = spec.known.find(folder)?;
    let read = |files: &[PathBuf]| -> Result<Vec<CifarRecords>> {
        files.par_iter().map(|path| CifarRecords::read(spec, path)).collect()
    };
    let (train, test) = (read(&found.train)?, read(&found.test_files)?);
    let original = train.iter().chain(&test).all(|records| records.original);
    let (train, test) = (examples(spec, train), examples(spec, test));

    let folder = found.train[0].parent().unwrap_or(Path::new("."));
    let mut source = if original {
        "Original files, SHA-256 checked.".to_owned()
    } else {
        format!("Files in {}, not compared with a published hash.", folder.display())
    };
    let mut name = spec.known.name.to_owned();
    if (train.len(), test.len()) != spec.sizes {
        name += &format!(" ({} training examples)", format_count(train.len()));
        let names = |files: &[PathBuf]| -> Vec<String> {
            files.iter().filter_map(|f| Some(f.file_name()?.to_string_lossy().into())).collect()
        };
        source += &format!(" Only a part of {}: read", spec.known.name);
        source +=
            &format!(" {}", [names(&found.train), names(&found.test_files)].concat().join(", "));
        source += &found.remark(!test.is_empty());
    }
    let classes = spec.class_names.iter().copied().map(String::from).collect();
    Ok(Dataset::new(name, source, classes, train, test))
}

/// Checked records of one file. Each record has its label bytes, then its image.
struct CifarRecords {
    bytes: Vec<u8>,
    /// Whether the hash of the file is that of an original file.
    original: bool,
}

impl CifarRecords {
    /// Reads a file, and checks its size, its labels and the hash of an original file.
    ///
    /// # Errors
    /// `Io` if the file can't be read; `CorruptData` if a check fails.
    fn read(spec: &Spec, path: &Path) -> Result<Self> {
        let size = spec.labels.len() + PIXELS;
        let bytes = decompressed_file::read_decompressed(path, size * spec.sizes.0)?;
        if bytes.is_empty() || bytes.len() % size != 0 {
            let found = format_count(bytes.len());
            let what = format!(
                "{found} bytes found, which is not a multiple of the {} bytes of an image with its \
                 labels; the file is truncated, or not the binary version",
                format_count(size)
            );
            return Err(corrupt(path, what));
        }
        for (i, record) in bytes.chunks_exact(size).enumerate() {
            let labels = record.iter().zip(spec.labels);
            if let Some((label, classes)) = labels.clone().find(|(label, classes)| label >= classes)
            {
                let (position, most) = (format_count(i), classes - 1);
                let what = format!("label {label} at position {position}: must be 0 to {most}");
                return Err(corrupt(path, what));
            }
        }
        // A file that has the size of the original must have its hash; any other file is a part.
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let known = spec.sha256.iter().find(|(file, _)| *file == name);
        let known = known.filter(|_| bytes.len() == 10_000 * size);
        if let Some((_, expected)) = known {
            spec.known.check_hash(path, &sha256(&bytes), expected, "")?;
        }
        Ok(Self { original: known.is_some(), bytes })
    }
}

/// Returns the examples of all files, with features scaled to -1 to 1.
fn examples(spec: &Spec, files: Vec<CifarRecords>) -> Examples {
    let size = spec.labels.len() + PIXELS;
    let scaled: Vec<f32> = (0..=255u8).map(|x| (f32::from(x) / 255.0 - 0.5) / 0.5).collect();
    let total: usize = files.iter().map(|file| file.bytes.len() / size).sum();
    let (mut features, mut labels) = (Vec::with_capacity(total * PIXELS), Vec::new());
    for file in files {
        for record in file.bytes.chunks_exact(size) {
            let (label, pixels) = record.split_at(spec.labels.len());
            labels.extend(label.last().map(|&label| u32::from(label)));
            features.extend(pixels.iter().map(|&x| scaled[usize::from(x)]));
        }
    }
    Examples::new(&SHAPE, features, labels)
}

const TEN_NAMES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The names of the fine classes; their alphabetical order is the order of the labels.
#[rustfmt::skip]
const HUNDRED_NAMES: [&str; 100] = [
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle",
    "bottle", "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle",
    "caterpillar", "cattle", "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch",
    "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox",
    "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion",
    "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom",
    "oak_tree", "orange", "orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree",
    "plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray", "road",
    "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake",
    "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone",
    "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale",
    "willow_tree", "wolf", "woman", "worm",
];
