//! Line charts as Vega-Lite specifications.

use super::{log_ticks, merge, specification, with_field};
use crate::show::chart::{Chart, NOT_COVERED, Panel, ReferenceLine};
use crate::show::format::{significant, to_single_line};
use crate::show::layout::{Sizes, x_range, y_axis};
use crate::show::palette::{self, hex};
use crate::show::plot::{DASHES, SHAPES, colour, marker_index};
use crate::show::series::{Series, extent};
use serde_json::{Value, json};

/// Width of a panel beside its plot.
const BESIDE: f64 = 44.0;
/// Actions of the pointer, in words. The wheel alone scrolls the page, also over a chart.
const POINTER: &str = "drag to move, Ctrl or Cmd + wheel to zoom, double-click to reset";
/// The events that zoom. Without the keys the page gets them.
const ZOOM: &str = "wheel![event.ctrlKey || event.metaKey]";
/// Returns the specification of a chart.
pub(in crate::show) fn chart(chart: &Chart) -> Value {
    let Sizes { columns, width, panel_width, plot_height } = Sizes::from_chart(chart);
    let pointer = (!chart.panels.is_empty()).then_some(POINTER);
    let mut head = chart.head().vega_lite(width - BESIDE, pointer);
    // The same number of lines above all panels, so that their titles stand at the same height.
    let most = chart.panels.iter().map(|panel| panel_notes(panel).len()).max().unwrap_or(0);
    let mut panels: Vec<Value> = chart
        .panels
        .iter()
        .enumerate()
        .map(|(i, panel)| {
            let mut view = panel_view(chart, panel, i);
            if chart.panels.len() > 1 && most > 0 {
                let mut lines = panel_notes(panel);
                lines.resize(most, " ".to_owned());
                view["title"]["subtitle"] = lines.into();
            }
            view["width"] = (panel_width - BESIDE).floor().into();
            view["height"] = plot_height.into();
            view
        })
        .collect();
    let body = match panels.len() {
        0 => json!({ "data": { "values": [] }, "mark": "point" }),
        1 => {
            let mut only = panels.remove(0);
            // The title of the whole stands above the panel's.
            let members = only.as_object_mut();
            let title = members.and_then(|members| members.remove("title")).unwrap_or_default();
            let mut own_lines = head["subtitle"].as_array().cloned().unwrap_or_default();
            own_lines.extend(title["text"].as_str().filter(|s| !s.is_empty()).map(Value::from));
            own_lines.extend(title["subtitle"].as_array().cloned().unwrap_or_default());
            head["subtitle"] = own_lines.into();
            if let Some(colour) = title.get("subtitleColor") {
                head["subtitleColor"] = colour.clone();
            }
            return specification(head, only);
        }
        _ => {
            let resolve = json!({ "color": "independent", "shape": "independent",
                "strokeDash": "independent" });
            json!({ "concat": panels, "columns": columns,
                "resolve": { "scale": resolve, "legend": resolve } })
        }
    };
    specification(head, body)
}

/// Returns the lines below the title of a panel.
fn panel_notes(panel: &Panel) -> Vec<String> {
    let badge = panel.badge.as_deref().map(|badge| format!("[{}]", to_single_line(badge)));
    badge.into_iter().chain(panel.value_label.as_deref().map(to_single_line)).collect()
}

/// Returns one panel: the lines, and the marks of the chart around them.
fn panel_view(chart: &Chart, panel: &Panel, number: usize) -> Value {
    let mut head = json!({ "text": to_single_line(&panel.label), "subtitle": panel_notes(panel),
        "fontSize": 12, "offset": 6 });
    if panel.badge.as_deref() == Some(NOT_COVERED) {
        head["subtitleColor"] = hex(palette::BADGE_INK).into();
    }
    let names: Vec<String> =
        panel.series.iter().map(|series| to_single_line(&series.name)).collect();
    let colours: Vec<String> = (0..names.len()).map(|i| hex(colour(panel, i))).collect();
    let several = names.len() > 1;
    let scale = json!({ "domain": names, "range": colours });
    let legend = if several {
        json!({ "title": null, "orient": "bottom", "direction": "vertical",
    "columns": if names.len() > 4 { 2 } else { 1 } })
    } else {
        Value::Null
    };
    let shapes: Vec<&str> =
        (0..names.len()).map(|i| SHAPES[marker_index(panel, i) % SHAPES.len()].0).collect();
    let dashes: Vec<Value> = panel.series.iter().map(dash).collect();
    let colour = json!({ "field": "series", "type": "nominal", "scale": scale, "legend": legend,
        "sort": null });
    let pick = format!("pick_{number}");
    // Hidden series stay faintly visible, so that the legend can be found out by trying.
    let opacity =
        |shown: f64| json!({ "condition": { "param": pick, "value": shown }, "value": 0.08 });
    let (x, y) = (x_encoding(chart), y_encoding(panel));
    let tooltip = tooltip(chart, panel);
    let zoom = json!({ "name": format!("zoom_{number}"), "bind": "scales",
        "select": { "type": "interval", "zoom": ZOOM } });
    let mut picks = json!({ "name": pick, "select": { "type": "point", "fields": ["series"] } });
    if several {
        picks["bind"] = "legend".into();
    }
    let layer = |filter: &str, mark: Value, encoding: Value| {
        let mut all = json!({ "x": x, "y": y, "color": colour, "opacity": opacity(1.0) });
        merge(&mut all, encoding);
        json!({ "transform": [{ "filter": filter }], "mark": mark, "encoding": all })
    };
    let has = |is: fn(&Series) -> bool| panel.series.iter().any(is);
    let mut lines = layer(
        "!datum.raw",
        json!({ "type": "line", "strokeWidth": 2, "strokeJoin": "round", "clip": true }),
        json!({
            "detail": { "field": "run" },
            "strokeDash": { "field": "series", "type": "nominal", "sort": null, "legend": legend,
                "scale": { "domain": names, "range": dashes } },
            "strokeWidth": { "condition": { "test": "datum.broad", "value": 7 }, "value": 2 },
        }),
    );
    lines["params"] = json!([zoom, picks]);
    let mut layers = vec![lines];
    if has(|series| series.smoothing_window().is_some()) {
        let line = json!({ "type": "line", "strokeWidth": 1, "clip": true });
        let pale = json!({ "opacity": opacity(0.38), "detail": { "field": "run" } });
        layers.push(layer("datum.raw", line, pale));
    }
    let span = json!({ "y": with_field(&y, "low"), "y2": { "field": "high" } });
    if has(|series| series.band) {
        let mut band = json!({ "detail": { "field": "run" },
            "opacity": { "condition": { "param": pick, "value": 0.16 }, "value": 0.03 } });
        merge(&mut band, span.clone());
        let area = json!({ "type": "area", "clip": true, "line": false });
        layers.push(layer("datum.band", area, band));
    }
    if has(|series| !series.errors.is_empty() && !series.band) {
        let mut bar = json!({ "opacity": opacity(0.6) });
        merge(&mut bar, span);
        let rule = json!({ "type": "rule", "strokeWidth": 1.25, "clip": true });
        layers.push(layer("isValid(datum.low) && !datum.band", rule, bar));
    }
    layers.push(layer(
        "!datum.raw",
        json!({ "type": "point", "filled": true, "clip": true, "size": 36 }),
        json!({
            "tooltip": tooltip,
            "shape": { "field": "series", "type": "nominal", "sort": null,
                "scale": { "domain": names, "range": shapes }, "legend": legend },
            "fillOpacity": { "condition": { "test": "datum.seen", "value": 1 }, "value": 0 },
        }),
    ));
    layers.extend(references(panel, &y));
    // A slider starts where the chart has its mark.
    layers.extend(marker_layer(chart, panel, &x).filter(|_| !panel.slider));
    let mut view = json!({
        "title": head,
        "data": { "values": point_values(chart, panel) },
        "layer": layers,
    });
    if panel.slider
        && let Some(explorer) = super::x_slider::slider_layers(chart, panel, &x, &y, &colour)
    {
        let (parameter, more) = explorer;
        view["params"] = json!([parameter]);
        if let Some(layers) = view["layer"].as_array_mut() {
            layers.extend(more);
        }
    }
    view
}

fn dash(series: &Series) -> Value {
    match (series.unconnected, series.approximate) {
        // No line: gaps only.
        (true, _) => json!([0, 1]),
        (_, true) => json!([DASHES.0, DASHES.1]),
        _ => json!([1, 0]),
    }
}

/// Returns the x axis over the range of the drawing. When it is zoomed it takes ticks of its own.
fn x_encoding(chart: &Chart) -> Value {
    let (low, high) = x_range(chart);
    let kind = if chart.x_log { "log" } else { "linear" };
    let mut scale = json!({ "type": kind, "domain": [low, high], "nice": false });
    // Markers at the ends are drawn whole.
    if chart.panels.iter().flat_map(|panel| &panel.series).any(|series| series.marked) {
        scale["padding"] = 6.into();
    }
    let mut axis = json!({ "title": to_single_line(&chart.x_label), "tickCount": 6 });
    if chart.x_log {
        // As in the drawing: one style for all labels.
        let is_wide = [low, high].iter().any(|x| !(1e-4..1e7).contains(x));
        axis["format"] = if is_wide { "~e" } else { "~g" }.into();
    }
    json!({ "field": "x", "type": "quantitative", "scale": scale, "axis": axis })
}

/// Returns the value axis over the range of the drawing.
fn y_encoding(panel: &Panel) -> Value {
    let (low, high) = y_axis(panel).range();
    let format = if panel.unit.is_percent() { "~%" } else { "~g" };
    let mut axis = json!({ "title": null, "tickCount": 5, "format": format });
    if panel.log {
        // Labels and grid lines at round values only.
        axis["values"] = log_ticks(low, high).into();
    }
    let kind = if panel.log { "log" } else { "linear" };
    let scale = json!({ "type": kind, "domain": [low, high], "nice": false });
    json!({ "field": "y", "type": "quantitative", "scale": scale, "axis": axis })
}

fn tooltip(chart: &Chart, panel: &Panel) -> Vec<Value> {
    let entry = |field: &str, title: &str| json!({ "field": field, "title": title });
    let at = |title: &str| json!({ "field": "x", "title": title, "type": "quantitative", "format": ".4~g" });
    let x = match chart.x_label.as_str() {
        "" => "x",
        label => label,
    };
    let value =
        if panel.label.is_empty() { "value".to_owned() } else { to_single_line(&panel.label) };
    let mut entries = vec![at(&to_single_line(x)), entry("value", &value)];
    if panel.series.len() > 1 {
        entries.insert(0, entry("series", "series"));
    }
    entries
        .extend(panel.series.iter().any(|s| !s.tooltips.is_empty()).then(|| entry("about", "of")));
    entries
}

/// Returns the points of all series. A point has the number of the run of points without a gap in
/// which it stands, because lines must not bridge gaps.
fn point_values(chart: &Chart, panel: &Panel) -> Vec<Value> {
    let mut values = Vec::new();
    // Tooltips have the same lines at all points.
    let has_about = panel.series.iter().any(|series| !series.tooltips.is_empty());
    let on_axis = |p: &(f64, f64)| (!panel.log || p.1 > 0.0) && (!chart.x_log || p.0 > 0.0);
    for (i, series) in panel.series.iter().enumerate() {
        let name = to_single_line(&series.name);
        // Points of long lines have tooltips but are too many to be drawn.
        let is_seen = (series.marked || series.points.len() <= 40) && !series.without_markers;
        let mut push = |run: usize, is_raw: bool, (x, y): (f64, f64)| {
            let mut value = json!({
                "series": name, "run": format!("{i} {run}"), "x": rounded(x), "y": rounded(y),
                "value": panel.format_value(y),
            });
            // Whatever holds for most points is left out, which halves the specification.
            let mut mark = |name: &str, applies: bool| {
                if applies {
                    value[name] = true.into();
                }
            };
            mark("raw", is_raw);
            mark("broad", series.broad);
            mark("seen", is_seen && !is_raw);
            let at = series.points.iter().position(|p| p.0 == x && p.1 == y);
            if series.band {
                value["band"] = true.into();
                value["low"] = rounded(y).into();
                value["high"] = rounded(y).into();
            }
            if let Some(error) = at.and_then(|at| series.errors.get(at)).filter(|e| **e > 0.0) {
                value["low"] = rounded(y - error).into();
                value["high"] = rounded(y + error).into();
                value["value"] =
                    format!("{} ± {}", panel.format_value(y), significant(*error, 2)).into();
            }
            if has_about {
                let about = at.and_then(|at| series.tooltips.get(at));
                value["about"] = about.map_or("-", String::as_str).into();
            }
            values.push(value);
        };
        for (r, curve) in series.curves(on_axis).into_iter().enumerate() {
            curve.raw.into_iter().for_each(|point| push(r, true, point));
            curve.points.into_iter().for_each(|point| push(r, false, point));
        }
    }
    values
}

/// Rounds a value to six digits: more than a screen shows.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn references(panel: &Panel, y: &Value) -> Vec<Value> {
    let mut y = with_field(y, "at");
    y["axis"] = json!({ "title": null });
    let text = json!({ "align": "left", "dx": 4, "dy": 3, "baseline": "top" });
    let rule = |reference: &ReferenceLine| {
        labelled_rule(reference, json!({ "y": y }), &text, json!({ "x": { "value": 0 } }))
    };
    panel.references.iter().map(rule).collect()
}

fn marker_layer(chart: &Chart, panel: &Panel, x: &Value) -> Option<Value> {
    let mark = panel.x_marker.as_ref()?;
    // The label stands on the side where there is more room.
    let position = |x: f64| if chart.x_log { x.max(f64::MIN_POSITIVE).ln() } else { x };
    let ends = extent(panel.points().map(|point| position(point.0)));
    let is_right = ends.is_some_and(|(low, high)| position(mark.at) > (low + high) / 2.0);
    let (align, dx) = if is_right { ("right", -4) } else { ("left", 4) };
    let text = json!({ "align": align, "dx": dx, "baseline": "top" });
    let x = json!({ "x": with_field(x, "at") });
    Some(labelled_rule(mark, x, &text, json!({ "y": { "value": 2 } })))
}

/// Returns the dashed line of a marked value with its label. `across` encodes the field `at`;
/// `text` is how the label is set, and `along` where.
fn labelled_rule(reference: &ReferenceLine, across: Value, text: &Value, along: Value) -> Value {
    let mut mark = json!({ "type": "text", "color": hex(palette::MUTED) });
    merge(&mut mark, text.clone());
    let mut encoding = json!({ "text": { "field": "label" } });
    merge(&mut encoding, along);
    json!({
        "data": { "values": [{ "at": reference.at, "label": to_single_line(&reference.label) }] },
        "encoding": across,
        "layer": [
            { "mark": { "type": "rule", "strokeDash": [5, 4], "color": hex(palette::REFERENCE) } },
            { "mark": mark, "encoding": encoding },
        ],
    })
}
