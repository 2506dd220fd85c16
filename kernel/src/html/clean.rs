//! Sanitizes HTML and SVG of outputs and markdown cells.
//!
//! Known elements and attributes pass. Scripts and whatever loads or links to other places are
//! removed. Every element is closed, so that an output can't leave its box.

use super::css;
use super::escape::escape_into;
use super::tag::{Tag, read_tag, skip_element, skip_markup};

/// Elements that are removed with their content.
const DROPPED: &[&str] = &[
    "script", "style", "iframe", "object", "embed", "noscript", "template", "textarea", "select",
    "math", "canvas", "audio", "video", "applet", "frameset", "head",
];

const HTML: &[&str] = &[
    "a",
    "abbr",
    "b",
    "blockquote",
    "br",
    "caption",
    "cite",
    "code",
    "col",
    "colgroup",
    "dd",
    "del",
    "details",
    "dfn",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "img",
    "input",
    "ins",
    "kbd",
    "li",
    "mark",
    "meter",
    "ol",
    "p",
    "pre",
    "progress",
    "q",
    "s",
    "samp",
    "section",
    "small",
    "span",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "time",
    "tr",
    "u",
    "ul",
    "var",
    "wbr",
];

/// SVG elements, in the spelling of the standard.
const SVG: &[&str] = &[
    "svg",
    "g",
    "defs",
    "desc",
    "title",
    "path",
    "rect",
    "circle",
    "ellipse",
    "line",
    "polyline",
    "polygon",
    "text",
    "tspan",
    "textPath",
    "clipPath",
    "mask",
    "marker",
    "pattern",
    "symbol",
    "linearGradient",
    "radialGradient",
    "stop",
    "use",
    "image",
];

const VOID: &[&str] = &["br", "col", "hr", "img", "input", "wbr"];

const ATTRIBUTES: &[&str] = &[
    "align", "alt", "checked", "class", "colspan", "dir", "disabled", "headers", "height", "high",
    "id", "lang", "low", "max", "min", "open", "optimum", "role", "rowspan", "scope", "span",
    "start", "style", "title", "type", "valign", "value", "width",
];

/// Returns safe HTML. Ids get `prefix`, so that the ids of two outputs never collide.
pub fn clean(html: &str, prefix: &str) -> String {
    let mut cleaner = Cleaner { out: String::with_capacity(html.len()), open: Vec::new(), prefix };
    cleaner.run(html);
    cleaner.out
}

struct Cleaner<'a> {
    out: String,
    open: Vec<&'static str>,
    prefix: &'a str,
}

impl Cleaner<'_> {
    fn run(&mut self, html: &str) {
        let mut rest = html;
        while let Some(at) = rest.find('<') {
            self.text(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = skip_markup(rest, &mut self.out) {
                rest = after;
                continue;
            }
            let Some((tag, after)) = read_tag(rest) else {
                self.out.push_str("&lt;");
                rest = &rest[1..];
                continue;
            };
            rest = after;
            let dropped = DROPPED.iter().find(|d| d.eq_ignore_ascii_case(tag.name));
            match dropped {
                Some(name) if !tag.closing && !tag.self_closing => rest = skip_element(rest, name),
                Some(_) => {}
                None => self.tag(&tag),
            }
        }
        self.text(rest);
        while let Some(name) = self.open.pop() {
            self.close(name);
        }
    }

    /// Appends text between tags. Entities stay as they are.
    fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '>' => self.out.push_str("&gt;"),
                c if c.is_control() && c != '\n' && c != '\t' => {}
                c => self.out.push(c),
            }
        }
    }

    fn in_svg(&self) -> bool {
        self.open.contains(&"svg")
    }

    fn tag(&mut self, tag: &Tag<'_>) {
        let svg = self.in_svg() || tag.name.eq_ignore_ascii_case("svg");
        let known = if svg { SVG } else { HTML };
        let Some(&name) = known.iter().find(|k| k.eq_ignore_ascii_case(tag.name)) else { return };
        if tag.closing {
            if let Some(at) = self.open.iter().rposition(|&o| o == name) {
                while self.open.len() > at {
                    if let Some(inner) = self.open.pop() {
                        self.close(inner);
                    }
                }
            }
            return;
        }
        // Only the check boxes of task lists.
        if name == "input" && !tag.attributes.iter().any(|(n, v)| *n == "type" && v == "checkbox") {
            return;
        }
        self.out.push('<');
        self.out.push_str(name);
        for (attribute, value) in &tag.attributes {
            self.attribute(name, svg, attribute, value);
        }
        self.out.push('>');
        if VOID.contains(&name) {
            return;
        }
        if tag.self_closing && svg {
            self.close(name);
        } else {
            self.open.push(name);
        }
    }

    fn close(&mut self, name: &str) {
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    fn attribute(&mut self, element: &str, svg: bool, name: &str, value: &str) {
        let lower = name.to_ascii_lowercase();
        let value = match lower.as_str() {
            n if n.starts_with("on") => return,
            "id" => format!("{}{value}", self.prefix),
            "href" | "xlink:href" => match self.link(element, svg, value) {
                Some(link) => link,
                None => return,
            },
            "src" => match value {
                v if element == "img" && is_data_image(v) => v.to_owned(),
                _ => return,
            },
            "style" => match css::clean(value, self.prefix) {
                Some(style) => style,
                None => return,
            },
            n if svg && n.starts_with("xmlns") => return,
            // Inside a figure these are harmless: the edge of the figure clips what they move.
            "transform" | "transform-origin" if element == "svg" => return,
            "overflow" | "filter" if svg => return,
            n if svg || ATTRIBUTES.contains(&n) || n.starts_with("aria-") => {
                match self.harmless(value) {
                    Some(value) => value,
                    None => return,
                }
            }
            _ => return,
        };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c)) {
            return;
        }
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        escape_into(&mut self.out, &value);
        self.out.push('"');
    }

    fn link(&self, element: &str, svg: bool, value: &str) -> Option<String> {
        if svg {
            return match element {
                "image" if is_data_image(value) => Some(value.to_owned()),
                "image" => None,
                _ => value.strip_prefix('#').map(|id| format!("#{}{id}", self.prefix)),
            };
        }
        (element == "a" && is_safe_link(value)).then(|| value.to_owned())
    }

    /// The value of an attribute if it refers to parts of the same figure only.
    fn harmless(&self, value: &str) -> Option<String> {
        let lower = value.to_ascii_lowercase();
        if ["javascript:", "expression(", "@import", "\\", "image-set(", "src("]
            .iter()
            .any(|bad| lower.contains(bad))
        {
            return None;
        }
        let outside = lower.matches("url(").count() != lower.matches("url(#").count();
        (!outside).then(|| value.replace("url(#", &format!("url(#{}", self.prefix)))
    }
}

/// True for links to the web, to mail, to a place on the page or to a file beside it.
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
    use super::*;

    #[test]
    fn figures_and_tables_pass() {
        let svg = "<?xml version=\"1.0\"?><!DOCTYPE svg><svg viewBox=\"0 0 9 9\" \
                   xmlns=\"http://www.w3.org/2000/svg\"><defs><linearGradient id=\"g\"/></defs>\
                   <rect fill=\"url(#g)\" width=\"9\"/><text>a &lt; b</text></svg>";
        assert_eq!(
            clean(svg, "o1-"),
            "<svg viewBox=\"0 0 9 9\"><defs><linearGradient id=\"o1-g\"></linearGradient></defs>\
             <rect fill=\"url(#o1-g)\" width=\"9\"></rect><text>a &lt; b</text></svg>"
        );
        let table = "<table><tr><td style=\"color:red\" colspan=2>x &amp; y</td></tr></table>";
        assert_eq!(
            clean(table, ""),
            "<table><tr><td style=\"color:red\" colspan=\"2\">x &amp; y</td></tr></table>"
        );
    }

    #[test]
    fn nothing_runs_loads_or_links_elsewhere() {
        for hostile in [
            "<script>alert(1)</script>",
            "<SCRIPT src=x>alert(1)</SCRIPT >",
            "<svg><script>alert(1)</script></svg>",
            "<img src=x onerror=alert(1)>",
            "<img src=https://example.org/pixel.png>",
            "<a href=\"java&#115;cript:alert(1)\">x</a>",
            "<a href=\" java\nscript:alert(1)\">x</a>",
            "<svg><a xlink:href=\"javascript:alert(1)\"><text>x</text></a></svg>",
            "<svg><use href=\"https://example.org/x.svg#a\"/></svg>",
            "<svg onload=alert(1)>",
            "<svg><foreignObject><iframe src=x></iframe></foreignObject></svg>",
            "<div style=\"background:url(https://example.org/x)\">",
            "<div style=\"background:u\\72l(https://example.org/x)\">",
            "<style>@import url(https://example.org/x)</style>",
            "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
            "<form action=https://example.org><input name=a></form>",
            "<meta http-equiv=refresh content=0>",
            "<base href=https://example.org/>",
            "<link rel=stylesheet href=https://example.org/x>",
            "<div \"onclick=alert(1)>",
            "<a/onclick=alert(1) href=#>x</a>",
            "<rect style=\"fill:url(https://example.org/x)\">",
        ] {
            let safe = clean(hostile, "").to_ascii_lowercase();
            for bad in ["alert", "example.org", "<script", "<iframe", "<style", "onclick=", "<form"]
            {
                assert!(!safe.contains(bad), "{hostile} -> {safe}");
            }
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
            let safe = clean(hostile, "").to_ascii_lowercase();
            for bad in
                ["fixed", "inset", "z-index", "top:", "overflow", "transform", "filter", "99"]
            {
                assert!(!safe.contains(bad), "{hostile} -> {safe}");
            }
        }
        let moved = "<svg><g transform=\"translate(9)\"></g></svg>";
        assert_eq!(clean(moved, ""), moved);
    }

    #[test]
    fn every_element_is_closed_and_nothing_else_is() {
        assert_eq!(clean("</div></section><p>a<b>b", ""), "<p>a<b>b</b></p>");
        assert_eq!(clean("<ul><li>a<li>b</ul>c", ""), "<ul><li>a<li>b</li></li></ul>c");
        assert_eq!(clean("1 < 2 <", ""), "1 &lt; 2 &lt;");
        assert_eq!(clean("<p title=\"never closed", ""), "&lt;p title=\"never closed");
        assert_eq!(clean("a<!-- b --><!-- never", ""), "a");
    }
}
