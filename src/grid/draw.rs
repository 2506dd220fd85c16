//! The figures of a grid: heat maps and line charts.

use super::MaskKind;
use super::result::{CellResult, GridResult};
use crate::show::figures::{self, GridCell, GridFigure};
use crate::show::{Bundle, Coverage, NOT_COVERED, format};

/// The figures of a result by name: for each method and epsilon a heat map and a line chart.
pub(super) fn figures(result: &GridResult) -> Vec<(String, Bundle)> {
    let mut all = Vec::new();
    for group in groups(result.cells()) {
        let map: Vec<&CellResult> = group.iter().filter(|cell| cell.mean().is_some()).collect();
        if map.len() > 1 {
            all.extend(drawn(result, &map));
        }
    }
    all
}

/// The cells grouped by method and epsilon.
pub(super) fn groups(cells: &[CellResult]) -> impl Iterator<Item = &[CellResult]> {
    cells.chunk_by(|a, b| (a.method, a.epsilon) == (b.method, b.epsilon))
}

/// The heat map, and a line chart if there is more than one pruning rate.
fn drawn(result: &GridResult, cells: &[&CellResult]) -> Vec<(String, Bundle)> {
    let [first, ..] = cells else { return Vec::new() };
    let at = at_epsilon(cells.iter().copied());
    let figure = GridFigure {
        title: format!("{} of {} on {}{at}", first.method, result.model(), result.data()),
        note: format!("Seeds 0 to {}, study mode.", result.seeds() - 1),
        cells: cells.iter().map(|cell| cell_of(cell)).collect(),
    };
    let name = |kind: &str| match first.epsilon {
        Some(epsilon) if !covered(cells.iter().copied()) => {
            format!("{kind}_{}_eps_{epsilon}_snip_not_private", first.method)
        }
        Some(epsilon) => format!("{kind}_{}_eps_{epsilon}", first.method),
        None => format!("{kind}_{}", first.method),
    };
    let reveals = coverage(result);
    let mut drawn = Vec::new();
    // Cells that can't be drawn are still in the table.
    if let Ok(map) = figures::accuracy_heat_map(&figure) {
        drawn.push((name("heat_map"), map.coverage(reveals).bundle()));
    }
    if let Ok(lines) = figures::accuracy_lines(&figure) {
        drawn.push((name("lines"), lines.coverage(reveals).bundle()));
    }
    drawn
}

/// Whether the epsilon of each of these cells covers it, which is not so for masks by plain SNIP.
fn covered<'a>(mut cells: impl Iterator<Item = &'a CellResult>) -> bool {
    cells.all(|cell| cell.mask != Some(MaskKind::Snip))
}

/// What the accuracies of a grid reveal. Its runs have the seeds 0, 1, …, so whoever knows that can
/// compute their noise.
pub(super) fn coverage(result: &GridResult) -> Coverage {
    Coverage::without_noise(!result.0.public_data)
}

/// The part of a heading about epsilon.
pub(super) fn at_epsilon<'a>(mut cells: impl Iterator<Item = &'a CellResult> + Clone) -> String {
    let covered = covered(cells.clone());
    match cells.next().and_then(|cell| cell.epsilon).map(format::eps) {
        None => String::new(),
        Some(epsilon) if covered => format!(", epsilon {epsilon}"),
        Some(epsilon) => {
            format!(", noise as for epsilon {epsilon}; SNIP masks: {NOT_COVERED}")
        }
    }
}

pub(super) fn cell_of(cell: &CellResult) -> GridCell {
    GridCell { pre_prune: cell.pre_prune, drop: cell.drop, accuracy: cell.accuracies() }
}

/// Table and notes.
pub(super) fn bundle(result: &GridResult) -> Bundle {
    let notes = result.notes();
    let notes = notes.iter().map(|note| format!("<p>{}</p>", format::html_escape(note)));
    let html = format!("{}\n{}", result.table().html(), notes.collect::<Vec<_>>().join("\n"));
    Bundle::text(result.to_string()).with_html(html).with_coverage(coverage(result))
}
