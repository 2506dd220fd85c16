//! Counts of removed outputs.

use std::fmt;

use serde_json::{Value, json};

use super::rules::Removal;

/// Kinds that are counted: the key in the mark of a copy, and the words for one and for several.
const KINDS: [(&str, &str, &str); 6] = [
    ("figures", "figure", "figures"),
    ("parts", "figure or table in part", "figures or tables in part"),
    ("tables", "table", "tables"),
    ("lines", "line of text", "lines of text"),
    ("errors", "error message", "error messages"),
    ("metadata", "entry of metadata", "entries of metadata"),
];

/// Counts of what was removed from a cell or a notebook, one for each of [`KINDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedactionCounts([usize; KINDS.len()]);

impl RedactionCounts {
    /// Adds what was removed from one output: text by its lines, anything else as one.
    pub fn add(&mut self, removed: Removal) {
        // The place in the list of kinds.
        let (kind, count) = match removed {
            Removal::Figure => (0, 1),
            Removal::PartOfFigure => (1, 1),
            Removal::Table => (2, 1),
            Removal::Text(lines) => (3, lines),
            Removal::Error => (4, 1),
            Removal::Metadata => (5, 1),
        };
        self.0[kind] += count;
    }

    /// Returns the sums of both counts.
    pub fn merged_with(self, other: Self) -> Self {
        Self(std::array::from_fn(|kind| self.0[kind] + other.0[kind]))
    }

    /// Returns the mark of a redacted copy, for its metadata.
    pub fn to_mark(self) -> Value {
        let mut mark = json!({ "version": env!("CARGO_PKG_VERSION") });
        for ((key, ..), count) in KINDS.iter().zip(self.0) {
            mark[*key] = count.into();
        }
        mark
    }

    /// Returns the counts in the mark of an earlier copy, zero without one.
    pub fn from_mark(mark: &Value) -> Self {
        let count = |key: &str| mark[key].as_u64().and_then(|count| u32::try_from(count).ok());
        Self(KINDS.map(|(key, ..)| count(key).unwrap_or_default() as usize))
    }
}

/// Formats the counts: `2 figures, 1 figure or table in part, 3 lines of text`.
impl fmt::Display for RedactionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = KINDS.iter().zip(self.0).filter(|(_, count)| *count > 0);
        let all: Vec<String> = counted
            .map(|((_, one, more), count)| {
                format!("{count} {}", if count == 1 { one } else { more })
            })
            .collect();
        f.write_str(&if all.is_empty() { "nothing".to_owned() } else { all.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_gives_its_counts_back_and_a_damaged_one_counts_as_none() {
        let mut counts = RedactionCounts::default();
        for removed in [Removal::Figure, Removal::Text(3), Removal::Metadata] {
            counts.add(removed);
        }
        assert_eq!(RedactionCounts::from_mark(&counts.to_mark()), counts);
        assert_eq!(counts.to_string(), "1 figure, 3 lines of text, 1 entry of metadata");
        let damaged = json!({ "figures": -1, "lines": "3", "parts": u64::MAX });
        assert_eq!(RedactionCounts::from_mark(&damaged).to_string(), "nothing");
    }
}
