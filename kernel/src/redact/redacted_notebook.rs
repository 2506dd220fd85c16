//! Copy of a notebook without outputs that may not be published.

use serde_json::{Value, json};

use super::counts::RedactionCounts;
use super::rules::{RedactionRules, Removal};
use crate::run::notebook::{ensure_object, multiline_to_string};

/// Keys of the metadata of a notebook that stay. `epsilab` holds how it was saved and redacted.
const OF_NOTEBOOK: [&str; 5] = ["authors", "epsilab", "kernelspec", "language_info", "title"];

/// Keys of the metadata of a cell that stay, as nbformat and JupyterLab define them. All others
/// are removed: extensions save outputs there (widgets, charts, both sides of a merge), and times
/// (`execution`, `ExecuteTime`, `papermill`). The time of a private selection tells how many
/// trials it had.
const OF_CELL: [&str; 10] = [
    "collapsed",
    "deletable",
    "editable",
    "format",
    "jupyter",
    "name",
    "scrolled",
    "slideshow",
    "tags",
    "vscode",
];

/// Keys that stay in metadata that are objects.
const OF_OBJECT: [(&str, &[&str]); 3] = [
    ("jupyter", &["outputs_hidden", "source_hidden"]),
    ("slideshow", &["slide_type"]),
    ("vscode", &["languageId"]),
];

/// Redacted notebook, with a record of the removed outputs.
#[derive(Default)]
pub struct RedactedNotebook {
    /// The notebook in the form of nbformat 4.
    pub notebook: Value,
    /// Cells from which something was removed: their place in words, and the counts.
    pub cells: Vec<(String, RedactionCounts)>,
    /// Number of outputs that stay although they contain evaluations on a private test part.
    pub test_part_outputs: usize,
    /// Places of outputs that stay although their runs were in study mode.
    pub study_mode_cells: Vec<String>,
    /// Code cells that set a seed.
    pub seeded_cells: Vec<String>,
    /// Whether no output has a mark of its coverage: the notebook is from another kernel.
    pub is_unmarked: bool,
}

impl RedactedNotebook {
    /// Creates the copy by applying the rules to all outputs.
    pub fn from_notebook(notebook: &Value, rules: RedactionRules) -> Self {
        let mut copy = Self { notebook: notebook.clone(), ..Self::default() };
        let (mut outputs, mut marked) = (0, 0);
        let mut cells = copy.notebook["cells"].take();
        for (index, cell) in cells.as_array_mut().into_iter().flatten().enumerate() {
            let label = cell_label(cell, index);
            if cell["cell_type"] == "code" && sets_seed(&multiline_to_string(&cell["source"])) {
                copy.seeded_cells.push(label.clone());
            }
            let mut counts = remove_unknown_metadata(cell, &OF_CELL);
            // Also those of a cell that should have none, or that are not even a list.
            if let Some(before) = cell.get_mut("outputs").map(Value::take) {
                let before = match before {
                    Value::Array(list) => list,
                    Value::Null => Vec::new(),
                    other => vec![other],
                };
                outputs += before.len();
                marked +=
                    before.iter().filter(|output| !output["metadata"]["epsilab"].is_null()).count();
                let (after, removed) = copy.redact_outputs(&before, rules, &label);
                cell["outputs"] = after.into();
                counts = counts.merged_with(removed);
            }
            if counts != RedactionCounts::default() {
                copy.cells.push((label, counts));
            }
        }
        copy.notebook["cells"] = cells;
        copy.is_unmarked = outputs > 0 && marked == 0;
        let counts = remove_unknown_metadata(&mut copy.notebook, &OF_NOTEBOOK);
        if counts != RedactionCounts::default() {
            copy.cells.push(("metadata of the notebook".to_owned(), counts));
        }
        copy.write_mark();
        copy
    }

    /// Records in the metadata that this is a redacted copy, with the counts of what was removed,
    /// together with those of the copy that it was made from.
    fn write_mark(&mut self) {
        let total = self.total();
        let metadata = ensure_object(&mut self.notebook["metadata"]);
        let epsilab = ensure_object(metadata.entry("epsilab").or_insert(Value::Null));
        let before = epsilab
            .get("redacted")
            .map_or_else(RedactionCounts::default, RedactionCounts::from_mark);
        epsilab.insert("redacted".into(), before.merged_with(total).to_mark());
    }

    fn redact_outputs(
        &mut self,
        outputs: &[Value],
        rules: RedactionRules,
        label: &str,
    ) -> (Vec<Value>, RedactionCounts) {
        let (mut after, mut counts) = (Vec::new(), RedactionCounts::default());
        let mut gap = None;
        for output in outputs {
            let redacted = rules.apply(output);
            if let Some(removed) = redacted.removed {
                gap.get_or_insert(after.len());
                counts.add(removed);
            }
            self.test_part_outputs += usize::from(redacted.has_test_part);
            if redacted.has_study_mode {
                self.study_mode_cells.push(label.to_owned());
            }
            after.extend(redacted.remaining);
        }
        if let Some(gap) = gap {
            let text = format!("[removed before publication: {counts}]");
            let note = json!({ "output_type": "display_data", "data": { "text/plain": [text] },
                "metadata": { "epsilab": { "coverage": "public" } } });
            after.insert(gap, note);
        }
        (after, counts)
    }

    /// Returns the counts of all cells.
    pub fn total(&self) -> RedactionCounts {
        self.cells
            .iter()
            .fold(RedactionCounts::default(), |total, (_, counts)| total.merged_with(*counts))
    }

    /// Returns whether something was removed.
    pub fn is_changed(&self) -> bool {
        !self.cells.is_empty()
    }
}

/// Returns the number of a cell as notebooks show it, else its position.
fn cell_label(cell: &Value, index: usize) -> String {
    match cell["execution_count"].as_u64() {
        Some(count) => format!("In [{count}]"),
        None => {
            let source = multiline_to_string(&cell["source"]);
            let line: String = source.lines().next().unwrap_or_default().chars().take(40).collect();
            format!("cell {} ({line})", index + 1)
        }
    }
}

/// Returns whether the code sets the seed of noise, as far as the text shows it: a statement with
/// `.seed(` that does not build a model, a random mask or data, whose seeds hide nothing.
fn sets_seed(source: &str) -> bool {
    const HARMLESS: [&str; 5] =
        ["models::", ".build()", "RandomMask", "data::glyphs", "data::patterns"];
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    code.split(';').any(|statement| {
        statement.contains(".seed(") && !HARMLESS.iter().any(|name| statement.contains(name))
    })
}

/// Removes the metadata of a cell or notebook that are not among `known`, and the files attached to
/// code, which is no place for them.
fn remove_unknown_metadata(holder: &mut Value, known: &[&str]) -> RedactionCounts {
    let mut counts = RedactionCounts::default();
    let is_code = holder["cell_type"] == "code";
    let Some(holder) = holder.as_object_mut() else { return counts };
    if is_code && holder.remove("attachments").is_some() {
        counts.add(Removal::Metadata);
    }
    let Some(metadata) = holder.get_mut("metadata") else { return counts };
    keep_only(metadata, known, &mut counts);
    for (name, known) in OF_OBJECT {
        if let Some(entries) = metadata.get_mut(name) {
            keep_only(entries, known, &mut counts);
        }
    }
    counts
}

/// Removes the entries of an object that are not among `known`; everything, if it is no object.
fn keep_only(object: &mut Value, known: &[&str], counts: &mut RedactionCounts) {
    let Some(entries) = object.as_object_mut() else {
        *object = json!({});
        return counts.add(Removal::Metadata);
    };
    entries.retain(|name, _| {
        let stays = known.contains(&name.as_str());
        if !stays {
            counts.add(Removal::Metadata);
        }
        stays
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(kind: u64, coverage: u64, mark: &str) -> Value {
        let names = ["public", "covered", "test_part", "unmarked", "not_covered", "odd"];
        let name = names[(coverage % 6) as usize];
        let mark = match name {
            "public" | "covered" => "fine".to_owned(),
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
    fn a_copy_has_nothing_that_is_not_covered_and_redaction_is_idempotent() {
        let mut removed = 0;
        for seed in 0..300 {
            let original = notebook(seed);
            let copy = RedactedNotebook::from_notebook(&original, RedactionRules::default());
            let text = copy.notebook.to_string();
            assert!(!text.contains("secret"), "{seed}: {text}");
            let again = RedactedNotebook::from_notebook(&copy.notebook, RedactionRules::default());
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
        let copy = RedactedNotebook::from_notebook(&original, RedactionRules::default());
        let outputs = &copy.notebook["cells"][1]["outputs"];
        let text = "[removed before publication: 1 figure or table in part, 2 lines of text]";
        assert_eq!(outputs[1]["data"]["text/plain"][0], text);
        assert_eq!(outputs[2]["data"]["text/plain"], json!(["fine"]));
        assert_eq!(copy.cells[0].0, "cell 2 (f(&data))");
        assert_eq!(copy.total().to_string(), "1 figure or table in part, 2 lines of text");
        assert!(!copy.is_unmarked);
    }

    #[test]
    fn outputs_in_the_wrong_place_and_unknown_metadata_are_removed() {
        let stream = json!({ "output_type": "stream", "name": "stdout", "text": "secret" });
        let original = json!({
            "metadata": { "synapse_widget": "secret", "papermill": "secret", "title": "t",
                "epsilab": 3 },
            "cells": [
                { "cell_type": "markdown", "source": "prose", "outputs": [stream],
                  "attachments": { "a.png": { "image/png": "photo" } } },
                { "cell_type": "code", "source": "1", "outputs": { "0": "secret" },
                  "attachments": { "a.png": "secret" } },
                { "cell_type": "code", "source": "2", "outputs": ["secret", 7],
                  "metadata": { "nbdime-conflicts": "secret", "tags": ["a"],
                    "jupyter": { "source_hidden": true, "other": "secret" },
                    "execution": { "iopub.execute_input": "secret" },
                    "ExecuteTime": { "end_time": "secret" }, "papermill": "secret" } },
                { "cell_type": "code", "source": "3", "outputs": "secret" },
                { "cell_type": "code", "source": "4", "outputs": null },
            ],
        });
        let copy = RedactedNotebook::from_notebook(&original, RedactionRules::default());
        assert!(!copy.notebook.to_string().contains("secret"), "{}", copy.notebook);
        assert_eq!(copy.cells.len(), 5, "four cells and the metadata");
        assert_eq!(copy.notebook["cells"][0]["attachments"]["a.png"]["image/png"], "photo");
        let left = json!({ "tags": ["a"], "jupyter": { "source_hidden": true } });
        assert_eq!(copy.notebook["cells"][2]["metadata"], left);
        assert_eq!(copy.notebook["metadata"]["title"], "t");
        assert!(
            !RedactedNotebook::from_notebook(&copy.notebook, RedactionRules::default())
                .is_changed()
        );
    }

    #[test]
    fn the_copy_counts_what_was_removed_over_all_passes() {
        let covered = output(2, 2, "secret");
        let original = json!({ "cells": [{ "cell_type": "code", "source": "f",
            "outputs": [output(0, 0, ""), covered] }] });
        let mark = |notebook: &Value| notebook["metadata"]["epsilab"]["redacted"].clone();
        let copy = RedactedNotebook::from_notebook(
            &original,
            RedactionRules { keep_test_part: true, ..RedactionRules::default() },
        );
        assert_eq!(mark(&copy.notebook)["lines"], 1);
        let again = RedactedNotebook::from_notebook(&copy.notebook, RedactionRules::default());
        assert_eq!(again.total().to_string(), "1 line of text");
        assert_eq!(mark(&again.notebook)["lines"], 2);
    }

    #[test]
    fn cells_that_set_a_seed_are_named() {
        let cell = |source: &str| json!({ "cell_type": "code", "source": source });
        let seeded = |source: &str| {
            let notebook = json!({ "cells": [cell(source)] });
            !RedactedNotebook::from_notebook(&notebook, RedactionRules::default())
                .seeded_cells
                .is_empty()
        };
        assert!(seeded("let run = dp_sgd()\n    .seed(7)\n    .train(&data)?;"));
        assert!(!seeded("// .seed(7) makes it reproducible\nlet seed = 3;"));
        let model = "let model = models::papernot_cnn(&data)\n    .seed(7)\n    .build()?;";
        assert!(!seeded(model));
        assert!(seeded(&format!("{model} let run = method.seed(7).train(&model, &data)?;")));
    }

    #[test]
    fn a_notebook_of_another_kernel_is_noticed() {
        let bare = json!({ "output_type": "execute_result", "data": { "text/plain": "1" },
            "metadata": {}, "execution_count": 1 });
        let notebook = |outputs: Vec<Value>| {
            json!({ "metadata": {}, "cells": [{ "cell_type": "code", "source": "1",
                "outputs": outputs }] })
        };
        assert!(
            RedactedNotebook::from_notebook(
                &notebook(vec![bare.clone()]),
                RedactionRules::default()
            )
            .is_unmarked
        );
        let marked = notebook(vec![bare, output(2, 3, "")]);
        assert!(!RedactedNotebook::from_notebook(&marked, RedactionRules::default()).is_unmarked);
        assert!(
            !RedactedNotebook::from_notebook(&notebook(vec![]), RedactionRules::default())
                .is_unmarked
        );
    }
}
