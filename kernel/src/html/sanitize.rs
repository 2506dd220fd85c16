//! Sanitizer for HTML and SVG of outputs and markdown cells, by `ammonia`: known elements and
//! attributes pass. What runs code, or loads something from elsewhere, is removed.

use std::borrow::Cow;
use std::collections::HashSet;

use ammonia::{Builder, UrlRelative};

use super::css;

/// Elements that are removed together with their content.
const REMOVED_ELEMENTS: &[&str] = &[
    "script", "style", "iframe", "object", "embed", "noscript", "template", "textarea", "select",
    "canvas", "audio", "video", "applet", "frameset", "head",
];

const HTML_ELEMENTS: &[&str] = &[
    "a abbr b blockquote br caption cite code col colgroup dd del details dfn div dl dt em",
    "figcaption figure h1 h2 h3 h4 h5 h6 hr i img input ins kbd li mark meter ol p pre progress",
    "q s samp section small span strong sub summary sup table tbody td tfoot th thead time tr u ul",
    "var wbr",
];

/// Allowed elements of SVG, in the spelling of the standard.
const SVG_ELEMENTS: &[&str] = &[
    "svg g defs desc title path rect circle ellipse line polyline polygon text tspan textPath",
    "clipPath mask marker pattern symbol linearGradient radialGradient stop use image",
];

const MATHML_ELEMENTS: &[&str] = &[
    "math mrow mi mo mn mtext mspace msub msup msubsup mfrac msqrt mroot mover munder munderover",
    "mtable mtr mtd mstyle mpadded mphantom merror",
];

const HTML_ATTRIBUTES: &[&str] = &[
    "align alt checked class colspan dir disabled headers height high id lang low max min open",
    "optimum role rowspan scope span start style title type valign value width",
];

const SVG_ATTRIBUTES: &[&str] = &[
    "alignment-baseline clip-path clip-rule clipPathUnits color cx cy d dominant-baseline dx dy",
    "fill fill-opacity fill-rule font-family font-size font-style font-variant font-weight fx fy",
    "gradientTransform gradientUnits href letter-spacing lengthAdjust marker-end marker-mid",
    "marker-start markerHeight markerUnits markerWidth mask maskUnits offset opacity orient",
    "pathLength patternTransform patternUnits points preserveAspectRatio r refX refY rotate rx ry",
    "shape-rendering spreadMethod startOffset stop-color stop-opacity stroke stroke-dasharray",
    "stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity",
    "stroke-width text-anchor text-decoration text-rendering textLength transform",
    "transform-origin vector-effect version viewBox visibility word-spacing x x1 x2 y y1 y2",
];

const MATHML_ATTRIBUTES: &[&str] = &[
    "display displaystyle largeop linethickness mathvariant maxsize minsize movablelimits",
    "scriptlevel stretchy symmetric depth",
];

fn word_set(lines: &[&[&'static str]]) -> HashSet<&'static str> {
    lines.iter().flat_map(|lines| lines.iter()).flat_map(|line| line.split(' ')).collect()
}

/// Returns safe HTML. Ids get `prefix`, so that the ids of two outputs never collide.
pub fn sanitize(html: &str, prefix: &str) -> String {
    let prefix = prefix.to_owned();
    let mut builder = Builder::empty();
    builder
        .tags(word_set(&[HTML_ELEMENTS, SVG_ELEMENTS, MATHML_ELEMENTS]))
        .clean_content_tags(word_set(&[REMOVED_ELEMENTS]))
        .generic_attributes(word_set(&[HTML_ATTRIBUTES, SVG_ATTRIBUTES, MATHML_ATTRIBUTES]))
        .add_generic_attribute_prefixes(["aria-"])
        .add_tag_attributes("img", ["src"])
        // Only the check boxes of task lists.
        .set_tag_attribute_value("input", "type", "checkbox")
        .set_tag_attribute_value("input", "disabled", "")
        .url_schemes(["http", "https", "mailto", "data"].into())
        .url_relative(UrlRelative::PassThrough)
        .link_rel(None)
        .attribute_filter(move |element, name, value| {
            filter_attribute(&prefix, element, name, value)
        });
    builder.clean(html).to_string()
}

/// Returns the sanitized value of an allowed attribute, or `None` to remove it.
fn filter_attribute<'a>(
    prefix: &str,
    element: &str,
    name: &str,
    value: &'a str,
) -> Option<Cow<'a, str>> {
    match name {
        "id" => Some(format!("{prefix}{value}").into()),
        "style" => css::sanitize_style(value, prefix).map(Cow::from),
        "src" => is_data_image(value).then(|| value.into()),
        "href" if element == "a" => is_safe_link(value).then(|| value.into()),
        "href" if element == "image" => is_data_image(value).then(|| value.into()),
        "href" => value.strip_prefix('#').map(|id| format!("#{prefix}{id}").into()),
        // Inside a figure these are harmless: the edge of the figure clips what they move.
        "transform" | "transform-origin" if element == "svg" => None,
        _ => filter_value(prefix, value),
    }
}

/// Returns the value of an attribute if it refers to parts of the same figure only.
fn filter_value<'a>(prefix: &str, value: &'a str) -> Option<Cow<'a, str>> {
    let lower = value.to_ascii_lowercase();
    let bad = ["javascript:", "expression(", "@import", "\\", "image-set(", "src("];
    if bad.iter().any(|bad| lower.contains(bad)) {
        return None;
    }
    match (lower.matches("url(").count(), lower.matches("url(#").count()) {
        (0, _) => Some(value.into()),
        (all, inside) if all == inside => {
            Some(value.replace("url(#", &format!("url(#{prefix}")).into())
        }
        _ => None,
    }
}

/// Returns `true` for links to the web, to mail, to a place on the page or to a file beside it.
pub fn is_safe_link(link: &str) -> bool {
    let link: String = link.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
    match link.split_once(':') {
        Some((scheme, _)) if !scheme.contains(['/', '?', '#']) => {
            ["http", "https", "mailto"].iter().any(|s| s.eq_ignore_ascii_case(scheme))
        }
        _ => true,
    }
}

fn is_data_image(value: &str) -> bool {
    ["png", "jpeg", "gif", "webp", "svg+xml"]
        .iter()
        .any(|kind| value.starts_with(&format!("data:image/{kind};base64,")))
}

#[cfg(test)]
mod tests {
    use super::super::attacks_tests::{HTML_PAYLOADS, find_active_content};
    use super::*;

    #[test]
    fn figures_and_tables_pass() {
        let svg = "<?xml version=\"1.0\"?><!DOCTYPE svg><svg viewBox=\"0 0 9 9\" \
                   xmlns=\"http://www.w3.org/2000/svg\"><defs><linearGradient id=\"g\"/></defs>\
                   <rect fill=\"url(#g)\" width=\"9\"/><text>a &lt; b</text></svg>";
        assert_eq!(
            sanitize(svg, "o1-"),
            "<svg viewBox=\"0 0 9 9\"><defs><linearGradient id=\"o1-g\"></linearGradient></defs>\
             <rect fill=\"url(#o1-g)\" width=\"9\"></rect><text>a &lt; b</text></svg>"
        );
        let table = "<table><tbody><tr><td colspan=2 style=\"color:red\">x &amp; y</td></tr>\
                     </tbody></table>";
        assert_eq!(sanitize(table, ""), table.replace("=2", "=\"2\""));
        let named = "<svg><title>A curve</title><use xlink:href=\"#a\"></use></svg>";
        assert_eq!(sanitize(named, "b-"), named.replace("#a", "#b-a"));
        let formula = "<math display=\"block\"><mfrac><mn>1</mn><mi>B</mi></mfrac></math>";
        assert_eq!(sanitize(formula, ""), formula);
    }

    #[test]
    fn nothing_runs_and_nothing_is_loaded() {
        assert!(HTML_PAYLOADS.len() >= 60);
        for attack in HTML_PAYLOADS {
            let safe = sanitize(attack, "");
            assert_eq!(find_active_content(&safe), Vec::<String>::new(), "{attack} -> {safe}");
            assert_eq!(sanitize(&safe, ""), safe, "{attack}");
        }
    }

    #[test]
    fn an_output_stays_in_its_box() {
        for hostile in [
            "<div style=\"position:fixed;inset:0;z-index:9\">x</div>",
            "<p STYLE='position&#58;fixed'>x</p>",
            "<p style=\"color:red;pos&#105;tion:fixed;top:0\">x</p>",
            "<p style=\"color:red\" style=\"position:fixed\">x</p>",
            "<p style=\"color:red\" STYLE=\"position:fixed\">x</p>",
            "<svg style=\"position:fixed;overflow:visible\"><g/></svg>",
            "<svg overflow=\"visible\"><g/></svg>",
            "<svg transform=\"translate(-900)\"><g/></svg>",
            "<svg><svg overflow=visible style=overflow:visible></svg></svg>",
            "<svg><g filter=\"url(#f)\" style=\"transform:scale(99)\"/></svg>",
            "<td style=\"margin:-99px\">x</td>",
        ] {
            let safe = sanitize(hostile, "").to_ascii_lowercase();
            for bad in
                ["fixed", "inset", "z-index", "top:", "overflow", "transform", "filter", "99"]
            {
                assert!(!safe.contains(bad), "{hostile} -> {safe}");
            }
        }
        let moved = "<svg><g transform=\"translate(9)\"></g></svg>";
        assert_eq!(sanitize(moved, ""), moved);
    }

    #[test]
    fn every_element_is_closed_and_nothing_else_is() {
        assert_eq!(sanitize("</div></section><p>a<b>b", ""), "<p>a<b>b</b></p>");
        assert_eq!(sanitize("<ul><li>a<li>b</ul>c", ""), "<ul><li>a</li><li>b</li></ul>c");
        assert_eq!(sanitize("1 < 2 <", ""), "1 &lt; 2 &lt;");
        assert_eq!(sanitize("x<p title=\"never closed", ""), "x");
        assert_eq!(sanitize("a<!-- b --><!-- never", ""), "a");
        let deep = "<div>".repeat(2_000);
        assert_eq!(sanitize(&deep, "").matches("<div").count(), 2_000);
    }
}
