//! Folders of images: one subfolder per class.

use std::path::Path;

use super::layout::{Layout, LayoutKind};
use super::listing::ImageListing;
use super::options::ImageOptions;
use super::scan;
use crate::Result;
use crate::data::dataset::Dataset;
use crate::data::decompressed_file::corrupt;
use crate::data::digest::pluralise;
use crate::data::table::{CLASSES, CLASSES_FIX};

/// Creates a data set from a folder of JPEG, PNG and WebP images, for sets larger than memory. Two
/// layouts are read, and [`Dataset::source`] says which one was found:
///
/// - `train/<class>/<file>` and, optionally, `test/<class>/<file>` (or `val/`; where both exist,
///   `val/` is not read);
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
/// Hidden files, files whose names do not end in `.jpg`, `.jpeg`, `.png` or `.webp`, and folders
/// inside a class are skipped; [`Dataset::source`] says how many. Links are followed. Transparency
/// is dropped, and the camera's orientation tag is ignored. Of an animation, the first image is
/// read.
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
/// `MissingData` if there is no such folder, or if it has neither layout;
/// `CorruptData` for a class without images, a test class that is not in `train/`, or
/// files that are damaged or no images (all of them at once: how many, and the paths of the first);
/// `Setting` for options out of range.
pub fn image_folder(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Dataset> {
    let (path, form) = (path.as_ref(), options.checked()?);
    let layout = Layout::detect(path, &CLASS_FOLDERS)?;
    let train = scan::scan_part(&layout.train)?;
    if !CLASSES.contains(&train.classes.len()) {
        let what = pluralise(train.classes.len(), "class folder");
        return Err(corrupt(&layout.train, what).fix(CLASSES_FIX));
    }
    let mut skipped = train.skipped;
    let classes = train.classes.clone();
    let train = train.into_labelled(&classes)?;
    let mut test = Vec::new();
    if let Some(folder) = &layout.test {
        let part = scan::scan_part(folder)?;
        skipped += part.skipped;
        test = part.into_labelled(&classes)?;
    }
    let class_names = classes.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let mut remark = layout.remark.to_owned();
    if skipped > 0 {
        let (entries, are) = (pluralise(skipped, "entry"), if skipped == 1 { "is" } else { "are" });
        remark += &format!(" Skipped: {entries} that {are} no JPEG, PNG or WebP.");
    }
    let set =
        ImageListing { path, description: layout.description, remark, class_names, train, test };
    set.into_dataset(form)
}

const CLASS_FOLDERS: LayoutKind = LayoutKind {
    is_present: scan::has_folders,
    name: "class folders",
    why: "the class of an image is the name of its folder",
    fix: "give a folder with train/<class>/<image>.jpg, .png or .webp (and optionally \
          test/<class>/…), or one with <class>/<image>.jpg, .png or .webp; a relative path starts \
          at the current folder; data::tar_shards reads .tar files",
};
