//! The label column of a table.

use std::collections::HashMap;
use std::path::Path;

use super::schema::parse_number;
use super::{CLASSES, CLASSES_FIX};
use crate::data::decompressed_file::corrupt;
use crate::data::digest::format_count;
use crate::{Error, Result};

/// Largest number of classes that are numbers, in a table of few rows.
const MOST_NUMBERED_CLASSES: f64 = 100.0;

/// Returns the index of the label column, and checks the header.
pub(in crate::data) fn label_column(path: &Path, columns: &[String], label: &str) -> Result<usize> {
    let named = |i: &usize| !columns[*i].is_empty();
    let repeated = (1..columns.len()).filter(named).find(|&i| columns[..i].contains(&columns[i]));
    if let Some(i) = repeated {
        let what = format!("line 1: two columns are named `{}`", columns[i]);
        return Err(corrupt(path, what)
            .fix("the first line must be a header with a different name for each column"));
    }
    let found = find_column(path, columns, "label", label)?;
    if columns.len() < 2 {
        let what = format!("`{label}` is its only column");
        return Err(
            corrupt(path, what).fix("the file needs at least one feature column besides the label")
        );
    }
    Ok(found)
}

/// Returns the index of a column.
///
/// # Errors
/// `Setting` with the name of `setting` if there is no such column.
pub(in crate::data) fn find_column(
    path: &Path,
    columns: &[String],
    setting: &str,
    name: &str,
) -> Result<usize> {
    if let Some(found) = columns.iter().position(|column| column == name) {
        return Ok(found);
    }
    let why = format!(
        "{} has no such column; its columns are {}",
        path.display(),
        if columns.is_empty() { "none (is it empty?)".into() } else { columns.join(", ") }
    );
    let near = columns.iter().find(|column| column.eq_ignore_ascii_case(name.trim()));
    let fix = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "choose one of these; the first line of the file must be a header".to_owned(),
    };
    Err(Error::setting(setting, format!("`{name}`"), why).fix(fix))
}

/// The label column of a table that is being read.
#[derive(Default)]
pub(in crate::data) struct Labels {
    /// The index of each label, in the order of first use.
    numbers: HashMap<String, u32>,
    column: Vec<u32>,
}

impl Labels {
    /// Adds the label of a row.
    pub(in crate::data) fn add(&mut self, label: &str) {
        let next = self.numbers.len() as u32;
        let number = match self.numbers.get(label) {
            Some(&number) => number,
            None => *self.numbers.entry(label.to_owned()).or_insert(next),
        };
        self.column.push(number);
    }

    /// Checks that the labels are not values of a quantity, such as a price.
    ///
    /// # Errors
    /// `CorruptData` for numbers with a fraction, and for more different whole numbers than 100 and
    /// than the square root of the number of rows.
    pub(in crate::data) fn check_not_quantity(&self, path: &Path, column: &str) -> Result<()> {
        let numbers: Option<Vec<(&str, f64)>> = self
            .numbers
            .keys()
            .map(|label| Some((label.as_str(), parse_number(label, true)?)))
            .collect();
        let Some(numbers) = numbers else { return Ok(()) };
        let most = MOST_NUMBERED_CLASSES.max((self.column.len() as f64).sqrt());
        let fraction = numbers.iter().find(|(_, number)| number.fract() != 0.0);
        let reason = match fraction {
            Some((label, _)) => format!("the numbers have fractions, such as {label}"),
            None if numbers.len() as f64 > most => {
                format!("the column has {} different numbers", format_count(numbers.len()))
            }
            None => return Ok(()),
        };
        let what = format!("column `{column}` is a quantity, not the name of a class: {reason}");
        Err(corrupt(path, what).fix(
            "choose another label column, or replace the numbers by classes, such as low and high. \
             If each number is a class, use data::table(…).as_classes() or --as-classes",
        ))
    }

    /// Returns the names of the classes, sorted as numbers if all are whole numbers and otherwise
    /// as text, and the class of each row.
    ///
    /// # Errors
    /// `CorruptData` for too few or too many classes.
    pub(in crate::data) fn classes(
        self,
        path: &Path,
        column: &str,
    ) -> Result<(Vec<String>, Vec<u32>)> {
        if !CLASSES.contains(&self.numbers.len()) {
            let (names, rows) = (format_count(self.numbers.len()), format_count(self.column.len()));
            let what = format!("column `{column}` holds {names} different labels in {rows} rows");
            return Err(corrupt(path, what).fix(CLASSES_FIX));
        }
        let mut sorted: Vec<(String, u32)> = self.numbers.into_iter().collect();
        sorted.sort();
        if sorted.iter().all(|(name, _)| name.parse::<i64>().is_ok()) {
            sorted.sort_by_key(|(name, _)| name.parse::<i64>().unwrap_or_default());
        }
        let mut class_of = vec![0; sorted.len()];
        (0..).zip(&sorted).for_each(|(class, (_, number))| class_of[*number as usize] = class);
        let labels = self.column.into_iter().map(|number| class_of[number as usize]).collect();
        Ok((sorted.into_iter().map(|(name, _)| name).collect(), labels))
    }
}
