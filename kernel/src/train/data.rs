//! The data of a run: a data set by name, images in a folder or in tar shards, or a table.

use std::path::{Path, PathBuf};

use epsilab::data::{self, Dataset, ImageOptions};
use epsilab::{Error, Result};

use crate::folder::entries;
use crate::options::{self, DATASETS, suggest_names};
use crate::train::table_args::TableArgs;

/// Seed of the split of the data, which never changes, so that the parts do not depend on the run.
const SPLIT_SEED: u64 = 0;

/// Options of the data.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct DataArgs {
    /// glyphs, patterns, sentences, mnist, fashion_mnist, cifar10, cifar100, ag_news; a folder of
    /// images with one subfolder per class (or train/ and test/ with such subfolders; test/ may be
    /// called val/ or valid/); a folder of WebDataset shards *.tar (or train/ and test/ with
    /// shards), or one FILE.tar; a table with a header, such as FILE.csv, FILE.tsv or FILE.csv.gz
    /// [default: glyphs]
    #[arg(long, value_name = "NAME|FOLDER|FILE.tar|FILE.csv")]
    data: Option<String>,
    #[command(flatten)]
    table: TableArgs,
    /// Pixels along each side that images of a folder or of shards are resized to [default: 32]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    image_size: Option<i64>,
    /// Keep about this fraction of the training examples, and test on the others. Without it, data
    /// without a test part give no accuracy
    #[arg(long, value_name = "FRACTION", allow_hyphen_values = true)]
    split: Option<f64>,
    /// Use about N of the training examples, chosen by their content
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    train: Option<i64>,
    /// Use only the first N test examples
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    test: Option<i64>,
}

impl DataArgs {
    /// Reads the data.
    ///
    /// # Errors
    /// Kind `Setting` for an unknown name or an option that these data do not have; errors of
    /// reading files.
    pub fn read(&self) -> Result<Dataset> {
        let (train, test) = self.parts()?;
        let name = self.data.as_deref().unwrap_or("glyphs");
        let known = DATASETS.iter().find(|(known, _)| *known == name);
        let is_images = known.is_none() && is_image_source(Path::new(name));
        let is_table = known.is_none() && !is_images && is_table(Path::new(name));
        let of_images = [("--image-size", self.image_size.is_some())];
        let of_tables = self.table.given();
        let misplaced =
            [("images in files", is_images, &of_images[..]), ("a table", is_table, &of_tables[..])];
        for (source, _, options) in misplaced.into_iter().filter(|(_, applies, _)| !applies) {
            if let Some((option, _)) = options.iter().find(|(_, given)| *given) {
                let why = format!("only {source} can have this option");
                return Err(Error::setting(option, "given", why).fix("leave it out"));
            }
        }
        let data = match known {
            Some((_, read)) => read()?,
            None if is_table => self.table.read(Path::new(name))?,
            None if is_images => {
                let side =
                    options::non_negative_count("--image-size", self.image_size)?.unwrap_or(32);
                let options = ImageOptions::size(side);
                if has_shards(Path::new(name)) {
                    data::tar_shards(name, &options)?
                } else {
                    data::image_folder(name, &options)?
                }
            }
            None => {
                let names: Vec<&str> = DATASETS.iter().map(|(known, _)| *known).collect();
                let why = "no data set or folder has this name";
                return Err(Error::setting("--data", name, why).fix(format!(
                    "{}, or name a folder of images, a .tar file of images or a table such as \
                     FILE.csv",
                    suggest_names(name, &names)
                )));
            }
        };
        data.notices().iter().for_each(|notice| eprintln!("{notice}"));
        let data =
            self.split.iter().try_fold(data, |data, share| data.split(*share, SPLIT_SEED))?;
        let (train, test) =
            (train.unwrap_or(data.train().len()), test.unwrap_or(data.test().len()));
        Ok(data.limit(train, test))
    }
    /// Returns the requested numbers of examples of both parts, if any number is given.
    ///
    /// # Errors
    /// Kind `Setting` if a part would be empty.
    fn parts(&self) -> Result<(Option<usize>, Option<usize>)> {
        let part = |name, examples| match options::non_negative_count(name, examples)? {
            Some(0) => {
                Err(Error::setting(name, 0, "training and accuracy need examples in both parts")
                    .fix("use one or more"))
            }
            count => Ok(count),
        };
        Ok((part("--train", self.train)?, part("--test", self.test)?))
    }
}

/// Returns whether the path is that of a table: a file, or a name that only a table has.
fn is_table(path: &Path) -> bool {
    const ENDINGS: [&str; 6] = [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".parquet"];
    let name = path.to_string_lossy().to_lowercase();
    path.is_file() || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Returns whether the path is a folder, or a shard.
fn is_image_source(path: &Path) -> bool {
    path.is_dir() || (path.is_file() && is_shard(path))
}

fn is_shard(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tar"))
}

/// Returns whether the path is a shard, or a folder whose training part consists of shards: files
/// and no folders.
fn has_shards(path: &Path) -> bool {
    let is_train = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        path.is_dir() && ["train", "training"].iter().any(|train| name.eq_ignore_ascii_case(train))
    };
    let train = entries(path).find(is_train);
    let is_shown =
        |path: &PathBuf| path.file_name().is_some_and(|n| !n.as_encoded_bytes().starts_with(b"."));
    let entries = entries(train.as_deref().unwrap_or(path)).filter(is_shown);
    let entries: Vec<PathBuf> = entries.collect();
    let is_plain = !entries.iter().any(|entry| entry.is_dir());
    is_shard(path) || (is_plain && entries.iter().any(|entry| is_shard(entry)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn shards_are_distinguished_from_class_folders() {
        let found = |files: &[&str]| {
            let root = tempfile::tempdir().unwrap();
            for name in files {
                let path = root.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, []).unwrap();
            }
            has_shards(root.path())
        };
        assert!(found(&["0.tar", "classes.txt", ".hidden/x"]));
        assert!(found(&["Train/0.tar"]) && found(&["training/0.tar", "valid/0.tar"]));
        assert!(found(&["train/0.TAR", "test/0.tar"]) && has_shards(Path::new("/nowhere/0.tar")));
        assert!(!found(&["cat/1.jpg", "dog/1.jpg", "all.tar"]), "an archive beside the folders");
        assert!(!found(&["train/cat/1.jpg", "0.tar"]) && !found(&["train/.0.tar"]));
    }

    #[test]
    fn shards_and_folders_are_read_by_their_paths() {
        let root = tempfile::tempdir().unwrap();
        let read = |data: &str, size: Option<i64>| {
            let data = Some(root.path().join(data).to_string_lossy().into_owned());
            let table = TableArgs::default();
            DataArgs { data, table, image_size: size, split: None, train: None, test: None }.read()
        };
        let image = include_bytes!("../../../tests/data/images/grey.jpg");
        for class in ["a", "b"] {
            let folder = root.path().join("folder").join(class);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("1.jpg"), image).unwrap();
        }
        assert_eq!(read("folder", Some(8)).unwrap().shape(), [3, 8, 8]);
        assert_eq!(read("folder", None).unwrap().shape(), [3, 32, 32]);
        fs::write(root.path().join("s.tar"), []).unwrap();
        assert!(read("s.tar", Some(8)).unwrap_err().to_string().contains("no end marker"));
        fs::write(root.path().join("x.csv"), "a,label\n1,x\n2,y\n").unwrap();
        assert!(read("x.csv", Some(8)).unwrap_err().to_string().contains("images in files"));
    }
}
