//! Which coordinates the steps of a run selected over time.

use super::{MOST_PANELS, columns, largest, layer_cell, left_out, sentence, tensor_names};
use crate::mask::{SelectionLog, SelectionLogTensor};
use crate::show::layout::{MARGIN, SMALL, text_style};
use crate::show::page::{Head, Page, panels};
use crate::show::palette::{self, Rgb};
use crate::show::scene::{Align, Area, Scene};
use crate::show::tiles::{draw, intervals};
use crate::show::{Figure, Table, font, format, vega};

/// Maximum number of tiles.
const MOST_TILES: usize = 8192;
const HEAD: f64 = 36.0;
/// Height of the labels of the axis of steps.
const AXIS: f64 = 20.0;
/// Number of shades; the first is for coordinates that were never selected.
const LEVELS: u8 = 11;
/// Shade of an interval without a recorded step.
const NOT_RECORDED: u8 = LEVELS;

/// For each weight tensor, how often its coordinates were selected: steps across, coordinates in
/// row-major order down, darker for more often. Random dropping looks like noise around one minus
/// its rate, dropping by magnitude like bands.
///
/// # Guarantee
/// The figure reveals what the selection reveals; see [`SelectionLog`].
pub fn selection_log(touched: &SelectionLog) -> Figure {
    let names = touched.tensors.iter().map(|t| (t.path.as_str(), t.shape.as_slice()));
    let named = touched.tensors.iter().zip(tensor_names(names));
    let tensors: Vec<Named<'_>> = named.filter(|(tensor, _)| is_rectangular(tensor)).collect();
    let partly = |(t, _): &Named<'_>| t.by_bin(&touched.recorded).iter().any(|&s| s < 1.0);
    // Tensors in which nothing is ever dropped are not drawn.
    let mut interesting: Vec<Named<'_>> = tensors.iter().filter(|t| partly(t)).cloned().collect();
    if interesting.is_empty() {
        interesting = tensors.clone();
    }
    let sizes: Vec<usize> = interesting.iter().map(|(tensor, _)| tensor.coordinates).collect();
    let shown = largest(&sizes, MOST_PANELS);
    let mut head = Head::new("Coordinates selected over time")
        .note(sentence(&touched.to_string()))
        .note("Across: steps. Down: coordinates of a tensor in row-major order.")
        .note(left_out(shown.len(), tensors.len()))
        .key(palette::CARD, "never");
    if touched.recorded.contains(&0) {
        head = head.key(palette::GRID, "not recorded");
    }
    for share in [0.1, 0.5, 1.0] {
        head = head.key(colour(level(share as f32)), format!("{} %", share * 100.0));
    }
    let (width, columns) = columns(shown.len());
    let mut page = Page::new(width, head);
    let (places, _) = panels((0.0, 0.0), page.room(), columns, &[0.0]);
    let room = places.first().map_or(0.0, Area::width);
    let maps: Vec<Vec<Vec<u8>>> =
        shown.iter().map(|&i| map(interesting[i].0, touched, MOST_TILES / shown.len())).collect();
    let height = |map: &Vec<Vec<u8>>| HEAD + high(map) * map.len() as f64 + AXIS;
    let heights: Vec<f64> = maps.iter().map(height).collect();
    let (areas, bottom) = panels((MARGIN, page.top + 4.0), page.room(), columns, &heights);
    let mut interactive = Vec::new();
    for ((area, map), &i) in areas.iter().zip(&maps).zip(&shown) {
        panel(&mut page.scene, *area, room, map, &interesting[i], touched);
        interactive.push(tiles(map, room, &interesting[i], touched));
    }
    let body = vega::tiles::body(&interactive, &meanings(), columns);
    page.finish_interactive(bottom, table(&tensors, &touched.recorded), body)
}

/// Colour and name of each level.
fn meanings() -> Vec<(Rgb, String)> {
    let name = |level: u8| match level {
        0 => "never".to_owned(),
        level => format!("{} %", u32::from(level) * 10),
    };
    let levels = (0..LEVELS).map(|level| (colour(level), name(level)));
    levels.chain([(palette::GRID, "not recorded".to_owned())]).collect()
}

/// The panel of the interactive format.
fn tiles(
    map: &[Vec<u8>],
    room: f64,
    (tensor, name): &Named<'_>,
    touched: &SelectionLog,
) -> vega::tiles::Tiles {
    let (times, rows) = (map.first().map_or(1, Vec::len), map.len());
    let part = |count: u64, of: usize, place: &str| {
        format!(
            "(floor({place} * {count} / {of}) + 1) + ' to ' + floor(({place} + 1) * {count} / {of})"
        )
    };
    vega::tiles::Tiles {
        title: name.clone(),
        about: vec![remark(tensor, &touched.recorded)],
        levels: map.to_vec(),
        across: intervals(0.0, wide(room, times), times, 1, 0.0),
        down: intervals(0.0, high(map), rows, 1, 0.0),
        tooltip: vec![
            ("steps".to_owned(), part(touched.steps, times, "datum.column")),
            ("coordinates".to_owned(), part(tensor.coordinates as u64, rows, "datum.row")),
        ],
    }
}

/// A tensor's record with its display name.
type Named<'a> = (&'a SelectionLogTensor, String);

/// Whether all rows have the same length. A record from a damaged file may not.
fn is_rectangular(tensor: &SelectionLogTensor) -> bool {
    let places = tensor.fractions.first().map_or(0, Vec::len);
    places > 0 && tensor.fractions.iter().all(|row| row.len() == places)
}

/// Shades `[bin][time]`; adjacent bins are averaged until they fit into the budget.
fn map(tensor: &SelectionLogTensor, touched: &SelectionLog, budget: usize) -> Vec<Vec<u8>> {
    let (times, places) = (tensor.fractions.len(), tensor.fractions[0].len());
    let mut rows = places;
    while rows > 8 && rows * times > budget {
        rows = rows.div_ceil(2);
    }
    let mean = |t: usize, r: usize| {
        let part = &tensor.fractions[t][r * places / rows..(r + 1) * places / rows];
        part.iter().sum::<f32>() / part.len().max(1) as f32
    };
    let was = |t: usize| touched.recorded.get(t).is_some_and(|&steps| steps > 0);
    let shade = |t: usize, r: usize| if was(t) { level(mean(t, r)) } else { NOT_RECORDED };
    (0..rows).map(|r| (0..times).map(|t| shade(t, r)).collect()).collect()
}

fn level(share: f32) -> u8 {
    // Rarely selected bins differ from never selected ones.
    if share > 0.0 { ((share * 10.0).round() as u8).clamp(1, LEVELS - 1) } else { 0 }
}

fn colour(level: u8) -> Rgb {
    match level {
        0 => palette::CARD,
        level => palette::shade(f64::from(level) / f64::from(LEVELS - 1)),
    }
}

/// Height of a row; few rows are higher.
fn high(map: &[Vec<u8>]) -> f64 {
    match map.len() {
        0..=12 => 8.0,
        13..=24 => 5.0,
        25..=40 => 3.0,
        _ => 2.0,
    }
}

/// Width of a column, in whole units, so that adjacent tiles leave no seam.
fn wide(room: f64, times: usize) -> f64 {
    (room / times as f64).floor().clamp(1.0, 150.0)
}

/// What stands below the name of a tensor.
fn remark(tensor: &SelectionLogTensor, recorded: &[u64]) -> String {
    let (mean, low, most) = numbers(tensor, recorded);
    let percent = format::percent;
    format!("{} selected; by bin {} to {}", percent(mean), percent(low), percent(most))
}

fn panel(
    scene: &mut Scene,
    area: Area,
    room: f64,
    map: &[Vec<u8>],
    (tensor, name): &Named<'_>,
    touched: &SelectionLog,
) {
    let recorded = &touched.recorded;
    let y = area.top + 7.0;
    let count = format!("↓ {} coordinates", format::count(tensor.coordinates));
    let free = area.width() - font::width(&count, SMALL, false) - 10.0;
    let name = font::fit(name, SMALL + 0.5, true, free);
    scene.text((area.left, y), name, text_style(SMALL + 0.5, true, palette::INK, Align::Left));
    scene.text((area.right, y), count, text_style(SMALL, false, palette::MUTED, Align::Right));
    let remark = font::fit(&remark(tensor, recorded), SMALL - 1.0, false, area.width());
    let muted = text_style(SMALL - 1.0, false, palette::MUTED, Align::Left);
    scene.text((area.left, y + 15.0), remark, muted);
    let times = map.first().map_or(1, Vec::len);
    let across = intervals(area.left.round(), wide(room, times), times, 1, 0.0);
    let down = intervals((area.top + HEAD - 4.0).round(), high(map), map.len(), 1, 0.0);
    let colours: Vec<Rgb> = (0..LEVELS).map(colour).chain([palette::GRID]).collect();
    draw(scene, map, &colours, &across, &down);
    let (Some(&(left, _)), Some(&(_, right))) = (across.first(), across.last()) else { return };
    let Some(&(_, bottom)) = down.last() else { return };
    let y = bottom + 10.0;
    let last = format::count(touched.steps.max(1));
    let first = format!("step {}", 1.min(touched.steps));
    if font::width(&first, SMALL, false) + font::width(&last, SMALL, false) < right - left {
        scene.text((right, y), last, text_style(SMALL - 1.0, false, palette::MUTED, Align::Right));
    }
    scene.text((left, y), first, muted);
}

/// Fraction selected overall, in the least and in the most selected bin.
fn numbers(tensor: &SelectionLogTensor, recorded: &[u64]) -> (f64, f64, f64) {
    let places = tensor.by_bin(recorded);
    let mean = places.iter().sum::<f64>() / places.len().max(1) as f64;
    let low = places.iter().copied().fold(f64::INFINITY, f64::min);
    (mean, low, places.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn table(tensors: &[Named<'_>], recorded: &[u64]) -> Table {
    let names =
        ["tensor", "layer", "coordinates", "selected", "least selected bin", "most selected bin"];
    let mut table = Table::new(names);
    for (tensor, name) in tensors {
        let (mean, low, high) = numbers(tensor, recorded);
        let count = format::count(tensor.coordinates);
        let [mean, low, high] = [mean, low, high].map(format::percent);
        let layer = layer_cell(name, &tensor.path);
        table = table.row([tensor.path.clone(), layer, count, mean, low, high]);
    }
    table
}
