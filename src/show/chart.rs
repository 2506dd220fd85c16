//! Line charts and their panels.

use super::axis::Unit;
use super::figure_card::FigureHeader;
use super::series::is_drawable;
use super::{Coverage, MimeBundle, Series, Table, layout, render, save, sink, text_chart, vega};
use crate::Result;
use std::fmt;
use std::path::Path;

/// Badge of figures that were computed from private data and that no ledger entry covers.
pub const NOT_COVERED: &str = "not covered by epsilon";

/// A line chart of one or more panels, side by side (up to three in a row) or stacked.
///
/// Rendering is deterministic. Series are thinned to about 400 points that include all local
/// extremes, so a figure takes a few tens of kilobytes however long the run.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    pub(super) title: String,
    pub(super) note: Option<String>,
    pub(super) warning: Option<String>,
    pub(super) x_label: String,
    pub(super) x_range: Option<(f64, f64)>,
    pub(super) x_log: bool,
    pub(super) stacked: bool,
    pub(super) panels: Vec<Panel>,
    pub(super) details: String,
    coverage: Coverage,
}

impl Chart {
    /// Creates an empty chart with a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// States what the chart reveals of private data, apart from panels that are
    /// [`not_covered`](Panel::not_covered).
    pub fn coverage(self, coverage: Coverage) -> Self {
        Self { coverage, ..self }
    }

    /// Adds a panel.
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Sets the label of the x axis, with its unit: `step`, `time (s)`.
    pub fn x_label(self, label: impl Into<String>) -> Self {
        Self { x_label: label.into(), ..self }
    }

    /// Sets the range of x in all panels, in place of that of the points; for runs that have not
    /// ended.
    pub fn x_range(self, low: f64, high: f64) -> Self {
        Self { x_range: drawable_range(low, high), ..self }
    }

    /// Makes the x axis logarithmic in all panels. Points whose x is not positive are left out.
    pub fn x_log(self) -> Self {
        Self { x_log: true, ..self }
    }

    /// Stacks the panels vertically.
    pub fn stacked(self) -> Self {
        Self { stacked: true, ..self }
    }

    /// Adds a line of text under the title, wrapped where it is long.
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Adds a highlighted warning above the panels, wrapped where it is long.
    pub fn warning(self, warning: impl Into<String>) -> Self {
        Self { warning: Some(warning.into()), ..self }
    }

    /// Sets a text that is appended to the text format, such as a table of the values drawn.
    pub fn details(self, text: impl Into<String>) -> Self {
        Self { details: text.into(), ..self }
    }

    /// Returns the panels in order, with the values behind the figure.
    pub fn panels(&self) -> &[Panel] {
        &self.panels
    }

    /// Returns the header of the drawing.
    pub(super) fn head(&self) -> FigureHeader {
        let head = FigureHeader::new(&self.title).note(self.note.as_deref().unwrap_or_default());
        head.warning(self.warning.as_deref().unwrap_or_default())
    }

    /// Returns all points that can be drawn on the chart's axes.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let on_axis = |p: &(f64, f64)| !self.x_log || p.0 > 0.0;
        self.panels.iter().flat_map(Panel::points).filter(on_axis)
    }

    /// Renders the chart as an SVG document on an opaque light card, without style sheets, scripts
    /// or links.
    pub fn svg(&self) -> String {
        render::svg(&layout::layout_chart(self), &text_chart::alt_text(self))
    }

    /// Renders the chart as a PNG file with two pixels per unit of the SVG.
    pub fn png(&self) -> Vec<u8> {
        render::png(&layout::layout_chart(self))
    }

    /// Formats the chart as text: a sparkline and the last value of each series.
    pub fn text(&self) -> String {
        match self.details.as_str() {
            "" => text_chart::text(self),
            details => format!("{}\n{details}", text_chart::text(self)),
        }
    }

    /// Returns a table with a row for each point of all series: panel, series, x, y, and half the
    /// height of the error bar where there are any. Numbers are not rounded.
    pub fn table(&self) -> Table {
        let x = if self.x_label.is_empty() { "x" } else { &self.x_label };
        let has_errors = self.series_with_panel().any(|(_, series)| !series.errors.is_empty());
        let mut names = vec!["panel", "series", x, "value"];
        names.extend(has_errors.then_some("error"));
        let mut table = Table::new(names).coverage(self.overall_coverage());
        for (panel, series) in self.series_with_panel() {
            for (i, (x, y)) in series.points.iter().enumerate() {
                let number = |v: f64| if v.is_nan() { String::new() } else { v.to_string() };
                let mut row =
                    vec![panel.label.clone(), series.name.clone(), number(*x), number(*y)];
                row.extend(series.errors.get(i).map(|error| number(*error)));
                table = table.row(row);
            }
        }
        table
    }

    fn series_with_panel(&self) -> impl Iterator<Item = (&Panel, &Series)> {
        self.panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series)))
    }

    /// Returns the coverage of the whole chart.
    fn overall_coverage(&self) -> Coverage {
        self.panels.iter().map(|panel| panel.coverage).fold(self.coverage, Coverage::max)
    }

    /// Returns the chart without the panels that are not covered; `None` if that is all of it or
    /// nothing, or if the coverage of the others is not stated.
    fn covered_part(&self) -> Option<Self> {
        let covered = |panel: &&Panel| panel.coverage < Coverage::Unmarked;
        let panels: Vec<Panel> = self.panels.iter().filter(covered).cloned().collect();
        let some = !panels.is_empty() && panels.len() < self.panels.len();
        // The details may hold values of any panel.
        let part = || Self { panels, details: String::new(), ..self.clone() };
        (some && self.coverage < Coverage::Unmarked).then(part)
    }

    /// Returns the chart as a Vega-Lite 5 specification with tooltips, zoom, and a legend that
    /// hides series. It contains its data and loads nothing. Dragging moves what is shown, the
    /// wheel with Ctrl or Cmd zooms, and a double click resets. The wheel alone scrolls the page.
    pub fn vega_lite(&self) -> serde_json::Value {
        vega::chart(self)
    }

    /// Renders the chart as text, SVG, PNG and Vega-Lite.
    pub fn bundle(&self) -> MimeBundle {
        let (png, vega_lite) = (Some(self.png()), Some(self.vega_lite()));
        let bundle = MimeBundle { png, vega_lite, ..self.live_bundle() };
        match self.covered_part() {
            Some(part) => bundle.with_covered_part(MimeBundle {
                vega_lite: Some(part.vega_lite()),
                ..part.live_bundle()
            }),
            None => bundle,
        }
    }

    /// Renders the chart as text and SVG only, for the frames of a live display.
    pub(crate) fn live_bundle(&self) -> MimeBundle {
        MimeBundle::text(self.text()).with_svg(self.svg()).with_coverage(self.overall_coverage())
    }

    /// Writes the chart to a file, in the format of the name's ending: the drawing as `.svg`,
    /// `.png` or `.vl.json` (Vega-Lite), the points as `.csv` or `.json`, all as `.txt`.
    ///
    /// # Errors
    /// `Setting` for another ending, `Io` if the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        save::save_figure(path.as_ref(), || self.bundle(), || self.table())
    }

    /// Shows the chart in the current sink.
    pub fn show(&self) {
        sink::display(&self.bundle());
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// One plot of a [`Chart`]: a quantity and the series that show it.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    pub(super) label: String,
    pub(super) badge: Option<String>,
    pub(super) series: Vec<Series>,
    pub(super) references: Vec<ReferenceLine>,
    pub(super) y_range: Option<(f64, f64)>,
    pub(super) unit: Unit,
    pub(super) log: bool,
    pub(super) from_zero: bool,
    pub(super) value_label: Option<String>,
    pub(super) x_marker: Option<ReferenceLine>,
    pub(super) slider: bool,
    coverage: Coverage,
}

/// A value that is marked by a dashed line. At a marked x the series are evaluated.
#[derive(Clone, Debug)]
pub(super) struct ReferenceLine {
    pub at: f64,
    pub label: String,
}

impl Panel {
    /// Creates an empty panel for the quantity `y_label`, which includes the unit unless that is
    /// percent.
    pub fn new(y_label: impl Into<String>) -> Self {
        Self { label: y_label.into(), coverage: Coverage::Public, ..Self::default() }
    }

    /// Adds a series. A legend names several series; the panel names a single one.
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Formats values, which are fractions of one, as percent. A linear axis is extended to ticks
    /// within 0 % and 100 % if the values are.
    pub fn percent(self) -> Self {
        Self { unit: Unit::Percent, ..self }
    }

    /// Displays values as percentages, rounded up because they are upper bounds.
    pub(crate) fn percent_bound(self) -> Self {
        Self { unit: Unit::PercentBound, ..self }
    }

    /// Formats values as epsilons: displayed values are rounded up.
    pub fn epsilon(self) -> Self {
        Self { unit: Unit::Epsilon, ..self }
    }

    /// Makes the value axis logarithmic. Values that are not positive are left out.
    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    /// Makes the value axis begin at 0 however large the values are.
    pub fn from_zero(self) -> Self {
        Self { from_zero: true, ..self }
    }

    /// Sets the range of the value axis; lines are clipped to it.
    pub fn y_range(self, low: f64, high: f64) -> Self {
        Self { y_range: drawable_range(low, high), ..self }
    }

    /// Marks a value by a dashed horizontal line with a label.
    pub fn reference(mut self, level: f64, label: impl Into<String>) -> Self {
        if is_drawable(level) {
            self.references.push(ReferenceLine { at: level, label: label.into() });
        }
        self
    }

    /// Marks a value of x by a dashed vertical line with a label. The values beside the names of
    /// the series are then those of the points nearest to it instead of the last ones.
    pub fn values_at(self, x: f64, label: impl Into<String>) -> Self {
        Self {
            x_marker: is_drawable(x).then(|| ReferenceLine { at: x, label: label.into() }),
            ..self
        }
    }

    /// Sets the description of the values beside the names, where series have a
    /// [`summary`](Series::summary): `means of 8 batches`.
    pub fn value_label(self, text: impl Into<String>) -> Self {
        Self { value_label: Some(text.into()), ..self }
    }

    /// Returns the series in order.
    pub fn all_series(&self) -> &[Series] {
        &self.series
    }

    /// States what the panel reveals of private data, where that is more than the chart states.
    pub fn coverage(self, coverage: Coverage) -> Self {
        Self { coverage, ..self }
    }

    /// Marks the panel as computed from private data that no ledger entry covers, with the badge
    /// [`NOT_COVERED`].
    pub fn not_covered(self) -> Self {
        Self { coverage: Coverage::NotCovered, ..self.badge(NOT_COVERED) }
    }

    /// Adds a slider for x to the interactive format, at which the values of all series are read.
    pub(super) fn slider(self) -> Self {
        Self { slider: true, ..self }
    }

    /// Adds a badge under the panel's title.
    pub fn badge(self, badge: impl Into<String>) -> Self {
        Self { badge: Some(badge.into()), ..self }
    }

    /// Formats a value of this panel.
    pub(super) fn format_value(&self, value: f64) -> String {
        match self.unit {
            Unit::Plain => super::format::significant(value, 3),
            Unit::Percent => super::format::percent(value),
            Unit::PercentBound => crate::privacy::percent_rounded_up(value),
            Unit::Epsilon => super::format::eps(value),
        }
    }

    /// Returns all points that can be drawn on this panel's axes.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let on_axis = |p: &(f64, f64)| !self.log || p.1 > 0.0;
        self.series.iter().flat_map(Series::finite_points).filter(on_axis)
    }
}

/// Returns the range if it can be drawn, else `None`.
fn drawable_range(low: f64, high: f64) -> Option<(f64, f64)> {
    (is_drawable(low) && is_drawable(high) && low < high).then_some((low, high))
}
