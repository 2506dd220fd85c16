//! Results as files for others: CSV, one line per run; Markdown, one table per method and epsilon.

use super::figures::{group_by_epsilon, heading_suffix};
use super::result::{CellResult, GridResult};
use super::table::{describe_axes, format_points, labels, percent, rule_name};
use crate::show::Table;
use crate::{Error, ErrorKind, Result};

const COLUMNS: [&str; 13] = [
    "data",
    "model",
    "method",
    "mask",
    "drop_rule",
    "pre_prune",
    "drop",
    "epsilon",
    "seed",
    "accuracy",
    "epsilon_spent",
    "seconds",
    "run",
];

/// Formats the finished runs of several results as CSV, one line each below one header. Fields
/// that a run does not have (a mask, an epsilon) are empty. Settings beside method, mask, rates
/// and epsilon that differ are further columns. Runs have their labels; their ids, which are
/// hashes of the data, are left out.
///
/// # Errors
/// If the CSV text can't be made, for which no case is known.
pub fn csv(results: &[GridResult]) -> Result<String> {
    let failed = |e: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Io, "the runs of a grid, as CSV", e.to_string())
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let cells: Vec<CellResult> = results.iter().flat_map(GridResult::cells).cloned().collect();
    let mut labels = labels(&cells);
    // The kind of the mask has a column already.
    labels.retain(|name| !COLUMNS.contains(&name.replace('-', "_").as_str()));
    let heads = COLUMNS.into_iter().chain(labels.iter().copied());
    writer.write_record(heads).map_err(|e| failed(&e))?;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for result in results {
        for cell in result.cells() {
            for run in &cell.runs {
                let line = [
                    result.data().to_owned(),
                    result.model().to_owned(),
                    cell.method.to_owned(),
                    cell.mask.map(|mask| mask.to_string()).unwrap_or_default(),
                    cell.drop_rule.map(rule_name).unwrap_or_default().to_owned(),
                    cell.pre_prune.to_string(),
                    cell.drop.to_string(),
                    number(cell.epsilon),
                    run.seed.to_string(),
                    number(run.accuracy),
                    number(run.epsilon),
                    number(run.seconds),
                    run.label.clone(),
                ];
                let further = labels.iter().map(|name| cell.label(name).unwrap_or("").to_owned());
                writer.write_record(line.into_iter().chain(further)).map_err(|e| failed(&e))?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|e| failed(&e))?;
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

/// Formats several results as Markdown: for each method and epsilon a table of mean ± standard
/// deviation in percent, with pruning rates as rows and dropping rates as columns, then the notes.
/// Results without several rates, or with further columns, are one table.
pub fn markdown(results: &[GridResult]) -> String {
    results.iter().map(markdown_section).collect::<Vec<_>>().join("\n")
}

fn markdown_section(result: &GridResult) -> String {
    let mut text = format!("# {} on {}\n", result.model(), result.data());
    let maps: Vec<&[CellResult]> = group_by_epsilon(result.cells()).collect();
    if maps.iter().all(|group| group.len() == 1) || !result.0.columns.is_empty() {
        return text + "\n" + &result.cell_table().markdown() + &notes(result);
    }
    for group in maps {
        let first = &group[0];
        text.push_str(&format!("\n## {}{}\n\n", first.method, heading_suffix(group.iter())));
        text.push_str(&format!(
            "Mean ± standard deviation in percent: {}.\n\n",
            describe_axes(group)
        ));
        text.push_str(&markdown_table(group, result.0.seeds).markdown());
    }
    text + &notes(result)
}

fn notes(result: &GridResult) -> String {
    let notes = result.notes();
    let notes = notes.iter().map(|note| format!("- {}\n", note.replace('|', "\\|")));
    format!("\n{}", notes.collect::<String>())
}

/// Returns a table with pruning rates as rows and dropping rates as columns.
fn markdown_table(cells: &[CellResult], seeds: u64) -> Table {
    let values = |statistic: fn(&CellResult) -> f64| {
        let mut values = Vec::new();
        cells.iter().map(statistic).for_each(|value| {
            if !values.contains(&value) {
                values.push(value);
            }
        });
        values
    };
    let (rows, columns) = (values(|cell| cell.pre_prune), values(|cell| cell.drop));
    let heads = columns.iter().map(|drop| format!("dropped {drop}"));
    let table = Table::new(["pre-pruned".to_owned()].into_iter().chain(heads));
    rows.into_iter().fold(table, |table, row| {
        let cell = |&drop| cells.iter().find(|cell| (cell.pre_prune, cell.drop) == (row, drop));
        let cells = columns.iter().map(cell);
        let texts = cells.map(|cell| cell.map_or("-".to_owned(), |cell| entry(cell, seeds)));
        table.row([row.to_string()].into_iter().chain(texts))
    })
}

fn entry(cell: &CellResult, seeds: u64) -> String {
    let Some(mean) = cell.mean() else { return "-".into() };
    let mut text = percent(mean).replace(" %", "");
    if let Some(std) = cell.std() {
        text.push_str(&format!(" ± {}", format_points(std)));
    }
    if cell.runs.len() as u64 != seeds {
        text.push_str(&format!(" ({} of {seeds} runs)", cell.runs.len()));
    }
    text
}
