//! Reads tags and entities of HTML.

use super::escape::escape_into;

/// An opening or closing tag.
pub struct Tag<'a> {
    pub name: &'a str,
    pub closing: bool,
    pub self_closing: bool,
    /// Names and values, entities resolved.
    pub attributes: Vec<(&'a str, String)>,
}

/// Skips a comment, declaration or processing instruction at the start of `rest`. The text of CDATA
/// is appended to `out`.
pub fn skip_markup<'a>(rest: &'a str, out: &mut String) -> Option<&'a str> {
    let after = |end: &str, from: usize| {
        rest.get(from..).and_then(|r| r.find(end).map(|at| &r[at + end.len()..])).unwrap_or("")
    };
    if rest.starts_with("<!--") {
        Some(after("-->", 4))
    } else if let Some(inside) = rest.strip_prefix("<![CDATA[") {
        let end = inside.find("]]>").unwrap_or(inside.len());
        escape_into(out, &inside[..end]);
        Some(inside.get(end + 3..).unwrap_or(""))
    } else if rest.starts_with("<!") || rest.starts_with("<?") {
        Some(after(">", 2))
    } else {
        None
    }
}

/// What follows the closing tag of a removed element.
pub fn skip_element<'a>(rest: &'a str, name: &str) -> &'a str {
    let lower = rest.to_ascii_lowercase();
    match lower.find(&format!("</{name}")) {
        Some(at) => rest[at..].find('>').map_or("", |end| &rest[at + end + 1..]),
        None => "",
    }
}

/// Reads the tag at the start of `rest`. `None` if it is no tag or never ends.
pub fn read_tag(rest: &str) -> Option<(Tag<'_>, &str)> {
    let mut at = 1;
    let closing = rest[at..].starts_with('/');
    at += usize::from(closing);
    let end_of_name = |from: usize| {
        rest[from..]
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '>' | '='))
            .map(|n| from + n)
    };
    if !rest[at..].starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let end = end_of_name(at)?;
    // A prefix such as `svg:rect` only says where the element belongs.
    let name = rest[at..end].rsplit(':').next()?;
    let mut tag = Tag { name, closing, self_closing: false, attributes: Vec::new() };
    at = end;
    loop {
        at += rest[at..].len() - rest[at..].trim_start().len();
        let c = rest[at..].chars().next()?;
        match c {
            '>' => return Some((tag, &rest[at + 1..])),
            '/' => {
                tag.self_closing = rest[at + 1..].starts_with('>');
                at += 1;
            }
            '=' => at += 1,
            _ => {
                let end = end_of_name(at)?;
                let name = &rest[at..end];
                at = end;
                at += rest[at..].len() - rest[at..].trim_start().len();
                let mut value = String::new();
                if rest[at..].starts_with('=') {
                    at += 1;
                    at += rest[at..].len() - rest[at..].trim_start().len();
                    let quote = rest[at..].chars().next()?;
                    let (text, length) = if quote == '"' || quote == '\'' {
                        let inside = &rest[at + 1..];
                        let end = inside.find(quote)?;
                        (&inside[..end], end + 2)
                    } else {
                        let end = rest[at..].find(|c: char| c.is_whitespace() || c == '>')?;
                        (&rest[at..at + end], end)
                    };
                    value = unescape(text);
                    at += length;
                }
                if tag.attributes.iter().all(|(n, _)| *n != name) {
                    tag.attributes.push((name, value));
                }
            }
        }
    }
}

/// Resolves entities, so that checks see through `java&#115;cript:`.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, length) = entity(rest).unwrap_or(('&', 1));
        out.push(c);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// The character of the entity at the start of `rest`, and the length of the entity.
fn entity(rest: &str) -> Option<(char, usize)> {
    let body = &rest[1..];
    if let Some(number) = body.strip_prefix('#') {
        let hex = number.starts_with(['x', 'X']);
        let digits = if hex { &number[1..] } else { number };
        let radix = if hex { 16 } else { 10 };
        let len = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let c = char::from_u32(u32::from_str_radix(&digits[..len], radix).ok()?)?;
        let semicolon = usize::from(digits[len..].starts_with(';'));
        return Some((c, 2 + usize::from(hex) + len + semicolon));
    }
    [
        ("amp;", '&'),
        ("lt;", '<'),
        ("gt;", '>'),
        ("quot;", '"'),
        ("apos;", '\''),
        ("nbsp;", '\u{a0}'),
        ("colon;", ':'),
        ("Tab;", '\t'),
        ("NewLine;", '\n'),
    ]
    .into_iter()
    .find(|(name, _)| body.starts_with(name))
    .map(|(name, c)| (c, name.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_with_and_without_quotes() {
        let (tag, rest) = read_tag("<svg:a b=\"1 &lt; 2\" c='d' e=f g/>x").expect("a tag");
        assert_eq!((tag.name, tag.closing, tag.self_closing, rest), ("a", false, true, "x"));
        let expected = [("b", "1 < 2"), ("c", "d"), ("e", "f"), ("g", "")];
        assert_eq!(tag.attributes, expected.map(|(name, value)| (name, value.to_owned())));
        assert!(read_tag("<a b=\"never closed").is_none());
        assert!(read_tag("< 2").is_none());
    }

    #[test]
    fn entities_are_resolved_by_name_and_number() {
        assert_eq!(unescape("java&#115;cript&colon;&#x41;&unknown; &"), "javascript:A&unknown; &");
    }
}
