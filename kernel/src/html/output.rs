//! Rendering of the outputs of a code cell.

use serde_json::Value;

use super::ansi;
use super::escape::escape;
use super::interactive::{self, VEGA_LITE};
use super::markdown::{self, PictureSource};
use super::math;
use super::sanitize::sanitize;
use crate::run::notebook::multiline_to_string;

/// MIME types in the order of preference, richest first.
const MIME_PREFERENCE: &[&str] = &[
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "image/gif",
    "text/html",
    "text/markdown",
    "text/latex",
    "text/plain",
];

/// Renders one output. `id` is unique on the page. With `interactive`, an output that has a
/// Vega-Lite specification carries it.
pub fn render(output: &Value, id: &str, pictures: &PictureSource<'_>, interactive: bool) -> String {
    match output["output_type"].as_str() {
        Some("stream") => {
            let class = if output["name"] == "stderr" { "stderr" } else { "stdout" };
            let text = multiline_to_string(&output["text"]);
            format!("<pre class=\"{class}\">{}</pre>\n", ansi::to_html(text.trim_end_matches('\n')))
        }
        Some("error") => render_error(output),
        Some("display_data" | "execute_result") => {
            let still = render_mime_bundle(&output["data"], id, pictures);
            let spec = output["data"].get(VEGA_LITE).filter(|_| interactive);
            spec.and_then(|spec| interactive::embed_figure(spec, &still)).unwrap_or(still)
        }
        _ => String::new(),
    }
}

fn render_error(output: &Value) -> String {
    let traceback: Vec<String> =
        output["traceback"].as_array().into_iter().flatten().map(multiline_to_string).collect();
    let text = if traceback.iter().all(|line| line.trim().is_empty()) {
        format!(
            "{}: {}",
            multiline_to_string(&output["ename"]),
            multiline_to_string(&output["evalue"])
        )
    } else {
        traceback.join("\n")
    };
    format!("<pre class=\"error\">{}</pre>\n", ansi::to_html(text.trim_end_matches('\n')))
}

fn render_mime_bundle(data: &Value, id: &str, pictures: &PictureSource<'_>) -> String {
    let Some((kind, content)) = MIME_PREFERENCE
        .iter()
        .find_map(|kind| data.get(*kind).map(|content| (*kind, multiline_to_string(content))))
    else {
        let kinds: Vec<&str> =
            data.as_object().into_iter().flatten().map(|(kind, _)| kind.as_str()).collect();
        return if kinds.is_empty() {
            String::new()
        } else {
            format!("<p class=\"aside\">[output of type {}]</p>\n", escape(&kinds.join(", ")))
        };
    };
    let text = data.get("text/plain").map(multiline_to_string).unwrap_or_default();
    let prefix = format!("{id}-");
    let rich = |inner: &str| format!("<div class=\"rich\">{inner}</div>\n");
    match kind {
        "image/svg+xml" => format!(
            "<figure role=\"img\" aria-label=\"{}\">{}</figure>\n",
            escape(text.trim()),
            sanitize(&content, &prefix)
        ),
        "image/png" | "image/jpeg" | "image/gif" => {
            let data: String = content
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '='))
                .collect();
            format!(
                "<figure><img src=\"data:{kind};base64,{data}\" alt=\"{}\"></figure>\n",
                escape(text.trim())
            )
        }
        "text/html" => rich(&sanitize(&content, &prefix)),
        "text/markdown" => rich(&markdown::render(&content, pictures)),
        "text/latex" => rich(&math::render_block(content.trim().trim_matches('$'))),
        _ if is_prose(&content) => {
            let paragraphs = content.lines().filter(|line| !line.trim().is_empty());
            let paragraphs: String =
                paragraphs.map(|line| format!("<p>{}</p>\n", ansi::to_html(line))).collect();
            format!("<div class=\"text\">\n{paragraphs}</div>\n")
        }
        _ => format!(
            "<pre class=\"result\">{}</pre>\n",
            ansi::to_html(content.trim_end_matches('\n'))
        ),
    }
}

/// Returns whether plain text consists of sentences: long lines and no columns.
fn is_prose(text: &str) -> bool {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let is_sentence = |line: &str| {
        line.starts_with(|c: char| c.is_alphabetic())
            && line.trim_end().ends_with(['.', ':', '!', '?'])
            && line.split(' ').count() > 4
    };
    let has_columns = |line: &str| line.trim().contains("  ") || line.starts_with([' ', '\t']);
    let sentences = lines().filter(|line| is_sentence(line)).count();
    text.lines().any(|line| line.chars().count() > 90)
        && !lines().any(has_columns)
        && 2 * sentences > lines().count()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn page(output: Value) -> String {
        let pictures = PictureSource { folder: Path::new("."), attachments: &Value::Null };
        render(&output, "o1", &pictures, false)
    }

    #[test]
    fn the_richest_form_is_shown() {
        let data = json!({"text/plain": "a curve", "image/png": "QUJD\n", "image/svg+xml":
            ["<svg><g id='a'/>", "</svg>"], "text/html": "<b>x</b>"});
        let html = page(json!({"output_type": "display_data", "data": data}));
        assert!(html.contains("<svg><g id=\"o1-a\"></g></svg>") && html.contains("a curve"));
        let html = page(json!({"output_type": "execute_result", "data": {"text/html": "<b>x</b>",
            "image/png": "QUJD\n\""}}));
        assert!(html.contains("data:image/png;base64,QUJD\""), "{html}");
        let html = page(json!({"output_type": "execute_result", "data": {"text/plain": "<b>"}}));
        assert!(html.contains("&lt;b&gt;"), "{html}");
        let html = page(json!({"output_type": "display_data", "data": {"x/<y>": 1}}));
        assert!(html.contains("x/&lt;y&gt;"), "{html}");
    }

    #[test]
    fn statements_are_prose_and_tables_and_values_are_not() {
        let html = page(json!({"output_type": "execute_result", "data": {"text/plain":
            "This model is (2.75, 1e-5)-differentially private with respect to one training \
             example, added or removed.\nNot covered: choices that were made after other runs."}}));
        assert!(html.contains("<div class=\"text\">\n<p>This model") && !html.contains("<pre"));
        assert_eq!(html.matches("<p>").count(), 2);
        for value in ["[1, 2]", "layer   parameters\nlinear         7850", "Point { x: 1 }"] {
            let html =
                page(json!({"output_type": "execute_result", "data": {"text/plain": value}}));
            assert!(html.contains("<pre"), "{html}");
        }
    }

    #[test]
    fn errors_show_their_traceback_in_colour_or_their_name() {
        let html = page(json!({"output_type": "error", "ename": "E0425", "evalue": "no x",
            "traceback": ["\u{1b}[31mE0425\u{1b}[0m: <no x>"]}));
        assert!(html.contains("<span class=\"af1\">E0425</span>: &lt;no x&gt;"), "{html}");
        let html = page(json!({"output_type": "error", "ename": "Panic", "evalue": "boom",
            "traceback": []}));
        assert!(html.contains("Panic: boom"), "{html}");
    }
}
