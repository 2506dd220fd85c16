//! Lists the files of a folder of images. Links to folders inside a class are not followed, so a
//! link to a parent folder can't make it loop.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::layout::is_part_name;
use super::location::ImageLocation;
use super::skipped::SkippedEntries;
use crate::Result;
use crate::data::decompressed_file::{cannot_open, cannot_read, corrupt};

/// Names of folders that operating systems and file servers add to those of users.
const SYSTEM_FOLDERS: [&str; 4] = ["__MACOSX", "@eaDir", "$RECYCLE.BIN", "lost+found"];

/// The class folders of the training or test part and their images, both sorted by name.
pub(super) struct ScannedPart {
    folder: PathBuf,
    pub(super) classes: Vec<OsString>,
    /// Paths of the images of each class.
    images: Vec<Vec<PathBuf>>,
    /// Folders inside classes, as `class/folder`, in which images were found.
    pub(super) nested_folders: Vec<String>,
    /// Number of images in these folders.
    pub(super) nested_images: usize,
    pub(super) skipped: SkippedEntries,
}

/// Returns the classes and images below this folder; each class has at least one image.
///
/// # Errors
/// `CorruptData` for a class without images, and for a folder inside a class that may be a class
/// or a part of the data set itself.
pub(super) fn scan_part(folder: &Path) -> Result<ScannedPart> {
    let mut part = ScannedPart {
        folder: folder.into(),
        classes: Vec::new(),
        images: Vec::new(),
        nested_folders: Vec::new(),
        nested_images: 0,
        skipped: SkippedEntries::default(),
    };
    let listing = entries(folder)?;
    part.skipped.hidden += listing.hidden;
    for (name, entry) in listing.shown {
        if is_folder(&entry)? {
            part.classes.push(name);
        } else if is_image(&entry) {
            part.skipped.unlabelled += 1;
        } else {
            part.skipped.others += 1;
        }
    }
    for class in 0..part.classes.len() {
        let images = part.scan_class(class)?;
        part.images.push(images);
    }
    Ok(part)
}

impl ScannedPart {
    /// Returns the images of a class, those in folders inside it too.
    fn scan_class(&mut self, class: usize) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(&self.classes[class]);
        let mut images = Vec::new();
        self.scan_folder(&folder, class, &mut images)?;
        if images.is_empty() {
            return Err(corrupt(&folder, "this class has no JPEG, PNG or WebP image")
                .fix("put images there, or remove the folder"));
        }
        Ok(images)
    }

    fn scan_folder(
        &mut self,
        folder: &Path,
        class: usize,
        images: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let listing = entries(folder)?;
        self.skipped.hidden += listing.hidden;
        for (name, entry) in listing.shown {
            if !is_folder(&entry)? {
                if is_image(&entry) {
                    images.push(entry);
                } else {
                    self.skipped.others += 1;
                }
            } else if entry.is_symlink() {
                self.skipped.linked_folders += 1;
            } else {
                self.check_nested(&name, &entry, class)?;
                self.scan_nested(&entry, class, images)?;
            }
        }
        Ok(())
    }

    fn scan_nested(
        &mut self,
        folder: &Path,
        class: usize,
        images: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let (deeper, before) = (self.nested_images, images.len());
        self.scan_folder(folder, class, images)?;
        let all = images.len() - before;
        let own = all - (self.nested_images - deeper);
        self.nested_images += own;
        if own > 0 {
            let shown = folder.strip_prefix(&self.folder).unwrap_or(folder);
            self.nested_folders.push(shown.display().to_string());
        }
        Ok(())
    }

    /// Refuses a folder inside a class whose name says that the class is none, or that its images
    /// are of another class.
    fn check_nested(&self, name: &OsStr, folder: &Path, class: usize) -> Result<()> {
        let mut others = self.classes.iter().enumerate().filter(|(other, _)| *other != class);
        if others.any(|(_, other)| other.eq_ignore_ascii_case(name)) {
            let what = "a folder inside a class with the name of another class";
            return Err(corrupt(folder, what).fix("move it out of the class, or rename it"));
        }
        if is_part_name(name) {
            let what = "a folder inside a class with the name of a training or test part";
            return Err(corrupt(folder, what).fix(
                "put the classes into train/<class>/ and test/<class>/, give the folder that \
                 train/ is in, or rename this one",
            ));
        }
        Ok(())
    }

    /// Returns all images in the order of the classes, and their labels in this list of classes.
    pub(super) fn into_labelled(self, classes: &[OsString]) -> Result<Vec<(ImageLocation, u32)>> {
        let mut files = Vec::new();
        for (class, images) in self.classes.iter().zip(self.images) {
            let Ok(label) = classes.binary_search(class) else {
                let what = format!("the class `{}` is not in train/", class.to_string_lossy());
                return Err(corrupt(&self.folder, what)
                    .fix("name the class folders as in train/, or remove this one"));
            };
            files.extend(images.into_iter().map(|path| (ImageLocation::File(path), label as u32)));
        }
        Ok(files)
    }
}

/// Returns whether a folder has subfolders that are not hidden.
pub(super) fn has_folders(folder: &Path) -> Result<bool> {
    Ok(!folders(folder)?.is_empty())
}

/// Returns the subfolders of a folder, sorted by name, without hidden ones.
pub(super) fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    select(folder, true)
}

/// Returns the files of a folder, sorted by name, without hidden ones.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    select(folder, false)
}

/// Returns the number of hidden entries of a folder.
pub(super) fn count_hidden(folder: &Path) -> Result<usize> {
    Ok(entries(folder)?.hidden)
}

/// Returns the entries of a folder that are folders, or those that are not.
fn select(folder: &Path, folders: bool) -> Result<Vec<PathBuf>> {
    let shown = entries(folder)?.shown.into_iter().map(|(_, path)| path);
    let selected = |path: PathBuf| {
        is_folder(&path).map(|is_folder| (is_folder == folders).then_some(path)).transpose()
    };
    shown.filter_map(selected).collect()
}

/// The entries of a folder.
struct Listing {
    /// Names and paths, sorted, without hidden ones.
    shown: Vec<(OsString, PathBuf)>,
    /// Number of hidden entries.
    hidden: usize,
}

fn entries(folder: &Path) -> Result<Listing> {
    let mut listing = Listing { shown: Vec::new(), hidden: 0 };
    for entry in fs::read_dir(folder).map_err(|e| cannot_open(folder, &e))? {
        let entry = entry.map_err(|e| cannot_read(folder, &e))?;
        if is_hidden(&entry.file_name()) {
            listing.hidden += 1;
        } else {
            listing.shown.push((entry.file_name(), entry.path()));
        }
    }
    listing.shown.sort();
    Ok(listing)
}

/// Returns whether a file or folder is not the user's own by its name.
fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || SYSTEM_FOLDERS.iter().any(|system| name == *system)
}

/// Returns whether the path is a folder. Links are followed; a broken or circular link is an
/// error.
fn is_folder(path: &Path) -> Result<bool> {
    Ok(fs::metadata(path).map_err(|e| cannot_open(path, &e))?.is_dir())
}

/// Returns whether the name of a file has the ending of an image, in upper or lower case.
fn is_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["jpg", "jpeg", "png", "webp"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}
