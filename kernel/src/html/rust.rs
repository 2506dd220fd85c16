//! Syntax highlighting of Rust by a small tokenizer.

use super::escape::escape_into;

/// Kind of a token, with its CSS class.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Keyword,
    Type,
    Macro,
    Function,
    Lifetime,
    Text,
    Number,
    Comment,
    Attribute,
}

impl Kind {
    fn class(self) -> Option<&'static str> {
        Some(match self {
            Kind::Plain => return None,
            Kind::Keyword => "k",
            Kind::Type => "t",
            Kind::Macro => "m",
            Kind::Function => "f",
            Kind::Lifetime => "l",
            Kind::Text => "s",
            Kind::Number => "n",
            Kind::Comment => "c",
            Kind::Attribute => "a",
        })
    }
}

const KEYWORDS: &[&str] = &[
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub",
    "ref", "return", "self", "Self", "static", "struct", "super", "trait", "true", "type", "union",
    "unsafe", "use", "where", "while",
];

const PRIMITIVES: &[&str] = &[
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str", "u8", "u16",
    "u32", "u64", "u128", "usize",
];

/// Highlights Rust code as HTML. The text of the page is exactly the code.
pub fn highlight(code: &str) -> String {
    let mut out = String::with_capacity(code.len() * 2);
    let mut rest = code;
    while !rest.is_empty() {
        let at_line_start =
            code.len() == rest.len() || code[..code.len() - rest.len()].ends_with('\n');
        let (kind, len) = token(rest, at_line_start);
        let (piece, after) = rest.split_at(len);
        match kind.class() {
            Some(class) => {
                out.push_str("<span class=\"");
                out.push_str(class);
                out.push_str("\">");
                escape_into(&mut out, piece);
                out.push_str("</span>");
            }
            None => escape_into(&mut out, piece),
        }
        rest = after;
    }
    out
}

/// Kind and length in bytes of the first token of `rest`, at least one character.
fn token(rest: &str, at_line_start: bool) -> (Kind, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    // A command of the kernel, such as `:dep rand`.
    if at_line_start && first == ':' && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
        return (Kind::Attribute, line_length(rest));
    }
    if rest.starts_with("//") {
        return (Kind::Comment, line_length(rest));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if rest.starts_with("#[") || rest.starts_with("#![") {
        return (Kind::Attribute, attribute(rest));
    }
    if let Some(len) = string(rest) {
        return (Kind::Text, len);
    }
    if first == '\'' {
        return character_or_lifetime(rest);
    }
    if first.is_ascii_digit() {
        return (Kind::Number, number(rest));
    }
    if first == '_' || first.is_alphabetic() {
        return word(rest);
    }
    (Kind::Plain, first.len_utf8())
}

fn line_length(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if bytes[at..].starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn attribute(rest: &str) -> usize {
    let mut depth = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    rest.len()
}

/// Length of a string literal of any kind. An unfinished one extends to the end of the code.
fn string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""]
        .into_iter()
        .find(|p| rest.starts_with(p) && rest[p.len()..].starts_with(['"', '#']))?;
    let body = &rest[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let inside = body[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let start = prefix.len() + hashes + 1;
        return Some(inside.find(&end).map_or(rest.len(), |at| start + at + end.len()));
    }
    let inside = body.strip_prefix('"')?;
    let start = prefix.len() + 1;
    Some(closing(inside, '"').map_or(rest.len(), |at| start + at + 1))
}

/// Position of the first unescaped `quote`.
fn closing(inside: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

fn character_or_lifetime(rest: &str) -> (Kind, usize) {
    let inside = &rest[1..];
    let mut chars = inside.chars();
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => match closing(inside, '\'') {
            Some(at) if at <= 12 => (Kind::Text, at + 2),
            _ => (Kind::Plain, 1),
        },
        (Some(c), Some('\'')) => (Kind::Text, c.len_utf8() + 2),
        (Some(c), _) if c == '_' || c.is_alphabetic() => (Kind::Lifetime, 1 + word_length(inside)),
        _ => (Kind::Plain, 1),
    }
}

fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        let (c, before) = (bytes[at], bytes[at - 1]);
        let next = bytes.get(at + 1);
        let part = c.is_ascii_alphanumeric()
            || c == b'_'
            // `1.5` but neither `1..5` nor `1.max(2)`.
            || (c == b'.' && next.is_some_and(u8::is_ascii_digit))
            || (c == b'.' && !next.is_some_and(|n| n.is_ascii_alphabetic() || b"._".contains(n)))
            || (matches!(c, b'+' | b'-')
                && matches!(before, b'e' | b'E')
                && !rest.starts_with("0x")
                && next.is_some_and(u8::is_ascii_digit));
        if !part {
            break;
        }
        at += 1;
        if c == b'.' && !bytes.get(at).is_some_and(u8::is_ascii_digit) {
            break;
        }
    }
    at
}

fn word_length(rest: &str) -> usize {
    rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
}

fn word(rest: &str) -> (Kind, usize) {
    let len = word_length(rest);
    let (word, after) = rest.split_at(len);
    let kind = if KEYWORDS.contains(&word) {
        Kind::Keyword
    } else if PRIMITIVES.contains(&word) {
        Kind::Type
    } else if after.starts_with('!') && !after.starts_with("!=") {
        return (Kind::Macro, len + 1);
    } else if word.starts_with(char::is_uppercase) {
        Kind::Type
    } else if after.starts_with('(') || after.starts_with("::<") {
        Kind::Function
    } else {
        Kind::Plain
    };
    (kind, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the page without tags and entities.
    fn text_of(html: &str) -> String {
        let mut out = String::new();
        let mut inside = false;
        for c in html.chars() {
            match c {
                '<' => inside = true,
                '>' => inside = false,
                c if !inside => out.push(c),
                _ => {}
            }
        }
        out.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&")
    }

    #[track_caller]
    fn is(code: &str, kind: Kind) {
        assert_eq!(token(code, true), (kind, code.len()), "{code}");
    }

    #[test]
    fn each_sort_of_token_is_known() {
        is("let", Kind::Keyword);
        is("Vec", Kind::Type);
        is("f64", Kind::Type);
        is("println!", Kind::Macro);
        is("'a", Kind::Lifetime);
        is("'a'", Kind::Text);
        is("'\\u{1f600}'", Kind::Text);
        is("\"a \\\" b\"", Kind::Text);
        is("r#\"a \" b\"#", Kind::Text);
        is("b\"bytes\"", Kind::Text);
        is("1_000.5e-3f64", Kind::Number);
        is("0xff_u8", Kind::Number);
        is("// to the end", Kind::Comment);
        is("/* a /* nested */ b */", Kind::Comment);
        is("#[derive(Clone)]", Kind::Attribute);
        is(":dep rand = \"0.9\"", Kind::Attribute);
        assert_eq!(token("train(x)", true), (Kind::Function, 5));
        assert_eq!(token("1..5", true), (Kind::Number, 1));
        assert_eq!(token("1.max(2)", true), (Kind::Number, 1));
        assert_eq!(token("a != b", true), (Kind::Plain, 1));
    }

    #[test]
    fn the_text_of_the_page_is_the_code_even_when_it_is_broken() {
        for code in [
            "let x: Vec<&'static str> = vec![\"a\", \"<b>\"]; // & more\nx.len()",
            "\"never closed <script>",
            "/* never closed",
            "r##\"half\"#",
            "'",
            "'\\",
            "#[half",
            "1.",
            "1e",
            "ε + 'ε' + \"δ\"",
            "",
            "r#type b'x' c",
        ] {
            assert_eq!(text_of(&highlight(code)), code);
        }
    }

    #[test]
    fn code_is_escaped() {
        assert!(!highlight("a < b && \"<script>\"").contains("<script"));
    }
}
