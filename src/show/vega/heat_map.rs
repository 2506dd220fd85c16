//! Heat maps as Vega-Lite specifications.

use crate::show::format::to_single_line;
use crate::show::heat_map::{CellMark, HeatMap, HeatMapSlices};
use crate::show::palette::{self, hex};
use serde_json::{Value, json};

/// Returns the body of cells with their values, framed where they are marked. A tooltip names row
/// and column.
pub(in crate::show) fn heat(heat: &HeatMap) -> Value {
    view(heat, cells(heat))
}

/// Returns the body of several heat maps of the same rows and columns. A slider chooses one.
pub(in crate::show) fn heat_slices(slices: &HeatMapSlices) -> Value {
    let mut all = Vec::new();
    for (number, (_, heat)) in slices.maps.iter().enumerate() {
        for mut cell in cells(heat) {
            cell["slice"] = number.into();
            all.push(cell);
        }
    }
    let Some((_, first)) = slices.maps.first() else {
        return json!({ "data": { "values": [] }, "mark": "rect" });
    };
    let names: Vec<String> = slices.maps.iter().map(|(value, _)| slices.heading(value)).collect();
    let mut body = view(first, all);
    body["transform"] = json!([{ "filter": "datum.slice == slice" }]);
    body["params"] = json!([
        { "name": "slices", "value": names },
        { "name": "slice", "value": 0, "bind": { "input": "range", "min": 0,
            "max": names.len() - 1, "step": 1, "name": format!("{}: ", to_single_line(&slices.setting)) } },
    ]);
    let heading = json!({
        "data": { "values": [{}] },
        "transform": [{ "calculate": "slices[slice]", "as": "heading" }],
        "mark": { "type": "text", "align": "right", "baseline": "bottom", "dy": -8, "fontSize": 13,
            "fontWeight": "bold", "color": hex(palette::INK) },
        "encoding": { "text": { "field": "heading" },
            "x": { "value": "width" }, "y": { "value": 0 } },
    });
    if let Some(layers) = body["layer"].as_array_mut() {
        layers.push(heading);
    }
    body
}

/// Returns the data: an object for each cell.
fn cells(heat: &HeatMap) -> Vec<Value> {
    let (rows, columns) = (unique_names(&heat.rows), unique_names(&heat.columns));
    let mut cells = Vec::new();
    for (row, values) in rows.iter().zip(&heat.cells) {
        for (column, cell) in columns.iter().zip(values) {
            let ground = heat.background(cell);
            let sign = match cell.mark {
                CellMark::Above => "▲",
                CellMark::Below => "▼",
                CellMark::None | CellMark::Framed => "",
            };
            cells.push(json!({
                "row": row, "column": column,
                "value": to_single_line(&cell.label), "sub": to_single_line(&cell.sublabel), "sign": sign,
                "ground": hex(ground), "ink": hex(palette::text_colour_on(ground)),
                "edge": hex(if cell.mark == CellMark::None { palette::CARD } else { palette::MUTED }),
            }));
        }
    }
    cells
}

/// Returns the heat map of this data, with the rows, columns and names of `heat`.
fn view(heat: &HeatMap, cells: Vec<Value>) -> Value {
    let (rows, columns) = (unique_names(&heat.rows), unique_names(&heat.columns));
    let has = |field: &str| cells.iter().any(|cell| cell[field] != "");
    let title = |name: &str, other: &str| match to_single_line(name) {
        name if name.is_empty() => other.to_owned(),
        name => name,
    };
    let mut tooltip = vec![
        json!({ "field": "row", "title": title(&heat.row_name, "row") }),
        json!({ "field": "column", "title": title(&heat.column_name, "column") }),
        json!({ "field": "value", "title": "value" }),
    ];
    if has("sub") {
        tooltip.push(json!({ "field": "sub", "title": "spread or chance" }));
    }
    let axis = |name: &str| {
        json!({ "title": if name.is_empty() { Value::Null } else { to_single_line(name).into() },
            "labelAngle": 0, "ticks": false, "domain": false, "grid": false,
            "labelLimit": 220, "labelColor": hex(palette::INK) })
    };
    // Above the first row, as in the drawing.
    let mut rows_axis = axis(&heat.row_name);
    super::merge(
        &mut rows_axis,
        json!({ "titleAngle": 0, "titleAnchor": "end",
        "titleAlign": "left", "titleBaseline": "bottom", "titleX": -40, "titleY": -8 }),
    );
    let text = |field: &str, size: f64, dx: f64, dy: f64, weight: &str| {
        json!({
            "mark": { "type": "text", "fontSize": size, "dx": dx, "dy": dy, "fontWeight": weight },
            "encoding": { "text": { "field": field },
                "color": { "field": "ink", "type": "nominal", "scale": null } },
        })
    };
    let down = if has("sub") { 8.0 } else { 0.0 };
    let mut layers = vec![json!({
        "mark": { "type": "rect", "strokeWidth": 2 },
        "encoding": {
            "color": { "field": "ground", "type": "nominal", "scale": null },
            "stroke": { "field": "edge", "type": "nominal", "scale": null },
            "tooltip": tooltip,
        },
    })];
    // A value without a smaller text below it is in the middle of its cell.
    for (with_sub, up) in [(true, down), (false, 0.0)] {
        let mut values = text("value", 12.5, 0.0, -up, "normal");
        let comparison = if with_sub { "!=" } else { "==" };
        values["transform"] = json!([{ "filter": format!("datum.sub {comparison} ''") }]);
        layers.push(values);
    }
    layers.extend(has("sub").then(|| text("sub", 10.0, 0.0, down, "normal")));
    layers.extend(has("sign").then(|| text("sign", 9.0, 24.0, -8.0, "bold")));
    let (wide, high) = heat.cell_size();
    json!({
        "data": { "values": cells },
        "width": wide * columns.len() as f64,
        "height": high * rows.len() as f64,
        "encoding": {
            "x": { "field": "column", "type": "ordinal", "sort": columns,
                "axis": axis(&heat.column_name), "scale": { "padding": 0.02 } },
            "y": { "field": "row", "type": "ordinal", "sort": rows, "axis": rows_axis,
                "scale": { "padding": 0.02 } },
        },
        "layer": layers,
    })
}

/// Returns the names, made unique: cells of equal names would be drawn on top of each other.
fn unique_names(names: &[String]) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        let name = to_single_line(name);
        let taken = unique.iter().filter(|other| other.trim_end_matches('\u{200b}') == name);
        let more = "\u{200b}".repeat(taken.count());
        unique.push(format!("{name}{more}"));
    }
    unique
}
