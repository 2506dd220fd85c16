//! Figures as Vega-Lite 5 specifications (Satyanarayan et al., "Vega-Lite: A Grammar of Interactive
//! Graphics", 2017), which JupyterLab and VS Code draw without further code.
//!
//! A specification contains its data and loads nothing. It looks like the drawing: the same opaque
//! card, colours, badges and number formats, so that it reads in dark themes as well.

mod bars;
mod chart;
mod heat_map;
mod histogram;
#[cfg(test)]
mod tests;
mod tiles;
mod x_slider;

pub(super) use bars::bars;
pub(super) use chart::chart;
pub(super) use heat_map::{heat, heat_slices};
pub(super) use histogram::histograms;
pub(super) use tiles::tiles;

use super::axis::Axis;
use super::palette::{self, hex};
use serde_json::{Value, json};

/// Font of the interactive figures: that of the page.
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

/// Returns the members that all specifications share: schema, card, fonts, axes; `body` adds the
/// rest.
pub(super) fn specification(title: Value, body: Value) -> Value {
    let axis = json!({
        "labelFontSize": 11.0, "titleFontSize": 11.0,
        "labelColor": hex(palette::MUTED), "titleColor": hex(palette::MUTED),
        "titleFontWeight": "normal", "gridColor": hex(palette::GRID),
        "domainColor": hex(palette::AXIS), "tickColor": hex(palette::AXIS),
    });
    let mut all = json!({
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": title,
        "background": hex(palette::CARD),
        "padding": 18,
        "config": {
            "font": FONT,
            "view": { "stroke": null },
            "axis": axis,
            "axisX": { "grid": false },
            "title": { "anchor": "start", "color": hex(palette::INK), "fontSize": 15,
                "subtitleColor": hex(palette::MUTED), "subtitleFontSize": 11, "offset": 10 },
            "legend": { "labelFontSize": 11, "labelColor": hex(palette::INK), "labelLimit": 360,
                "symbolSize": 60 },
        },
    });
    merge(&mut all, body);
    all
}

/// Returns the ticks of a logarithmic axis: 1, 2 and 5 times the powers of ten if those are few,
/// else some of the powers.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    Axis::log_exact(low, high, 6).ticks.into_iter().map(|(value, _)| value).collect()
}

/// Returns an encoding of another field.
fn with_field(encoding: &Value, field: &str) -> Value {
    let mut encoding = encoding.clone();
    encoding["field"] = field.into();
    encoding
}

/// Adds the members of one object to another.
pub(super) fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
