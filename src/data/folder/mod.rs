//! Folders of images: one subfolder per class; files are decoded when a batch needs them.

mod damaged;
mod decode;
mod files;
mod resize;
mod scan;

use std::path::{Path, PathBuf};

pub(super) use files::Files;

use super::dataset::Dataset;
use super::digest::counted;
use super::examples::Examples;
use super::table::{CLASSES, CLASSES_FIX, stem};
use crate::{Error, ErrorKind, Result};
use resize::Form;

/// How the images of a folder become features of one shape.
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
    /// Colour images of `side` by `side` pixels: each image is resized so that its shorter side has
    /// this length (with antialiasing), then cropped to its centre. Features are
    /// `(x / 255 - 0.5) / 0.5`.
    pub fn size(side: usize) -> Self {
        Self { side, grey: false, mean: 0.5, std: 0.5 }
    }

    /// One channel of brightness (0.299 R + 0.587 G + 0.114 B, ITU-R BT.601) instead of three.
    pub fn grey(self) -> Self {
        Self { grey: true, ..self }
    }

    /// Features are `(x / 255 - mean) / std`. Both values must be public: they must not be computed
    /// from the private images.
    pub fn scaled(self, mean: f32, std: f32) -> Self {
        Self { mean, std, ..self }
    }

    fn form(self) -> Result<Form> {
        /// A larger image has more features than a network of this library can use.
        const LARGEST: usize = 2048;
        if !(1..=LARGEST).contains(&self.side) {
            let why = format!("images are resized to 1 to {LARGEST} pixels along each side");
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

/// A data set from a folder of PNG and JPEG images, for sets larger than memory. Two layouts are
/// read, and [`Dataset::source`] says which one was found:
///
/// - `train/<class>/<file>` and, optionally, `test/<class>/<file>` (or `val/`; where both exist,
///   `val/` is not read);
/// - `<class>/<file>`, where there is no `train/`: all images are training examples, and
///   [`Dataset::split`] makes a test part.
///
/// Classes are the names of the class folders of the training part, sorted. They and their number
/// count as public. Each file is hashed and decoded once when the folder is opened, so that a
/// damaged file is found before any privacy is spent (progress is printed to standard error for
/// large folders), and decoded again whenever a batch needs it. [`Dataset::in_memory`] makes
/// training much faster where the images fit into memory.
///
/// Hidden files, files whose names do not end in `.png`, `.jpg` or `.jpeg`, and folders inside a
/// class are skipped; [`Dataset::source`] says how many. Links are followed. Transparency is
/// dropped, and the camera's orientation tag is ignored.
///
/// # Guarantee
/// [`Dataset::origin`], the name of the ledger, is the SHA-256 of the sorted SHA-256 of all
/// training files. It does not change with the location of the folder, with names, classes, size or
/// scaling, so the same people keep their ledger. Every file is compared with its hash whenever it
/// is decoded: training uses what the ledger names. Each feature depends on its own file and on
/// public constants only.
///
/// # Errors
/// [`ErrorKind::MissingData`] if there is no such folder, or if it has neither layout;
/// [`ErrorKind::CorruptData`] for a class without images, a test class that is not in `train/`, or
/// files that are damaged or no images (all of them at once: how many, and the paths of the first);
/// [`ErrorKind::Setting`] for options out of range.
pub fn image_folder(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Dataset> {
    let (path, form) = (path.as_ref(), options.form()?);
    let layout = Layout::of(path)?;
    let train = scan::part(&layout.train)?;
    if !CLASSES.contains(&train.classes.len()) {
        let what = counted(train.classes.len(), "class folder");
        return Err(super::unpack::corrupt(&layout.train, what).fix(CLASSES_FIX));
    }
    let mut skipped = train.skipped;
    let classes = train.classes.clone();
    let (mut paths, labels) = train.labelled(&classes)?;
    let mut test_labels = Vec::new();
    if let Some(folder) = &layout.test {
        let part = scan::part(folder)?;
        skipped += part.skipped;
        let (test, labels) = part.labelled(&classes)?;
        paths.extend(test);
        test_labels = labels;
    }
    // Both parts at once, so that one error names all damaged files.
    let [train, test] = Files::open(paths, form)?.split_at(labels.len());
    let origin = train.origin();
    let mut source = format!("Images of {}: {}", path.display(), layout.found);
    source += &format!(
        ", the middle of each at {0}x{0} pixels, features (x / 255 - {1}) / {2}.",
        form.side, form.mean, form.std
    );
    source += layout.remark;
    if skipped > 0 {
        let (entries, are) = (counted(skipped, "entry"), if skipped == 1 { "is" } else { "are" });
        source += &format!(" Skipped: {entries} that {are} no PNG or JPEG.");
    }
    let train = Examples::in_files(train, labels);
    let test = match test_labels.is_empty() {
        true => Examples::new(&form.shape(), Vec::new(), Vec::new()),
        false => Examples::in_files(test, test_labels),
    };
    let names = classes.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    Ok(Dataset::new(stem(path), source, names, train, test).with_origin(origin))
}

/// Where the class folders of a folder of images are.
struct Layout {
    train: PathBuf,
    test: Option<PathBuf>,
    /// The layout in words.
    found: String,
    /// A sentence on what follows from it, with a space before it; may be empty.
    remark: &'static str,
}

impl Layout {
    /// The layout of the folder at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::MissingData`] if it has none that is read.
    fn of(path: &Path) -> Result<Self> {
        let folder = |name: &str| Some(path.join(name)).filter(|folder| folder.is_dir());
        let (test, val) = (folder("test"), folder("val"));
        if let Some(train) = folder("train") {
            let remark = match (&test, &val) {
                (Some(_), Some(_)) => " The images of val/ were not read: test/ is the test part.",
                (None, None) => NO_TEST_PART,
                _ => "",
            };
            let found = match (&test, &val) {
                (Some(_), _) => "train/ and test/",
                (None, Some(_)) => "train/ and val/",
                (None, None) => "train/",
            };
            return Ok(Self { train, test: test.or(val), found: found.to_owned(), remark });
        }
        let missing = |what: String, why: &str| {
            Err(Error::new(ErrorKind::MissingData, what, why).fix(
                "give a folder with train/<class>/<image>.png or .jpg (and optionally \
                 test/<class>/…), or one with <class>/<image>.png or .jpg; a relative path starts \
                 at the current folder",
            ))
        };
        let shown = path.display();
        match (path.is_dir(), test.or(val)) {
            (false, _) => missing(format!("{shown} is missing"), "there is no such folder"),
            (true, Some(test)) => missing(
                format!("{shown} has no folder train/"),
                &format!("there is {}, so the training images must be in train/", test.display()),
            ),
            (true, None) if !scan::has_folders(path)? => missing(
                format!("{shown} has no class folders"),
                "the folder that an image is in says its class",
            ),
            (true, None) => Ok(Self {
                train: path.to_owned(),
                test: None,
                found: "class folders, without train/ and test/".to_owned(),
                remark: NO_TEST_PART,
            }),
        }
    }
}

const NO_TEST_PART: &str = " There is no test part; .split(0.8, 7) makes one.";
