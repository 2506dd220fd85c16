//! Conversion of the listed images of a training and a test part to a data set.

use std::path::Path;

use super::files::ImageFiles;
use super::location::ImageLocation;
use super::options::ImageOptions;
use crate::data::dataset::Dataset;
use crate::data::digest::format_count;
use crate::data::examples::Examples;
use crate::data::table::stem;
use crate::{Error, Result};

/// The images of a data set with their labels, before they are read.
pub(super) struct ImageListing<'a> {
    pub(super) path: &'a Path,
    /// The layout in words.
    pub(super) description: String,
    /// Sentence on the test part, with a space before it; may be empty.
    pub(super) remark: &'static str,
    /// Sentences on what the reader left out or assumed.
    pub(super) notices: Vec<String>,
    pub(super) class_names: Vec<String>,
    pub(super) train: Vec<(ImageLocation, u32)>,
    pub(super) test: Vec<(ImageLocation, u32)>,
}

impl ImageListing<'_> {
    /// Reads every image once.
    ///
    /// # Errors
    /// One error for all images that can't be used, of both parts.
    pub(super) fn into_dataset(self, form: ImageOptions) -> Result<Dataset> {
        let ImageOptions { side, mean, std, .. } = form;
        let notices = self.notices.iter().map(|notice| format!(" {notice}"));
        let source = format!(
            "Images of {}: {}, the middle of each at {side}x{side} pixels, features (x / 255 - \
             {mean}) / {std}.{}{}",
            self.path.display(),
            self.description,
            self.remark,
            notices.collect::<String>()
        );
        let all = self.train.len();
        if u32::try_from(all + self.test.len()).is_err() {
            let why = "indices of examples are 32-bit numbers";
            return Err(Error::setting("images", format_count(all), why).fix("give fewer"));
        }
        let (places, mut train_labels): (Vec<_>, Vec<_>) =
            self.train.into_iter().chain(self.test).unzip();
        let test_labels = train_labels.split_off(all);
        let [train, test] = ImageFiles::open(places, form)?.split_at(all);
        let origin = train.origin();
        let train = Examples::in_files(train, train_labels);
        let test = if test_labels.is_empty() {
            Examples::new(&form.shape(), Vec::new(), Vec::new())
        } else {
            Examples::in_files(test, test_labels)
        };
        let data = Dataset::new(stem(self.path), source, self.class_names, train, test);
        Ok(data.with_origin(origin).with_notices(self.notices))
    }
}
