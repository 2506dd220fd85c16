//! Horizontal bars in groups, and the rows that carry them.

use super::axis::Axis;
use super::figure_card::{Drawing, FigureCard};
use super::font;
use super::format::to_single_line;
use super::layout::{MARGIN, SMALL_SIZE, text_style, tiny};
use super::palette::{self, Rgb};
use super::scene::{Align, Rect};
use serde_json::Value;

const WIDTH: f64 = 760.0;
/// Height of a bar.
const BAR_HEIGHT: f64 = 11.0;
/// Length of the shortest bar: tiny values stay visible.
const SHORTEST: f64 = 1.5;

/// Bars on a common axis, in groups: one group for each row, at most one bar of each kind in it.
pub(super) struct Bars {
    /// Name of the quantity that the bars show.
    pub name: &'static str,
    pub axis: Axis,
    /// Kinds of bars with their colours, in order.
    pub kinds: Vec<(&'static str, Rgb)>,
    /// Name of each row and its bars, one for each kind.
    pub rows: Vec<(String, Vec<Bar>)>,
    /// Value that is marked by a dashed line.
    pub mark: Option<f64>,
}

/// One bar.
#[derive(Clone)]
pub(super) struct Bar {
    /// Length of the bar; `None` for a text without a bar.
    pub value: Option<f64>,
    /// Values of the bar as texts. They stand at the end of the bar, or, where a row has a single
    /// bar, in columns at the right.
    pub texts: Vec<String>,
    /// Word at the end of a row's only bar.
    pub remark: &'static str,
}

impl Bar {
    /// Creates a bar with one text and no remark.
    pub(super) fn new(value: Option<f64>, text: String) -> Self {
        Self { value, texts: vec![text], remark: "" }
    }
}

impl Drawing for Bars {
    fn width(&self) -> f64 {
        WIDTH
    }

    fn draw(&self, page: &mut FigureCard) -> f64 {
        let is_single = self.kinds.len() == 1;
        let row = |(name, bars): &(String, Vec<Bar>)| {
            let columns = bars.iter().filter(|_| is_single).flat_map(|bar| bar.texts.clone());
            Row { name: name.clone(), columns: columns.collect() }
        };
        let rows: Vec<Row> = self.rows.iter().map(row).collect();
        let gap = if is_single { 8.0 } else { 12.0 };
        let height = self.kinds.len() as f64 * BAR_HEIGHT + gap;
        let at_end = self.rows.iter().flat_map(|(_, bars)| bars).filter(|_| !is_single);
        let text_width = at_end.map(|bar| width(&bar.texts.join(", "))).fold(5.0, f64::max);
        let plot = frame(page, &rows, height, &self.axis, text_width);
        page.scene.fill(Rect { right: plot.left + 1.0, ..plot }, palette::AXIS);
        let length = |value: f64| match self.axis.position(value).clamp(0.0, 1.0) * plot.width() {
            length if value > 0.0 => length.max(SHORTEST),
            _ => 0.0,
        };
        for (r, (_, bars)) in self.rows.iter().enumerate() {
            let top = plot.top + r as f64 * height + gap / 2.0;
            for (i, (bar, (_, colour))) in bars.iter().zip(&self.kinds).enumerate() {
                let (from, to) = (top + i as f64 * BAR_HEIGHT, top + (i + 1) as f64 * BAR_HEIGHT);
                let end = plot.left + bar.value.map_or(0.0, length);
                let (top, bottom) = (from.round(), (to - 1.0).round());
                if end > plot.left {
                    page.scene.fill(Rect { left: plot.left, top, right: end, bottom }, *colour);
                }
                let (text, ink) = if is_single {
                    (bar.remark.to_owned(), palette::BADGE_INK)
                } else {
                    (bar.texts.join(", "), palette::MUTED)
                };
                let style = text_style(SMALL_SIZE - 1.0, false, ink, Align::Left);
                page.scene.text((end + 5.0, (from + to) / 2.0), text, style);
            }
        }
        if let Some(mark) = self.mark {
            let x = plot.left + self.axis.position(mark) * plot.width();
            let line = [(x, plot.bottom), (x, plot.top)];
            page.scene.dashed(&line, palette::INK, 1.25, (4.0, 3.0));
        }
        plot.bottom + 18.0
    }

    fn vega_lite(&self) -> Option<Value> {
        Some(super::vega::bars(self))
    }
}

/// A row of a figure: its name at the left, and texts in columns at the right.
pub(super) struct Row {
    pub name: String,
    pub columns: Vec<String>,
}

fn width(text: &str) -> f64 {
    font::text_width(text, SMALL_SIZE, false)
}

/// Draws the names and columns of rows, and the grid of an axis between them. Returns the area for
/// bars or dots; `text_width` is left between it and the columns.
pub(super) fn frame(
    page: &mut FigureCard,
    rows: &[Row],
    height: f64,
    axis: &Axis,
    text_width: f64,
) -> Rect {
    let ink = |colour, align| text_style(SMALL_SIZE, false, colour, align);
    let names = rows.iter().map(|row| width(&row.name)).fold(40.0, f64::max).min(230.0);
    let left = (MARGIN + names + 8.0).round();
    let top = page.top + 4.0;
    let middle = |r: usize| top + (r as f64 + 0.5) * height;
    for (r, row) in rows.iter().enumerate() {
        let name = font::truncate_to_width(&to_single_line(&row.name), SMALL_SIZE, false, names);
        page.scene.text((left - 8.0, middle(r)), name, ink(palette::INK, Align::Right));
    }
    let mut right = page.scene.width - MARGIN;
    let columns = rows.first().map_or(0, |row| row.columns.len());
    for c in (0..columns).rev() {
        let colour = if c + 1 == columns { palette::MUTED } else { palette::INK };
        for (r, row) in rows.iter().enumerate() {
            page.scene.text((right, middle(r)), &row.columns[c], ink(colour, Align::Right));
        }
        right -= rows.iter().map(|row| width(&row.columns[c])).fold(40.0, f64::max) + 14.0;
    }
    let bottom = top + rows.len() as f64 * height;
    let plot = Rect { left, top, right: (right - text_width).round(), bottom };
    for (value, label) in &axis.ticks {
        let x = (plot.left + axis.position(*value) * plot.width()).round();
        page.scene.fill(Rect { left: x, right: x + 1.0, ..plot }, palette::GRID);
        page.scene.text((x, bottom + 10.0), label, tiny(Align::Middle));
    }
    plot
}
