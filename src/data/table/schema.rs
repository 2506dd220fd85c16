//! [`TableSchema`]: what the columns of a table are, and how they become features.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result, file};

/// Texts that stand for a missing value, apart from an empty cell.
const MISSING: [&str; 6] = ["?", "NA", "N/A", "NaN", "nan", "null"];
/// Texts of a boolean column, and the feature of each.
const BOOLEANS: [(&str, f32); 4] = [("true", 1.0), ("false", 0.0), ("yes", 1.0), ("no", 0.0)];

/// Returns whether a cell, without blanks around it, stands for a missing value.
pub(super) fn is_missing(cell: &str) -> bool {
    cell.is_empty() || MISSING.contains(&cell)
}

/// Returns the number in a cell, also one with a decimal comma where that is no separator.
pub(super) fn parse_number(cell: &str, decimal_comma: bool) -> Option<f64> {
    match cell.parse() {
        Err(_) if decimal_comma && cell.matches(',').count() == 1 => {
            cell.replace(',', ".").parse().ok()
        }
        number => number.ok(),
    }
}

/// Returns the feature of a boolean cell.
pub(super) fn parse_boolean(cell: &str) -> Option<f32> {
    BOOLEANS.iter().find(|(text, _)| cell.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
}

/// Kind of a column, which determines its features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ColumnKind {
    /// A number: one feature.
    Number {
        /// Public range that becomes 0 to 1; numbers outside of it become 0 or 1. Without one, the
        /// number itself is the feature.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<(f64, f64)>,
    },
    /// True or false, yes or no: one feature, 1 or 0.
    Boolean,
    /// One of some texts: a feature for each, and one for all other texts and missing values. The
    /// feature of the cell's text is 1, the others are 0.
    Category {
        /// The texts.
        values: Vec<String>,
        /// Whether the texts were read from the rows of the file, which are private.
        #[serde(default)]
        read_from_data: bool,
    },
    /// No feature.
    Ignore,
}

/// Public rule for missing values of a column of numbers or booleans.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingRule {
    /// This value takes the place of a missing one, before scaling.
    Value(f64),
    /// The feature is 0, and a second feature is 1 for missing values and 0 for all others.
    Flag,
}

impl MissingRule {
    /// Returns the number of features beside that of the value.
    pub(super) fn extra_features(self) -> usize {
        usize::from(self == Self::Flag)
    }
}

/// Name, kind and rule of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSchema {
    /// The name in the header.
    pub name: String,
    /// The kind, as declared or as inferred from the rows.
    #[serde(flatten)]
    pub kind: ColumnKind,
    /// The rule for missing values; without one they are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingRule>,
}

/// The label column of a table, and its other columns with their kinds, as they were declared and
/// inferred. What it says is assumed to be public, except categories that were read from the rows.
///
/// ```
/// use epsilab::data::TableSchema;
/// let text = r#"{"label": "income", "columns": [
///     {"name": "age", "kind": "number", "range": [0, 100]},
///     {"name": "sex", "kind": "category", "values": ["Female", "Male"]},
///     {"name": "id", "kind": "ignore"}]}"#;
/// let schema: TableSchema = serde_json::from_str(text).unwrap();
/// assert_eq!(schema.feature_names(), ["age", "sex=Female", "sex=Male", "sex=(other)"]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSchema {
    /// The column that names the class.
    pub label: String,
    /// The other columns, in the order of the file.
    pub columns: Vec<ColumnSchema>,
}

impl TableSchema {
    /// Reads the schema from a JSON file of [`save`](Self::save).
    ///
    /// # Errors
    /// `Io` if the file can't be read; `CorruptData` if it is no schema.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let what = || format!("the schema {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(what(), &e))?;
        serde_json::from_str(&text).map_err(|e| {
            Error::new(ErrorKind::CorruptData, what(), e.to_string()).fix(
                "for instance {\"label\": \"income\", \"columns\": [{\"name\": \"age\", \"kind\": \
                 \"number\", \"range\": [0, 100]}]}; kinds are number, boolean, category, ignore",
            )
        })
    }

    /// Writes the schema as JSON, replacing the file atomically.
    ///
    /// # Errors
    /// `Io` if the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Io, "the schema as JSON", e.to_string()))?;
        file::write(path.as_ref(), text + "\n")
    }

    /// Returns the names of the features: that of the column for a number, `column=text` for a
    /// category.
    pub fn feature_names(&self) -> Vec<String> {
        self.columns.iter().flat_map(ColumnSchema::feature_names).collect()
    }

    /// Returns the columns whose categories were read from the rows.
    pub(super) fn columns_read_from_data(&self) -> Vec<&str> {
        let is_read = |column: &&ColumnSchema| {
            matches!(column.kind, ColumnKind::Category { read_from_data: true, .. })
        };
        self.columns.iter().filter(is_read).map(|column| column.name.as_str()).collect()
    }
}

impl ColumnSchema {
    /// Creates the schema of a column without a rule for missing values.
    pub(super) fn new(name: &str, kind: ColumnKind) -> Self {
        Self { name: name.to_owned(), kind, missing: None }
    }

    fn feature_names(&self) -> Vec<String> {
        let name = &self.name;
        match &self.kind {
            ColumnKind::Ignore => Vec::new(),
            ColumnKind::Category { values, .. } => {
                let values = values.iter().map(String::as_str).chain(["(other)"]);
                values.map(|value| format!("{name}={value}")).collect()
            }
            ColumnKind::Number { .. } | ColumnKind::Boolean => {
                let flag =
                    (self.missing == Some(MissingRule::Flag)).then(|| format!("{name}=(missing)"));
                [name.clone()].into_iter().chain(flag).collect()
            }
        }
    }

    /// Returns the number of features.
    pub(super) fn width(&self) -> usize {
        match &self.kind {
            ColumnKind::Ignore => 0,
            ColumnKind::Category { values, .. } => values.len() + 1,
            ColumnKind::Number { .. } | ColumnKind::Boolean => {
                1 + self.missing.map_or(0, MissingRule::extra_features)
            }
        }
    }

    /// Appends the features of a cell. The error is the reason why the cell can't be used, and what
    /// to do.
    pub(super) fn encode(
        &self,
        cell: &str,
        decimal_comma: bool,
        features: &mut Vec<f32>,
    ) -> std::result::Result<(), (String, String)> {
        match &self.kind {
            ColumnKind::Ignore => Ok(()),
            ColumnKind::Category { values, .. } => {
                let other = values.len();
                let found = values.iter().position(|value| value == cell).unwrap_or(other);
                features.extend((0..=other).map(|i| f32::from(u8::from(i == found))));
                Ok(())
            }
            ColumnKind::Number { range } => {
                let value = self.number(cell, decimal_comma)?;
                self.push(value.map(|value| scale(value, *range)), features);
                Ok(())
            }
            ColumnKind::Boolean => {
                let value = match parse_boolean(cell).or_else(|| zero_or_one(cell)) {
                    Some(value) => Some(value),
                    None => self.missing_value(cell, "is not true or false")?.map(|x| x as f32),
                };
                self.push(value, features);
                Ok(())
            }
        }
    }

    /// Appends a feature, and the flag of missing values if there is one.
    fn push(&self, value: Option<f32>, features: &mut Vec<f32>) {
        features.push(value.unwrap_or(0.0));
        if self.missing == Some(MissingRule::Flag) {
            features.push(f32::from(u8::from(value.is_none())));
        }
    }

    fn number(
        &self,
        cell: &str,
        decimal_comma: bool,
    ) -> std::result::Result<Option<f64>, (String, String)> {
        match parse_number(cell, decimal_comma) {
            Some(value) if (value as f32).is_finite() => Ok(Some(value)),
            Some(_) if !is_missing(cell) => {
                let why = format!("`{cell}` is not a finite 32-bit number");
                Err((why, "give finite 32-bit numbers".to_owned()))
            }
            _ => self.missing_value(cell, "is not a number"),
        }
    }

    /// Returns the value of a missing cell by the rule; `None` for the flag.
    fn missing_value(
        &self,
        cell: &str,
        what: &str,
    ) -> std::result::Result<Option<f64>, (String, String)> {
        let name = &self.name;
        if !is_missing(cell) {
            let fix = format!(
                "correct it, or declare the column with .category(\"{name}\", […]) or \
                 .ignore(\"{name}\"), --category {name}=A,B or --ignore {name}"
            );
            return Err((format!("`{cell}` {what}"), fix));
        }
        match self.missing {
            Some(MissingRule::Value(value)) => Ok(Some(value)),
            Some(MissingRule::Flag) => Ok(None),
            None => {
                let why = match cell {
                    "" => "the cell is empty".to_owned(),
                    cell => format!("`{cell}` stands for a missing value"),
                };
                let fix = format!(
                    "declare its replacement with .missing(\"{name}\", MissingRule::Flag) or \
                     MissingRule::Value(0.0), --missing {name}=flag or --missing {name}=0"
                );
                Err((why, fix))
            }
        }
    }
}

/// Returns 0 and 1 of a column that is declared boolean.
fn zero_or_one(cell: &str) -> Option<f32> {
    match cell {
        "0" => Some(0.0),
        "1" => Some(1.0),
        _ => None,
    }
}

/// Maps a range to 0 to 1, with numbers outside of it at the ends.
fn scale(value: f64, range: Option<(f64, f64)>) -> f32 {
    match range {
        Some((low, high)) => ((value.clamp(low, high) - low) / (high - low)) as f32,
        None => value as f32,
    }
}

/// Checks a range.
///
/// # Errors
/// `Setting` for a range that is empty or not finite.
pub(super) fn check_range(column: &str, range: &RangeInclusive<f64>) -> Result<(f64, f64)> {
    let (low, high) = (*range.start(), *range.end());
    if low.is_finite() && high.is_finite() && low < high {
        return Ok((low, high));
    }
    let why = "a range needs two finite numbers, the smaller one first";
    Err(Error::setting("scale", format!("{column}={low}..{high}"), why)
        .fix("give the smallest and the largest value that the column can have: 0..100"))
}

/// Formats the column: `age (number, 0 to 100 as 0 to 1)`.
impl fmt::Display for ColumnSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (", self.name)?;
        match &self.kind {
            ColumnKind::Number { range: None } => f.write_str("number")?,
            ColumnKind::Number { range: Some((low, high)) } => {
                write!(f, "number, {low} to {high} as 0 to 1")?;
            }
            ColumnKind::Boolean => f.write_str("boolean")?,
            ColumnKind::Category { values, read_from_data } => {
                let read = if *read_from_data { " read from the data" } else { "" };
                write!(f, "{} categories{read}", values.len())?;
            }
            ColumnKind::Ignore => f.write_str("ignored")?,
        }
        match self.missing {
            Some(MissingRule::Value(value)) => write!(f, ", missing as {value})"),
            Some(MissingRule::Flag) => f.write_str(", missing flagged)"),
            None => f.write_str(")"),
        }
    }
}
