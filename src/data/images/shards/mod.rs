//! Tar shards in the layout of WebDataset, read in place. Begin with `tar_shards`. `parts` assigns
//! shards to the training and the test part, `samples` finds the images of a shard with their
//! labels, and `archive` lists the members of a tar file.

mod archive;
mod samples;
mod shard_parts;

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::listing::ImageListing;
use super::location::ImageLocation;
use super::options::ImageOptions;
use crate::data::dataset::Dataset;
use crate::data::decompressed_file::{corrupt, read_raw};
use crate::data::digest::{format_count, pluralise};
use crate::data::progress::ProgressPrinter;
use crate::data::table::{CLASSES, CLASSES_FIX};
use crate::{Error, ErrorKind, Result};
use samples::{Shard, list_shard};
use shard_parts::ShardParts;

/// The names of the classes, one per line, in the order of their numbers.
const NAMES: &str = "classes.txt";

/// Creates a data set from tar files of images in the layout of [WebDataset], for sets larger than
/// memory. Each image `KEY.jpg` (`.jpeg`, `.png`, `.webp`) has its class number, from 0, in
/// `KEY.cls`.
///
/// `path` is one shard (a file that ends in `.tar`) or a folder of shards. These folders are read,
/// and [`Dataset::source`] says which one was found:
///
/// - `train/*.tar` and, optionally, `test/*.tar` (or `val/`; where both exist, `val/` is not read);
/// - `*.tar`, where there is no `train/`. Where names of shards contain `test`, `val`, `valid` or
///   `validation` as a word, these are the test part, and the names of all others contain `train`.
///   Otherwise all images are training examples, and [`Dataset::split`] makes a test part.
///
/// `classes.txt` beside the shards may name the classes, one per line. Without it there are as many
/// classes as the largest label of the training part says. The classes and their number count as
/// public.
///
/// ```
/// use epsilab::data::{self, ImageOptions};
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// # let mut shard = tar::Builder::new(std::fs::File::create(folder.join("0.tar")).unwrap());
/// # for class in [0, 1] {
/// #     let mut png = std::io::Cursor::new(Vec::new());
/// #     image::RgbImage::new(2, 2).write_to(&mut png, image::ImageFormat::Png).unwrap();
/// #     let label = class.to_string().into_bytes();
/// #     for (ending, bytes) in [("png", png.into_inner()), ("cls", label)] {
/// #         let mut header = tar::Header::new_ustar();
/// #         header.set_size(bytes.len() as u64);
/// #         shard.append_data(&mut header, format!("{class}.{ending}"), &bytes[..]).unwrap();
/// #     }
/// # }
/// # shard.into_inner().unwrap();
/// let photos = data::tar_shards(folder, &ImageOptions::size(64))?;   // a folder with *.tar
/// assert_eq!((photos.train().len(), photos.shape()), (2, &[3, 64, 64][..]));
/// # Ok::<(), epsilab::Error>(())
/// ```
///
/// The shards are not unpacked. Opening them lists the members, and reads and decodes each image
/// once, as [`image_folder`](super::image_folder) does with files; a batch reads the bytes of its
/// images where they are. Members with other endings are skipped. So are hidden ones and folders.
///
/// # Guarantee
/// That of [`image_folder`](super::image_folder): [`Dataset::origin`] is the same hash of the same
/// images, so they keep their ledger in whichever form they are read. Every image is compared with
/// its hash whenever it is decoded.
///
/// # Errors
/// [`ErrorKind::MissingData`] if there are no shards; [`ErrorKind::CorruptData`] for a shard that
/// is cut short, packed, or not a tar archive, for members that are links, sparse files, archives
/// or have paths that lead outside, for keys without an image or a label and keys that occur twice,
/// for labels that are no class numbers or out of range, and for damaged images;
/// [`ErrorKind::Setting`] for options out of range.
///
/// [WebDataset]: https://github.com/webdataset/webdataset
pub fn tar_shards(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Dataset> {
    let (path, form) = (path.as_ref(), options.checked()?);
    let parts = ShardParts::find(path)?;
    let progress = ProgressPrinter::new("shards listed", parts.train.len() + parts.test.len());
    let mut skipped = 0;
    let mut listed = |shards: &[PathBuf]| -> Result<Vec<(ImageLocation, u32)>> {
        let all: Vec<Result<Shard>> = shards
            .par_iter()
            .map(|path| {
                let listed = list_shard(path);
                progress.increment();
                listed
            })
            .collect();
        let mut samples = Vec::new();
        for shard in all {
            let shard = shard?;
            skipped += shard.skipped;
            samples.extend(shard.samples);
        }
        Ok(samples)
    };
    let (train, test) = (listed(&parts.train)?, listed(&parts.test)?);
    if train.is_empty() {
        let why = "no shard of the training part has an image";
        return Err(Error::new(ErrorKind::MissingData, path.display().to_string(), why)
            .fix("a shard has members KEY.jpg, .png or .webp, and KEY.cls with their labels"));
    }
    let class_names = class_names(path, &train)?;
    check_labels(class_names.len(), train.iter().chain(&test))?;
    let mut remark = parts.remark;
    if skipped > 0 {
        let (members, are) =
            (pluralise(skipped, "member"), if skipped == 1 { "is" } else { "are" });
        remark += &format!(" Skipped: {members} that {are} neither an image nor a label.");
    }
    let set =
        ImageListing { path, description: parts.description, remark, class_names, train, test };
    set.into_dataset(form)
}

/// Returns the names of the classes: of the file, or numbers up to the largest label.
fn class_names(path: &Path, train: &[(ImageLocation, u32)]) -> Result<Vec<String>> {
    /// Largest file of names in bytes.
    const LARGEST: usize = 16 << 20;
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let file = folder.unwrap_or(path).join(NAMES);
    if !file.exists() {
        let classes = train.iter().map(|(_, label)| *label as usize + 1).max().unwrap_or(0);
        if !CLASSES.contains(&classes) {
            return Err(corrupt(path, "all labels are 0").fix(CLASSES_FIX));
        }
        return Ok((0..classes).map(|class| class.to_string()).collect());
    }
    let wrong = |what: String| corrupt(&file, what).fix("write the name of one class in each line");
    let text = String::from_utf8(read_raw(&file, LARGEST)?)
        .map_err(|_| wrong("a list of classes that is not UTF-8".to_owned()))?;
    let names: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    if !CLASSES.contains(&names.len()) {
        return Err(wrong(format!("{} in the list of classes", pluralise(names.len(), "line"))));
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    match sorted.windows(2).find(|two| two[0] == two[1] || two[0].is_empty()) {
        Some(two) if two[0].is_empty() => Err(wrong("a class without a name".to_owned())),
        Some(two) => Err(wrong(format!("two classes of the name `{}`", two[0]))),
        None => Ok(names),
    }
}

/// Checks that each label is below the number of classes.
fn check_labels<'a>(
    classes: usize,
    mut samples: impl Iterator<Item = &'a (ImageLocation, u32)>,
) -> Result<()> {
    let wrong = samples.find(|(_, label)| *label as usize >= classes);
    let Some((location, label)) = wrong else { return Ok(()) };
    let (label, last) = (format_count(label), format_count(classes - 1));
    let what = format!("the label is {label}, but classes are numbered from 0 to {last}");
    Err(location.corrupt(what).fix(format!(
        "correct the label, or name all classes in {NAMES} beside the shards; without it the \
         training part has an example of the last class"
    )))
}
