//! The cells as a table.

use super::result::CellResult;
use crate::mask::DroppingRule;
use crate::show::{Table, format};

/// The table of cells: settings, accuracy and cost.
pub(super) fn table(cells: &[CellResult], seeds: u64) -> Table {
    let heads = ["method", "epsilon", "pre-pruned", "dropped", "accuracy", "± sd", "spent", "runs"];
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
    cells.iter().fold(Table::new(heads), |table, cell| {
        table.row([
            cell.method.to_owned(),
            number(cell.epsilon),
            cell.pre_prune.to_string(),
            cell.drop.to_string(),
            cell.mean().map_or("-".into(), percent),
            cell.std().map_or("-".into(), points),
            cell.epsilon_spent().map_or("-".into(), format::eps),
            format!("{} of {seeds}", cell.runs.len()),
        ])
    })
}

/// How mask and dropping were chosen, as the heading of the rates.
pub(super) fn axes(cells: &[CellResult]) -> String {
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

/// A cell in words.
pub(super) fn point(cell: &CellResult) -> String {
    let mut text = cell.method.to_owned();
    if let Some(epsilon) = cell.epsilon {
        text.push_str(&format!(", epsilon {epsilon}"));
    }
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

/// In percent with two digits, because differences between cells are small.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", format::fixed(100.0 * share, 2))
}

/// A difference of fractions in percentage points.
pub(super) fn points(share: f64) -> String {
    format::fixed(100.0 * share, 2)
}
