//! The cases as a table.

use super::result::CellResult;
use crate::mask::DroppingRule;
use crate::show::figures::RunPoint;
use crate::show::{Coverage, Table, format};

/// A column: its head, and its text for a case that has it.
type Column<'a> = (&'a str, &'a dyn Fn(&CellResult) -> Option<String>);

/// Returns the table of cases: settings, accuracy and cost. Columns that no case has are left out.
pub(super) fn table(cells: &[CellResult], seeds: u64) -> Table {
    let rate = |has: fn(&CellResult) -> f64| {
        let any = cells.iter().any(|cell| has(cell) > 0.0);
        move |cell: &CellResult| any.then(|| has(cell).to_string())
    };
    let (pre_prune, drop) = (rate(|cell| cell.pre_prune), rate(|cell| cell.drop));
    let mut badges = cells.iter().filter_map(CellResult::badge);
    let first = badges.next();
    let differ = badges.any(|badge| Some(badge) != first);
    let columns: [Column<'_>; 10] = [
        ("epsilon", &|cell| cell.epsilon.map(|epsilon| epsilon.to_string())),
        ("pre-pruned", &pre_prune),
        ("dropped", &drop),
        ("accuracy", &|cell| cell.mean().map(percent)),
        ("± sd", &|cell| cell.std().map(format_points)),
        ("spent", &|cell| cell.epsilon_spent().map(format::eps)),
        ("guarantee", &|cell| cell.badge().filter(|_| differ).map(str::to_owned)),
        ("claimed epsilon", &|cell| cell.claimed_epsilon().map(format::eps)),
        ("mean threshold", &|cell| cell.mean_threshold().map(|c| format::significant(c, 4))),
        ("runs", &|cell| Some(format!("{} of {seeds}", cell.runs.len()))),
    ];
    let has = |(_, text): &&Column<'_>| cells.iter().any(|cell| text(cell).is_some());
    let shown: Vec<_> = columns.iter().filter(has).collect();
    let labels = labels(cells);
    let heads = ["method"].into_iter().chain(labels.iter().copied());
    let table = Table::new(heads.chain(shown.iter().map(|(head, _)| *head)));
    cells.iter().fold(table, |table, cell| {
        let labels = labels.iter().map(|name| cell.label(name).map(str::to_owned));
        let texts = labels.chain(shown.iter().map(|(_, text)| text(cell)));
        let texts = texts.map(|text| text.unwrap_or_else(|| "-".into()));
        table.row([cell.method.to_owned()].into_iter().chain(texts))
    })
}

/// Returns the names of the settings that tell cases from others, each once.
pub(super) fn labels(cells: &[CellResult]) -> Vec<&str> {
    let mut names = Vec::new();
    for (name, _) in cells.iter().flat_map(|cell| &cell.labels) {
        if !names.contains(&name.as_str()) {
            names.push(name.as_str());
        }
    }
    names
}

/// Describes how mask and dropping were chosen, as the heading of the rates.
pub(super) fn describe_axes(cells: &[CellResult]) -> String {
    let mask = cells.iter().find_map(|cell| cell.mask);
    let rule = cells.iter().find_map(|cell| cell.drop_rule).map(rule_name);
    match (mask, rule) {
        (None, None) => "accuracy".into(),
        (Some(mask), None) => format!("accuracy by pre-pruning ({mask})"),
        (None, Some(rule)) => format!("accuracy by gradient dropping ({rule})"),
        (Some(mask), Some(rule)) => {
            format!("accuracy by pre-pruning ({mask}) and gradient dropping ({rule})")
        }
    }
}

/// Returns accuracy and epsilon of every run, which reveal what `coverage` says.
pub(super) fn run_points(cells: &[CellResult], coverage: Coverage) -> Vec<RunPoint> {
    let of_cell = |cell: &CellResult| {
        let series = sparsity(cell, format!("{}{}", cell.method, cell.label_suffix()));
        let about = describe_cell(cell);
        let target = cell.epsilon;
        let runs = cell.runs.iter().filter_map(move |run| {
            Some(RunPoint {
                series: series.clone(),
                epsilon: run.epsilon,
                target,
                accuracy: run.accuracy?,
                tooltip: format!("{about}, seed {}", run.seed),
                coverage,
            })
        });
        runs.collect::<Vec<_>>()
    };
    cells.iter().flat_map(of_cell).collect()
}

/// Describes a case.
pub(super) fn describe_cell(cell: &CellResult) -> String {
    let mut text = format!("{}{}", cell.method, cell.label_suffix());
    if let Some(epsilon) = cell.epsilon {
        text.push_str(&format!(", epsilon {epsilon}"));
    }
    sparsity(cell, text)
}

/// Returns the text with the rates of the case appended, where they are not zero.
fn sparsity(cell: &CellResult, mut text: String) -> String {
    if cell.pre_prune > 0.0 {
        text.push_str(&format!(", pre-pruned {}", cell.pre_prune));
    }
    if cell.drop > 0.0 {
        text.push_str(&format!(", dropped {}", cell.drop));
    }
    text
}

pub(super) fn rule_name(rule: DroppingRule) -> &'static str {
    match rule {
        DroppingRule::Random => "random",
        DroppingRule::Magnitude => "magnitude",
    }
}

/// Formats a fraction in percent with two digits, because differences between cases are small.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", format::fixed(100.0 * share, 2))
}

/// Formats a difference of fractions in percentage points.
pub(super) fn format_points(share: f64) -> String {
    format::fixed(100.0 * share, 2)
}
