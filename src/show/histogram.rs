//! Histograms on a logarithmic axis, with a threshold.

use super::figure_card::{Drawing, FigureCard};
use super::layout::{SMALL_SIZE, fit_x_axis, muted, tiny};
use super::multiples::{PanelHead, areas, columns};
use super::palette::{self, Rgb};
use super::scene::{Align, Rect, Scene};
use super::{font, format};
use serde_json::Value;

pub(super) const BINS: usize = 28;

/// Histograms on a common logarithmic axis, of values in two classes that a threshold separates.
pub(super) struct Histograms {
    /// Name of the values: `score`.
    pub name: &'static str,
    /// The histograms, all over the same range.
    pub panels: Vec<HistogramPanel>,
    /// The threshold, marked by a dashed line.
    pub threshold: Option<f64>,
    /// Name and colour of the values at or above the threshold: `kept`.
    pub above: (&'static str, Rgb),
    /// Name and colour of the values below it: `dropped`.
    pub below: (&'static str, Rgb),
}

/// The histogram of one panel.
pub(super) struct HistogramPanel {
    pub head: PanelHead,
    pub histogram: Histogram,
    /// Values that do not fit on the logarithmic axis because they are zero. They are below every
    /// threshold.
    pub zeros: usize,
}

impl Histograms {
    /// Returns the height of a plot, which is greater for a single one.
    fn height(&self) -> f64 {
        if self.panels.len() == 1 { 130.0 } else { 60.0 }
    }

    /// Draws the plot of a panel with its axis, below its header.
    fn draw_plot(&self, scene: &mut Scene, area: Rect, histogram: &Histogram) {
        let tallest = format::format_count(histogram.max_count());
        let left = area.left + font::text_width(&tallest, SMALL_SIZE - 1.0, false) + 6.0;
        let bottom = area.bottom - 36.0;
        let plot = Rect { left, top: bottom - self.height(), bottom, ..area };
        histogram.draw(scene, plot, self.threshold);
        let middle = (plot.left + plot.right) / 2.0;
        let name = format!("{} (logarithmic)", self.name);
        scene.text((middle, plot.bottom + 27.0), name, tiny(Align::Middle));
        if histogram.max_count() > 0 {
            scene.text((plot.left - 5.0, plot.top + 3.0), tallest, tiny(Align::Right));
        } else {
            let at = (middle, (plot.top + plot.bottom) / 2.0);
            scene.text(at, format!("no {} above zero", self.name), muted(Align::Middle));
        }
    }
}

impl Drawing for Histograms {
    fn width(&self) -> f64 {
        if self.panels.len() == 1 { 640.0 } else { columns(self.panels.len()).0 }
    }

    fn draw(&self, page: &mut FigureCard) -> f64 {
        let heights: Vec<f64> =
            self.panels.iter().map(|panel| panel.head.height() + 39.0 + self.height()).collect();
        let (areas, bottom) = areas(page, columns(self.panels.len()).1, &heights);
        for (panel, area) in self.panels.iter().zip(areas) {
            panel.head.draw(&mut page.scene, area);
            self.draw_plot(&mut page.scene, area, &panel.histogram);
        }
        bottom
    }

    fn vega_lite(&self) -> Option<Value> {
        Some(super::vega::histograms(self))
    }
}

/// A stacked histogram of two classes over bins of equal width on a logarithmic axis.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    low: f64,
    high: f64,
    bins: [(usize, usize); BINS],
}

impl Histogram {
    /// Creates an empty histogram over this range of positive values.
    pub(super) fn new(low: f64, high: f64) -> Self {
        Self { low, high, bins: [(0, 0); BINS] }
    }

    /// Counts a positive value. Values outside the range are counted in the first or last bin.
    pub(super) fn add(&mut self, value: f64, first_class: bool) {
        // A difference of logarithms: the ratio of the ends can overflow.
        let share = (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln());
        let bin = ((share * BINS as f64) as usize).min(BINS - 1);
        let (first, second) = &mut self.bins[bin];
        *if first_class { first } else { second } += 1;
    }

    /// Returns the ends of the axis.
    pub(super) fn range(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Returns the counts of the bins, of both classes together.
    pub(super) fn counts(&self) -> impl Iterator<Item = usize> + '_ {
        self.bins.iter().map(|(a, b)| a + b)
    }

    /// Returns the count of the tallest bar.
    pub(super) fn max_count(&self) -> usize {
        self.bins.iter().map(|(a, b)| a + b).max().unwrap_or(0)
    }

    /// Draws bars, axis and, at `threshold`, a dashed line. The first class is drawn below the
    /// second; the tallest bar has the height of the area.
    fn draw(&self, scene: &mut Scene, area: Rect, threshold: Option<f64>) {
        let x = fit_x_axis(self.range(), true, area.width());
        let tallest = self.max_count();
        let wide = area.width() / BINS as f64;
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        for (i, &(a, b)) in self.bins.iter().enumerate().filter(|(_, (a, b))| a + b > 0) {
            let left = area.left + i as f64 * wide;
            let box_of = |from: f64, to: f64| {
                let (top, bottom) = (area.bottom - to, area.bottom - from);
                Rect { left: left + 0.5, top, right: left + wide - 0.5, bottom }
            };
            // Bins that are not empty stay visible.
            let up = |n: usize| match n {
                0 => 0.0,
                n => (n as f64 / tallest as f64 * area.height()).max(1.0),
            };
            lower.extend((a > 0).then(|| box_of(0.0, up(a))));
            upper.extend((b > 0).then(|| box_of(up(a), up(a) + up(b))));
        }
        scene.cells(lower, palette::KEPT);
        scene.cells(upper, palette::DROPPED);
        let base = area.bottom.round();
        let under =
            |left: f64, right: f64, high: f64| Rect { left, top: base, right, bottom: base + high };
        scene.fill(under(area.left.round(), area.right.round(), 1.0), palette::AXIS);
        for (value, label) in &x.ticks {
            let at = (area.left + x.position(*value) * area.width()).round();
            scene.fill(under(at, at + 1.0, 4.0), palette::AXIS);
            let half = font::text_width(label, SMALL_SIZE - 1.0, false) / 2.0;
            let at = at.min(area.right + 8.0 - half).max(area.left - 8.0 + half);
            scene.text((at, base + 12.0), label, tiny(Align::Middle));
        }
        let position = threshold.filter(|at| *at > 0.0).map(|at| x.position(at));
        if let Some(position) = position.filter(|position| (0.0..=1.0).contains(position)) {
            let at = area.left + position * area.width();
            let ends = [(at, area.bottom), (at, area.top - 4.0)];
            scene.dashed(&ends, palette::INK, 1.25, (4.0, 3.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_the_range_are_counted_in_the_end_bins() {
        let mut histogram = Histogram::new(1e-300, 1e300);
        for (value, first) in [(1e-300, true), (5e-324, true), (1.0, false), (1e300, false)] {
            histogram.add(value, first);
        }
        assert_eq!(histogram.bins[0], (2, 0));
        assert_eq!((histogram.bins[BINS / 2], histogram.bins[BINS - 1]), ((0, 1), (0, 1)));
        assert_eq!(histogram.max_count(), 2);
    }

    #[test]
    fn an_empty_histogram_draws_an_axis_and_no_bar() {
        let mut scene = Scene::new(100.0, 50.0);
        let area = Rect { left: 5.0, top: 5.0, right: 95.0, bottom: 30.0 };
        Histogram::new(1.0, 10.0).draw(&mut scene, area, None);
        assert!(!scene.marks.iter().any(|m| matches!(m, super::super::scene::Mark::Cells { .. })));
    }
}
