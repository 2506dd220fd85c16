//! Horizontal bars as Vega-Lite specifications.

use super::round_values;
use crate::show::format::one_line;
use crate::show::palette::{Rgb, hex};
use serde_json::{Value, json};

/// One bar.
pub(in crate::show) struct Bar<'a> {
    /// The row in which it is drawn.
    pub row: &'a str,
    /// What it measures; a row has at most one bar of each kind.
    pub kind: &'a str,
    /// Its length; `None` for a text without a bar.
    pub value: Option<f64>,
    /// The text at its end.
    pub text: String,
}

/// What all bars measure.
pub(in crate::show) struct Measure<'a> {
    /// Name of the axis.
    pub name: &'a str,
    /// Fractions of one, shown as percent, instead of values on a logarithmic axis.
    pub percent: bool,
    /// The kinds with their colours, in order.
    pub kinds: Vec<(&'a str, Rgb)>,
    /// A value that is marked by a dashed line.
    pub mark: Option<f64>,
}

/// Bars in groups, one group for each row, with their values beside them.
pub(in crate::show) fn body(bars: &[Bar<'_>], measure: &Measure<'_>) -> Value {
    let mut rows: Vec<String> = Vec::new();
    for bar in bars {
        let row = one_line(bar.row);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let finite = || bars.iter().filter_map(|bar| bar.value).filter(|v| v.is_finite() && *v > 0.0);
    let (least, most) = (finite().fold(1.0, f64::min), finite().fold(0.0, f64::max));
    // Bars on a logarithmic axis begin below the smallest value.
    let (start, end) = if measure.percent {
        (0.0, 1.0)
    } else {
        (10f64.powf((least / 2.0).log10().floor()), (most * 1.1).max(least))
    };
    let values: Vec<Value> = bars
        .iter()
        .map(|bar| {
            let value = bar.value.map_or(start, |value| value.clamp(start, end));
            json!({ "row": one_line(bar.row), "kind": bar.kind, "value": value, "start": start,
                "text": one_line(&bar.text) })
        })
        .collect();
    let kinds: Vec<&str> = measure.kinds.iter().map(|(kind, _)| *kind).collect();
    let colours: Vec<String> = measure.kinds.iter().map(|(_, colour)| hex(*colour)).collect();
    let scale = if measure.percent {
        json!({ "domain": [start, end] })
    } else {
        json!({ "type": "log", "domain": [start, end], "nice": false })
    };
    let mut axis = json!({ "title": one_line(measure.name), "grid": true, "tickCount": 5,
        "format": if measure.percent { "~%" } else { "~g" } });
    if !measure.percent {
        axis["values"] = round_values(start, end).into();
    }
    let legend = match kinds.len() {
        0 | 1 => Value::Null,
        _ => json!({ "title": null, "orient": "top" }),
    };
    let mut layers = vec![
        json!({
            "params": [{ "name": "pick", "select": { "type": "point", "fields": ["kind"] },
                "bind": "legend" }],
            "mark": { "type": "bar" },
            "encoding": {
                "color": { "field": "kind", "type": "nominal", "sort": null, "legend": legend,
                    "scale": { "domain": kinds, "range": colours } },
                "opacity": { "condition": { "param": "pick", "value": 1 }, "value": 0.12 },
                "x2": { "field": "start" },
                "tooltip": [{ "field": "row", "title": "of" }, { "field": "kind", "title": "kind" },
                    { "field": "text", "title": one_line(measure.name) }],
            },
        }),
        json!({
            "mark": { "type": "text", "align": "left", "dx": 4, "fontSize": 10 },
            "encoding": { "text": { "field": "text" } },
        }),
    ];
    // Behind the bars and their texts.
    if let Some(mark) = measure.mark.filter(|mark| mark.is_finite()) {
        let rule = json!({
            "data": { "values": [{ "mark": mark }] },
            "mark": { "type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.25 },
            "encoding": { "x": { "field": "mark", "type": "quantitative" },
                "y": { "value": 0 }, "y2": { "value": "height" }, "yOffset": { "value": 0 } },
        });
        layers.insert(0, rule);
    }
    json!({
        "data": { "values": values },
        "width": 420,
        "height": { "step": if kinds.len() > 1 { 12 } else { 20 } },
        "encoding": {
            "y": { "field": "row", "type": "nominal", "sort": rows, "title": null,
                "axis": { "ticks": false, "labelLimit": 230, "labelPadding": 6 } },
            "yOffset": { "field": "kind", "type": "nominal", "sort": kinds },
            "x": { "field": "value", "type": "quantitative", "scale": scale,
                "axis": axis },
        },
        "layer": layers,
    })
}
