//! The data of a run: a data set by name, a folder of images, or a table.

use std::path::Path;

use epsilab::data::{self, Dataset, ImageOptions};
use epsilab::{Error, Result};

use crate::options::{self, DATA};

/// Parts of the data that do not depend on the run: a seed of the split that never changes.
const SPLIT_SEED: u64 = 0;

/// Options of the data.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct DataArgs {
    /// glyphs, patterns, sentences, mnist, fashion_mnist, cifar10, cifar100, ag_news; a folder of
    /// images with one subfolder per class (or train/ and test/ with such subfolders); a table
    /// FILE.csv of numeric features [default: glyphs]
    #[arg(long, value_name = "NAME|FOLDER|FILE.csv")]
    data: Option<String>,
    /// Column of a table that names the class [default: label]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Pixels along each side that images of a folder are resized to [default: 32]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    image_size: Option<i64>,
    /// Keep about this fraction of the training examples, and test on the others. Data of your own
    /// that have no test part give no accuracy without it
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
        options::check_parts(self.train, self.test)?;
        let name = self.data.as_deref().unwrap_or("glyphs");
        let known = DATA.iter().find(|(known, _)| *known == name);
        let is_table = known.is_none() && [".csv", ".csv.gz"].iter().any(|end| name.ends_with(end));
        let is_folder = known.is_none() && !is_table && Path::new(name).is_dir();
        for (option, given, applies, of) in [
            ("--label", self.label.is_some(), is_table, "a table FILE.csv"),
            ("--image-size", self.image_size.is_some(), is_folder, "a folder of images"),
        ] {
            if given && !applies {
                let why = format!("it is an option of {of}");
                return Err(Error::setting(option, "given", why).fix("leave it out"));
            }
        }
        let data = match known {
            Some((_, read)) => read()?,
            None if is_table => data::csv(name, self.label.as_deref().unwrap_or("label"))?,
            None if is_folder => {
                let side = options::count("--image-size", self.image_size)?.unwrap_or(32);
                data::image_folder(name, &ImageOptions::size(side))?
            }
            None => {
                let names: Vec<&str> = DATA.iter().map(|(known, _)| *known).collect();
                let why = "there is no data set and no folder of this name";
                return Err(Error::setting("--data", name, why).fix(format!(
                    "choose from {}, or name a folder of images or a file that ends in .csv",
                    names.join(", ")
                )));
            }
        };
        let data = match self.split {
            Some(share) => data.split(share, SPLIT_SEED)?,
            None => data,
        };
        options::cut(&data, self.train, self.test)
    }
}
