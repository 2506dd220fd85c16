//! Texts from CSV files: one's own, and AG News.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::TextOptions;
use crate::data::dataset::Dataset;
use crate::data::digest::{count, hex};
use crate::data::examples::Examples;
use crate::data::find::{self, AG_NEWS, Found};
use crate::data::table::{CLASSES, CLASSES_FIX, csv_error, label_column, sorted_classes, stem};
use crate::data::unpack::{cannot_open, corrupt};
use crate::{Error, Result};

/// A text data set from a CSV file with a header: the column `label` names the class, the columns
/// `text` hold the text, read one after another.
///
/// Labels may be any text, numbered in sorted order as by [`csv`](crate::data::csv). A text may be
/// empty. All rows go into the training part; a test part comes by [`Dataset::split`]. What an
/// embedding needs is in [`Dataset::vocabulary`].
///
/// # Guarantee
/// With the default vocabulary each row depends on its own text only. [`Dataset::origin`], the
/// name of the ledger, is made of the raw texts and labels: reading them with other options does
/// not give a new ledger.
///
/// # Errors
/// [`MissingData`](crate::ErrorKind::MissingData) if there is no such file;
/// [`Setting`](crate::ErrorKind::Setting) for a column that is not there or options out of range;
/// [`CorruptData`](crate::ErrorKind::CorruptData) names the line that can't be used.
pub fn text_csv(
    path: impl AsRef<Path>,
    label: &str,
    text: &[&str],
    options: &TextOptions,
) -> Result<Dataset> {
    options.check()?;
    let path = path.as_ref();
    let file = File::open(path).map_err(|e| cannot_open(path, &e))?;
    let mut reader = ::csv::ReaderBuilder::new().from_reader(file);
    let header = reader.headers().map_err(|e| csv_error(path, &e))?.clone();
    let columns: Vec<&str> =
        header.iter().map(|name| name.trim_start_matches('\u{feff}').trim()).collect();
    let label_column = label_column(path, &columns, label)?;
    if text.is_empty() {
        let why = "at least one column must hold the text";
        return Err(Error::setting("text", "[]", why).fix("for instance &[\"title\", \"body\"]"));
    }
    let place = |name: &&str| {
        columns.iter().position(|column| column == name).ok_or_else(|| {
            let why = format!("there is no such column; there are {}", columns.join(", "));
            Error::setting("text", format!("`{name}`"), why).fix("give columns of the header")
        })
    };
    let text_columns = text.iter().map(place).collect::<Result<Vec<usize>>>()?;

    let mut rows = Rows::new(options);
    let mut labels = Vec::new();
    let mut record = ::csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|e| csv_error(path, &e))? {
        let label = record[label_column].trim();
        if label.is_empty() {
            let line = record.position().map_or(0, ::csv::Position::line);
            let column = columns[label_column];
            let what = format!("line {line}, column `{column}`: the cell is empty");
            return Err(corrupt(path, what).fix("give each row a label, or leave it out"));
        }
        rows.add(label, text_columns.iter().map(|&column| &record[column]));
        labels.push(label.to_owned());
    }
    let names = sorted_classes(&labels);
    if !CLASSES.contains(&names.len()) {
        let (names, rows) = (count(names.len()), count(labels.len()));
        let what = format!("column `{label}` holds {names} different labels in {rows} rows");
        return Err(corrupt(path, what).fix(CLASSES_FIX));
    }
    let number: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let labels = labels.iter().map(|label| number[label.as_str()]).collect();
    let source = format!(
        "CSV file {}, label column `{label}`, text of `{}`; {options}.",
        path.display(),
        text.join("`, `")
    );
    let (train, origin) = rows.done(labels);
    let test = Examples::new(&[options.length], Vec::new(), Vec::new());
    Ok(dataset((stem(path), source), names, (train, test), origin, options))
}

/// AG News: 120,000 + 7,600 short news articles (title and description) of 4 classes.
///
/// Looks for `train.csv` and `test.csv` in the subfolder `ag_news_csv` of `$EPSILAB_DATA`, then of
/// `datasets/` in the current folder and those above. Without `train.csv`, the largest other
/// `train….csv` is used; without `test.csv`, there is no test part. The name then says how many
/// training rows there are, and [`Dataset::source`] what is missing.
///
/// # Guarantee
/// As [`text_csv`].
///
/// # Errors
/// [`MissingData`](crate::ErrorKind::MissingData) says where it was looked for and how to get it;
/// [`CorruptData`](crate::ErrorKind::CorruptData) names the line that is not
/// `"class 1 to 4","title","description"`.
pub fn ag_news(options: &TextOptions) -> Result<Dataset> {
    read_ag_news(AG_NEWS.find_parts(&find::roots())?, options)
}

/// AG News from this very folder. Else as [`ag_news`].
///
/// # Errors
/// As [`ag_news`].
pub fn ag_news_in(folder: impl AsRef<Path>, options: &TextOptions) -> Result<Dataset> {
    read_ag_news(AG_NEWS.find_parts_in(&[folder.as_ref().to_path_buf()])?, options)
}

const TOPICS: [&str; 4] = ["World", "Sports", "Business", "Sci/Tech"];
/// Rows of the complete training and test file.
const AG_SIZES: (usize, usize) = (120_000, 7_600);

fn read_ag_news(found: Found, options: &TextOptions) -> Result<Dataset> {
    options.check()?;
    let (train, origin) = ag_news_rows(&found.train[0], options)?;
    let test = match found.rest.first() {
        Some(path) => ag_news_rows(path, options)?.0,
        None => Examples::new(&[options.length], Vec::new(), Vec::new()),
    };
    let mut name = AG_NEWS.name.to_owned();
    let mut source = format!("Rows of {}", found.train[0].display());
    found.rest.iter().for_each(|path| source += &format!(" and {}", path.display()));
    source += &format!("; {options}.");
    if (train.len(), test.len()) != AG_SIZES {
        name += &format!(" ({} training rows)", count(train.len()));
        source += " Only a part of AG News: results can't be compared with published ones";
        if !found.missing.is_empty() {
            source += &format!("; not there: {}", found.missing.join(", "));
        }
        source += ".";
        if test.is_empty() {
            source += " No test part: .split(0.8, 7) makes one.";
        }
    }
    let names = TOPICS.map(String::from).to_vec();
    Ok(dataset((name, source), names, (train, test), origin, options))
}

fn ag_news_rows(path: &Path, options: &TextOptions) -> Result<(Examples, String)> {
    let file = File::open(path).map_err(|e| cannot_open(path, &e))?;
    let mut reader =
        ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file);
    let mut rows = Rows::new(options);
    let mut labels = Vec::new();
    let mut record = ::csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|e| csv_error(path, &e))? {
        let line = record.position().map_or(0, ::csv::Position::line);
        if record.len() != 3 {
            let what = format!("line {line}: {} cells, 3 expected", record.len());
            return Err(corrupt(path, what).fix("rows are \"class\",\"title\",\"description\""));
        }
        let Some(class) = record[0].parse().ok().filter(|class| (1..=TOPICS.len()).contains(class))
        else {
            let what = format!("line {line}: class `{}`, 1 to 4 expected", &record[0]);
            return Err(corrupt(path, what).fix("rows are \"class\",\"title\",\"description\""));
        };
        rows.add(&record[0], record.iter().skip(1));
        labels.push(class as u32 - 1);
    }
    if labels.is_empty() {
        return Err(corrupt(path, "it holds no rows"));
    }
    Ok(rows.done(labels))
}

/// Rows as they are read: their features, and the hash of what they were made of.
struct Rows<'a> {
    options: &'a TextOptions,
    features: Vec<f32>,
    origin: Sha256,
}

impl<'a> Rows<'a> {
    fn new(options: &'a TextOptions) -> Self {
        let mut origin = Sha256::new();
        origin.update(b"epsilab texts 1\n");
        Self { options, features: Vec::new(), origin }
    }

    fn add<'t>(&mut self, label: &str, texts: impl Iterator<Item = &'t str> + Clone) {
        // Lengths go in as well, so that no two rows can read alike.
        let mut piece = |text: &str| {
            self.origin.update((text.len() as u64).to_le_bytes());
            self.origin.update(text);
        };
        piece(label);
        texts.clone().for_each(&mut piece);
        self.options.encode(texts, &mut self.features);
    }

    fn done(self, labels: Vec<u32>) -> (Examples, String) {
        let examples = Examples::new(&[self.options.length], self.features, labels);
        (examples, hex(&self.origin.finalize()))
    }
}

fn dataset(
    (name, source): (String, String),
    class_names: Vec<String>,
    (train, test): (Examples, Examples),
    origin: String,
    options: &TextOptions,
) -> Dataset {
    Dataset::new(name, source, class_names, train, test)
        .with_origin(origin)
        .with_vocabulary(options.vocabulary.clone())
}
