//! AG News: the CSV files, complete or in part.

use std::path::Path;

use super::TextOptions;
use crate::Result;
use crate::data::csv_records::CsvRecords;
use crate::data::dataset::Dataset;
use crate::data::decompressed_file::corrupt;
use crate::data::digest::format_count;
use crate::data::examples::Examples;
use crate::data::known_datasets::AG_NEWS;
use crate::data::table::empty;

/// Loads AG News: 120,000 + 7,600 short news articles (title and description) of 4 classes.
///
/// Looks for `train.csv` and `test.csv` (with or without `.gz`) in the subfolder `ag_news_csv` of
/// `$EPSILAB_DATA`, then of `datasets/` in the current folder and those above. Without
/// `train.csv`, the largest other `train….csv` is used; without `test.csv`, there is no test part.
/// The name then says how many training rows there are, and [`Dataset::source`] what is missing. A
/// part has a ledger of its own.
///
/// # Guarantee
/// As [`text_csv`](super::text_csv), which shares the ledger of the same rows below a header.
///
/// # Errors
/// [`MissingData`](crate::ErrorKind::MissingData) lists the folders that were searched and how to
/// get the files; [`CorruptData`](crate::ErrorKind::CorruptData) names the line that is not
/// `"class 1 to 4","title","description"`.
pub fn ag_news(options: &TextOptions) -> Result<Dataset> {
    read_ag_news(None, options)
}

/// Reads AG News from the given folder only; otherwise as [`ag_news`].
///
/// # Errors
/// [`MissingData`](crate::ErrorKind::MissingData) if the folder lacks the files;
/// [`CorruptData`](crate::ErrorKind::CorruptData) names the line that can't be read.
pub fn ag_news_in(folder: impl AsRef<Path>, options: &TextOptions) -> Result<Dataset> {
    read_ag_news(Some(folder.as_ref()), options)
}

const TOPICS: [&str; 4] = ["World", "Sports", "Business", "Sci/Tech"];
const ROWS: &str = "rows are \"class\",\"title\",\"description\"";

/// Number of rows of the complete training and test file.
const AG_SIZES: (usize, usize) = (120_000, 7_600);

fn read_ag_news(folder: Option<&Path>, options: &TextOptions) -> Result<Dataset> {
    let found = AG_NEWS.find(folder)?;
    options.check()?;
    let (train, origin) = ag_news_rows(&found.train[0], options)?;
    let test = match found.test_files.first() {
        Some(path) => ag_news_rows(path, options)?.0,
        None => empty(&[options.length]),
    };
    let mut name = AG_NEWS.name.to_owned();
    let mut source = format!("Rows of {}", found.train[0].display());
    found.test_files.iter().for_each(|path| source += &format!(" and {}", path.display()));
    source += &format!("; {options}.");
    if (train.len(), test.len()) != AG_SIZES {
        name += &format!(" ({} training rows)", format_count(train.len()));
        source += " Only a part of AG News: results can't be compared with published ones";
        source += &found.remark(!test.is_empty());
    }
    let names = TOPICS.map(String::from).to_vec();
    let data = Dataset::new(name, source, names, train, test);
    Ok(data.with_origin(origin).with_vocabulary(options.vocabulary.clone()))
}

fn ag_news_rows(path: &Path, options: &TextOptions) -> Result<(Examples, String)> {
    let mut format = ::csv::ReaderBuilder::new();
    let mut records = CsvRecords::open(path, format.has_headers(false).flexible(true))?;
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    while let Some((line, record)) = records.next(features.len())? {
        if record.len() != 3 {
            let what = format!("line {line}: {} cells, 3 expected", record.len());
            return Err(corrupt(path, what).fix(ROWS));
        }
        let Some(class) = record[0].parse().ok().filter(|class| (1..=TOPICS.len()).contains(class))
        else {
            let what = format!("line {line}: class `{}`, 1 to 4 expected", &record[0]);
            return Err(corrupt(path, what).fix(ROWS));
        };
        options.encode(record.iter().skip(1), &mut features);
        labels.push(class as u32 - 1);
    }
    if labels.is_empty() {
        return Err(corrupt(path, "the file holds no rows"));
    }
    Ok((Examples::new(&[options.length], features, labels), records.origin()))
}
