use super::axis::Unit;
use super::series::is_drawable;
use super::{Bundle, Series, layout, render, sink, spark};
use std::fmt;

/// The badge of figures drawn from private data that no ledger entry covers.
pub const NOT_COVERED: &str = "not covered by epsilon";

/// A figure of one or more panels with lines, side by side (three in a row) or stacked.
///
/// The same chart always gives the same bytes. Series are thinned to about 400 points, keeping
/// every extreme, so a figure stays a few tens of kilobytes however long the run.
#[derive(Clone, Debug)]
pub struct Chart {
    pub(super) title: String,
    pub(super) note: Option<String>,
    pub(super) x_label: String,
    pub(super) x_range: Option<(f64, f64)>,
    pub(super) x_log: bool,
    pub(super) stacked: bool,
    pub(super) panels: Vec<Panel>,
    pub(super) details: String,
}

impl Chart {
    /// An empty chart with a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            note: None,
            x_label: String::new(),
            x_range: None,
            x_log: false,
            stacked: false,
            panels: Vec::new(),
            details: String::new(),
        }
    }

    /// Adds a panel.
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Names the x axis, with its unit: `step`, `time (s)`.
    pub fn x_label(mut self, label: impl Into<String>) -> Self {
        self.x_label = label.into();
        self
    }

    /// Shows this stretch of x in all panels instead of the stretch that has points; for runs that
    /// are still on their way.
    pub fn x_range(mut self, low: f64, high: f64) -> Self {
        self.x_range = range(low, high);
        self
    }

    /// A logarithmic x axis in all panels, ticks at powers of ten; points whose x is not positive
    /// are left out.
    pub fn x_log(mut self) -> Self {
        self.x_log = true;
        self
    }

    /// Puts the panels one above the other.
    pub fn stacked(mut self) -> Self {
        self.stacked = true;
        self
    }

    /// A remark under the title.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Lines that the text form ends with, such as a table of the numbers drawn.
    pub fn details(mut self, text: impl Into<String>) -> Self {
        self.details = text.into();
        self
    }

    /// Its panels, in their order: the numbers behind the figure.
    pub fn panels(&self) -> &[Panel] {
        &self.panels
    }

    /// All points that can be drawn on the chart's axes.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let on_axis = |p: &(f64, f64)| !self.x_log || p.0 > 0.0;
        self.panels.iter().flat_map(Panel::points).filter(on_axis)
    }

    /// The chart as an SVG document, on its own light card; without style sheet, script or link.
    pub fn svg(&self) -> String {
        render::svg(&layout::scene(self), &spark::spoken(self))
    }

    /// The chart as a PNG file, two pixels per unit of the SVG.
    pub fn png(&self) -> Vec<u8> {
        render::png(&layout::scene(self))
    }

    /// The chart as text: for each series a small curve of block characters and its last value.
    pub fn text(&self) -> String {
        match self.details.as_str() {
            "" => spark::text(self),
            details => format!("{}\n{details}", spark::text(self)),
        }
    }

    /// All forms: text, SVG and PNG.
    pub fn bundle(&self) -> Bundle {
        self.live_bundle().with_png(self.png())
    }

    /// Text and SVG only: a frame of a live display should cost little.
    pub fn live_bundle(&self) -> Bundle {
        Bundle::text(self.text()).with_svg(self.svg())
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
#[derive(Clone, Debug)]
pub struct Panel {
    pub(super) label: String,
    pub(super) badge: Option<String>,
    pub(super) series: Vec<Series>,
    pub(super) references: Vec<Reference>,
    pub(super) y_range: Option<(f64, f64)>,
    pub(super) unit: Unit,
    pub(super) log: bool,
    pub(super) mark: Option<PlaceMark>,
}

/// A value of x that is marked by a dashed line, and at which the values are read.
#[derive(Clone, Debug)]
pub(super) struct PlaceMark {
    pub x: f64,
    pub label: String,
}

/// A level that is marked by a dashed line.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub level: f64,
    pub label: String,
}

impl Panel {
    /// An empty panel for the quantity named by `y_label` (with its unit, unless it is percent).
    pub fn new(y_label: impl Into<String>) -> Self {
        Self {
            label: y_label.into(),
            badge: None,
            series: Vec::new(),
            references: Vec::new(),
            y_range: None,
            unit: Unit::Plain,
            log: false,
            mark: None,
        }
    }

    /// Adds a series. One is named by the panel; of several, each is named in a legend.
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Values are shares of one and shown as percent; the axis stays within 0 % and 100 %.
    pub fn percent(mut self) -> Self {
        self.unit = Unit::Percent;
        self
    }

    /// As [`percent`](Panel::percent), for shares that are upper bounds: values are written rounded
    /// up.
    pub fn percent_bound(mut self) -> Self {
        self.unit = Unit::PercentBound;
        self
    }

    /// Values are epsilons: the last value is written rounded up, never understated.
    pub fn epsilon(mut self) -> Self {
        self.unit = Unit::Epsilon;
        self
    }

    /// A logarithmic axis; values that are not positive are left out.
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Shows exactly this stretch of values; lines end at its edges.
    pub fn y_range(mut self, low: f64, high: f64) -> Self {
        self.y_range = range(low, high);
        self
    }

    /// Marks a level by a dashed line with a label.
    pub fn reference(mut self, level: f64, label: impl Into<String>) -> Self {
        if is_drawable(level) {
            self.references.push(Reference { level, label: label.into() });
        }
        self
    }

    /// Marks a place on the x axis by a dashed line with a label. The values beside the names of
    /// the series are then those of the points nearest to it, not the last ones.
    pub fn values_at(mut self, x: f64, label: impl Into<String>) -> Self {
        self.mark = is_drawable(x).then(|| PlaceMark { x, label: label.into() });
        self
    }

    /// Its series, in their order.
    pub fn lines(&self) -> &[Series] {
        &self.series
    }

    /// A badge under the panel's title, such as [`NOT_COVERED`].
    pub fn note(mut self, badge: impl Into<String>) -> Self {
        self.badge = Some(badge.into());
        self
    }

    /// A value of this panel as text.
    pub(super) fn value(&self, value: f64) -> String {
        match self.unit {
            Unit::Plain => super::format::significant(value, 3),
            Unit::Percent => super::format::percent(value),
            Unit::PercentBound => crate::privacy::percent_rounded_up(value),
            Unit::Epsilon => super::format::eps(value),
        }
    }

    /// All points that can be drawn on this panel's axes.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let on_axis = |p: &(f64, f64)| !self.log || p.1 > 0.0;
        self.series.iter().flat_map(Series::finite).filter(on_axis)
    }
}

/// A range that can be drawn; others are left to the data.
fn range(low: f64, high: f64) -> Option<(f64, f64)> {
    (is_drawable(low) && is_drawable(high) && low < high).then_some((low, high))
}
