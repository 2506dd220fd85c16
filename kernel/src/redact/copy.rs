//! The copy of a notebook without what may not be published.

use std::fmt;

use serde_json::{Value, json};

use super::rules::{Removed, Rules};
use crate::run::notebook::text_of;

/// A redacted notebook, and what was removed from it.
pub struct Copy {
    /// The notebook in the form of nbformat 4.
    pub notebook: Value,
    /// The cells from which something was removed: their place in words, and what.
    pub cells: Vec<(String, Counts)>,
    /// Number of outputs that stay although they contain evaluations on the test part.
    pub test_parts: usize,
    /// Places of outputs that stay although their runs were in study mode.
    pub study_mode: Vec<String>,
    /// The saved states of widgets were removed.
    pub had_widgets: bool,
    /// No output says what it reveals: the notebook is from another kernel.
    pub is_unmarked: bool,
}

/// What was removed, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    figures: usize,
    parts: usize,
    tables: usize,
    lines: usize,
    errors: usize,
}

impl Copy {
    /// Applies the rules to all outputs.
    pub fn of(notebook: &Value, rules: Rules) -> Self {
        let mut copy = Self {
            notebook: notebook.clone(),
            cells: Vec::new(),
            test_parts: 0,
            study_mode: Vec::new(),
            had_widgets: false,
            is_unmarked: true,
        };
        let (mut outputs, mut marked) = (0, 0);
        let mut cells = copy.notebook["cells"].take();
        for (index, cell) in cells.as_array_mut().into_iter().flatten().enumerate() {
            let before = cell["outputs"].as_array().cloned().unwrap_or_default();
            if cell["cell_type"] != "code" || before.is_empty() {
                continue;
            }
            outputs += before.len();
            marked +=
                before.iter().filter(|output| !output["metadata"]["epsilab"].is_null()).count();
            let place = place(cell, index);
            let (after, counts) = copy.redact(&before, rules, &place);
            cell["outputs"] = after.into();
            if counts != Counts::default() {
                copy.cells.push((place, counts));
            }
        }
        copy.notebook["cells"] = cells;
        copy.is_unmarked = outputs > 0 && marked == 0;
        if let Some(metadata) = copy.notebook["metadata"].as_object_mut() {
            copy.had_widgets = metadata.remove("widgets").is_some();
        }
        copy
    }

    fn redact(&mut self, outputs: &[Value], rules: Rules, place: &str) -> (Vec<Value>, Counts) {
        let (mut after, mut counts) = (Vec::new(), Counts::default());
        let mut gap = None;
        for output in outputs {
            let redacted = rules.apply(output);
            if let Some(removed) = redacted.removed {
                gap.get_or_insert(after.len());
                counts.add(removed);
            }
            self.test_parts += usize::from(redacted.has_test_part);
            if redacted.has_study_mode {
                self.study_mode.push(place.to_owned());
            }
            after.extend(redacted.left);
        }
        if let Some(gap) = gap {
            let text = format!("[removed before publication: {counts}]");
            let note = json!({ "output_type": "display_data", "data": { "text/plain": [text] },
                "metadata": { "epsilab": { "coverage": "public" } } });
            after.insert(gap, note);
        }
        (after, counts)
    }

    /// What was removed from all cells.
    pub fn total(&self) -> Counts {
        self.cells.iter().fold(Counts::default(), |total, (_, counts)| total.and(*counts))
    }

    /// Whether something was removed.
    pub fn is_changed(&self) -> bool {
        self.had_widgets || !self.cells.is_empty()
    }
}

/// The number of a cell as notebooks show it, else its position.
fn place(cell: &Value, index: usize) -> String {
    match cell["execution_count"].as_u64() {
        Some(count) => format!("In [{count}]"),
        None => {
            let source = text_of(&cell["source"]);
            let line: String = source.lines().next().unwrap_or_default().chars().take(40).collect();
            format!("cell {} ({line})", index + 1)
        }
    }
}

impl Counts {
    fn add(&mut self, removed: Removed) {
        match removed {
            Removed::Figure => self.figures += 1,
            Removed::Part => self.parts += 1,
            Removed::Table => self.tables += 1,
            Removed::Text(lines) => self.lines += lines,
            Removed::Error => self.errors += 1,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            figures: self.figures + other.figures,
            parts: self.parts + other.parts,
            tables: self.tables + other.tables,
            lines: self.lines + other.lines,
            errors: self.errors + other.errors,
        }
    }
}

/// `2 figures, part of 1 figure or table, 3 lines of text`.
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
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        f.write_str(if all.is_empty() { "nothing" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(kind: u64, coverage: u64, mark: &str) -> Value {
        let names = ["public", "covered", "test_part", "unmarked", "not_covered", "odd"];
        let name = names[(coverage % 6) as usize];
        let mark = match name {
            "public" | "covered" | "test_part" => "fine".to_owned(),
            _ => mark.to_owned(),
        };
        let part = |name: &str, mark: &str| {
            json!({ "data": { "text/plain": mark, "image/svg+xml": mark },
                "metadata": { "epsilab": { "coverage": name } } })
        };
        match kind % 5 {
            0 => json!({ "output_type": "stream", "name": "stdout", "text": ["secret\n"] }),
            1 => json!({ "output_type": "error", "ename": "E", "evalue": "secret",
                "traceback": ["secret"] }),
            2 => json!({ "output_type": "execute_result", "execution_count": 1,
                "data": { "text/plain": [mark] },
                "metadata": { "epsilab": { "coverage": name } } }),
            3 => json!({ "output_type": "display_data",
                "data": { "text/plain": mark, "text/html": mark, "image/png": mark },
                "metadata": { "epsilab": { "coverage": name, "covered_part": part("covered", "fine") },
                    "x": "secret" } }),
            _ => json!({ "output_type": "display_data",
                "data": { "text/plain": mark, "application/vnd.vegalite.v5+json": { "a": mark } },
                "metadata": { "epsilab": { "coverage": name,
                    "covered_part": part("not_covered", "secret") } } }),
        }
    }

    fn notebook(seed: u64) -> Value {
        let cell = |c: u64| {
            let outputs: Vec<Value> = (0..(seed + c) % 4)
                .map(|o| {
                    let mixed = (seed * 31 + c * 17 + o * 7).wrapping_mul(2_654_435_761);
                    output(mixed >> 7, mixed >> 11, "secret")
                })
                .collect();
            json!({ "cell_type": "code", "source": "run", "execution_count": c,
                "metadata": {}, "outputs": outputs })
        };
        json!({ "cells": (0..5).map(cell).collect::<Vec<_>>(),
            "metadata": { "widgets": { "state": "secret" } }, "nbformat": 4 })
    }

    #[test]
    fn nothing_that_is_not_covered_is_anywhere_in_the_copy_and_a_copy_of_it_is_the_same() {
        let mut removed = 0;
        for seed in 0..300 {
            let original = notebook(seed);
            let copy = Copy::of(&original, Rules::default());
            let text = copy.notebook.to_string();
            assert!(!text.contains("secret"), "{seed}: {text}");
            let again = Copy::of(&copy.notebook, Rules::default());
            assert_eq!(again.notebook, copy.notebook, "{seed}");
            assert!(!again.is_changed(), "{seed}");
            removed += copy.cells.len();
        }
        assert!(removed > 300, "the notebooks have something to remove");
    }

    #[test]
    fn readers_see_where_something_was_removed() {
        let stream = json!({ "output_type": "stream", "name": "stdout", "text": "a\nb\n" });
        let original = json!({ "metadata": {}, "cells": [
            { "cell_type": "markdown", "source": "prose" },
            { "cell_type": "code", "source": "f(&data)", "execution_count": null,
              "outputs": [output(2, 0, ""), stream, output(3, 4, "secret")] },
        ] });
        let copy = Copy::of(&original, Rules::default());
        let outputs = &copy.notebook["cells"][1]["outputs"];
        let said = "[removed before publication: 1 figure or table in part, 2 lines of text]";
        assert_eq!(outputs[1]["data"]["text/plain"][0], said);
        assert_eq!(outputs[2]["data"]["text/plain"], json!(["fine"]));
        assert_eq!(copy.cells[0].0, "cell 2 (f(&data))");
        assert_eq!(copy.total().to_string(), "1 figure or table in part, 2 lines of text");
        assert!(!copy.is_unmarked);
    }

    #[test]
    fn a_notebook_of_another_kernel_is_noticed() {
        let bare = json!({ "output_type": "execute_result", "data": { "text/plain": "1" },
            "metadata": {}, "execution_count": 1 });
        let notebook = |outputs: Vec<Value>| {
            json!({ "metadata": {}, "cells": [{ "cell_type": "code", "source": "1",
                "outputs": outputs }] })
        };
        assert!(Copy::of(&notebook(vec![bare.clone()]), Rules::default()).is_unmarked);
        let marked = notebook(vec![bare, output(2, 3, "")]);
        assert!(!Copy::of(&marked, Rules::default()).is_unmarked);
        assert!(!Copy::of(&notebook(vec![]), Rules::default()).is_unmarked);
    }
}
