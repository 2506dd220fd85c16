//! Histograms with a threshold as Vega-Lite specifications.

use super::log_ticks;
use crate::show::format::to_single_line;
use crate::show::histogram::{BINS, Histograms};
use crate::show::multiples;
use crate::show::palette::{self, hex};
use serde_json::{Value, json};

/// Returns the body of histograms with a slider for the threshold, which moves from bin to bin.
/// Above each histogram stands the fraction at or above the threshold.
pub(in crate::show) fn histograms(histograms: &Histograms) -> Value {
    let Histograms { name, panels, threshold, above, below } = histograms;
    let Some(first) = panels.first() else {
        return json!({ "data": { "values": [] }, "mark": "bar" });
    };
    let (low, high) = first.histogram.range();
    let edge = |bin: usize| (low.ln() + (high.ln() - low.ln()) * bin as f64 / BINS as f64).exp();
    let mut values = Vec::new();
    for (order, panel) in panels.iter().enumerate() {
        let title = to_single_line(&panel.head.title);
        let mut push = |bin: i64, from: f64, to: f64, count: usize| {
            values
                .push(json!({ "panel": title, "order": order, "bin": bin, "from": from, "to": to,
                "count": count }));
        };
        // Outside the axis, only for the fractions.
        push(-1, low, low, panel.zeros);
        for (bin, count) in panel.histogram.counts().enumerate() {
            push(bin as i64, edge(bin), edge(bin + 1), count);
        }
    }
    let start = threshold.map_or(BINS / 2, |at| {
        let share = (at.ln() - low.ln()) / (high.ln() - low.ln());
        // The bin above the threshold.
        ((share * BINS as f64).round().max(0.0) as usize).min(BINS)
    });
    let edges: Vec<f64> = (0..=BINS).map(edge).collect();
    let is_above = "datum.bin >= threshold_bin";
    let totals = json!([
        { "calculate": format!("{is_above} ? datum.count : 0"), "as": "kept" },
        { "aggregate": [{ "op": "sum", "field": "kept", "as": "kept" },
            { "op": "sum", "field": "count", "as": "all" }], "groupby": ["panel"] },
        { "calculate": "format(datum.kept / max(1, datum.all), '.1%') + ' at or above ' + \
            format(threshold_edges[threshold_bin], '.3~g') + ': ' + format(datum.kept, ',') + \
            ' of ' + format(datum.all, ',')",
          "as": "label" },
    ]);
    let x = json!({ "field": "from", "type": "quantitative",
        "scale": { "type": "log", "domain": [low, high], "nice": false },
        "axis": { "title": format!("{} (logarithmic)", name), "format": "~g",
            "values": log_ticks(low, high) } });
    let bars = json!({
        "transform": [
            { "filter": "datum.bin >= 0 && datum.count > 0" },
            { "calculate": format!("{is_above} ? '{}' : '{}'", above.0, below.0),
              "as": "class" },
        ],
        "mark": { "type": "bar", "orient": "vertical", "stroke": hex(palette::CARD), "strokeWidth": 0.5 },
        "encoding": {
            "x": x, "x2": { "field": "to" }, "y2": { "datum": 0 },
            "y": { "field": "count", "type": "quantitative",
                "axis": { "title": null, "tickCount": 3, "format": "~s" } },
            "color": { "field": "class", "type": "nominal",
                "scale": { "domain": [above.0, below.0],
                    "range": [hex(above.1), hex(below.1)] },
                "legend": { "title": null, "orient": "top" } },
            "tooltip": [
                { "field": "panel", "title": "of" },
                { "field": "from", "title": format!("{} from", name), "format": ".3~g" },
                { "field": "to", "title": "to", "format": ".3~g" },
                { "field": "count", "title": "count", "format": "," },
                { "field": "class", "title": "at this threshold" },
            ],
        },
    });
    let rule = json!({
        "transform": [{ "aggregate": [{ "op": "count", "as": "n" }], "groupby": ["panel"] },
            { "calculate": "threshold_edges[threshold_bin]", "as": "from" }],
        "mark": { "type": "rule", "strokeDash": [5, 4], "color": hex(palette::INK) },
        "encoding": { "x": x },
    });
    let shares = json!({
        "transform": totals,
        "mark": { "type": "text", "align": "left", "baseline": "bottom", "dy": -4, "fontSize": 11,
            "color": hex(palette::MUTED) },
        "encoding": { "text": { "field": "label" }, "x": { "value": 0 }, "y": { "value": 0 } },
    });
    let order: Vec<String> = panels.iter().map(|panel| to_single_line(&panel.head.title)).collect();
    let several = panels.len() > 1;
    let mut body = json!({
        "params": [
            { "name": "threshold_edges", "value": edges },
            { "name": "threshold_bin", "value": start, "bind": { "input": "range", "min": 0,
                "max": BINS, "step": 1, "name": format!("threshold of the {}: ", name) } },
        ],
        "data": { "values": values },
    });
    let view = json!({ "width": match panels.len() { 1 => 520, 2 | 4 => 280, _ => 215 }, "height": if several { 90 } else { 150 },
        "layer": [bars, rule, shares] });
    if several {
        super::merge(
            &mut body,
            json!({
                "facet": { "field": "panel", "type": "nominal", "sort": order, "title": null,
                    "header": { "labelFontWeight": "bold", "labelAnchor": "start", "labelPadding": 16,
                        "labelColor": hex(palette::INK) } },
            "columns": multiples::columns(panels.len()).1,
            "spec": view,
            "resolve": { "scale": { "y": "independent" }, "axis": { "x": "independent" } },
            }),
        )
    } else {
        super::merge(&mut body, view)
    }
    body
}
