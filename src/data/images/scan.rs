//! Lists the files of a folder of images. It looks exactly two levels deep, so a link to a parent
//! folder can't make it loop.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::location::ImageLocation;
use crate::Result;
use crate::data::decompressed_file::{cannot_open, cannot_read, corrupt};

/// The class folders of the training or test part and their images, both sorted by name.
pub(super) struct ScannedPart {
    folder: PathBuf,
    pub(super) classes: Vec<OsString>,
    /// Paths of the images of each class.
    images: Vec<Vec<PathBuf>>,
    /// Number of entries that are no images.
    pub(super) skipped: usize,
}

/// Returns the classes and images below this folder; each class has at least one image.
pub(super) fn scan_part(folder: &Path) -> Result<ScannedPart> {
    let mut part =
        ScannedPart { folder: folder.into(), classes: Vec::new(), images: Vec::new(), skipped: 0 };
    for (name, class) in entries(folder)? {
        if !is_folder(&class)? {
            part.skipped += 1;
            continue;
        }
        let mut images = Vec::new();
        for (_, file) in entries(&class)? {
            if is_image(&file) && !is_folder(&file)? {
                images.push(file);
            } else {
                part.skipped += 1;
            }
        }
        if images.is_empty() {
            return Err(corrupt(&class, "this class has no JPEG, PNG or WebP image")
                .fix("put images there, or remove the folder"));
        }
        part.classes.push(name);
        part.images.push(images);
    }
    Ok(part)
}

impl ScannedPart {
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
    for (_, path) in entries(folder)? {
        if is_folder(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the files of a folder, sorted by name, without hidden ones.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = entries(folder)?.into_iter().map(|(_, path)| path);
    files
        .filter_map(|path| is_folder(&path).map(|skipped| (!skipped).then_some(path)).transpose())
        .collect()
}

/// Returns the entries of a folder, sorted by name, without hidden ones.
fn entries(folder: &Path) -> Result<Vec<(OsString, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| cannot_open(folder, &e))? {
        let entry = entry.map_err(|e| cannot_read(folder, &e))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            found.push((entry.file_name(), entry.path()));
        }
    }
    found.sort();
    Ok(found)
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
