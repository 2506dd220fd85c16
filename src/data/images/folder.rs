//! Folders of images: one subfolder per class.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::layout::{Layout, LayoutKind, is_part_name};
use super::listing::ImageListing;
use super::options::ImageOptions;
use super::scan::{self, ScannedPart};
use super::skipped::SkippedEntries;
use crate::Result;
use crate::data::dataset::Dataset;
use crate::data::decompressed_file::corrupt;
use crate::data::digest::{format_count, pluralise};
use crate::data::table::{CLASSES, CLASSES_FIX};

/// Creates a data set from a folder of JPEG, PNG and WebP images, for sets larger than memory. Two
/// layouts are read, and [`Dataset::source`] says which one was found:
///
/// - `train/<class>/<file>` and, optionally, `test/<class>/<file>`. The training part may also be
///   `training/`, and the test part `testing/`, `val/`, `valid/` or `validation/`, all in upper or
///   lower case. Of several test parts the first in this order is read;
/// - `<class>/<file>`, where there is no `train/`: all images are training examples, and
///   [`Dataset::split`] makes a test part.
///
/// ```
/// use epsilab::data::{self, ImageOptions};
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// # for class in ["cat", "dog"] {
/// #     std::fs::create_dir(folder.join(class)).unwrap();
/// #     image::RgbImage::new(2, 2).save(folder.join(class).join("1.png")).unwrap();
/// # }
/// let pets = data::image_folder(folder, &ImageOptions::size(64))?;    // cat/1.png, dog/1.png
/// assert_eq!((pets.class_names().len(), pets.shape()), (2, &[3, 64, 64][..]));
/// # Ok::<(), epsilab::Error>(())
/// ```
///
/// Classes are the names of the class folders of the training part, sorted. They and their number
/// count as public. Each file is hashed and decoded once when the folder is opened, so that a
/// damaged file is found before any privacy is spent (progress is printed to standard error for
/// large folders), and decoded again whenever a batch needs it, by several threads ahead of time.
/// [`Dataset::in_memory`] makes training faster where the images fit into memory.
///
/// Images in folders inside a class belong to the class. Hidden entries (`.DS_Store`,
/// `.ipynb_checkpoints`, `__MACOSX`), files whose names do not end in `.jpg`, `.jpeg`, `.png` or
/// `.webp`, images outside the class folders and other folders beside `train/` are skipped.
/// [`Dataset::notices`] says how many, and what was not read. Links are followed, except to folders
/// inside a class. Images are turned as the camera's orientation tag (EXIF) says. Transparency is
/// dropped. Of an animation, the first image is read.
///
/// # Guarantee
/// [`Dataset::origin`], the name of the ledger, is the SHA-256 of the sorted SHA-256 of all
/// training files. It does not change with the location of the folder, with names, classes, size or
/// scaling, so the same people keep their ledger. Every file is compared with its hash whenever it
/// is decoded: training uses what the ledger names. Each feature depends on its own file and on
/// public constants only. A file that can't be read any more, or has changed, contributes zero to
/// every step, and no private run says so: see [`Dataset::check_files`].
///
/// # Errors
/// `MissingData` if there is no such folder, or if it has neither layout; `CorruptData` for a class
/// without images, a test class that is not in `train/`, a folder that may be a class or a part of
/// the set, two training parts, or files that are damaged or no images (all of them at once: how
/// many, and the paths of the first); `Setting` for options out of range.
pub fn image_folder(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Dataset> {
    let (path, form) = (path.as_ref(), options.checked()?);
    let layout = Layout::detect(path, &CLASS_FOLDERS)?;
    let train = scan::scan_part(&layout.train)?;
    if layout.train == path {
        check_class_names(path, &train)?;
    }
    if !CLASSES.contains(&train.classes.len()) {
        let what = pluralise(train.classes.len(), "class folder");
        return Err(corrupt(&layout.train, what).fix(CLASSES_FIX));
    }
    let test = layout.test.as_deref().map(scan::scan_part).transpose()?;
    let mut notices = layout.notices;
    let mut skipped = SkippedEntries::default();
    if layout.train != path {
        skipped.hidden = scan::count_hidden(path)?;
    }
    for part in [Some(&train), test.as_ref()].into_iter().flatten() {
        skipped += part.skipped;
        notices.extend(nested_images_notice(part));
    }
    let classes = train.classes.clone();
    if let (Some(test), Some(folder)) = (&test, &layout.test) {
        notices.extend(absent_classes_notice(&classes, test, folder));
    }
    notices.extend(skipped.sentence());
    let train = train.into_labelled(&classes)?;
    let test = test.map_or_else(|| Ok(Vec::new()), |part| part.into_labelled(&classes))?;
    let class_names = classes.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let (description, remark) = (layout.description, layout.remark);
    let set = ImageListing { path, description, remark, notices, class_names, train, test };
    set.into_dataset(form)
}

/// Returns the sentence on images in folders inside classes; `None` if there are none.
fn nested_images_notice(part: &ScannedPart) -> Option<String> {
    let (first, others) = part.nested_folders.split_first()?;
    let also = match others.len() {
        0 => String::new(),
        count => format!(" and {} more", format_count(count)),
    };
    let images = pluralise(part.nested_images, "image");
    Some(format!("Read {images} in folders inside classes: {first}{also}."))
}

/// Returns the sentence on classes without test images; `None` if there are none.
fn absent_classes_notice(
    classes: &[OsString],
    test: &ScannedPart,
    folder: &Path,
) -> Option<String> {
    /// Largest number of classes that are named.
    const NAMED: usize = 5;
    let absent = classes.iter().filter(|class| !test.classes.contains(class));
    let absent: Vec<_> = absent.map(|class| class.to_string_lossy()).collect();
    if absent.is_empty() {
        return None;
    }
    let mut names = absent[..absent.len().min(NAMED)].join(", ");
    if absent.len() > NAMED {
        names += &format!(" and {} others", format_count(absent.len() - NAMED));
    }
    let folder = folder.file_name().unwrap_or_default().to_string_lossy();
    Some(format!("{folder}/ has no images of {names}."))
}

/// Refuses class folders that look like a training and a test part under other names, such as
/// `seg_train/cat/` and `seg_test/cat/`: their images would be told apart by their part.
fn check_class_names(folder: &Path, part: &ScannedPart) -> Result<()> {
    let is_word = |word: &str| is_part_name(OsStr::new(word));
    let has_part_word = |class: &OsString| {
        let name = class.to_string_lossy();
        name.split(|c: char| !c.is_alphabetic()).any(is_word)
    };
    let is_nested = |class: &OsString| {
        let start = format!("{}/", class.to_string_lossy());
        part.nested_folders.iter().any(|nested| nested.starts_with(&start))
    };
    let suspect = part.classes.iter().find(|class| has_part_word(class) && is_nested(class));
    let Some(class) = suspect else { return Ok(()) };
    let what =
        format!("`{}` may be a class, or a part with classes in it", class.to_string_lossy());
    Err(corrupt(folder, what).fix("name the parts train/ and test/, or rename the class"))
}

const CLASS_FOLDERS: LayoutKind = LayoutKind {
    is_present: scan::has_folders,
    name: "class folders",
    why: "the class of an image is the name of its folder",
    fix: "give a folder with train/<class>/<image>.jpg, .png or .webp (and optionally \
          test/<class>/…), or one with <class>/<image>.jpg, .png or .webp; a relative path starts \
          at the current folder; data::tar_shards reads .tar files",
};
