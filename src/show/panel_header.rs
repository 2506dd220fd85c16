//! The header of a panel: name and last value, badge, remark and legend. All of it is placed above
//! the plot, so that no text covers data.

use super::axis::{Axis, Unit};
use super::chart::Panel;
use super::format::to_single_line;
use super::layout::{SMALL_SIZE, max_tick_label_width, text_style, tiny};
use super::scene::{Align, Rect, Scene};
use super::series::is_drawable;
use super::{Series, font, palette, plot};

const HEADING_SIZE: f64 = 12.5;
/// Distance between tick labels and the left edge of the plot.
const TICK_GAP: f64 = 7.0;

/// A panel with the measurements that the layout needs.
pub(super) struct PanelLayout<'a> {
    pub panel: &'a Panel,
    pub y: Axis,
    pub tick_label_width: f64,
    width: f64,
    reading_note: String,
    legend: Vec<LegendRow>,
}

type LegendRow = Vec<LegendEntry>;

struct LegendEntry {
    series: usize,
    x: f64,
    name: String,
    value: String,
}

const SAMPLE_WIDTH: f64 = 24.0;
const LEGEND_GAP: f64 = 16.0;
const LINE_HEIGHT: f64 = 17.0;

impl<'a> PanelLayout<'a> {
    pub(super) fn new(panel: &'a Panel, y: Axis, width: f64) -> Self {
        let tick_room = max_tick_label_width(&y).max(24.0) + TICK_GAP;
        let legend = if panel.series.len() > 1 { layout_legend(panel, width) } else { Vec::new() };
        let remark = reading_note(panel, &y);
        Self { panel, tick_label_width: tick_room, y, width, reading_note: remark, legend }
    }

    fn has_second_line(&self) -> bool {
        self.panel.badge.is_some() || !self.reading_note.is_empty()
    }

    pub(super) fn height(&self) -> f64 {
        let second = if self.has_second_line() { LINE_HEIGHT + 3.0 } else { 0.0 };
        20.0 + second + self.legend.len() as f64 * LINE_HEIGHT + 4.0
    }

    /// Draws the header with its upper left corner at (`left`, `top`).
    pub(super) fn draw(&self, scene: &mut Scene, left: f64, top: f64) {
        let right = left + self.width;
        let mut y = top + 7.0;
        let value = match self.panel.series.as_slice() {
            [series] => displayed_value(self.panel, series).map(|v| self.panel.format_value(v)),
            _ => None,
        };
        let value = value.unwrap_or_default();
        let max_width = self.width - font::text_width(&value, HEADING_SIZE, true) - 12.0;
        let name = font::truncate_to_width(
            &to_single_line(&self.panel.label),
            HEADING_SIZE,
            true,
            max_width,
        );
        scene.text((left, y), name, text_style(HEADING_SIZE, true, palette::INK, Align::Left));
        scene.text((right, y), value, text_style(HEADING_SIZE, true, palette::INK, Align::Right));
        y += LINE_HEIGHT + 3.0;
        if self.has_second_line() {
            let mut free = self.width;
            if let Some(badge) = &self.panel.badge {
                free -= draw_badge(scene, &to_single_line(badge), left, y, self.width) + 10.0;
            }
            let remark = font::truncate_to_width(&self.reading_note, SMALL_SIZE - 1.0, false, free);
            scene.text((right, y), remark, tiny(Align::Right));
            y += LINE_HEIGHT + 3.0;
        }
        for row in &self.legend {
            for entry in row {
                self.draw_legend_entry(scene, entry, left + entry.x, y);
            }
            y += LINE_HEIGHT;
        }
    }

    fn draw_legend_entry(&self, scene: &mut Scene, entry: &LegendEntry, x: f64, y: f64) {
        plot::draw_line_sample(scene, self.panel, entry.series, (x, y), SAMPLE_WIDTH);
        let at = x + SAMPLE_WIDTH + 6.0;
        scene.text((at, y), &entry.name, text_style(SMALL_SIZE, false, palette::INK, Align::Left));
        let at = at + font::text_width(&entry.name, SMALL_SIZE, false) + 5.0;
        scene.text((at, y), &entry.value, text_style(SMALL_SIZE, true, palette::INK, Align::Left));
    }
}

/// Draws a badge centred at height `y` and returns its width.
pub(super) fn draw_badge(scene: &mut Scene, badge: &str, left: f64, y: f64, max_width: f64) -> f64 {
    let size = SMALL_SIZE - 1.0;
    let text = font::truncate_to_width(badge, size, false, max_width - 12.0);
    let width = font::text_width(&text, size, false) + 12.0;
    let (top, bottom) = ((y - 8.0).round(), (y + 8.0).round());
    let area = Rect { left, top, right: (left + width).round(), bottom };
    scene.framed_rect(area, palette::BADGE, palette::BADGE_EDGE);
    scene.text((left + 6.0, y), text, text_style(size, false, palette::BADGE_INK, Align::Left));
    width
}

/// Returns the remark on how to read the plot: where the axis begins if not at 0, then where the
/// values beside the names are read or how many points the running mean takes.
fn reading_note(panel: &Panel, y: &Axis) -> String {
    let truncated = y.truncated_start_label(panel.unit).map(|low| format!("axis begins at {low}"));
    let mark = panel.x_marker.as_ref().filter(|mark| !mark.label.is_empty());
    let mark = mark.map(|mark| {
        let values = if panel.series.len() > 1 { "values at" } else { "at" };
        format!("{values} {}", to_single_line(&mark.label))
    });
    let window = || panel.series.iter().filter_map(|series| series.smoothing_window()).max();
    let mean = || window().map(|n| format!("bold: mean of {n}"));
    let summary =
        panel.value_label.as_ref().map(|text| format!("values: {}", to_single_line(text)));
    let values = mark.or(summary).or_else(mean);
    truncated.into_iter().chain(values).collect::<Vec<_>>().join("; ")
}

/// Returns the point of a series nearest to the marked x, if it can be drawn.
pub(super) fn marked_point(panel: &Panel, series: &Series) -> Option<(f64, f64)> {
    nearest_to_marker(panel, series).filter(|p| is_drawable(p.1) && (!panel.log || p.1 > 0.0))
}

fn nearest_to_marker(panel: &Panel, series: &Series) -> Option<(f64, f64)> {
    let mark = panel.x_marker.as_ref()?;
    let points = series.points.iter().copied().filter(|p| is_drawable(p.0));
    points.min_by(|a, b| (a.0 - mark.at).abs().total_cmp(&(b.0 - mark.at).abs()))
}

/// Returns the value beside the name of a series: its summary, else the value at the marked x,
/// else the last value (of the running mean, if that is drawn).
pub(super) fn displayed_value(panel: &Panel, series: &Series) -> Option<f64> {
    if series.summary.is_some() {
        return series.summary.filter(|value| value.is_finite());
    }
    // An infinite epsilon can't be drawn, but showing the last finite one would understate it.
    let newest = match panel.x_marker {
        Some(_) => nearest_to_marker(panel, series),
        None => series.points.last().copied(),
    };
    if let Some((_, y)) = newest.filter(|_| panel.unit == Unit::Epsilon)
        && y == f64::INFINITY
    {
        return Some(y);
    }
    if panel.x_marker.is_some() {
        return marked_point(panel, series).map(|p| p.1);
    }
    let Some(window) = series.smoothing_window() else {
        return series.finite_points().filter(|p| !panel.log || p.1 > 0.0).last().map(|p| p.1);
    };
    let last = series.segments().last()?;
    super::series::running_mean(last, window).last().map(|p| p.1)
}

/// Lays out names and values from left to right, in as many rows as needed.
fn layout_legend(panel: &Panel, width: f64) -> Vec<LegendRow> {
    let mut rows: Vec<LegendRow> = vec![Vec::new()];
    let mut x = 0.0;
    for (i, series) in panel.series.iter().enumerate() {
        let value = match displayed_value(panel, series) {
            Some(value) => panel.format_value(value),
            None => "no data yet".into(),
        };
        let value_width = font::text_width(&value, SMALL_SIZE, true) + 5.0;
        let max_width = width - SAMPLE_WIDTH - 6.0 - value_width;
        let name =
            font::truncate_to_width(&to_single_line(&series.name), SMALL_SIZE, false, max_width);
        let wide = SAMPLE_WIDTH + 6.0 + font::text_width(&name, SMALL_SIZE, false) + value_width;
        if x > 0.0 && x + wide > width {
            rows.push(Vec::new());
            x = 0.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push(LegendEntry { series: i, x, name, value });
        }
        x += wide + LEGEND_GAP;
    }
    rows
}
