//! Folders of images: one subfolder per class, each file decoded when it is needed.

mod damaged;
mod decode;
mod files;
mod resize;
mod scan;

use std::path::Path;

pub(super) use files::Files;

use super::dataset::Dataset;
use super::digest::count;
use super::examples::Examples;
use super::table::{CLASSES, CLASSES_FIX, stem};
use crate::{Error, ErrorKind, Result};
use resize::Form;

/// How the images of a folder become features of one fixed shape.
///
/// ```
/// use epsilab::data::ImageOptions;
/// let colour = ImageOptions::size(64);           // [3, 64, 64], from -1 (black) to 1 (white)
/// let grey = ImageOptions::size(28).grey().scaled(0.0, 1.0);    // [1, 28, 28], from 0 to 1
/// # assert_ne!(colour, grey);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageOptions {
    side: usize,
    grey: bool,
    mean: f32,
    std: f32,
}

impl ImageOptions {
    /// Colour images of `side` by `side` pixels: the shorter side of each is brought to this
    /// length (every pixel of a target is the weighted mean of all it covers, so that fine
    /// patterns don't flicker), then the middle is cut out. Features are `(x / 255 - 0.5) / 0.5`.
    pub fn size(side: usize) -> Self {
        Self { side, grey: false, mean: 0.5, std: 0.5 }
    }

    /// One channel of brightness (0.299 R + 0.587 G + 0.114 B, ITU-R BT.601) instead of three.
    pub fn grey(self) -> Self {
        Self { grey: true, ..self }
    }

    /// Features are `(x / 255 - mean) / std`. The two numbers must be public: known from
    /// elsewhere, never measured on the private images.
    pub fn scaled(self, mean: f32, std: f32) -> Self {
        Self { mean, std, ..self }
    }

    fn form(self) -> Result<Form> {
        /// Beyond this, one image has more numbers than a network for this lab can use.
        const LARGEST: usize = 2048;
        if !(1..=LARGEST).contains(&self.side) {
            let why = format!("images are brought to 1 to {LARGEST} pixels along each side");
            return Err(Error::setting("size", self.side, why).fix("for instance 32 or 64"));
        }
        if !self.mean.is_finite() {
            return Err(Error::setting("mean", self.mean, "it must be a finite number"));
        }
        if !(self.std.is_finite() && self.std > 0.0) {
            return Err(Error::setting("std", self.std, "it must be a finite number above 0"));
        }
        let channels = if self.grey { 1 } else { 3 };
        Ok(Form { channels, side: self.side, mean: self.mean, std: self.std })
    }
}

/// A data set from a folder of PNG and JPEG images, for sets larger than memory:
/// `train/<class>/<file>` and, if there is one, `test/<class>/<file>` (else `val/`; where both are
/// there, `val/` is not read, and [`Dataset::source`] says so).
///
/// Classes are the names of the folders in `train/`, sorted. They and their number count as
/// public. Each file is hashed and decoded once now, so that a damaged one is found before any
/// privacy is spent (large folders say on the standard error how far this is), and decoded again
/// whenever a batch needs it. What fits into memory trains much faster after
/// [`Dataset::in_memory`].
///
/// Hidden files, files with other endings than `.png`, `.jpg`, `.jpeg`, and folders inside a class
/// are left out; [`Dataset::source`] says how many. Links are followed. Transparency is dropped
/// and the camera's orientation mark is not looked at.
///
/// # Guarantee
/// [`Dataset::origin`], the name of the ledger, is the SHA-256 of the sorted SHA-256 of all
/// training files: neither the place of the folder, nor names, classes, size or scaling change
/// it, so the same people keep their ledger. Every file is compared with its hash whenever it is
/// decoded: what is trained on is what the ledger names. Each feature depends on its own file and
/// public constants only.
///
/// # Errors
/// [`ErrorKind::MissingData`] if there is no such folder or no `train/` in it;
/// [`ErrorKind::CorruptData`] for a class without images, a test class that is not in `train/`, or
/// files that are no images or damaged (all of them at once: how many, and the paths of the first);
/// [`ErrorKind::Setting`] for options out of range.
pub fn image_folder(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Dataset> {
    let (path, form) = (path.as_ref(), options.form()?);
    check_layout(path)?;
    let train = scan::part(&path.join("train"))?;
    if !CLASSES.contains(&train.classes.len()) {
        let what = format!("{} class folders in train/", count(train.classes.len()));
        return Err(super::unpack::corrupt(path, what).fix(CLASSES_FIX));
    }
    let test = ["test", "val"].into_iter().find(|name| path.join(name).is_dir());
    let mut left_out = train.left_out;
    let classes = train.classes.clone();
    let (mut paths, labels) = train.labelled(&classes)?;
    let mut source = format!("Images of {}: train/", path.display());
    let mut test_labels = Vec::new();
    if let Some(name) = test {
        source += &format!(" and {name}/");
        let part = scan::part(&path.join(name))?;
        left_out += part.left_out;
        let (test, labels) = part.labelled(&classes)?;
        paths.extend(test);
        test_labels = labels;
    }
    // Both parts at once, so that one error tells of all damaged files.
    let [train, test] = Files::open(paths, form)?.split_at(labels.len());
    let origin = train.origin();
    source += &format!(
        ", the middle of each at {0}x{0} pixels, features (x / 255 - {1}) / {2}.",
        form.side, form.mean, form.std
    );
    if path.join("test").is_dir() && path.join("val").is_dir() {
        source += " The images of val/ were not read: test/ is the test part.";
    }
    if left_out > 0 {
        source += &format!(" {} entries that are no PNG or JPEG were left out.", count(left_out));
    }
    let train = Examples::in_files(train, labels);
    let test = match test_labels.is_empty() {
        true => Examples::new(&form.shape(), Vec::new(), Vec::new()),
        false => Examples::in_files(test, test_labels),
    };
    let names = classes.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    Ok(Dataset::new(stem(path), source, names, train, test).with_origin(origin))
}

/// Says what the folder should look like to those whose folder looks different.
fn check_layout(path: &Path) -> Result<()> {
    if path.join("train").is_dir() {
        return Ok(());
    }
    let (what, why) = if path.is_dir() {
        (format!("{} has no folder train/", path.display()), "the training images must lie there")
    } else {
        (format!("{} is missing", path.display()), "there is no such folder")
    };
    Err(Error::new(ErrorKind::MissingData, what, why).fix(
        "give a folder with train/<class>/<image>.png or .jpg (and, if you like, test/<class>/…); \
         a relative path starts at the current folder",
    ))
}
