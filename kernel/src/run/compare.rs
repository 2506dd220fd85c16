//! Comparison of the outputs of a run with those that are saved in the notebook.
//!
//! Pictures are not compared: each has a text with the same values. Tags of a cell say how its
//! texts are compared:
//!
//! | tag | tolerance |
//! |---|---|
//! | none | `exact`: equal, but the last digit of a number may differ by one |
//! | `noisy-output` | `noisy`: equal words, percentages within 15 points, any other numbers |
//! | `ignore-output` | `ignored`: only the kinds of outputs are compared |
//!
//! Dates, durations, numbers of threads, paths, rules of tables and curves of block characters are
//! never compared. With another profile than the saved one, only the kinds of outputs are compared.

use epsilab::show::Coverage;
use serde_json::Value;

use super::notebook::{Notebook, multiline_to_string};
use crate::options::name_of;
use crate::pattern::{Pattern, pattern};

/// Maximum difference in points of two percentages in a noisy output.
const MAX_PERCENT_DIFFERENCE: f64 = 15.0;
/// Units of durations.
const DURATION_UNITS: [&str; 8] = ["ns", "µs", "ms", "s", "min", "h", "seconds", "minutes"];

/// Tolerance of the comparison of a cell's texts.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Tolerance {
    Exact,
    Noisy,
    Ignored,
}

impl Tolerance {
    fn for_cell(notebook: &Notebook, cell: usize) -> Self {
        match () {
            () if notebook.has_tag(cell, "ignore-output") => Self::Ignored,
            () if notebook.has_tag(cell, "noisy-output") => Self::Noisy,
            () => Self::Exact,
        }
    }
}

/// Returns the differences, a text for each cell. `texts` is whether texts are compared, or only
/// the kinds of outputs.
pub fn differences(saved: &Notebook, fresh: &Notebook, texts: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (number, (cell, source)) in fresh.code_cells().into_iter().enumerate() {
        let (before, after) = (comparable_outputs(saved, cell), comparable_outputs(fresh, cell));
        let tolerance = if texts { Tolerance::for_cell(fresh, cell) } else { Tolerance::Ignored };
        if let Some(what) = cell_difference(&before, &after, tolerance) {
            let line = source.lines().next().unwrap_or_default();
            found.push(format!("cell {} ({line}): {what}", number + 1));
        }
    }
    found
}

/// Part of an output that is compared.
#[derive(Debug)]
struct ComparableOutput {
    /// Kind: `text`, `error`, or `display` with its coverage and whether it has a picture.
    kind: String,
    text: String,
}

fn comparable_outputs(notebook: &Notebook, cell: usize) -> Vec<ComparableOutput> {
    let all = notebook.as_json()["cells"][cell]["outputs"].as_array();
    all.into_iter().flatten().filter_map(ComparableOutput::from_json).collect()
}

impl ComparableOutput {
    /// Returns the comparable part of an output; `None` for standard error, which has warnings and
    /// progress.
    fn from_json(output: &Value) -> Option<Self> {
        let (kind, text) = match output["output_type"].as_str()? {
            "stream" if output["name"] == "stderr" => return None,
            "stream" => ("text".to_owned(), multiline_to_string(&output["text"])),
            "error" => {
                let (name, value) =
                    (multiline_to_string(&output["ename"]), multiline_to_string(&output["evalue"]));
                ("error".to_owned(), format!("{name}: {value}"))
            }
            _ => {
                let data = output["data"].as_object()?;
                let has_picture = data.keys().any(|mime| mime.starts_with("image/"));
                let coverage = Coverage::from_metadata(&output["metadata"]).name();
                let kind = if has_picture { "picture" } else { "value" };
                (format!("{kind} ({coverage})"), multiline_to_string(&data["text/plain"]))
            }
        };
        Some(Self { kind, text })
    }
}

fn cell_difference(
    before: &[ComparableOutput],
    after: &[ComparableOutput],
    tolerance: Tolerance,
) -> Option<String> {
    let kinds = |outputs: &[ComparableOutput]| {
        let kinds: Vec<&str> = outputs.iter().map(|output| output.kind.as_str()).collect();
        if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
    };
    if kinds(before) != kinds(after) {
        return Some(format!("saved: {}; now: {}", kinds(before), kinds(after)));
    }
    if tolerance == Tolerance::Ignored {
        return None;
    }
    before.iter().zip(after).find_map(|(before, after)| {
        let (old, new) = first_difference(&before.text, &after.text, tolerance)?;
        Some(format!("saved: {old}; now: {new} (tolerance: {})", name_of(&tolerance)))
    })
}

/// Returns the first words that differ by more than the tolerance, with the words around them.
fn first_difference(before: &str, after: &str, tolerance: Tolerance) -> Option<(String, String)> {
    let (old, new) = (comparable_words(before), comparable_words(after));
    let differs = (0..old.len().max(new.len())).find(|&at| match (old.get(at), new.get(at)) {
        (Some(&a), Some(&b)) => {
            let next = old.get(at + 1).copied().unwrap_or_default();
            !words_agree(a, b, next, tolerance)
        }
        _ => true,
    })?;
    let around = |texts: &[&str]| {
        let from = differs.saturating_sub(3).min(texts.len());
        let part = texts[from..texts.len().min(differs + 3)].join(" ");
        if part.is_empty() { "(end)".to_owned() } else { format!("\"{part}\"") }
    };
    Some((around(&old), around(&new)))
}

/// Returns the words of a text without rules of tables and without curves of block characters.
fn comparable_words(text: &str) -> Vec<&str> {
    let is_drawn = |word: &&str| word.chars().all(|c| c == '─' || ('▁'..='█').contains(&c));
    text.split_whitespace().filter(|word| !is_drawn(word)).collect()
}

/// Returns whether two words agree within the tolerance; `next` follows the saved one.
fn words_agree(a: &str, b: &str, next: &str, tolerance: Tolerance) -> bool {
    if a == b {
        return true;
    }
    if [a, b].iter().all(|word| DURATION_UNITS.contains(&trim_punctuation(word))) {
        return true;
    }
    if is_date(a) && is_date(b) {
        return true;
    }
    if let (Some(a), Some(b)) = (prefix_of_path(a), prefix_of_path(b)) {
        return a == b;
    }
    let ((head_a, x, tail_a), (head_b, y, tail_b)) = match (split_number(a), split_number(b)) {
        (Some(a), Some(b)) => (a, b),
        // A dash or infinity in the place of a number.
        _ => return tolerance == Tolerance::Noisy && is_number_like(a) && is_number_like(b),
    };
    let unit = |tail: &str| trim_punctuation(tail).to_owned();
    let unit_a =
        if unit(tail_a).is_empty() { trim_punctuation(next).to_owned() } else { unit(tail_a) };
    if DURATION_UNITS.contains(&unit_a.as_str()) || unit_a == "threads" {
        return head_a == head_b;
    }
    if (head_a, tail_a) != (head_b, tail_b) {
        return false;
    }
    let (Some((x, step)), Some((y, _))) = (parse_number(x), parse_number(y)) else { return false };
    match tolerance {
        Tolerance::Exact => (x - y).abs() <= 1.01 * step,
        Tolerance::Noisy if unit_a == "%" => (x - y).abs() <= MAX_PERCENT_DIFFERENCE,
        Tolerance::Noisy | Tolerance::Ignored => true,
    }
}

/// Returns whether a word is a day, with or without a time: `2026-11-29`, `2026-11-29T03:40:39Z`.
fn is_date(word: &str) -> bool {
    static DATE: Pattern = Pattern::new(|| pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T|$)"));
    DATE.is_match(trim_punctuation(word))
}

/// Returns the part before the path in a word such as `--output="/tmp/x"`; `None` without a path.
fn prefix_of_path(word: &str) -> Option<&str> {
    let name = word.rfind('=').map_or(0, |at| at + 1);
    let path = word[name..].trim_start_matches(['"', '\'', '(', '`']);
    path.starts_with('/').then(|| &word[..name])
}

/// Returns a word without brackets and punctuation at its ends.
fn trim_punctuation(word: &str) -> &str {
    word.trim_matches(|c: char| ",;:.()[]{}\"'`".contains(c))
}

/// Returns whether a word stands for a number.
fn is_number_like(word: &str) -> bool {
    split_number(word).is_some()
        || matches!(trim_punctuation(word), "-" | "∞" | "inf" | "NaN" | "none")
}

/// Splits a word into the parts before its number, the number, and after it.
fn split_number(word: &str) -> Option<(&str, &str, &str)> {
    static NUMBER: Pattern =
        Pattern::new(|| pattern("[-+]?[0-9]+(?:[.,][0-9]+)*(?:e[-+]?[0-9]+)?"));
    let found = NUMBER.find(word)?;
    Some((&word[..found.start()], found.as_str(), &word[found.end()..]))
}

/// Returns the value of a number and that of one unit in its last digit.
fn parse_number(number: &str) -> Option<(f64, f64)> {
    let plain = number.replace(',', "");
    let value = plain.parse().ok()?;
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    let exponent: i32 = exponent.parse().ok()?;
    Some((value, 10f64.powi(exponent - decimals)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, exact: bool, noisy: bool) {
        for (tolerance, expected) in [(Tolerance::Exact, exact), (Tolerance::Noisy, noisy)] {
            let found = first_difference(before, after, tolerance);
            assert_eq!(found.is_none(), expected, "{tolerance:?}: {found:?}");
        }
    }

    #[test]
    fn each_kind_of_number_has_its_tolerance() {
        check("epsilon 2.382 (pld)", "epsilon 2.383 (pld)", true, true);
        check("epsilon 2.382 (pld)", "epsilon 2.384 (pld)", false, true);
        check("epsilon 2.382 (pld)", "epsilon 2.382 (rdp)", false, false);
        check("noise 1.4e-7,", "noise 1.5e-7,", true, true);
        check("noise 1.4e-7,", "noise 1.4e-6,", false, true);
        check("12,000 examples", "12,001 examples", true, true);
        check("12,000 examples", "12,010 examples", false, true);
        check("accuracy 96.5 %", "accuracy 90.1 %", false, true);
        check("accuracy 96.5 %", "accuracy 80.1 %", false, false);
        check("96.5% right", "90.1% right", false, true);
        check("96.5% right", "50.1% right", false, false);
        check("a -3 b", "a 3 b", false, true);
        check("none left", "3 left", false, true);
        check("16x14x14", "16x14x15", false, false);
    }

    #[test]
    fn dates_durations_paths_threads_and_drawn_lines_are_not_compared() {
        check("94 of 94 in 3.3 s", "94 of 94 in 12 s", true, true);
        check("in 3.3 s", "in 450 ms", true, true);
        check("took 3.3s, done", "took 450ms, done", true, true);
        check("cpu, 2 threads", "cpu, 16 threads", true, true);
        check("ledger /tmp/a/ledger: none", "ledger /home/b: none", true, true);
        check("--out='/tmp/a' b", "--out='/home/c' b", true, true);
        check("--out=/tmp/a b", "--in=/home/c b", false, false);
        check("loss ▁▂▃ 3\n──── ──", "loss ▁█ 3\n────", true, true);
        check("3 steps", "5 steps", false, true);
        check("trained on 2026-11-27, step 3", "trained on 2026-12-01, step 3", true, true);
        check("at 2026-11-27T01:02:03Z", "at 2026-11-29T11:12:13Z", true, true);
        check("of 2026-11-27", "of 2026-11-2x", false, false);
    }

    #[test]
    fn words_that_are_missing_or_new_are_found() {
        check("a b", "a b c", false, false);
        check("a b c", "a b", false, false);
        check("consistent", "refuted", false, false);
        let (old, new) = first_difference("one two three four", "one two tree", Tolerance::Exact)
            .expect("they differ");
        assert_eq!((old.as_str(), new.as_str()), ("\"one two three four\"", "\"one two tree\""));
    }

    fn notebook(tags: &[&str], outputs: Value) -> Notebook {
        Notebook::from_json(json!({ "nbformat": 4, "metadata": {}, "cells": [
            { "cell_type": "markdown", "source": "prose" },
            { "cell_type": "code", "source": "f()\ng()", "metadata": { "tags": tags },
              "outputs": outputs },
        ] }))
    }

    fn shown(text: &str, coverage: &str, picture: bool) -> Value {
        let mut data = json!({ "text/plain": [text] });
        if picture {
            data["image/png"] = "AQI=".into();
        }
        json!({ "output_type": "display_data", "data": data,
            "metadata": { "epsilab": { "coverage": coverage } } })
    }

    #[test]
    fn tags_choose_the_tolerance_and_kinds_are_always_compared() {
        let saved = |tags: &[&str]| notebook(tags, json!([shown("epsilon 3", "public", true)]));
        let other = |tags: &[&str]| notebook(tags, json!([shown("epsilon 9", "public", true)]));
        let count = |tags: &[&str], texts| differences(&saved(tags), &other(tags), texts).len();
        assert_eq!((count(&[], true), count(&[], false)), (1, 0));
        assert_eq!((count(&["noisy-output"], true), count(&["ignore-output"], true)), (0, 0));
        let found = differences(&saved(&[]), &other(&[]), true);
        assert!(found[0].starts_with("cell 1 (f()): saved: \"epsilon 3\""), "{found:?}");
        for changed in [
            json!([]),
            json!([shown("epsilon 3", "covered", true)]),
            json!([shown("epsilon 3", "public", false)]),
            json!([{ "output_type": "stream", "name": "stdout", "text": "epsilon 3" }]),
        ] {
            let fresh = notebook(&["ignore-output"], changed);
            assert_eq!(differences(&saved(&["ignore-output"]), &fresh, false).len(), 1);
        }
        let progress = json!({ "output_type": "stream", "name": "stderr", "text": "step 3" });
        let fresh = notebook(&[], json!([progress, shown("epsilon 3", "public", true)]));
        assert!(differences(&saved(&[]), &fresh, true).is_empty());
    }
}
