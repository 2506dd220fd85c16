//! Rendering of an executed notebook as one HTML page that loads nothing. A page has no scripts,
//! unless interactive figures are asked for. Begin with `render_page`: `markdown`, `math`,
//! `highlight`, `ansi` and `output` render the parts of cells, `sanitize`, `css` and `escape` keep
//! out of them what runs or loads, and `interactive` embeds figures that respond to the mouse.

mod ansi;
#[cfg(test)]
mod attacks_tests;
mod css;
mod escape;
mod highlight;
pub mod interactive;
mod markdown;
mod math;
mod output;
mod sanitize;

use std::path::Path;

use serde_json::Value;

use crate::run::notebook::multiline_to_string;
use escape::escape;
use interactive::Libraries;
use markdown::PictureSource;

pub use ansi::strip as without_colours;

const STYLE: &str = include_str!("style.css");

/// Content security policy: a second line of defence behind the sanitizer.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; img-src data:; style-src \
                      'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Renders `notebook` (nbformat 4) with the file name `name`. Pictures of markdown cells are read
/// from `folder` and embedded. The page has no scripts.
pub fn render_page(notebook: &Value, name: &str, folder: &Path) -> String {
    page_with(None, notebook, name, folder)
}

/// Renders a notebook as [`render_page`] does; with `libraries`, an interactive figure stands in
/// the place of each output that has a Vega-Lite specification. A page without such an output
/// still has no scripts.
pub fn page_with(
    libraries: Option<&Libraries>,
    notebook: &Value,
    name: &str,
    folder: &Path,
) -> String {
    let cells = notebook["cells"].as_array().map(Vec::as_slice).unwrap_or_default();
    let title = page_title(cells).unwrap_or_else(|| name.trim_end_matches(".ipynb").to_owned());
    let cells = cells.iter().enumerate();
    let body: String =
        cells.map(|(i, cell)| render_cell(cell, i + 1, folder, libraries.is_some())).collect();
    // The sanitizer removes scripts, so this one is ours.
    let is_interactive = body.contains("<script type=\"application/json\">");
    let (mut style, mut policy, mut scripts) =
        (STYLE.to_owned(), CONTENT_SECURITY_POLICY.to_owned(), String::new());
    if let Some(libraries) = libraries.filter(|_| is_interactive) {
        let (html, script_policy) = interactive::scripts(libraries);
        style.push_str(interactive::STYLE);
        policy = format!("{CONTENT_SECURITY_POLICY}; {script_policy}");
        scripts = html;
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Epsilab {version}\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <footer>{name} · executed by Epsilab {version}</footer>\n{scripts}</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
        title = escape(&title),
        name = escape(name),
    )
}

fn page_title(cells: &[Value]) -> Option<String> {
    let prose = cells.iter().filter(|cell| cell["cell_type"] == "markdown");
    let headings =
        prose.filter_map(|cell| markdown::first_heading(&multiline_to_string(&cell["source"])));
    // A later `#` takes precedence over an earlier `##`.
    headings.min_by_key(|(level, _)| *level).map(|(_, text)| text)
}

fn render_cell(cell: &Value, number: usize, folder: &Path, interactive: bool) -> String {
    let source = multiline_to_string(&cell["source"]);
    let pictures = PictureSource { folder, attachments: &cell["attachments"] };
    match cell["cell_type"].as_str() {
        Some("markdown") => {
            format!(
                "<section class=\"prose\">\n{}</section>\n",
                markdown::render(&source, &pictures)
            )
        }
        Some("code") => render_code_cell(cell, number, &pictures, interactive),
        _ if source.trim().is_empty() => String::new(),
        _ => format!("<section class=\"raw\"><pre>{}</pre></section>\n", escape(&source)),
    }
}

fn render_code_cell(
    cell: &Value,
    number: usize,
    pictures: &PictureSource<'_>,
    interactive: bool,
) -> String {
    let source = multiline_to_string(&cell["source"]);
    let outputs = cell["outputs"].as_array().map(Vec::as_slice).unwrap_or_default();
    if source.trim().is_empty() && outputs.is_empty() {
        return String::new();
    }
    let count =
        cell["execution_count"].as_u64().map_or("–".to_owned(), |count| count.to_string());
    let shown: String = outputs
        .iter()
        .enumerate()
        .map(|(i, o)| output::render(o, &format!("c{number}o{}", i + 1), pictures, interactive))
        .collect();
    let shown = if shown.is_empty() {
        String::new()
    } else {
        format!("<div class=\"outputs\">\n{shown}</div>\n")
    };
    format!(
        "<section class=\"cell\">\n<pre class=\"code\" data-count=\"{count}\"><code>{}</code></pre>\
         \n{shown}</section>\n",
        highlight::highlight(source.trim_end_matches('\n')),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Value {
        json!({"cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["## First\n", "\n", "# A & B"]},
            {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": "1 + 1",
             "outputs": [{"output_type": "execute_result", "execution_count": 1, "metadata": {},
                          "data": {"text/plain": "2"}}]},
            {"cell_type": "code", "execution_count": null, "metadata": {}, "source": "never()",
             "outputs": []},
            {"cell_type": "raw", "metadata": {}, "source": "<raw>"},
        ], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    }

    #[test]
    fn a_page_holds_every_cell_and_its_title() {
        let page = render_page(&sample(), "a.ipynb", Path::new("."));
        assert!(page.contains("<title>A &amp; B</title>"), "{page}");
        assert!(page.contains("data-count=\"1\"") && page.contains("data-count=\"–\""));
        assert!(page.contains("<pre class=\"result\">2</pre>"));
        assert!(page.contains("&lt;raw&gt;"));
    }

    #[test]
    fn a_page_loads_nothing_and_runs_nothing() {
        let page = render_page(&sample(), "a.ipynb", Path::new("."));
        for bad in ["<script", "<link", "src=\"http", "url(", "@import", "onload"] {
            assert!(!page.contains(bad), "{bad}");
        }
    }

    #[test]
    fn scripts_are_on_the_page_only_if_requested_and_needed() {
        let libraries = Libraries::for_tests();
        let script_count = |notebook: &Value, libraries| {
            page_with(libraries, notebook, "a.ipynb", Path::new(".")).matches("<script").count()
        };
        let mut notebook = sample();
        assert_eq!(script_count(&notebook, Some(&libraries)), 0);
        let data = json!({"text/plain": "a figure", "image/svg+xml": "<svg></svg>",
            interactive::VEGA_LITE: {"mark": "point", "data": {"values": [{"a": 1}]}}});
        let output = json!({"output_type": "display_data", "metadata": {}, "data": data});
        notebook["cells"][1]["outputs"] = json!([output.clone(), output]);
        assert_eq!(script_count(&notebook, None), 0);
        // Two specifications, three libraries and the code that draws.
        assert_eq!(script_count(&notebook, Some(&libraries)), 2 + 3 + 1);
        let page = page_with(Some(&libraries), &notebook, "a.ipynb", Path::new("."));
        assert_eq!(page.matches("default-src 'none'; ").count(), 1);
        assert!(page.contains("; script-src 'sha512-") && !page.contains("unsafe-eval"));
        assert_eq!(page.matches("<svg></svg>").count(), 2, "the drawings stay: {page}");
    }

    #[test]
    fn broken_notebooks_make_a_page_too() {
        for broken in [json!({}), json!({"cells": [1, {"cell_type": "code"}, {}]}), json!(null)] {
            assert!(render_page(&broken, "<x>.ipynb", Path::new(".")).contains("&lt;x&gt;"));
        }
    }
}
