//! Coordinates that the steps of a run selected over time.

use super::{MAX_PANELS, as_sentence, largest_indices, layer_cell, omission_note, tensor_names};
use crate::mask::{SelectionLog, SelectionLogTensor};
use crate::show::figure_card::FigureHeader;
use crate::show::multiples::{PanelHead, panel_width};
use crate::show::palette::{self, Rgb};
use crate::show::series::extent;
use crate::show::tiles::{TilePanel, Tiles, grouped_intervals};
use crate::show::{Figure, Table, format};

/// Maximum number of tiles.
const MAX_TILES: usize = 8192;
/// Number of shades; the first is for coordinates that were never selected.
const LEVELS: u8 = 11;
/// Shade of an interval without a recorded step.
const NOT_RECORDED: u8 = LEVELS;

/// Draws, for each weight tensor, how often its coordinates were selected: steps across,
/// coordinates in row-major order down, darker for more often. Random dropping looks like noise
/// around one minus its rate, dropping by magnitude like bands.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::mask::{CoordinateSelector, SelectionLog};
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// // What the steps of a run do: `run.selection_log()` is the log of one.
/// let mut log = SelectionLog::new(4);
/// let mut selector = CoordinateSelector::new(None, Some(Dropping::random(0.5)), 4, [7; 32]);
/// for step in 0..4 {
///     let selected = selector.next_selection(model.network())?.expect("some are dropped");
///     log.record(step, &selected);
/// }
/// assert_eq!(figures::selection_log(&log).table().len(), 2); // a row for each weight tensor
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// The figure reveals what the selection reveals; see [`SelectionLog`].
pub fn selection_log(log: &SelectionLog) -> Figure {
    let names = log.tensors.iter().map(|t| (t.path.as_str(), t.shape.as_slice()));
    let named = log.tensors.iter().zip(tensor_names(names));
    let tensors: Vec<NamedTensor<'_>> =
        named.filter(|(tensor, _)| is_rectangular(tensor)).collect();
    let partly = |(t, _): &NamedTensor<'_>| t.mean_by_bin(&log.recorded).iter().any(|&s| s < 1.0);
    // Tensors in which nothing is ever dropped are not drawn.
    let mut interesting: Vec<NamedTensor<'_>> =
        tensors.iter().filter(|t| partly(t)).cloned().collect();
    if interesting.is_empty() {
        interesting = tensors.clone();
    }
    let sizes: Vec<usize> = interesting.iter().map(|(tensor, _)| tensor.coordinates).collect();
    let shown = largest_indices(&sizes, MAX_PANELS);
    let mut head = FigureHeader::new("Coordinates selected over time")
        .note(as_sentence(&log.to_string()))
        .note("Across: steps. Down: coordinates of a tensor in row-major order.")
        .note(omission_note(shown.len(), tensors.len()))
        .key(palette::CARD, "never");
    if log.recorded.contains(&0) {
        head = head.key(palette::GRID, "not recorded");
    }
    for share in [0.1, 0.5, 1.0] {
        head = head.key(level_colour(shade_level(share as f32)), format!("{} %", share * 100.0));
    }
    let panel = |&i: &usize| draw_panel(&interesting[i], log, shown.len());
    let drawing = Tiles { panels: shown.iter().map(panel).collect(), levels: level_legend() };
    head.figure(&drawing, table(&tensors, &log.recorded))
}

/// Returns the colour and name of each level.
fn level_legend() -> Vec<(Rgb, String)> {
    let name = |level: u8| match level {
        0 => "never".to_owned(),
        level => format!("{} %", u32::from(level) * 10),
    };
    let levels = (0..LEVELS).map(|level| (level_colour(level), name(level)));
    levels.chain([(palette::GRID, "not recorded".to_owned())]).collect()
}

/// Returns one of `panels` panels.
fn draw_panel((tensor, name): &NamedTensor<'_>, log: &SelectionLog, panels: usize) -> TilePanel {
    let levels = shade_matrix(tensor, log, MAX_TILES / panels);
    let (times, rows) = (levels.first().map_or(1, Vec::len), levels.len());
    let part = |count: u64, bins: usize, bin: &str| {
        format!(
            "(floor({bin} * {count} / {bins}) + 1) + ' to ' + floor(({bin} + 1) * {count} / {bins})"
        )
    };
    let first = format!("step {}", 1.min(log.steps));
    TilePanel {
        head: PanelHead {
            title: name.clone(),
            size: format!("↓ {} coordinates", format::format_count(tensor.coordinates)),
            remarks: vec![selection_note(tensor, &log.recorded)],
        },
        across: grouped_intervals(column_width(panel_width(panels), times), times, 1, 0.0),
        down: grouped_intervals(row_height(rows), rows, 1, 0.0),
        tooltip: vec![
            ("steps".to_owned(), part(log.steps, times, "datum.column")),
            ("coordinates".to_owned(), part(tensor.coordinates as u64, rows, "datum.row")),
        ],
        levels,
        ends: Some([first, format::format_count(log.steps.max(1))]),
    }
}

/// A tensor's record with its display name.
type NamedTensor<'a> = (&'a SelectionLogTensor, String);

/// Returns whether all rows have the same length. A record from a damaged file may not.
fn is_rectangular(tensor: &SelectionLogTensor) -> bool {
    let places = tensor.fractions.first().map_or(0, Vec::len);
    places > 0 && tensor.fractions.iter().all(|row| row.len() == places)
}

/// Returns the shades `[bin][time]`; adjacent bins are averaged until they fit into the budget.
fn shade_matrix(tensor: &SelectionLogTensor, log: &SelectionLog, budget: usize) -> Vec<Vec<u8>> {
    let (times, places) = (tensor.fractions.len(), tensor.fractions[0].len());
    let mut rows = places;
    while rows > 8 && rows * times > budget {
        rows = rows.div_ceil(2);
    }
    let mean = |t: usize, r: usize| {
        let part = &tensor.fractions[t][r * places / rows..(r + 1) * places / rows];
        part.iter().sum::<f32>() / part.len().max(1) as f32
    };
    let was = |t: usize| log.recorded.get(t).is_some_and(|&steps| steps > 0);
    let shade = |t: usize, r: usize| if was(t) { shade_level(mean(t, r)) } else { NOT_RECORDED };
    (0..rows).map(|r| (0..times).map(|t| shade(t, r)).collect()).collect()
}

fn shade_level(share: f32) -> u8 {
    // Rarely selected bins differ from never selected ones.
    if share > 0.0 { ((share * 10.0).round() as u8).clamp(1, LEVELS - 1) } else { 0 }
}

fn level_colour(level: u8) -> Rgb {
    match level {
        0 => palette::CARD,
        level => palette::shade(f64::from(level) / f64::from(LEVELS - 1)),
    }
}

/// Returns the height of a row, which is greater where there are few.
fn row_height(rows: usize) -> f64 {
    match rows {
        0..=12 => 8.0,
        13..=24 => 5.0,
        25..=40 => 3.0,
        _ => 2.0,
    }
}

/// Returns the width of a column, in whole units, so that adjacent tiles leave no seam.
fn column_width(room: f64, times: usize) -> f64 {
    (room / times as f64).floor().clamp(1.0, 150.0)
}

/// Returns the remark below the name of a tensor.
fn selection_note(tensor: &SelectionLogTensor, recorded: &[u64]) -> String {
    let (mean, low, most) = selection_range(tensor, recorded);
    let percent = format::percent;
    format!("{} selected; by bin {} to {}", percent(mean), percent(low), percent(most))
}

/// Returns the fraction selected overall, in the least and in the most selected bin.
fn selection_range(tensor: &SelectionLogTensor, recorded: &[u64]) -> (f64, f64, f64) {
    let places = tensor.mean_by_bin(recorded);
    let mean = places.iter().sum::<f64>() / places.len().max(1) as f64;
    let (low, high) = extent(places.into_iter()).unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
    (mean, low, high)
}

fn table(tensors: &[NamedTensor<'_>], recorded: &[u64]) -> Table {
    let names =
        ["tensor", "layer", "coordinates", "selected", "least selected bin", "most selected bin"];
    let row = |(tensor, name): &NamedTensor<'_>| {
        let (mean, low, high) = selection_range(tensor, recorded);
        let count = format::format_count(tensor.coordinates);
        let [mean, low, high] = [mean, low, high].map(format::percent);
        [tensor.path.clone(), layer_cell(name, &tensor.path), count, mean, low, high]
    };
    Table::new(names).rows(tensors.iter().map(row))
}
