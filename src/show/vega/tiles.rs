//! Matrices of small tiles as Vega-Lite specifications.

use crate::show::multiples;
use crate::show::palette::{self, hex};
use crate::show::tiles::Tiles;
use serde_json::{Value, json};

/// Returns the body of panels of tiles in rows.
///
/// The data are strings of hexadecimal digits, one for each row of tiles. An object for each tile
/// would take twenty times the space.
pub(in crate::show) fn tiles(tiles: &Tiles) -> Value {
    let Tiles { panels, levels } = tiles;
    // As many entries of the legend side by side as fit above two panels.
    let longest = levels.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
    let legend_columns = (90 / (longest + 4)).max(1);
    let names: Vec<&str> = levels.iter().map(|(_, name)| name.as_str()).collect();
    let colours: Vec<String> = levels.iter().map(|(colour, _)| hex(*colour)).collect();
    let mut parameters = vec![json!({ "name": "names", "value": names })];
    let mut views = Vec::new();
    for (number, panel) in panels.iter().enumerate() {
        let [across, down] = ["across", "down"].map(|name| format!("{name}_{number}"));
        parameters.extend([
            json!({ "name": across, "value": panel.across }),
            json!({ "name": down, "value": panel.down }),
        ]);
        let rows = panel.levels.iter().enumerate();
        let rows = rows.map(|(row, levels)| json!({ "row": row, "digits": hex_digits(levels) }));
        let step = |expression: String, name: &str| json!({ "calculate": expression, "as": name });
        let mut transform = vec![
            step("split(datum.digits, '')".to_owned(), "digit"),
            json!({ "flatten": ["digit"], "as": ["digit"] }),
            json!({ "window": [{ "op": "row_number", "as": "number" }], "groupby": ["row"] }),
            step("datum.number - 1".to_owned(), "column"),
            step("indexof('0123456789abcdef', datum.digit)".to_owned(), "level"),
            json!({ "filter": format!("datum.level >= 0 && datum.level < {}", names.len()) }),
            step("names[datum.level]".to_owned(), "is"),
            step(format!("{across}[datum.column][0]"), "left"),
            step(format!("{across}[datum.column][1]"), "right"),
            step(format!("{down}[datum.row][0]"), "top"),
            step(format!("{down}[datum.row][1]"), "bottom"),
        ];
        let mut tooltip = vec![json!({ "field": "is", "title": "is" })];
        for (i, (name, expression)) in panel.tooltip.iter().enumerate() {
            let field = format!("about_{i}");
            transform.push(step(expression.clone(), &field));
            tooltip.push(json!({ "field": field, "title": name }));
        }
        let (width, height) = panel.size();
        let at = |field: &str| json!({ "field": field, "type": "quantitative", "scale": null, "axis": null });
        views.push(json!({
            "title": { "text": panel.head.title, "subtitle": panel.head.remarks, "fontSize": 12, "offset": 6 },
            "width": width,
            "height": height,
            "data": { "values": rows.collect::<Vec<_>>() },
            "transform": transform,
            // Edges are sharp, as in the drawing.
            "mark": { "type": "rect", "strokeWidth": 0 },
            "encoding": {
                "x": at("left"), "x2": { "field": "right" },
                "y": at("top"), "y2": { "field": "bottom" },
                "color": { "field": "is", "type": "nominal", "sort": null,
                    "scale": { "domain": names, "range": colours },
                    "legend": { "title": null, "orient": "top", "columns": legend_columns,
                        "symbolType": "square",
                        "symbolStrokeColor": hex(palette::AXIS) } },
                "tooltip": tooltip,
            },
        }));
    }
    json!({ "params": parameters, "concat": views,
        "columns": multiples::columns(panels.len()).1, "spacing": 24,
        "resolve": { "scale": { "color": "shared" } } })
}

/// Returns the levels as hexadecimal digits.
fn hex_digits(levels: &[u8]) -> String {
    levels.iter().filter_map(|level| char::from_digit(u32::from(*level), 16)).collect()
}
