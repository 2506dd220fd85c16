//! Rules for the redaction of one output of a notebook.

use epsilab::show::Coverage;
use serde_json::{Map, Value, json};

use crate::run::notebook::{multiline_to_string, stored, string_to_multiline};

/// Outputs that may stay beside those that are public or covered.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct RedactionRules {
    /// Keep unmarked text: what cells print, plain values and errors.
    #[arg(long)]
    pub keep_text: bool,
    /// Keep evaluations on a test part that was split off the private data. It is read without
    /// noise, and the epsilon of a run protects the training part only.
    #[arg(long)]
    pub keep_test_part: bool,
}

/// An output after redaction.
#[derive(Clone, Debug, PartialEq)]
pub struct RedactedOutput {
    /// Remaining output, if anything is left.
    pub remaining: Option<Value>,
    /// Removed part, if any.
    pub removed: Option<Removal>,
    /// Whether the remaining output contains an evaluation on the test part.
    pub has_test_part: bool,
    /// Whether the remaining output is of a run in study mode.
    pub has_study_mode: bool,
}

/// Part removed from an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Removal {
    /// A figure.
    Figure,
    /// The panels of a figure, or the columns of a table, that are not covered.
    PartOfFigure,
    /// A table, or other HTML.
    Table,
    /// Text, with its number of lines.
    Text(usize),
    /// An error message.
    Error,
    /// Metadata of a cell or notebook.
    Metadata,
}

impl RedactionRules {
    /// Applies the rules to an output in the form of nbformat 4.
    pub fn apply(&self, output: &Value) -> RedactedOutput {
        match output["output_type"].as_str() {
            Some("stream") => {
                let text = multiline_to_string(&output["text"]);
                let name = if output["name"] == "stderr" { "stderr" } else { "stdout" };
                let left = json!({ "output_type": "stream", "name": name, "text": string_to_multiline(&text) });
                self.redact_text(left, Removal::Text(text.lines().count().max(1)))
            }
            Some("error") => {
                let lines = output["traceback"].as_array().into_iter().flatten();
                let left = json!({ "output_type": "error", "ename": multiline_to_string(&output["ename"]),
                    "evalue": multiline_to_string(&output["evalue"]),
                    "traceback": lines.filter(|line| line.is_string()).collect::<Vec<_>>() });
                self.redact_text(left, Removal::Error)
            }
            Some("display_data" | "execute_result") => self.redact_mime_bundle(output),
            // Of a later format, or damaged.
            _ => RedactedOutput::removed_entirely(Removal::Text(1)),
        }
    }

    fn redact_text(&self, left: Value, removed: Removal) -> RedactedOutput {
        if self.keep_text {
            RedactedOutput::kept_entirely(left, Coverage::Unmarked)
        } else {
            RedactedOutput::removed_entirely(removed)
        }
    }

    fn redact_mime_bundle(&self, output: &Value) -> RedactedOutput {
        let coverage = Coverage::from_metadata(&output["metadata"]);
        let removed = classify_output(&output["data"]);
        if self.allows(coverage) {
            let metadata = allowed_metadata(&output["metadata"], coverage);
            return RedactedOutput::kept_entirely(
                rebuild_output(output, &output["data"], metadata),
                coverage,
            );
        }
        let part = &output["metadata"]["epsilab"]["covered_part"];
        let of_part = Coverage::from_metadata(&part["metadata"]);
        if coverage == Coverage::NotCovered && part["data"].is_object() && self.allows(of_part) {
            let metadata = allowed_metadata(&part["metadata"], of_part);
            let left = rebuild_output(output, &stored(&part["data"]), metadata);
            return RedactedOutput {
                removed: Some(Removal::PartOfFigure),
                ..RedactedOutput::kept_entirely(left, of_part)
            };
        }
        // An unmarked figure may show anything; its text can be read by whoever keeps it.
        let plain = multiline_to_string(&output["data"]["text/plain"]);
        if coverage == Coverage::Unmarked && self.keep_text && !plain.is_empty() {
            let data = json!({ "text/plain": string_to_multiline(&plain) });
            let is_text = output["data"].as_object().is_some_and(|data| data.len() == 1);
            let left = rebuild_output(output, &data, allowed_metadata(&Value::Null, coverage));
            let removed = (!is_text).then_some(removed);
            return RedactedOutput { removed, ..RedactedOutput::kept_entirely(left, coverage) };
        }
        RedactedOutput::removed_entirely(removed)
    }

    fn allows(&self, coverage: Coverage) -> bool {
        match coverage {
            Coverage::Public | Coverage::Covered => true,
            Coverage::TestPart => self.keep_test_part,
            Coverage::Unmarked | Coverage::NotCovered => false,
        }
    }
}

impl RedactedOutput {
    fn removed_entirely(removed: Removal) -> Self {
        let (left, removed) = (None, Some(removed));
        Self { remaining: left, removed, has_test_part: false, has_study_mode: false }
    }

    fn kept_entirely(left: Value, coverage: Coverage) -> Self {
        let text = multiline_to_string(&left["data"]["text/plain"]);
        Self {
            has_test_part: coverage == Coverage::TestPart,
            has_study_mode: coverage != Coverage::Public && text.contains("study mode"),
            remaining: Some(left),
            removed: None,
        }
    }
}

/// Returns the output with these data and metadata and without other keys.
fn rebuild_output(output: &Value, data: &Value, metadata: Value) -> Value {
    let mut left = json!({ "output_type": output["output_type"], "data": data,
        "metadata": metadata });
    if output["output_type"] == "execute_result" {
        left["execution_count"] = output["execution_count"].as_u64().into();
    }
    left
}

/// Returns the metadata that stay: the coverage and the sizes of pictures. Others could hold
/// anything, such as the part of a figure that was removed.
fn allowed_metadata(metadata: &Value, coverage: Coverage) -> Value {
    let mut left = Map::new();
    left.insert("epsilab".into(), json!({ "coverage": coverage.name() }));
    for (mime, about) in metadata.as_object().into_iter().flatten() {
        let mut size = Map::new();
        for side in ["width", "height"] {
            size.extend(about[side].as_u64().map(|length| (side.to_owned(), length.into())));
        }
        if mime.starts_with("image/") && !size.is_empty() {
            left.insert(mime.clone(), size.into());
        }
    }
    left.into()
}

/// Classifies an output for the summary.
fn classify_output(data: &Value) -> Removal {
    let has = |part: &str| {
        data.as_object().is_some_and(|data| data.keys().any(|mime| mime.contains(part)))
    };
    if has("image/") || has("vega") {
        Removal::Figure
    } else if has("html") {
        Removal::Table
    } else {
        Removal::Text(multiline_to_string(&data["text/plain"]).lines().count().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: RedactionRules = RedactionRules { keep_text: false, keep_test_part: true };
    const TEXT: RedactionRules = RedactionRules { keep_text: true, keep_test_part: true };

    fn shown(coverage: &Value) -> Value {
        json!({ "output_type": "display_data",
            "data": { "text/plain": ["secret 1\n", "secret 2"], "image/svg+xml": ["<svg/>"] },
            "metadata": { "epsilab": { "coverage": coverage },
                "image/png": { "width": 3, "note": "secret" }, "other": "secret" } })
    }

    #[test]
    fn only_public_and_covered_outputs_stay() {
        for (name, stays) in [
            ("public", true),
            ("covered", true),
            ("test_part", true),
            ("unmarked", false),
            ("not_covered", false),
        ] {
            let redacted = STRICT.apply(&shown(&name.into()));
            assert_eq!(redacted.remaining.is_some(), stays, "{name}");
            assert_eq!(redacted.removed, (!stays).then_some(Removal::Figure), "{name}");
            assert_eq!(redacted.has_test_part, name == "test_part");
        }
        let without = RedactionRules { keep_test_part: false, ..STRICT };
        assert!(without.apply(&shown(&"test_part".into())).remaining.is_none());
        assert!(without.apply(&shown(&"covered".into())).remaining.is_some());
    }

    #[test]
    fn a_coverage_that_is_misspelled_counts_as_unmarked() {
        for wrong in [json!("Public "), json!("PUBLIC"), json!(3), json!(null), json!(["public"])] {
            assert_eq!(STRICT.apply(&shown(&wrong)).remaining, None, "{wrong}");
        }
        let bare = json!({ "output_type": "execute_result", "data": { "text/plain": "7" },
            "execution_count": 2 });
        assert_eq!(STRICT.apply(&bare).removed, Some(Removal::Text(1)));
        assert_eq!(STRICT.apply(&json!({ "output_type": "new" })).remaining, None);
        assert_eq!(STRICT.apply(&json!(7)).remaining, None);
    }

    #[test]
    fn text_is_kept_on_request_but_never_an_unmarked_figure() {
        let stream = json!({ "output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"] });
        assert_eq!(STRICT.apply(&stream).removed, Some(Removal::Text(2)));
        assert_eq!(TEXT.apply(&stream).remaining, Some(stream));
        let error = json!({ "output_type": "error", "ename": "E", "evalue": "7",
            "traceback": ["7"] });
        assert_eq!(STRICT.apply(&error).removed, Some(Removal::Error));
        assert_eq!(TEXT.apply(&error).removed, None);
        // Nothing but text stays of a stream, and one without text is removed all the same.
        let odd = json!({ "output_type": "stream", "name": { "x": "secret" }, "text": { "x": 1 },
            "data": { "image/png": "secret" } });
        assert_eq!(STRICT.apply(&odd).removed, Some(Removal::Text(1)));
        assert!(!TEXT.apply(&odd).remaining.unwrap().to_string().contains("secret"));
        let figure = TEXT.apply(&shown(&"unmarked".into()));
        assert_eq!(figure.removed, Some(Removal::Figure));
        let left = figure.remaining.unwrap();
        assert_eq!(left["data"], json!({ "text/plain": ["secret 1\n", "secret 2"] }));
        // What is known not to be covered goes, text or not.
        assert_eq!(TEXT.apply(&shown(&"not_covered".into())).remaining, None);
    }

    #[test]
    fn a_covered_part_takes_the_place_of_the_whole_unless_it_claims_too_much() {
        let with_part = |part: Value| {
            let mut output = shown(&"not_covered".into());
            output["metadata"]["epsilab"]["covered_part"] = part;
            output
        };
        let part = |coverage: &str| {
            json!({ "data": { "text/plain": "left\nover", "image/svg+xml": "<svg>left</svg>" },
                "metadata": { "epsilab": { "coverage": coverage,
                    "covered_part": { "data": { "text/plain": "secret" } } } } })
        };
        let redacted = STRICT.apply(&with_part(part("test_part")));
        assert_eq!((redacted.removed, redacted.has_test_part), (Some(Removal::PartOfFigure), true));
        let left = redacted.remaining.unwrap();
        assert_eq!(left["data"]["text/plain"], json!(["left\n", "over"]));
        assert!(!left.to_string().contains("secret"), "{left}");
        for wrong in ["not_covered", "unmarked", "?"] {
            assert_eq!(STRICT.apply(&with_part(part(wrong))).remaining, None, "{wrong}");
        }
        for wrong in [json!(null), json!("x"), json!({ "data": "secret" })] {
            assert_eq!(STRICT.apply(&with_part(wrong)).remaining, None);
        }
        // A part does not make an unmarked output better.
        let mut unmarked = with_part(part("covered"));
        unmarked["metadata"]["epsilab"]["coverage"] = json!("unmarked");
        assert_eq!(STRICT.apply(&unmarked).remaining, None);
    }

    #[test]
    fn metadata_of_what_stays_are_coverage_and_sizes() {
        let left = STRICT.apply(&shown(&"covered".into())).remaining.unwrap();
        let expected = json!({ "epsilab": { "coverage": "covered" }, "image/png": { "width": 3 } });
        assert_eq!(left["metadata"], expected);
    }

    #[test]
    fn study_mode_is_noticed_where_the_data_are_not_public() {
        let mut run = shown(&"covered".into());
        run["data"]["text/plain"] = json!(["DP-SGD on mnist (study mode)\n"]);
        assert!(STRICT.apply(&run).has_study_mode);
        run["metadata"]["epsilab"]["coverage"] = json!("public");
        assert!(!STRICT.apply(&run).has_study_mode);
    }
}
