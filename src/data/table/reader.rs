//! [`TableReader`]: reads a CSV table by a schema, part of which it infers.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::inference::ColumnStatistics;
use super::labels::{Labels, find_column, label_column};
use super::schema::{ColumnKind, ColumnSchema, MissingRule, TableSchema, check_range};
use super::{empty, stem};
use crate::data::csv_records::CsvRecords;
use crate::data::dataset::Dataset;
use crate::data::decompressed_file::corrupt;
use crate::data::digest::pluralise;
use crate::data::examples::Examples;
use crate::{Error, Result};

/// Number of columns that the description of the source names.
const DESCRIBED_COLUMNS: usize = 20;

/// Returns a reader of a table, plain or gzip, with a header. The column `label` names the class;
/// the kinds of the other columns are declared or inferred. [`TableReader::read`] reads it.
///
/// ```no_run
/// use epsilab::prelude::*;
/// let adult = data::table("adult.csv")
///     .label("income")
///     .ignore("id")
///     .category("sex", ["Female", "Male"])
///     .scale("age", 0.0..=100.0)
///     .missing("hours", data::MissingRule::Flag)
///     .read()?;
/// println!("{}", adult.source()); // what each column is
/// # Ok::<(), Error>(())
/// ```
pub fn table(path: impl AsRef<Path>) -> TableReader {
    TableReader {
        path: path.as_ref().to_path_buf(),
        label: None,
        separator: None,
        schema: None,
        kinds: Vec::new(),
        missing: Vec::new(),
        as_classes: false,
    }
}

/// Reads a table whose columns need no declaration: [`table`] with this label column.
///
/// # Guarantee
/// As [`TableReader::read`].
///
/// # Errors
/// `MissingData` if there is no such file; `Setting` if it has no such column; `CorruptData` names
/// the line and the column that can't be used.
pub fn csv(path: impl AsRef<Path>, label: &str) -> Result<Dataset> {
    table(path).label(label).read()
}

/// Reader of a table; [`table`] creates it.
///
/// Cells are separated by commas, semicolons, tabs or `|`, whichever the header has; where that is
/// no comma, numbers may have a decimal comma. A byte order mark, comment lines (`#`) above the
/// header, quotes and Windows line ends are understood. Empty cells, `?`, `NA`, `N/A`, `NaN` and
/// `null` are missing values.
///
/// Kinds that are not declared are inferred from the rows: number, boolean, or a category of at
/// most 50 texts. A first column without a name that counts the rows is ignored.
/// [`Dataset::schema`] has the kinds, and [`Dataset::notices`] what was ignored.
#[derive(Clone, Debug)]
pub struct TableReader {
    path: PathBuf,
    label: Option<String>,
    separator: Option<char>,
    schema: Option<TableSchema>,
    kinds: Vec<(String, ColumnKind)>,
    missing: Vec<(String, MissingRule)>,
    as_classes: bool,
}

impl TableReader {
    /// Sets the column that names the class. The default is that of the schema, or `label`.
    pub fn label(self, column: impl Into<String>) -> Self {
        Self { label: Some(column.into()), ..self }
    }

    /// Leaves a column out.
    pub fn ignore(self, column: impl Into<String>) -> Self {
        self.kind(column, ColumnKind::Ignore)
    }

    /// Declares the texts of a column, which are public: one feature for each, and one for all
    /// other texts and missing values.
    pub fn category(
        self,
        column: impl Into<String>,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let values = values.into_iter().map(|value| value.into().trim().to_owned()).collect();
        self.kind(column, ColumnKind::Category { values, read_from_data: false })
    }

    /// Declares that a column has numbers in this range, which is public and becomes 0 to 1.
    /// Numbers outside of it become 0 or 1.
    pub fn scale(self, column: impl Into<String>, range: RangeInclusive<f64>) -> Self {
        let range = Some((*range.start(), *range.end()));
        self.kind(column, ColumnKind::Number { range })
    }

    /// Declares the kind of a column; the last declaration counts.
    pub fn kind(mut self, column: impl Into<String>, kind: ColumnKind) -> Self {
        self.kinds.push((column.into(), kind));
        self
    }

    /// Sets what stands for a missing value of a column of numbers or booleans. Without a rule, a
    /// missing value is an error.
    pub fn missing(mut self, column: impl Into<String>, rule: MissingRule) -> Self {
        self.missing.push((column.into(), rule));
        self
    }

    /// Sets the separator of cells, instead of that of the header.
    pub fn separator(self, separator: char) -> Self {
        Self { separator: Some(separator), ..self }
    }

    /// Declares all columns by a schema, such as that of another file. Features have its order,
    /// whatever that of the file; other declarations replace its own.
    pub fn schema(self, schema: TableSchema) -> Self {
        Self { schema: Some(schema), ..self }
    }

    /// Takes every number of the label column as the name of a class, also if they look like a
    /// quantity.
    pub fn as_classes(self) -> Self {
        Self { as_classes: true, ..self }
    }

    /// Reads the table. All rows are training examples; [`Dataset::split`] makes a test part.
    ///
    /// Labels may be any text; classes are numbered in sorted order (as numbers if all are whole
    /// numbers), and [`Dataset::class_names`] keeps the text. Labels that are a quantity are
    /// refused. The set of classes counts as public, and so do the names and kinds of the columns.
    ///
    /// # Guarantee
    /// Each example depends on its own row and on the schema. If categories were read from the
    /// rows, no epsilon covers runs on the data ([`Dataset::not_covered_reason`]): declare them to
    /// change that. [`Dataset::origin`], the name of the ledger, is a hash of all cells of all rows
    /// below the header, whatever the schema ignores or scales; reading by
    /// [`text_csv`](crate::data::text_csv) keeps it. A file with other rows or columns has a ledger
    /// of its own.
    ///
    /// # Errors
    /// `MissingData` if there is no such file; `Setting` for a column that does not exist or a
    /// declaration that can't be; `CorruptData` names the line and the column that can't be used.
    pub fn read(&self) -> Result<Dataset> {
        let path = &self.path;
        let mut records = CsvRecords::open_table(path, self.separator_byte()?)?;
        let header = records.columns()?;
        let label_name = match (&self.label, &self.schema) {
            (Some(label), _) => label,
            (None, Some(schema)) => &schema.label,
            (None, None) => "label",
        };
        let label = label_column(path, &header, label_name)?;
        let mut columns = self.declared_columns(&header, label)?;
        let mut notices = Vec::new();
        let mut rows = 0;
        if columns.iter().any(|column| column.schema.is_none()) {
            let statistics = self.statistics(header.len())?;
            rows = statistics.first().map_or(0, ColumnStatistics::rows);
            for column in &mut columns {
                let found = &statistics[column.index];
                let rule = self.rule(&column.name);
                notices.extend(column.infer(path, found, rule)?);
            }
        }
        let schema = TableSchema {
            label: label_name.to_owned(),
            columns: columns.iter().filter_map(|column| column.schema.clone()).collect(),
        };
        let width: usize = schema.columns.iter().map(ColumnSchema::width).sum();
        if width == 0 {
            let what = format!("no column besides `{label_name}` is a feature");
            return Err(corrupt(path, what).fix("there must be at least one that is not ignored"));
        }
        let EncodedRows { features, labels, other_counts } =
            encode(path, &mut records, &columns, (label, label_name), width * rows)?;
        if !self.as_classes {
            labels.check_not_quantity(path, label_name)?;
        }
        let (names, labels) = labels.classes(path, label_name)?;
        notices.extend(other_texts(&columns, &other_counts));
        let read = schema.columns_read_from_data().join("`, `");
        let train = Examples::new(&[width], features, labels);
        let source = describe(path, &schema);
        let data = Dataset::new(stem(path), source, names, train, empty(&[width]));
        let data = data.with_schema(schema).with_origin(records.origin());
        if read.is_empty() {
            return Ok(data.with_notices(notices));
        }
        notices.push(format!(
            "the categories of `{read}` were read from the rows, so no epsilon covers runs on \
             these data; a public list changes that: .category(\"column\", [\"A\", \"B\"]), \
             --category column=A,B"
        ));
        let reason = format!("the categories of `{read}` were read from its rows");
        Ok(data.with_notices(notices).prepared_from_private_examples(reason))
    }

    fn separator_byte(&self) -> Result<Option<u8>> {
        let Some(separator) = self.separator else { return Ok(None) };
        match u8::try_from(separator) {
            Ok(byte) if byte.is_ascii() && byte != b'"' => Ok(Some(byte)),
            _ => {
                let why = "the separator of cells must be one ASCII character other than a quote";
                Err(Error::setting("separator", format!("`{separator}`"), why)
                    .fix("use , or ; or | or a tab"))
            }
        }
    }

    /// Returns the columns beside the label, with the declared schemas, in the order of their
    /// features.
    fn declared_columns(&self, header: &[String], label: usize) -> Result<Vec<TableColumn>> {
        let path = &self.path;
        let given = self.schema.iter().flat_map(|schema| &schema.columns);
        let mut columns = Vec::new();
        for schema in given {
            if schema.kind == ColumnKind::Ignore && !header.contains(&schema.name) {
                continue;
            }
            let index = find_column(path, header, "schema", &schema.name)?;
            let name = schema.name.clone();
            columns.push(TableColumn { index, name, schema: Some(schema.clone()) });
        }
        for (index, name) in header.iter().enumerate().filter(|(index, _)| *index != label) {
            if columns.iter().any(|column| column.index == index) {
                continue;
            }
            if self.schema.is_some() {
                let what = format!("column `{name}` is not in the schema");
                return Err(corrupt(path, what)
                    .fix("add it to the schema, for instance with the kind \"ignore\""));
            }
            columns.push(TableColumn { index, name: name.clone(), schema: None });
        }
        columns.retain(|column| column.index != label);
        let declared = self.kinds.iter().map(|(name, kind)| (name, Some(kind)));
        let missing = self.missing.iter().map(|(name, _)| (name, None));
        for (name, kind) in declared.chain(missing) {
            let index = find_column(path, header, "column", name)?;
            let Some(column) = columns.iter_mut().find(|column| column.index == index) else {
                let why = "the label column is not a feature";
                return Err(Error::setting("column", format!("`{name}`"), why)
                    .fix("declare other columns, or choose another label column"));
            };
            if let Some(kind) = kind {
                if let ColumnKind::Number { range: Some((low, high)) } = kind {
                    check_range(name, &(*low..=*high))?;
                }
                let kept = column.schema.as_ref().and_then(|schema| schema.missing);
                let schema = ColumnSchema::new(name, kind.clone());
                column.schema = Some(ColumnSchema { missing: kept, ..schema });
            }
            if let (Some(schema), Some(rule)) = (&mut column.schema, self.rule(name)) {
                schema.missing = Some(rule);
            }
        }
        Ok(columns)
    }

    /// Returns the rule for missing values of a column, if one was declared.
    fn rule(&self, column: &str) -> Option<MissingRule> {
        self.missing.iter().rev().find(|(name, _)| name == column).map(|(_, rule)| *rule)
    }

    /// Reads all rows to learn what the cells of each column are.
    fn statistics(&self, columns: usize) -> Result<Vec<ColumnStatistics>> {
        let mut records = CsvRecords::open_table(&self.path, self.separator_byte()?)?;
        records.columns()?;
        let decimal_comma = records.has_decimal_commas();
        let mut all: Vec<_> = (0..columns).map(|_| ColumnStatistics::default()).collect();
        while let Some((line, record)) = records.next_unhashed()? {
            for (column, cell) in all.iter_mut().zip(record) {
                column.add(cell.trim(), line, decimal_comma);
            }
        }
        Ok(all)
    }
}

/// A column of a file that is being read.
struct TableColumn {
    /// Its index in the file.
    index: usize,
    /// Its name in the header.
    name: String,
    /// Its schema, once it is known.
    schema: Option<ColumnSchema>,
}

impl TableColumn {
    /// Infers the schema of a column that has none, and returns a notice if it may not be what the
    /// user expects.
    ///
    /// # Errors
    /// `CorruptData` for a column that is no number, boolean or category.
    fn infer(
        &mut self,
        path: &Path,
        found: &ColumnStatistics,
        missing: Option<MissingRule>,
    ) -> Result<Option<String>> {
        if self.schema.is_some() {
            return Ok(None);
        }
        let (name, number) = (&self.name, self.index + 1);
        let is_index = self.index == 0 && (name.is_empty() || name.starts_with("Unnamed: "));
        if (is_index && found.is_counting()) || (name.is_empty() && found.is_empty()) {
            let reason = if found.is_empty() { "has no cells" } else { "counts the rows" };
            self.schema = Some(ColumnSchema::new(name, ColumnKind::Ignore));
            return Ok(Some(format!(
                "column {number} has no name and {reason}: it is ignored and not a feature"
            )));
        }
        if name.is_empty() {
            let what = format!("column {number} has no name");
            return Err(corrupt(path, what).fix("give each column a name in the first line"));
        }
        if found.is_empty() {
            let what = format!("column `{name}` has no values");
            return Err(corrupt(path, what)
                .fix(format!("leave it out: .ignore(\"{name}\"), --ignore {name}")));
        }
        let kind = found.kind().map_err(|(line, cell, reason)| {
            let what = format!("line {line}, column `{name}`: `{cell}` {reason}");
            corrupt(path, what).fix(format!(
                "correct the cell, leave the column out (.ignore(\"{name}\"), --ignore {name}), or \
                 name its texts (.category(\"{name}\", [\"A\", \"B\"]), --category {name}=A,B). \
                 Texts of many words are read by data::text_csv"
            ))
        })?;
        self.schema = Some(ColumnSchema { missing, ..ColumnSchema::new(name, kind) });
        Ok(self.doubt(found))
    }

    /// Returns a notice on numbers that may be no quantity.
    fn doubt(&self, found: &ColumnStatistics) -> Option<String> {
        let name = &self.name;
        if found.counts_rows() {
            return Some(format!(
                "column `{name}` counts the rows and is used as a feature; if it only numbers the \
                 rows, leave it out: .ignore(\"{name}\"), --ignore {name}"
            ));
        }
        let rounded = found.rounded.as_ref()?;
        Some(format!(
            "column `{name}` has whole numbers that 32-bit features round, such as {rounded}; if \
             they only name the rows, leave it out: .ignore(\"{name}\"), --ignore {name}"
        ))
    }
}

/// Features and labels of all rows.
struct EncodedRows {
    features: Vec<f32>,
    labels: Labels,
    /// For each column, the number of cells that are none of its categories.
    other_counts: Vec<usize>,
}

/// Encodes all rows; `capacity` is the number of features, if it is known.
fn encode(
    path: &Path,
    records: &mut CsvRecords<'_>,
    columns: &[TableColumn],
    (label, label_name): (usize, &str),
    capacity: usize,
) -> Result<EncodedRows> {
    let decimal_comma = records.has_decimal_commas();
    let mut features = Vec::with_capacity(capacity);
    let mut labels = Labels::default();
    let mut other_counts = vec![0; columns.len()];
    while let Some((line, record)) = records.next(features.len())? {
        for (column, others) in columns.iter().zip(&mut other_counts) {
            let (cell, Some(schema)) = (record[column.index].trim(), &column.schema) else {
                continue;
            };
            schema.encode(cell, decimal_comma, &mut features).map_err(|(why, fix)| {
                corrupt(path, format!("line {line}, column `{}`: {why}", column.name)).fix(fix)
            })?;
            let is_category = matches!(schema.kind, ColumnKind::Category { .. });
            *others += usize::from(is_category && features.last() == Some(&1.0));
        }
        let cell = record[label].trim();
        if cell.is_empty() {
            let what = format!("line {line}, column `{label_name}`: the cell is empty");
            return Err(corrupt(path, what).fix("give each row a label, or leave the row out"));
        }
        labels.add(cell);
    }
    Ok(EncodedRows { features, labels, other_counts })
}

/// Returns a notice for each column with cells that are none of its categories.
fn other_texts<'a>(
    columns: &'a [TableColumn],
    others: &'a [usize],
) -> impl Iterator<Item = String> + 'a {
    let some = columns.iter().zip(others).filter(|(_, count)| **count > 0);
    some.map(|(column, count)| {
        format!(
            "column `{}`: {} without a text of the list, or missing: the feature is `(other)`",
            column.name,
            pluralise(count, "cell")
        )
    })
}

/// Describes the file and its columns.
fn describe(path: &Path, schema: &TableSchema) -> String {
    let named = schema.columns.iter().take(DESCRIBED_COLUMNS).map(ToString::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match schema.columns.len().saturating_sub(DESCRIBED_COLUMNS) {
        0 => String::new(),
        more => format!(" and {}", pluralise(more, "more column")),
    };
    format!("CSV file {}, label column `{}`. Columns: {named}{more}.", path.display(), schema.label)
}
