//! Layout of charts.

use super::axis::{Axis, Unit};
use super::chart::{Chart, Panel};
use super::figure_card::FigureCard;
use super::font;
use super::format::to_single_line;
use super::palette::{self, Rgb};
use super::panel_header::PanelLayout;
use super::plot;
use super::scene::{Align, Rect, Scene, TextStyle};
use super::series::{Series, extent};

pub(super) const MARGIN: f64 = 18.0;
const GAP: f64 = 28.0;
pub(super) const TITLE_SIZE: f64 = 15.0;
pub(super) const SMALL_SIZE: f64 = 11.0;

pub(super) fn text_style(size: f64, bold: bool, colour: Rgb, align: Align) -> TextStyle {
    TextStyle { size, bold, colour, align }
}

/// Returns the style of remarks and names of axes.
pub(super) fn muted(align: Align) -> TextStyle {
    text_style(SMALL_SIZE, false, palette::MUTED, align)
}

/// Returns the style of the labels of small plots.
pub(super) fn tiny(align: Align) -> TextStyle {
    text_style(SMALL_SIZE - 1.0, false, palette::MUTED, align)
}

/// Columns and sizes of a chart.
pub(super) struct Sizes {
    pub columns: usize,
    /// Width of the card.
    pub width: f64,
    pub panel_width: f64,
    pub plot_height: f64,
}

impl Sizes {
    pub(super) fn from_chart(chart: &Chart) -> Self {
        let columns = if chart.stacked { 1 } else { chart.panels.len().clamp(1, 3) };
        let (width, plot_height) = match (columns, chart.stacked) {
            (1, false) => (600.0, 230.0),
            (1, true) => (640.0, 130.0),
            (2, _) => (760.0, 200.0),
            _ => (900.0, 180.0),
        };
        let panel_width = (width - 2.0 * MARGIN - GAP * (columns as f64 - 1.0)) / columns as f64;
        Self { columns, width, panel_width, plot_height }
    }
}

/// Draws the whole chart.
pub(super) fn layout_chart(chart: &Chart) -> Scene {
    let Sizes { columns, width, panel_width, plot_height } = Sizes::from_chart(chart);
    let x_axis = x_range(chart);
    let mut plans: Vec<PanelLayout<'_>> = chart
        .panels
        .iter()
        .map(|panel| PanelLayout::new(panel, y_axis(panel), panel_width))
        .collect();
    if chart.stacked {
        // Plots that share their x axis are aligned.
        let label_width = plans.iter().map(|plan| plan.tick_label_width).fold(0.0, f64::max);
        plans.iter_mut().for_each(|plan| plan.tick_label_width = label_width);
    }
    let mut page = FigureCard::new(width, &chart.head());
    let x_name = if chart.x_label.is_empty() { 0.0 } else { 17.0 };
    let mut top = page.top + 5.0;
    let mut bottom = top;
    let rows: Vec<&[PanelLayout<'_>]> = plans.chunks(columns).collect();
    for (r, row) in rows.iter().enumerate() {
        // All plots of a row begin at the same height.
        let head = row.iter().map(PanelLayout::height).fold(0.0, f64::max);
        // Stacked panels share the label of the x axis.
        let has_label = !chart.stacked || r + 1 == rows.len();
        for (column, plan) in row.iter().enumerate() {
            let left = MARGIN + column as f64 * (panel_width + GAP);
            plan.draw(&mut page.scene, left, top);
            let (from, to) = (top + head, top + head + plot_height);
            let (left, right) = (left + plan.tick_label_width, left + panel_width);
            let area = Rect { left, top: from, right, bottom: to };
            let x = fit_x_axis(x_axis, chart.x_log, area.width());
            plot::draw(&mut page.scene, plan.panel, area, &x, &plan.y);
            if has_label {
                let middle = (area.left + area.right) / 2.0;
                let label = font::truncate_to_width(
                    &to_single_line(&chart.x_label),
                    SMALL_SIZE,
                    false,
                    area.width(),
                );
                page.scene.text((middle, area.bottom + 30.0), label, muted(Align::Middle));
            }
        }
        bottom = top + head + plot_height + 20.0 + if has_label { x_name } else { 0.0 };
        top = bottom + 14.0;
    }
    page.card(bottom)
}

/// Returns the ends of the x axis of all panels.
pub(super) fn x_range(chart: &Chart) -> (f64, f64) {
    let given = chart.x_range.filter(|(from, _)| !chart.x_log || *from > 0.0);
    let default = (if chart.x_log { 0.1 } else { 0.0 }, 1.0);
    given.or_else(|| extent(chart.points().map(|point| point.0))).unwrap_or(default)
}

/// Returns an x axis with as many ticks as fit without crowding their labels.
pub(super) fn fit_x_axis((low, high): (f64, f64), log: bool, width: f64) -> Axis {
    let axis = |count| {
        if log {
            Axis::log_exact(low, high, count)
        } else {
            Axis::linear_exact(low, high, count, Unit::Plain)
        }
    };
    let most = if log { 12 } else { 8 };
    // A short axis with integer ends probably counts something: its ticks are integers.
    let is_whole = |v: f64| (v - v.round()).abs() < 1e-9;
    let counts = !log && is_whole(low) && is_whole(high) && (2.0..=8.0).contains(&(high - low));
    for count in (2..=most).rev() {
        let axis = axis(count);
        if counts && !axis.ticks.iter().all(|(t, _)| is_whole(*t)) {
            continue;
        }
        let widest = max_tick_label_width(&axis);
        if axis.ticks.len() as f64 * (widest + 18.0) <= width + widest {
            return axis;
        }
    }
    axis(1)
}

pub(super) fn max_tick_label_width(axis: &Axis) -> f64 {
    axis.ticks
        .iter()
        .map(|(_, label)| font::text_width(label, SMALL_SIZE, false))
        .fold(0.0, f64::max)
}

/// Returns the value axis of a panel.
pub(super) fn y_axis(panel: &Panel) -> Axis {
    const TICKS: usize = 5;
    if let Some((low, high)) = panel.y_range {
        if !panel.log {
            return Axis::linear_exact(low, high, TICKS, panel.unit);
        }
        if low > 0.0 {
            return Axis::log_nice(low, high, panel.unit);
        }
    }
    let on_axis = |value: &f64| !panel.log || *value > 0.0;
    let bars = panel.series.iter().flat_map(Series::error_bars);
    let bars = bars.flat_map(|((_, y), error)| [y - error, y + error]);
    let levels = panel.references.iter().map(|reference| reference.at);
    let values = panel.points().map(|point| point.1).chain(bars).chain(levels.clone());
    let default = if panel.log { (0.1, 1.0) } else { (0.0, 1.0) };
    let (mut low, mut high) = extent(values.filter(on_axis)).unwrap_or(default);
    if panel.log {
        return Axis::log_nice(low, high, panel.unit);
    }
    if low > 0.0 && (low < 0.4 * high || panel.unit == Unit::Epsilon || panel.from_zero) {
        low = 0.0;
    }
    // A reference at the edge needs space for its label.
    let margin = 0.12 * (high - low);
    let (bottom, top) = (levels.clone().fold(high, f64::min), levels.fold(low, f64::max));
    if !panel.references.is_empty() && top >= high {
        high += margin;
    }
    if !panel.references.is_empty() && bottom <= low && low > 0.0 {
        low -= margin;
    }
    let axis = Axis::linear_nice(low, high, TICKS, panel.unit);
    let is_share = panel.unit.is_percent() && low >= 0.0 && high <= 1.0;
    if is_share { axis.restricted_to(0.0, 1.0) } else { axis }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::panel_header::displayed_value;
    use super::super::scene::Mark;
    use super::super::{NOT_COVERED, RunSnapshot, Series, run_chart};
    use super::*;

    /// Returns the bounding boxes of all texts, from cap height to base line.
    fn texts(scene: &Scene) -> Vec<(String, Rect)> {
        let mut boxes = Vec::new();
        for mark in &scene.marks {
            if let Mark::Text { at: (x, y), text, style } = mark {
                let TextStyle { size, bold, align, .. } = style;
                let width = font::text_width(text, *size, *bold);
                let left = match align {
                    Align::Left => *x,
                    Align::Middle => x - width / 2.0,
                    Align::Right => x - width,
                };
                let (top, bottom) = (y - 0.46 * size, y + 0.28 * size);
                boxes.push((text.clone(), Rect { left, top, right: left + width, bottom }));
            }
        }
        boxes
    }

    pub(in crate::show) fn collisions(scene: &Scene) -> Vec<String> {
        let texts = texts(scene);
        let mut found = Vec::new();
        for (i, (a, at)) in texts.iter().enumerate() {
            let inside = at.left >= 4.0
                && at.right <= scene.width - 4.0
                && at.top >= 4.0
                && at.bottom <= scene.height - 4.0;
            if !inside {
                found.push(format!("{a:?} leaves the card"));
            }
            for (b, other) in &texts[..i] {
                let are_disjoint = at.right <= other.left
                    || other.right <= at.left
                    || at.bottom <= other.top
                    || other.bottom <= at.top;
                if !are_disjoint {
                    found.push(format!("{a:?} lies on {b:?}"));
                }
            }
        }
        found
    }

    fn ramp(n: usize, x: f64, y: f64) -> Vec<(f64, f64)> {
        (0..n).map(|i| (i as f64 * x, i as f64 * y)).collect()
    }

    #[test]
    fn no_text_lies_on_another_or_leaves_the_card() {
        let mut crowd =
            Panel::new("a label that is far too long for any panel of this chart at all")
                .badge(format!(
                    "{NOT_COVERED}, and this badge is too long as well, by very many words"
                ))
                .reference(3.0, "target 3.00")
                .reference(3.1, "claimed 3.10");
        for name in ["one", "two words", "a name that goes on and on and on and on and on", "four"]
        {
            crowd = crowd.series(Series::line(name, ramp(500, 123_456.0, 0.01)).smooth());
        }
        let long = "A title that is far too long for the card ".repeat(8);
        for total in [12.0, 879.0, 1e5, 1.234e6, 9.9e6] {
            for n in [0, 1, 2, 100, 1000] {
                let curve = RunSnapshot {
                    loss: ramp(n, total / n.max(1) as f64, 0.01),
                    test_accuracy: ramp(n, total / n.max(1) as f64, 0.001),
                    epsilon: ramp(n, total / n.max(1) as f64, 0.003),
                    target_epsilon: Some(3.0),
                    total_steps: total,
                    private: true,
                    seconds: Some(total),
                    warning: (n > 1).then(|| long.clone()),
                    ..RunSnapshot::default()
                };
                let run = run_chart(&long, &curve);
                let charts = [run.clone(), run.stacked(), Chart::new("t").panel(crowd.clone())];
                for chart in charts {
                    let found = collisions(&layout_chart(&chart));
                    assert!(found.is_empty(), "n {n}, total {total}: {found:?}");
                }
            }
        }
        let far = ramp(33, 3.0, 0.1).into_iter().map(|(x, y)| (10f64.powf(x / 12.0 - 10.0), y));
        let far: Vec<_> = far.collect();
        for label in ["delta = 1e-5", "a place with a name that is much too long for its panel"] {
            let panel = Panel::new("epsilon")
                .epsilon()
                .values_at(1e-5, label.repeat(4))
                .series(Series::line("one", far.clone()))
                .series(Series::line("two", far.clone()).approximate());
            let chart = Chart::new("t").x_log().x_label("delta").panel(panel);
            for chart in [chart.clone(), chart.clone().panel(crowd.clone()), chart.stacked()] {
                assert_eq!(collisions(&layout_chart(&chart)), Vec::<String>::new());
            }
        }
        let six = (0..6).fold(Chart::new(long).x_label("step").note("n"), |chart, _| {
            chart.panel(crowd.clone())
        });
        assert_eq!(collisions(&layout_chart(&six)), Vec::<String>::new());
    }

    #[test]
    fn the_check_for_collisions_sees_one() {
        let mut scene = Scene::new(100.0, 50.0);
        let style = text_style(10.0, false, palette::INK, Align::Left);
        scene.text((20.0, 20.0), "one", style);
        scene.text((25.0, 22.0), "two", style);
        scene.text((90.0, 40.0), "outside", style);
        assert_eq!(collisions(&scene).len(), 2);
    }

    #[test]
    fn a_chart_without_panels_or_points_still_has_a_size() {
        for chart in
            [Chart::new(""), Chart::new("t").panel(Panel::new("p")), Chart::new("").stacked()]
        {
            let scene = layout_chart(&chart);
            assert!(scene.width > 100.0 && scene.height > 20.0);
        }
    }

    #[test]
    fn the_number_beside_a_panel_is_the_end_of_its_bold_line() {
        let mut points = ramp(99, 1.0, 1.0);
        let raw = Panel::new("p").series(Series::line("s", points.clone()));
        assert_eq!(displayed_value(&raw, &raw.series[0]), Some(98.0));
        let mean = Panel::new("p").series(Series::line("s", points.clone()).smooth());
        assert_eq!(displayed_value(&mean, &mean.series[0]), Some(97.0), "half of a window of 5");
        points.push((99.0, f64::INFINITY));
        let spent = Panel::new("p").epsilon().series(Series::line("s", points));
        assert_eq!(displayed_value(&spent, &spent.series[0]), Some(f64::INFINITY));
        let at = |x: f64| {
            let marked = spent.clone().values_at(x, "there");
            displayed_value(&marked, &marked.series[0])
        };
        assert_eq!((at(41.2), at(99.0), at(500.0)), (Some(41.0), Some(f64::INFINITY), at(99.0)));
    }
}
