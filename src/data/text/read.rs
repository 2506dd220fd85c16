//! The user's own texts, from CSV files and from memory.

use std::path::Path;

use super::TextOptions;
use crate::data::csv_records::CsvRecords;
use crate::data::dataset::Dataset;
use crate::data::decompressed_file::{MAX_FEATURES, corrupt};
use crate::data::digest::format_count;
use crate::data::examples::Examples;
use crate::data::origin::CellHasher;
use crate::data::table::{Labels, empty, from_vecs, label_column, stem};
use crate::{Error, Result};

/// Reads a text data set from a CSV file (plain or gzip) with a header: the column `label` names
/// the class, and the columns `text` hold the text, concatenated in this order.
///
/// Labels may be any text, numbered in sorted order as by [`csv`](crate::data::csv). A text may be
/// empty. All rows are training examples; [`Dataset::split`] makes a test part.
/// [`Dataset::vocabulary`] has the number of entries that an embedding needs.
///
/// # Guarantee
/// With the default vocabulary each row depends on its own text only. [`Dataset::origin`], the
/// name of the ledger, is a hash of all cells of all rows below the header, used or not: other
/// options and other text or label columns keep the ledger. A file with other rows or columns has a
/// ledger of its own.
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
    let mut records = CsvRecords::open_table(path, None)?;
    let columns = records.columns()?;
    let label_column = label_column(path, &columns, label)?;
    if text.is_empty() {
        let why = "at least one column must hold the text";
        return Err(Error::setting("text", "[]", why).fix("for instance &[\"title\", \"body\"]"));
    }
    let position_of = |name: &&str| {
        columns.iter().position(|column| column == *name).ok_or_else(|| {
            let why = format!("there is no such column; there are {}", columns.join(", "));
            Error::setting("text", format!("`{name}`"), why).fix("give columns of the header")
        })
    };
    let text_columns = text.iter().map(position_of).collect::<Result<Vec<usize>>>()?;

    let (mut features, mut labels) = (Vec::new(), Labels::default());
    while let Some((line, record)) = records.next(features.len())? {
        let label = record[label_column].trim();
        if label.is_empty() {
            let column = &columns[label_column];
            let what = format!("line {line}, column `{column}`: the cell is empty");
            return Err(corrupt(path, what).fix("give each row a label, or leave the row out"));
        }
        options.encode(text_columns.iter().map(|&column| &record[column]), &mut features);
        labels.add(label);
    }
    labels.check_not_quantity(path, label)?;
    let (names, labels) = labels.classes(path, label)?;
    let source = format!(
        "CSV file {}, label column `{label}`, text of `{}`; {options}.",
        path.display(),
        text.join("`, `")
    );
    let shape = [options.length];
    let train = Examples::new(&shape, features, labels);
    let data = Dataset::new(stem(path), source, names, train, empty(&shape));
    Ok(data.with_origin(records.origin()).with_vocabulary(options.vocabulary.clone()))
}

/// Creates a text data set from texts in memory, with labels below `classes`.
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
/// As [`text_csv`], but a hash of the texts names the ledger. Other options and other labels keep
/// it; texts of the same people that are split or ordered differently start a new one.
///
/// # Errors
/// `Setting` for options out of range, and if texts, labels and classes don't fit together;
/// `CorruptData` if a label is out of range.
pub fn from_texts(
    texts: &[impl AsRef<str>],
    labels: Vec<u32>,
    classes: usize,
    options: &TextOptions,
) -> Result<Dataset> {
    options.check()?;
    if texts.len() != labels.len() {
        let why = format!("there are {} labels", format_count(labels.len()));
        return Err(
            Error::setting("texts", format_count(texts.len()), why).fix("give one label per text")
        );
    }
    if texts.len().saturating_mul(options.length) > MAX_FEATURES {
        let (texts, most) = (format_count(texts.len()), format_count(MAX_FEATURES));
        let why =
            format!("this number of words for {texts} texts exceeds the limit of {most} in memory");
        return Err(Error::setting("length", options.length, why).fix("use fewer words per text"));
    }
    let (mut features, mut cells) = (Vec::new(), CellHasher::new());
    for text in texts {
        let text = text.as_ref();
        cells.add_row(std::iter::once(text));
        options.encode(std::iter::once(text), &mut features);
    }
    let shape = [options.length];
    let table = from_vecs(features, &shape, labels, classes)?;
    let source = format!("Texts given by the program; {options}.");
    let names = table.class_names().to_vec();
    let (train, test) = (table.train().clone(), table.test().clone());
    let data = Dataset::new("texts", source, names, train, test);
    Ok(data.with_origin(cells.finish()).with_vocabulary(options.vocabulary.clone()))
}
