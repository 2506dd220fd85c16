//! Interactive figures on a page: Vega-Lite specifications, drawn by Vega when the page is opened.
//!
//! A specification comes from the notebook, so it is as little trusted as other outputs. It can't
//! leave its script element, it may name nothing to load, and the policy of the page forbids the
//! rest: only the scripts with the known hashes run, and nothing is loaded.

mod fetch;
mod libraries;
mod validation;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha512};

pub use libraries::Libraries;

/// MIME type of Vega-Lite 5 specifications.
pub const VEGA_LITE: &str = "application/vnd.vegalite.v5+json";

/// Script that draws the figures of a page.
const DRAW_SCRIPT: &str = include_str!("draw.js");
/// Styles that a page with interactive figures adds to those of other pages.
pub const STYLE: &str = include_str!("interactive.css");
/// Versions, copyright and licences of the libraries.
const LICENCES: &str = include_str!("licences.txt");

/// Start tag of the element of every figure with a specification.
const FIGURE_START: &str = "<div class=\"vega\">";

/// Renders a figure with its specification; `still` is shown until the figure is drawn. Returns
/// `None` for a specification that is refused: the drawing is shown alone.
pub fn embed_figure(spec: &Value, still: &str) -> Option<String> {
    if !validation::is_safe(spec) {
        return None;
    }
    // Only in strings of JSON is this character possible.
    let spec = spec.to_string().replace('<', "\\u003c");
    Some(format!(
        "{FIGURE_START}\n<div class=\"still\">\n{still}</div>\n\
         <script type=\"application/json\">{spec}</script>\n</div>\n"
    ))
}

/// Returns the scripts of a page, and the policy that lets these and no others run: the libraries
/// and the code that draws the figures.
pub fn scripts(libraries: &Libraries) -> (String, String) {
    let mut html = format!("<!--\n{LICENCES}-->\n");
    let mut policy = "script-src".to_owned();
    for text in libraries.scripts().iter().map(String::as_str).chain([DRAW_SCRIPT]) {
        html.push_str(&format!("<script>{text}</script>\n"));
        policy.push_str(&format!(" 'sha512-{}'", STANDARD.encode(Sha512::digest(text))));
    }
    (html, policy)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::attacks_tests::{SPECIFICATION_PAYLOADS, find_active_content};
    use super::*;

    const STILL: &str = "<p>still</p>\n";

    #[test]
    fn hostile_specifications_are_refused_or_stay_in_their_script() {
        for (attack, is_refused) in SPECIFICATION_PAYLOADS {
            let spec: Value = serde_json::from_str(attack).expect("JSON");
            let Some(html) = embed_figure(&spec, STILL) else {
                assert!(is_refused, "{attack} is refused");
                continue;
            };
            assert!(!is_refused, "{attack} is not refused");
            assert_eq!(find_active_content(&html), ["script type=\"application/json\""], "{html}");
            let (_, rest) = html.split_once("json\">").expect("a script");
            let (inside, after) = rest.split_once("</script>").expect("its end");
            assert!(!inside.contains('<') && after == "\n</div>\n", "{html}");
            assert_eq!(serde_json::from_str::<Value>(inside).expect("JSON"), spec);
        }
    }

    #[test]
    fn a_figure_keeps_its_drawing_and_other_grammars_stay_drawings() {
        let spec = json!({"$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "mark": "point", "data": {"values": [{"a": 1}]}});
        assert!(embed_figure(&spec, STILL).expect("a figure").contains(STILL));
        for other in ["vega/v5.json", "vega-lite/v2.json"] {
            let schema = format!("https://vega.github.io/schema/{other}");
            assert!(embed_figure(&json!({"$schema": schema, "mark": "point"}), STILL).is_none());
        }
    }

    #[test]
    fn only_the_scripts_of_the_page_have_a_hash_in_the_policy() {
        let (html, policy) = scripts(&Libraries::for_tests());
        assert_eq!(find_active_content(&html), ["script"; 4]);
        assert_eq!(policy.matches(" 'sha512-").count(), 4);
        assert!(!policy.contains("unsafe"));
        // `--` would end the comment early.
        assert!(
            !LICENCES.contains("--")
                && !DRAW_SCRIPT.contains("</")
                && !DRAW_SCRIPT.contains("<!--")
        );
        for library in libraries::LIBRARIES {
            assert!(LICENCES.contains(&library.to_string()), "{library}");
        }
    }
}
