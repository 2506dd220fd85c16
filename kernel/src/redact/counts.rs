//! What was removed, in numbers.

use std::fmt;

use serde_json::{Value, json};

use super::rules::Removed;

/// What was removed from a cell or a notebook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    figures: usize,
    parts: usize,
    tables: usize,
    lines: usize,
    errors: usize,
    metadata: usize,
}

impl Counts {
    /// Counts what was removed of one output.
    pub fn add(&mut self, removed: Removed) {
        match removed {
            Removed::Figure => self.figures += 1,
            Removed::Part => self.parts += 1,
            Removed::Table => self.tables += 1,
            Removed::Text(lines) => self.lines += lines,
            Removed::Error => self.errors += 1,
            Removed::Metadata => self.metadata += 1,
        }
    }

    /// The sums of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            figures: self.figures + other.figures,
            parts: self.parts + other.parts,
            tables: self.tables + other.tables,
            lines: self.lines + other.lines,
            errors: self.errors + other.errors,
            metadata: self.metadata + other.metadata,
        }
    }

    /// The mark of a redacted copy, in its metadata.
    pub fn mark(self) -> Value {
        let Self { figures, parts, tables, lines, errors, metadata } = self;
        json!({ "version": env!("CARGO_PKG_VERSION"), "figures": figures, "parts": parts,
            "tables": tables, "lines": lines, "errors": errors, "metadata": metadata })
    }

    /// The counts in the mark of an earlier copy, zero without one.
    pub fn of_mark(mark: &Value) -> Self {
        let count = |name: &str| {
            mark[name].as_u64().and_then(|n| u32::try_from(n).ok()).map_or(0, |n| n as usize)
        };
        Self {
            figures: count("figures"),
            parts: count("parts"),
            tables: count("tables"),
            lines: count("lines"),
            errors: count("errors"),
            metadata: count("metadata"),
        }
    }
}

/// `2 figures, 1 figure or table in part, 3 lines of text`.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: usize, one: &str, more: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {more}")),
        };
        let all = [
            counted(self.figures, "figure", "figures"),
            counted(self.parts, "figure or table in part", "figures or tables in part"),
            counted(self.tables, "table", "tables"),
            counted(self.lines, "line of text", "lines of text"),
            counted(self.errors, "error message", "error messages"),
            counted(self.metadata, "entry of metadata", "entries of metadata"),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        f.write_str(if all.is_empty() { "nothing" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_gives_its_counts_back_and_a_damaged_one_counts_as_none() {
        let mut counts = Counts::default();
        for removed in [Removed::Figure, Removed::Text(3), Removed::Metadata] {
            counts.add(removed);
        }
        assert_eq!(Counts::of_mark(&counts.mark()), counts);
        assert_eq!(counts.to_string(), "1 figure, 3 lines of text, 1 entry of metadata");
        let damaged = json!({ "figures": -1, "lines": "3", "parts": u64::MAX });
        assert_eq!(Counts::of_mark(&damaged).to_string(), "nothing");
    }
}
