//! Inference of the kinds of columns from the rows of a table.

use std::collections::BTreeSet;

use super::schema::{ColumnKind, is_missing, parse_boolean, parse_number};

/// Largest number of texts of a column that is inferred as a category.
pub(super) const MAX_CATEGORIES: usize = 50;
/// Number of rows from which a column that counts them is told from a coincidence.
const COUNTED_ROWS: u64 = 20;
/// Whole numbers up to which 32-bit features are exact, and up to which a cell is read exactly.
const EXACT_F32: f64 = 16_777_216.0;
const EXACT_F64: f64 = 9_007_199_254_740_992.0;

/// What the cells of a column are.
#[derive(Default)]
pub(super) struct ColumnStatistics {
    rows: u64,
    missing: u64,
    numbers: u64,
    booleans: u64,
    /// The first cell that is neither, and its line.
    first_text: Option<(u64, String)>,
    /// Different texts, up to one more than [`MAX_CATEGORIES`].
    texts: BTreeSet<String>,
    /// Whether the cells count the rows, from 0 or from 1.
    counts: Option<u64>,
    is_counting: bool,
    /// A whole number that a 32-bit feature rounds.
    pub(super) rounded: Option<String>,
}

impl ColumnStatistics {
    /// Adds a cell, without blanks around it, and the line of its row.
    pub(super) fn add(&mut self, cell: &str, line: u64, decimal_comma: bool) {
        if self.rows == 0 {
            self.counts = cell.parse().ok().filter(|first| *first <= 1);
            self.is_counting = self.counts.is_some();
        }
        let expected = self.counts.map(|first| first + self.rows);
        self.is_counting &= expected.is_some() && cell.parse().ok() == expected;
        self.rows += 1;
        if is_missing(cell) {
            self.missing += 1;
            return;
        }
        if let Some(number) = parse_number(cell, decimal_comma) {
            self.numbers += 1;
            let size = number.abs();
            let differs = f64::from(number as f32) != number || size >= EXACT_F64;
            let is_rounded = size > EXACT_F32 && number.fract() == 0.0 && differs;
            if is_rounded && self.rounded.is_none() {
                self.rounded = Some(cell.to_owned());
            }
            return;
        }
        if parse_boolean(cell).is_some() {
            self.booleans += 1;
        }
        self.first_text.get_or_insert_with(|| (line, cell.to_owned()));
        if self.texts.len() <= MAX_CATEGORIES && !self.texts.contains(cell) {
            self.texts.insert(cell.to_owned());
        }
    }

    /// Returns whether all cells are empty or missing.
    pub(super) fn is_empty(&self) -> bool {
        self.missing == self.rows
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Returns whether the cells are the numbers of the rows, from 0 or from 1.
    pub(super) fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// Returns whether the cells count so many rows that it is no coincidence.
    pub(super) fn counts_rows(&self) -> bool {
        self.is_counting && self.rows >= COUNTED_ROWS
    }

    /// Returns the kind of the column. The error is the line and the cell that contradict the
    /// others, or that begin a column of too many texts, and the reason.
    pub(super) fn kind(&self) -> std::result::Result<ColumnKind, (u64, String, String)> {
        let present = self.rows - self.missing;
        let Some((line, cell)) = &self.first_text else {
            return Ok(ColumnKind::Number { range: None });
        };
        if self.booleans == present {
            return Ok(ColumnKind::Boolean);
        }
        let reason = if self.numbers > 0 {
            "is not a number, as other cells of the column are".to_owned()
        } else if self.texts.len() > MAX_CATEGORIES {
            format!("is one of more than {MAX_CATEGORIES} different texts")
        } else {
            let values = self.texts.iter().cloned().collect();
            return Ok(ColumnKind::Category { values, read_from_data: true });
        };
        Err((*line, cell.clone(), reason))
    }
}
