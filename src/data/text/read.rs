//! Texts of one's own: from CSV files and from memory.

use std::collections::HashMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::TextOptions;
use crate::data::dataset::Dataset;
use crate::data::digest::{count, hex};
use crate::data::examples::Examples;
use crate::data::table::{
    CLASSES, CLASSES_FIX, csv_error, empty, from_vecs, label_column, sorted_classes, stem,
};
use crate::data::unpack::{self, corrupt};
use crate::{Error, Result};

/// A text data set from a CSV file (plain or gzip) with a header: the column `label` names the
/// class, the columns `text` hold the text, read one after another.
///
/// Labels may be any text, numbered in sorted order as by [`csv`](crate::data::csv). A text may be
/// empty. All rows go into the training part; a test part comes by [`Dataset::split`]. What an
/// embedding needs is in [`Dataset::vocabulary`].
///
/// # Guarantee
/// With the default vocabulary each row depends on its own text only. [`Dataset::origin`], the
/// name of the ledger, is made of all cells of all rows below the header, used or not: neither
/// other options nor other columns, for the text or for the label, give a new ledger. A file with
/// other rows or columns has one of its own.
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
    let file = unpack::open(path)?.from;
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
        rows.add(record.iter(), text_columns.iter().map(|&column| &record[column]));
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
    let (features, origin) = rows.done();
    let shape = [options.length];
    let parts = (Examples::new(&shape, features, labels), empty(&shape));
    Ok(dataset((stem(path), source), names, parts, origin, options))
}

/// A text data set from texts in memory, with labels below `classes`.
///
/// ```
/// use epsilab::data::{self, TextOptions};
/// let texts = ["what a fine day", "rain again"];
/// let moods = data::from_texts(&texts, vec![1, 0], 2, &TextOptions::default().length(8))?;
/// assert_eq!(moods.shape(), [8]);
/// # Ok::<(), epsilab::Error>(())
/// ```
///
/// # Guarantee
/// As [`text_csv`], but the program gives texts and labels, and nothing else is known of them: they
/// name the ledger. Other options keep it; the same people's texts cut in another way, or with
/// other labels, begin a new one.
///
/// # Errors
/// As [`from_vecs`](crate::data::from_vecs), and for options out of range.
pub fn from_texts(
    texts: &[impl AsRef<str>],
    labels: Vec<u32>,
    classes: usize,
    options: &TextOptions,
) -> Result<Dataset> {
    options.check()?;
    if texts.len() != labels.len() {
        let why = format!("there are {} labels", count(labels.len()));
        return Err(Error::setting("texts", count(texts.len()), why).fix("give a label per text"));
    }
    let mut rows = Rows::new(options);
    for (text, label) in texts.iter().zip(&labels) {
        let (label, text) = (label.to_string(), text.as_ref());
        rows.add([label.as_str(), text].into_iter(), std::iter::once(text));
    }
    let shape = [options.length];
    let (features, origin) = rows.done();
    let table = from_vecs(features, &shape, labels, classes)?;
    let source = format!("Texts given by the program; {options}.");
    let names = table.class_names().to_vec();
    let parts = (table.train().clone(), table.test().clone());
    Ok(dataset(("texts".into(), source), names, parts, origin, options))
}

/// Rows as they are read: their features, and the hash of everything they hold.
pub(super) struct Rows<'a> {
    options: &'a TextOptions,
    features: Vec<f32>,
    origin: Sha256,
}

impl<'a> Rows<'a> {
    pub(super) fn new(options: &'a TextOptions) -> Self {
        let mut origin = Sha256::new();
        origin.update(b"epsilab texts 2\n");
        Self { options, features: Vec::new(), origin }
    }

    /// One row: all its cells, and those that are the text.
    pub(super) fn add<'t>(
        &mut self,
        cells: impl Iterator<Item = &'t str> + Clone,
        texts: impl Iterator<Item = &'t str>,
    ) {
        // Counts and lengths go in as well, so that no two files can read alike.
        self.origin.update((cells.clone().count() as u64).to_le_bytes());
        for cell in cells {
            self.origin.update((cell.len() as u64).to_le_bytes());
            self.origin.update(cell);
        }
        self.options.encode(texts, &mut self.features);
    }

    /// The features, and the hash.
    pub(super) fn done(self) -> (Vec<f32>, String) {
        (self.features, hex(&self.origin.finalize()))
    }
}

pub(super) fn dataset(
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
