//! The figures of a grid: heat maps and line charts.

use super::result::{CellResult, GridResult};
use super::{MaskKind, lines};
use crate::show::figures::{self, GridCell, GridFigure, GridSlices};
use crate::show::{Coverage, MimeBundle, NOT_COVERED, format};

/// Draws the figures of a result by name: for each method with rates heat maps, side by side where
/// there are several epsilons, and for each epsilon a line chart; then charts over other settings.
pub(super) fn figures(result: &GridResult) -> Vec<(String, MimeBundle)> {
    let mut all = Vec::new();
    let alike = |a: &CellResult, b: &CellResult| (a.method, &a.labels) == (b.method, &b.labels);
    for method in result.cells().chunk_by(alike) {
        let drawn = group_by_epsilon(method).map(|cells| GridSlice::new(result, cells));
        let slices: Vec<GridSlice<'_>> = drawn.filter(|slice| slice.cells.len() > 1).collect();
        let of_epsilons: Vec<&GridSlice<'_>> =
            slices.iter().filter(|slice| slice.cells[0].epsilon.is_some()).collect();
        let together = (of_epsilons.len() > 1).then(|| heat_maps(result, &of_epsilons)).flatten();
        let has_own =
            |slice: &GridSlice<'_>| together.is_none() || slice.cells[0].epsilon.is_none();
        let shows_own: Vec<_> = slices.iter().map(has_own).collect();
        all.extend(together);
        for (slice, shows_own) in slices.iter().zip(shows_own) {
            all.extend(slice.to_figures(result, shows_own));
        }
    }
    all.extend(lines::charts(result));
    all
}

/// Returns the cases grouped by all but their rates.
pub(super) fn group_by_epsilon(cells: &[CellResult]) -> impl Iterator<Item = &[CellResult]> {
    let settings = |cell: &CellResult| (cell.method, cell.labels.clone(), cell.epsilon);
    cells.chunk_by(move |a, b| settings(a) == settings(b))
}

/// The finished cases of one method and epsilon.
struct GridSlice<'a> {
    cells: Vec<&'a CellResult>,
    figure: GridFigure,
}

impl<'a> GridSlice<'a> {
    fn new(result: &GridResult, cells: &'a [CellResult]) -> Self {
        let cells: Vec<_> = cells.iter().filter(|cell| cell.mean().is_some()).collect();
        let at = heading_suffix(cells.iter().copied());
        let method = cells.first().map_or("", |cell| cell.method);
        let figure = GridFigure {
            title: format!("{method} of {} on {}{at}", result.model(), result.data()),
            note: note(result),
            cells: cells.iter().map(|cell| to_figure_cell(cell)).collect(),
        };
        Self { cells, figure }
    }

    /// Draws a heat map of its own if `own_map` is set, and a line chart.
    fn to_figures(&self, result: &GridResult, own_map: bool) -> Vec<(String, MimeBundle)> {
        let [first, ..] = self.cells[..] else { return Vec::new() };
        let method = named(first);
        let name = |kind: &str| match first.epsilon {
            Some(epsilon) if !all_covered(self.cells.iter().copied()) => {
                format!("{kind}_{method}_eps_{epsilon}_snip_not_private")
            }
            Some(epsilon) => format!("{kind}_{method}_eps_{epsilon}"),
            None => format!("{kind}_{method}"),
        };
        let reveals = coverage(result);
        let mut drawn = Vec::new();
        // Cases that can't be drawn are still in the table.
        if own_map && let Ok(map) = figures::accuracy_heat_map(&self.figure) {
            drawn.push((name("heat_map"), map.coverage(reveals).bundle()));
        }
        if let Ok(lines) = figures::accuracy_lines(&self.figure) {
            drawn.push((name("lines"), lines.coverage(reveals).bundle()));
        }
        drawn
    }
}

/// Draws the heat maps of one method at several epsilons.
fn heat_maps(result: &GridResult, slices: &[&GridSlice<'_>]) -> Option<(String, MimeBundle)> {
    let first = slices.first()?.cells.first()?;
    let (method, labels) = (first.method, first.label_suffix());
    let is_covered = slices.iter().all(|slice| all_covered(slice.cells.iter().copied()));
    let snip = if is_covered { String::new() } else { format!("; SNIP masks: {NOT_COVERED}") };
    let of_epsilon = |slice: &&GridSlice<'_>| {
        let epsilon = slice.cells[0].epsilon.map_or_else(String::new, format::eps);
        (epsilon, slice.figure.cells.clone())
    };
    let grids = GridSlices {
        title: format!(
            "{method} of {} on {}{labels} by epsilon{snip}",
            result.model(),
            result.data()
        ),
        note: note(result),
        setting: "epsilon".into(),
        slices: slices.iter().map(of_epsilon).collect(),
    };
    let maps = figures::accuracy_heat_maps(&grids).ok()?;
    let end = if is_covered { "" } else { "_snip_not_private" };
    Some((format!("heat_maps_{}{end}", named(first)), maps.coverage(coverage(result)).bundle()))
}

/// Returns the method of a case and its further settings, as a part of names of files.
fn named(cell: &CellResult) -> String {
    let labels = cell.labels.iter().map(|(name, value)| format!("_{name}_{value}"));
    format!("{}{}", cell.method, labels.collect::<String>())
}

pub(super) fn note(result: &GridResult) -> String {
    format!("Seeds 0 to {}, study mode.", result.seeds() - 1)
}

/// Returns whether the epsilon of each of these cases covers it, which is not so for masks by
/// plain SNIP.
fn all_covered<'a>(mut cells: impl Iterator<Item = &'a CellResult>) -> bool {
    cells.all(|cell| cell.mask != Some(MaskKind::Snip))
}

/// Returns the coverage of the accuracies of a grid.
pub(super) fn coverage(result: &GridResult) -> Coverage {
    Coverage::for_raw_data(!result.0.public_data)
}

/// Returns the part of a heading about further settings and epsilon.
pub(super) fn heading_suffix<'a>(
    mut cells: impl Iterator<Item = &'a CellResult> + Clone,
) -> String {
    let covered = all_covered(cells.clone());
    let first = cells.next();
    let labels = first.map_or_else(String::new, CellResult::label_suffix);
    match first.and_then(|cell| cell.epsilon).map(format::eps) {
        None => labels,
        Some(epsilon) if covered => format!("{labels}, epsilon {epsilon}"),
        Some(epsilon) => {
            format!("{labels}, noise as for epsilon {epsilon}; SNIP masks: {NOT_COVERED}")
        }
    }
}

pub(super) fn to_figure_cell(cell: &CellResult) -> GridCell {
    GridCell { pre_prune: cell.pre_prune, drop: cell.drop, accuracy: cell.accuracies() }
}

/// Returns the table and the notes.
pub(super) fn bundle(result: &GridResult) -> MimeBundle {
    let notes = result.notes();
    let notes = notes.iter().map(|note| format!("<p>{}</p>", format::html_escape(note)));
    let html = format!("{}\n{}", result.table().html(), notes.collect::<Vec<_>>().join("\n"));
    MimeBundle::text(result.to_string()).with_html(html).with_coverage(coverage(result))
}
