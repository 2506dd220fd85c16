//! Which coordinates gradient dropping touched over time.

use super::{MOST_PANELS, columns, largest, left_out, sentence};
use crate::mask::{SelectionLog, SelectionLogTensor};
use crate::show::layout::{MARGIN, SMALL, letters};
use crate::show::page::{Head, Page, panels};
use crate::show::palette::{self, Rgb};
use crate::show::scene::{Align, Area, Scene};
use crate::show::tiles::{draw, stretches};
use crate::show::{Figure, Table, font, format};

/// Most tiles of a figure.
const MOST_TILES: usize = 8192;
const HEAD: f64 = 36.0;
/// Shades of a share; the first is for what was never touched.
const LEVELS: u8 = 11;
/// The shade of a time without a recorded step.
const NOT_RECORDED: u8 = LEVELS;

/// For each weight tensor, how often its coordinates were selected: time to the right, the
/// coordinates in their order downwards, the darker the more often. Random dropping looks like
/// noise around one minus its rate, dropping by magnitude like bands.
///
/// # Guarantee
/// It reveals what the selection reveals; see [`SelectionLog`].
pub fn selection_log(touched: &SelectionLog) -> Figure {
    let tensors: Vec<&SelectionLogTensor> =
        touched.tensors.iter().filter(|t| is_whole(t)).collect();
    let partly = |t: &SelectionLogTensor| t.by_bin(&touched.recorded).iter().any(|&s| s < 1.0);
    // Where nothing is ever dropped there is nothing to see.
    let mut interesting: Vec<&SelectionLogTensor> =
        tensors.iter().copied().filter(|t| partly(t)).collect();
    if interesting.is_empty() {
        interesting = tensors.clone();
    }
    let sizes: Vec<usize> = interesting.iter().map(|t| t.coordinates).collect();
    let shown = largest(&sizes, MOST_PANELS);
    let mut head = Head::new("Coordinates touched over time")
        .note(sentence(&touched.to_string()))
        .note("Time to the right, coordinates in their order downwards.")
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
        shown.iter().map(|&i| map(interesting[i], touched, MOST_TILES / shown.len())).collect();
    let heights: Vec<f64> = maps.iter().map(|map| HEAD + high(map) * map.len() as f64).collect();
    let (areas, bottom) = panels((MARGIN, page.top + 4.0), page.room(), columns, &heights);
    for ((area, map), &i) in areas.iter().zip(&maps).zip(&shown) {
        panel(&mut page.scene, *area, room, map, interesting[i], &touched.recorded);
    }
    page.finish(bottom, &table(&tensors, &touched.recorded).text())
}

/// Records come from files too: rows of unequal length, or none, are not drawn.
fn is_whole(tensor: &SelectionLogTensor) -> bool {
    let places = tensor.fractions.first().map_or(0, Vec::len);
    places > 0 && tensor.fractions.iter().all(|row| row.len() == places)
}

/// Shades as `[place][time]`, neighbouring places averaged until there are few enough.
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
    // A rare touch is not none.
    if share > 0.0 { ((share * 10.0).round() as u8).clamp(1, LEVELS - 1) } else { 0 }
}

fn colour(level: u8) -> Rgb {
    match level {
        0 => palette::CARD,
        level => palette::shade(f64::from(level) / f64::from(LEVELS - 1)),
    }
}

/// Height of a row: few rows are drawn higher.
fn high(map: &[Vec<u8>]) -> f64 {
    match map.len() {
        0..=12 => 8.0,
        13..=24 => 5.0,
        25..=40 => 3.0,
        _ => 2.0,
    }
}

fn panel(
    scene: &mut Scene,
    area: Area,
    room: f64,
    map: &[Vec<u8>],
    tensor: &SelectionLogTensor,
    recorded: &[u64],
) {
    let y = area.top + 7.0;
    let count = format::count(tensor.coordinates);
    let free = area.width() - font::width(&count, SMALL, false) - 10.0;
    let name = font::fit(&tensor.path, SMALL + 0.5, true, free);
    scene.text((area.left, y), name, letters(SMALL + 0.5, true, palette::INK, Align::Left));
    scene.text((area.right, y), count, letters(SMALL, false, palette::MUTED, Align::Right));
    let (mean, low, most) = numbers(tensor, recorded);
    let percent = format::percent;
    let remark =
        format!("{} selected; by place {} to {}", percent(mean), percent(low), percent(most));
    let remark = font::fit(&remark, SMALL - 1.0, false, area.width());
    let muted = letters(SMALL - 1.0, false, palette::MUTED, Align::Left);
    scene.text((area.left, y + 15.0), remark, muted);
    let times = map.first().map_or(1, Vec::len);
    // Whole units: tiles that touch leave no seam.
    let wide = (room / times as f64).floor().clamp(1.0, 150.0);
    let across = stretches(area.left.round(), wide, times, 1, 0.0);
    let down = stretches((area.top + HEAD - 4.0).round(), high(map), map.len(), 1, 0.0);
    let colours: Vec<Rgb> = (0..LEVELS).map(colour).chain([palette::GRID]).collect();
    draw(scene, map, &colours, &across, &down);
}

/// The share of all, and the least and the most touched place's.
fn numbers(tensor: &SelectionLogTensor, recorded: &[u64]) -> (f64, f64, f64) {
    let places = tensor.by_bin(recorded);
    let mean = places.iter().sum::<f64>() / places.len().max(1) as f64;
    let low = places.iter().copied().fold(f64::INFINITY, f64::min);
    (mean, low, places.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn table(tensors: &[&SelectionLogTensor], recorded: &[u64]) -> Table {
    let names = ["tensor", "coordinates", "selected", "least touched place", "most touched place"];
    let mut table = Table::new(names);
    for tensor in tensors {
        let (mean, low, high) = numbers(tensor, recorded);
        let count = format::count(tensor.coordinates);
        let [mean, low, high] = [mean, low, high].map(format::percent);
        table = table.row([tensor.path.clone(), count, mean, low, high]);
    }
    table
}
