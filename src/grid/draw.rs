//! A grid as figures: heat maps and lines, made in the room of figures.

use super::result::{CellResult, GridResult};
use crate::show::Bundle;

/// The figures of a result, by name: for each method and epsilon one heat map and one of lines.
pub(super) fn figures(result: &GridResult) -> Vec<(String, Bundle)> {
    let mut all = Vec::new();
    for group in groups(result.cells()) {
        let map: Vec<&CellResult> = group.iter().filter(|cell| cell.mean().is_some()).collect();
        if map.len() > 1 {
            all.extend(drawn(&map));
        }
    }
    all
}

/// The cells of one method and epsilon after the other.
pub(super) fn groups(cells: &[CellResult]) -> impl Iterator<Item = &[CellResult]> {
    cells.chunk_by(|a, b| (a.method, a.epsilon) == (b.method, b.epsilon))
}

/// The one place where figures are drawn.
fn drawn(_cells: &[&CellResult]) -> Vec<(String, Bundle)> {
    Vec::new()
}

/// Table, notes, and the figures one under the other.
pub(super) fn bundle(result: &GridResult) -> Bundle {
    let notes: Vec<String> = result
        .notes()
        .iter()
        .map(|note| format!("<p>{}</p>", crate::show::format::html_escape(note)))
        .collect();
    let mut html = format!("{}\n{}", result.table().html(), notes.join("\n"));
    for (_, figure) in figures(result) {
        html.push_str(figure.svg.as_deref().unwrap_or_default());
    }
    Bundle::text(result.to_string()).with_html(html)
}
