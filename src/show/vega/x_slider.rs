//! A slider that reads all curves of a panel at one x, such as epsilon at a chosen delta.

use super::{merge, with_field};
use crate::show::chart::{Chart, Panel};
use crate::show::format::to_single_line;
use crate::show::palette::{self, hex};
use crate::show::series::extent;
use serde_json::{Value, json};

/// Returns the parameter and the layers of the slider. It moves over powers of ten in quarters, on
/// a logarithmic axis. `None` without points or on a linear axis.
///
/// Between two points of a curve, the value of the lower x is shown. Epsilon falls as delta grows,
/// so it is a valid bound for the chosen delta.
pub(super) fn slider_layers(
    chart: &Chart,
    panel: &Panel,
    x: &Value,
    y: &Value,
    colour: &Value,
) -> Option<(Value, Vec<Value>)> {
    let (low, high) = extent(panel.points().map(|p| p.0).filter(|x| *x > 0.0))?;
    if !chart.x_log || low >= high {
        return None;
    }
    let marked = panel.x_marker.as_ref().map_or(low, |mark| mark.at);
    let quarter = |x: f64| (x.log10() * 4.0).round() / 4.0;
    let name = to_single_line(&chart.x_label);
    let parameter = json!({
        "name": "log_x",
        "value": quarter(marked),
        "bind": { "input": "range", "min": quarter(low), "max": quarter(high), "step": 0.25,
            "name": format!("log10 of {name}: ") },
    });
    let at = "pow(10, log_x)";
    // The last point of each curve at or before the chosen x.
    let transform = json!([
        { "filter": format!("!datum.raw && datum.x <= {at} * 1.00001") },
        { "window": [{ "op": "row_number", "as": "from_right" }],
          "sort": [{ "field": "x", "order": "descending" }], "groupby": ["series"] },
        { "filter": "datum.from_right == 1" },
        { "calculate": "datum.series + ': ' + datum.value", "as": "reading" },
        { "window": [{ "op": "row_number", "as": "line" }],
          "sort": [{ "field": "y", "order": "descending" }] },
        { "calculate": "2 + 15 * datum.line", "as": "down" },
    ]);
    let rule = json!({
        "data": { "values": [{}] },
        "transform": [
            { "calculate": at, "as": "chosen" },
            { "calculate": format!("'{name} = ' + format(datum.chosen, '.2~e')"), "as": "label" },
        ],
        "encoding": { "x": with_field(x, "chosen") },
        "layer": [
            { "mark": { "type": "rule", "color": hex(palette::INK), "strokeWidth": 1.5 } },
            { "mark": { "type": "text", "align": "left", "dx": 5, "dy": -4, "baseline": "bottom",
                "fontWeight": "bold", "color": hex(palette::INK) },
              "encoding": { "text": { "field": "label" }, "y": { "value": "height" } } },
        ],
    });
    // The lines below are kept away from the text by a halo.
    let mut text = json!({
        "mark": { "type": "text", "align": "right", "baseline": "top", "fontSize": 12,
            "fontWeight": "bold" },
        "encoding": { "text": { "field": "reading" }, "color": colour, "x": { "value": "width" },
            "y": { "field": "down", "type": "quantitative", "scale": null } },
    });
    let mut halo = text.clone();
    merge(&mut halo["mark"], json!({ "stroke": hex(palette::CARD), "strokeWidth": 5 }));
    text["mark"]["strokeWidth"] = 0.into();
    let reading = json!({
        "transform": transform,
        "layer": [
            { "mark": { "type": "point", "filled": false, "size": 90, "strokeWidth": 2,
                "clip": true },
              "encoding": { "x": x, "y": y, "color": colour } },
            halo, text,
        ],
    });
    Some((parameter, vec![rule, reading]))
}
