//! Sanitizer for `style` attributes: only known properties with plain values pass, so that an
//! output keeps its look but can't leave its box.
//!
//! Declarations are written anew, so that the browser parses exactly what was checked.

/// Properties that change only the look of an element or its own size.
const PROPERTIES: &[&str] = &[
    "align-content",
    "align-items",
    "align-self",
    "background",
    "background-color",
    "border",
    "border-bottom",
    "border-collapse",
    "border-color",
    "border-left",
    "border-radius",
    "border-right",
    "border-spacing",
    "border-style",
    "border-top",
    "border-width",
    "box-sizing",
    "caption-side",
    "color",
    "column-gap",
    "direction",
    "display",
    "dominant-baseline",
    "empty-cells",
    "fill",
    "fill-opacity",
    "fill-rule",
    "flex",
    "flex-direction",
    "flex-grow",
    "flex-wrap",
    "font",
    "font-family",
    "font-size",
    "font-stretch",
    "font-style",
    "font-variant",
    "font-variant-numeric",
    "font-weight",
    "gap",
    "height",
    "justify-content",
    "letter-spacing",
    "line-height",
    "list-style",
    "list-style-type",
    "margin",
    "margin-bottom",
    "margin-left",
    "margin-right",
    "margin-top",
    "max-height",
    "max-width",
    "min-height",
    "min-width",
    "opacity",
    "overflow-wrap",
    "padding",
    "padding-bottom",
    "padding-left",
    "padding-right",
    "padding-top",
    "paint-order",
    "row-gap",
    "shape-rendering",
    "stop-color",
    "stop-opacity",
    "stroke",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "stroke-opacity",
    "stroke-width",
    "table-layout",
    "text-align",
    "text-anchor",
    "text-decoration",
    "text-transform",
    "vertical-align",
    "visibility",
    "white-space",
    "width",
    "word-break",
];

/// Allowed functions: colours and gradients.
const FUNCTIONS: &[&str] = &["rgb", "rgba", "hsl", "hsla", "linear-gradient", "radial-gradient"];

/// Allowed units: relative to the element or its text, not to the window.
const UNITS: &[&str] =
    &["", "%", "px", "pt", "pc", "em", "ex", "ch", "rem", "cm", "mm", "in", "q", "deg", "turn"];

/// Properties that may refer to a part of the same figure.
const PAINT_PROPERTIES: &[&str] = &["fill", "stroke"];

/// Returns the allowed declarations, or `None` if there are none. Ids get `prefix`.
pub fn sanitize_style(style: &str, prefix: &str) -> Option<String> {
    let passed: Vec<String> = style
        .split(';')
        .filter_map(|declaration| sanitize_declaration(declaration, prefix))
        .collect();
    (!passed.is_empty()).then(|| passed.join(";"))
}

fn sanitize_declaration(declaration: &str, prefix: &str) -> Option<String> {
    let (property, value) = declaration.split_once(':')?;
    let property = property.trim().to_ascii_lowercase();
    let space = if value.starts_with(' ') { " " } else { "" };
    let value = value.trim();
    if PAINT_PROPERTIES.contains(&property.as_str())
        && let Some(id) = value.strip_prefix("url(#").and_then(|rest| rest.strip_suffix(')'))
    {
        return is_name(id).then(|| format!("{property}:url(#{prefix}{id})"));
    }
    let bare = value.strip_suffix("!important").unwrap_or(value);
    let passes = match property.as_str() {
        // Harmless without an offset, and no property for offsets is allowed.
        "position" => ["static", "relative"].iter().any(|p| p.eq_ignore_ascii_case(bare.trim())),
        known => PROPERTIES.contains(&known) && is_allowed_value(bare),
    };
    passes.then(|| format!("{property}:{space}{value}"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Returns `true` for lists of words, colours, strings, non-negative numbers and allowed
/// functions.
fn is_allowed_value(value: &str) -> bool {
    let mut rest = value.trim();
    let mut open = 0;
    if rest.is_empty() {
        return false;
    }
    while let Some(c) = rest.chars().next() {
        let length = match c {
            ' ' | '\t' | '\n' | ',' | '/' => 1,
            ')' if open > 0 => {
                open -= 1;
                1
            }
            '"' | '\'' => match rest[1..].find(c) {
                Some(end) if is_allowed_string(&rest[1..=end]) => end + 2,
                _ => return false,
            },
            '#' => 1 + span_length(&rest[1..], |c| c.is_ascii_hexdigit()),
            c if c.is_ascii_digit() || c == '.' => match number_length(rest) {
                Some(length) => length,
                None => return false,
            },
            c if c.is_ascii_alphabetic() => {
                let length = span_length(rest, |c| c.is_ascii_alphanumeric() || c == '-');
                let word = rest[..length].to_ascii_lowercase();
                if rest[length..].starts_with('(') {
                    if !FUNCTIONS.contains(&word.as_str()) {
                        return false;
                    }
                    open += 1;
                    length + 1
                } else {
                    length
                }
            }
            _ => return false,
        };
        rest = &rest[length..];
    }
    open == 0
}

/// Returns the length of a number with its unit in bytes, if it is allowed.
fn number_length(text: &str) -> Option<usize> {
    let digits = span_length(text, |c| c.is_ascii_digit() || c == '.');
    let unit = span_length(&text[digits..], |c| c.is_ascii_alphabetic() || c == '%');
    let known = UNITS.iter().any(|known| known.eq_ignore_ascii_case(&text[digits..digits + unit]));
    // An exponent, as in `1e9px`, is not allowed.
    let ends = !text[digits + unit..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    (known && ends).then_some(digits + unit)
}

fn span_length(text: &str, predicate: impl Fn(char) -> bool) -> usize {
    text.find(|c| !predicate(c)).unwrap_or(text.len())
}

/// Returns whether the text of a quoted string has only letters, digits, spaces and `-_.,`.
fn is_allowed_string(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || " -_.,".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_styles_pass() {
        for style in [
            "color:red",
            "text-align:left;padding:3px 12px 3px 0;border:0",
            "background:linear-gradient(90deg, #d65f5f 50.5%, transparent 50.5%)",
            "font:italic 1.2em/1.5 \"DejaVu Sans\",'Fira Sans',serif",
            "margin:0 auto;width:50%",
            "color:rgba(1, 2, 3, .5) !important",
            "position:relative",
        ] {
            assert_eq!(sanitize_style(style, "o1-").as_deref(), Some(style));
        }
        assert_eq!(sanitize_style("fill:url(#g)", "o1-").as_deref(), Some("fill:url(#o1-g)"));
        assert_eq!(sanitize_style(" Color : RED ; left: 1px; ", "").as_deref(), Some("color: RED"));
    }

    #[test]
    fn styles_that_leave_the_box_of_an_output_are_removed() {
        for hostile in [
            "position:fixed;top:0;left:0;right:0;bottom:0",
            "position:absolute",
            "position:sticky",
            "POSITION : FiXeD",
            "position:/**/fixed",
            "pos\\69tion:fixed",
            "position:relative fixed",
            "z-index:9",
            "top:0;inset:0;left:-9px",
            "margin:-5px",
            "margin-left:0 -5px",
            "margin:calc(0px - 100px)",
            "margin-top:-.5em",
            "margin:+5px",
            "padding:1e9px",
            "transform:translate(-100vw)",
            "translate:1px;rotate:1deg;scale:9",
            "width:100vw",
            "height:100DVH",
            "width:100cqw",
            "width:calc(100vw)",
            "width:min(1px, 9px)",
            "width:var(--x)",
            "--x:1px",
            "width:env(x)",
            "float:left",
            "box-shadow:0 0 0 9999px red",
            "text-shadow:0 9px red",
            "outline:9999px solid red",
            "border-image:url(x)",
            "text-indent:9999px",
            "overflow:visible",
            "filter:drop-shadow(0 99px red)",
            "animation:x 1s",
            "content:'x'",
            "background:url(https://example.org/x)",
            "background:u\\72l(x)",
            "background:image-set('x')",
            "fill:url(https://example.org/x)",
            "fill:url(#a) url(x)",
            "color:red/*;*/",
            "color:\"red",
            "color:rgb(1,2",
            "color:red)",
            "color:",
            "color",
            "font-family:'a\";position:fixed'",
            "color:expression(alert(1))",
            "behavior:url(x)",
            "all:unset",
            "}body{color:red",
        ] {
            assert_eq!(sanitize_style(hostile, ""), None, "{hostile}");
        }
    }
}
