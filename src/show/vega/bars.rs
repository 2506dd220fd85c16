//! Horizontal bars as Vega-Lite specifications.

use crate::show::bars::Bars;
use crate::show::format::to_single_line;
use crate::show::palette::hex;
use serde_json::{Value, json};

/// Returns the body of bars in groups, one group for each row, with their values beside them.
pub(in crate::show) fn bars(bars: &Bars) -> Value {
    let (start, end) = bars.axis.range();
    let is_log = bars.axis.is_log();
    let rows: Vec<String> = bars.rows.iter().map(|(name, _)| to_single_line(name)).collect();
    let mut values = Vec::new();
    for (name, of_row) in &bars.rows {
        for (bar, (kind, _)) in of_row.iter().zip(&bars.kinds) {
            let value = bar.value.map_or(start, |value| value.clamp(start, end));
            values.push(json!({ "row": to_single_line(name), "kind": kind, "value": value,
                "start": start, "text": to_single_line(&bar.texts.join(", ")) }));
        }
    }
    let (kinds, colours): (Vec<&str>, Vec<String>) =
        bars.kinds.iter().map(|(kind, colour)| (*kind, hex(*colour))).unzip();
    let legend = match kinds.len() {
        0 | 1 => Value::Null,
        _ => json!({ "title": null, "orient": "top" }),
    };
    let ticks: Vec<f64> = bars.axis.ticks.iter().map(|(value, _)| *value).collect();
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
                    { "field": "text", "title": bars.name }],
            },
        }),
        json!({
            "mark": { "type": "text", "align": "left", "dx": 4, "fontSize": 10 },
            "encoding": { "text": { "field": "text" } },
        }),
    ];
    // Behind the bars and their texts.
    if let Some(mark) = bars.mark.filter(|mark| mark.is_finite()) {
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
            "x": { "field": "value", "type": "quantitative",
                "scale": { "type": if is_log { "log" } else { "linear" }, "domain": [start, end],
                    "nice": false },
                "axis": { "title": bars.name, "grid": true, "values": ticks,
                    "format": if is_log { "~g" } else { "~%" } } },
        },
        "layer": layers,
    })
}
