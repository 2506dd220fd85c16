//! Output bundles: the same content in several formats.

use super::format::{html_escape, replace_strikethrough};
use super::{Coverage, sink};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt;

/// MIME type of Vega-Lite 5 specifications.
const VEGA_LITE: &str = "application/vnd.vegalite.v5+json";

/// One output in several formats. A viewer shows the richest format that it supports.
#[derive(Clone, Default, PartialEq)]
pub struct MimeBundle {
    /// Plain text, always present. Progress displays of one line show its first line.
    pub text: String,
    /// An HTML fragment with inline styles only and without scripts.
    pub html: Option<String>,
    /// An SVG document.
    pub svg: Option<String>,
    /// A PNG file.
    pub png: Option<Vec<u8>>,
    /// A Vega-Lite 5 specification, which JupyterLab and VS Code draw as an interactive figure.
    pub vega_lite: Option<Value>,
    /// Coverage of the output: what it reveals of private data.
    pub coverage: Coverage,
    /// Output without the parts that are [`NotCovered`](Coverage::NotCovered), if something is
    /// left. Redaction puts it in the place of the whole.
    pub covered_part: Option<Box<MimeBundle>>,
}

impl MimeBundle {
    /// Creates a bundle of plain text only.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a bundle of prose: each line of the text is a paragraph. Notebooks set it in a
    /// proportional font and wrap it.
    pub fn prose(text: impl Into<String>) -> Self {
        let text = text.into();
        let style = "margin:0 0 6px 0;max-width:50em;text-align:left";
        let paragraphs = text.lines().filter(|line| !line.trim().is_empty()).map(|line| {
            format!(
                "<p style=\"{style}\">{}</p>\n",
                replace_strikethrough(&html_escape(line.trim()), ("<s>", "</s>"))
            )
        });
        let html: String = paragraphs.collect();
        Self { html: Some(html), ..Self::text(text) }
    }

    /// Adds the HTML format.
    pub(crate) fn with_html(self, html: impl Into<String>) -> Self {
        Self { html: Some(html.into()), ..self }
    }

    /// Adds the SVG format.
    pub fn with_svg(self, svg: impl Into<String>) -> Self {
        Self { svg: Some(svg.into()), ..self }
    }

    /// States what the output reveals of private data.
    pub fn with_coverage(self, coverage: Coverage) -> Self {
        Self { coverage, ..self }
    }

    /// Adds the output without its parts that are [`NotCovered`](Coverage::NotCovered).
    pub(crate) fn with_covered_part(self, part: MimeBundle) -> Self {
        Self { covered_part: Some(Box::new(part)), ..self }
    }

    /// Shows the bundle once in the current sink.
    pub fn show(&self) {
        sink::display(self);
    }

    /// Returns the first line of the text that is not blank.
    pub fn first_line(&self) -> &str {
        self.text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
    }

    /// Returns the formats by MIME type, as Jupyter expects them: PNG in base64, Vega-Lite as an
    /// object, the others verbatim.
    pub fn to_json(&self) -> Value {
        let forms =
            self.mime_entries().into_iter().map(|(mime, data)| (mime.to_string(), data.into()));
        let vega = self.vega_lite.iter().map(|spec| (VEGA_LITE.to_string(), spec.clone()));
        Value::Object(forms.chain(vega).collect())
    }

    /// Returns Jupyter's display metadata: under `epsilab` the coverage and the covered part (its
    /// formats and its own coverage), and by MIME type the size of the PNG in CSS pixels, which is
    /// half its size in pixels.
    pub fn metadata(&self) -> Value {
        let mut all = json!({ "epsilab": self.coverage.to_metadata() });
        if let Some(part) = &self.covered_part {
            all["epsilab"]["covered_part"] =
                json!({ "data": part.to_json(), "metadata": part.metadata() });
        }
        if let Some((width, height)) = self.png.as_deref().and_then(super::render::css_size) {
            all["image/png"] = json!({ "width": width, "height": height });
        }
        all
    }

    /// Returns MIME type and content of each format but Vega-Lite, plain text first.
    pub(super) fn mime_entries(&self) -> Vec<(&'static str, String)> {
        let mut forms = vec![("text/plain", self.text.clone())];
        forms.extend(self.html.clone().map(|html| ("text/html", html)));
        forms.extend(self.svg.clone().map(|svg| ("image/svg+xml", svg)));
        forms.extend(self.png.as_ref().map(|png| ("image/png", STANDARD.encode(png))));
        forms
    }

    /// Returns the approximate size of the message in bytes.
    pub(super) fn approximate_size(&self) -> usize {
        let long = |form: &Option<String>| form.as_ref().map_or(0, String::len);
        let png = self.png.as_ref().map_or(0, |png| png.len() * 4 / 3);
        let text = |spec: &Value| spec.to_string().len();
        let part = self.covered_part.as_ref().map_or(0, |part| part.approximate_size());
        let vega = self.vega_lite.as_ref().map_or(0, text);
        self.text.len() + long(&self.html) + long(&self.svg) + png + vega + part
    }
}

impl fmt::Display for MimeBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text, and the sizes of the other formats in bytes.
impl fmt::Debug for MimeBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MimeBundle")
            .field("text", &self.text)
            .field("html_bytes", &self.html.as_ref().map(String::len))
            .field("svg_bytes", &self.svg.as_ref().map(String::len))
            .field("png_bytes", &self.png.as_ref().map(Vec::len))
            .field("vega_lite", &self.vega_lite.is_some())
            .field("coverage", &self.coverage)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_a_key_for_each_form_and_no_other() {
        let bare = MimeBundle::text("hello").to_json();
        assert_eq!(bare, serde_json::json!({"text/plain": "hello"}));
        let full = MimeBundle::text("t").with_html("<b>h</b>").with_svg("<svg/>");
        let full = MimeBundle { png: Some(vec![1, 2]), ..full };
        assert_eq!(
            full.to_json(),
            serde_json::json!({
                "text/plain": "t", "text/html": "<b>h</b>",
                "image/svg+xml": "<svg/>", "image/png": "AQI="
            })
        );
    }

    #[test]
    fn a_specification_is_an_object_and_metadata_hold_coverage_and_what_is_left_without_the_rest() {
        let part = MimeBundle::text("left").with_coverage(Coverage::Covered);
        let vega_lite = Some(serde_json::json!({"mark": "bar"}));
        let whole = MimeBundle { vega_lite, ..MimeBundle::text("all") }
            .with_coverage(Coverage::NotCovered)
            .with_covered_part(part);
        assert_eq!(whole.to_json()[VEGA_LITE]["mark"], "bar");
        let metadata = whole.metadata();
        assert_eq!(Coverage::from_metadata(&metadata), Coverage::NotCovered);
        let part = &metadata["epsilab"]["covered_part"];
        assert_eq!(part["data"]["text/plain"], "left");
        assert_eq!(Coverage::from_metadata(&part["metadata"]), Coverage::Covered);
        assert_eq!(Coverage::from_metadata(&MimeBundle::text("t").metadata()), Coverage::Unmarked);
    }

    #[test]
    fn prose_is_one_paragraph_for_each_line() {
        let bundle = MimeBundle::prose("first <line>\n\nsecond");
        let html = bundle.html.expect("HTML");
        assert_eq!((html.matches("<p ").count(), html.matches("</p>").count()), (2, 2));
        assert!(html.contains(">first &lt;line&gt;</p>") && !html.contains("<pre"));
        assert_eq!(bundle.text, "first <line>\n\nsecond");
    }

    #[test]
    fn tildes_strike_text_through() {
        let html = MimeBundle::prose("claims ~~epsilon 0.5~~, then ~~1~~ and ~~open").html.unwrap();
        assert!(html.contains("claims <s>epsilon 0.5</s>, then <s>1</s> and ~~open"), "{html}");
    }

    #[test]
    fn the_headline_is_the_first_line_with_text() {
        assert_eq!(MimeBundle::text("\n  step 3/10\nmore").first_line(), "step 3/10");
        assert_eq!(MimeBundle::default().first_line(), "");
    }
}
