//! Reduced outputs for saving with a notebook: one picture instead of the same in four formats.

use serde_json::{Map, Value, json};

use super::notebook::Notebook;

/// Returns the notebook with small outputs and the name of its profile, for the file that is kept
/// under version control.
pub fn compact_notebook(executed: &Notebook, profile: &str) -> Notebook {
    let mut json = executed.as_json().clone();
    for cell in json["cells"].as_array_mut().into_iter().flatten() {
        let outputs = cell.get_mut("outputs").and_then(Value::as_array_mut);
        outputs.into_iter().flatten().for_each(|output| *output = compact_output(output));
    }
    // The compiler of the machine that ran it.
    if let Some(language) = json["metadata"].get_mut("language_info").and_then(Value::as_object_mut)
    {
        language.remove("version");
    }
    json["metadata"]["epsilab"]["saved"] = json!({ "profile": profile });
    Notebook::from_json(json)
}

/// Returns the profile with which the outputs of a notebook were saved; `None` if it has no saved
/// outputs.
pub fn saved_profile(notebook: &Notebook) -> Option<&str> {
    notebook.as_json()["metadata"]["epsilab"]["saved"]["profile"].as_str()
}

/// Returns the output with text and one picture. PNG is kept rather than SVG, because pages that
/// show notebooks remove SVG from them or draw it without its fonts.
fn compact_output(output: &Value) -> Value {
    let mut small = output.clone();
    if !output["data"].is_object() {
        return small;
    }
    small["data"] = compact_data(&output["data"]);
    let part = &output["metadata"]["epsilab"]["covered_part"];
    if part.is_object() {
        small["metadata"]["epsilab"]["covered_part"]["data"] = compact_data(&part["data"]);
    }
    small
}

fn compact_data(data: &Value) -> Value {
    let has_png = !data["image/png"].is_null();
    let kept = data.as_object().into_iter().flatten().filter(|(mime, _)| match mime.as_str() {
        "text/html" | "image/svg+xml" => !has_png,
        mime => !mime.starts_with("application/vnd.vega"),
    });
    kept.map(|(mime, value)| (mime.clone(), value.clone())).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_keeps_its_text_and_one_picture_and_a_table_its_html() {
        let forms = |picture: bool| {
            let mut data = json!({ "text/plain": ["t"], "text/html": ["<b>t</b>"],
                "image/svg+xml": ["<svg/>"], "application/vnd.vegalite.v5+json": { "mark": "bar" } });
            if picture {
                data["image/png"] = "AQI=".into();
            }
            data
        };
        let figure = json!({ "output_type": "display_data", "data": forms(true), "metadata": {
            "epsilab": { "coverage": "not_covered", "covered_part": { "data": forms(true),
                "metadata": { "epsilab": { "coverage": "covered" } } } },
            "image/png": { "width": 3, "height": 2 } } });
        let table = json!({ "output_type": "execute_result", "data": forms(false),
            "metadata": {}, "execution_count": 1 });
        let text = json!({ "output_type": "stream", "name": "stdout", "text": ["a"] });
        let markdown = json!({ "cell_type": "markdown", "source": ["prose"], "metadata": {} });
        let executed = Notebook::from_json(json!({ "nbformat": 4, "cells": [markdown,
            { "cell_type": "code", "source": ["f"], "outputs": [figure, table, text] }],
            "metadata": { "language_info": { "name": "rust", "version": "1.95" } } }));
        let saved = compact_notebook(&executed, "default");
        assert_eq!(saved_profile(&saved), Some("default"));
        assert_eq!(saved_profile(&executed), None);
        assert_eq!(saved.as_json()["metadata"]["language_info"], json!({ "name": "rust" }));
        assert_eq!(saved.as_json()["cells"][0], markdown);
        let outputs = &saved.as_json()["cells"][1]["outputs"];
        let picture = json!({ "text/plain": ["t"], "image/png": "AQI=" });
        assert_eq!(outputs[0]["data"], picture);
        let part = &outputs[0]["metadata"]["epsilab"]["covered_part"];
        assert_eq!(
            (&part["data"], &outputs[0]["metadata"]["image/png"]["width"]),
            (&picture, &json!(3))
        );
        let rest =
            json!({ "text/plain": ["t"], "text/html": ["<b>t</b>"], "image/svg+xml": ["<svg/>"] });
        assert_eq!(outputs[1]["data"], rest);
        assert_eq!(outputs[2], text);
        // A fresh run starts without them.
        let mut cleared = saved.clone();
        cleared.clear_outputs();
        assert_eq!(saved_profile(&cleared), None);
        assert_eq!(cleared.as_json()["cells"][1]["outputs"], json!([]));
        assert_eq!(cleared.as_json()["cells"][0], markdown);
    }
}
