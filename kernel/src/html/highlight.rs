//! Syntax highlighting of Rust by rust-analyzer's parser.

use ra_ap_syntax::SyntaxKind::{self, *};
use ra_ap_syntax::{AstNode, Edition, SourceFile, SyntaxToken};

use super::escape::escape;

/// Kind of a token. Its value is its class in the style of the page.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum TokenClass {
    Plain = b' ',
    Keyword = b'k',
    Type = b't',
    Macro = b'm',
    Function = b'f',
    Lifetime = b'l',
    Text = b's',
    Number = b'n',
    Comment = b'c',
    Attribute = b'a',
}

const PRIMITIVES: &[&str] = &[
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str", "u8", "u16",
    "u32", "u64", "u128", "usize",
];

/// Highlights Rust code as HTML. The text of the page is exactly the code.
pub fn highlight(code: &str) -> String {
    let mut out = String::with_capacity(code.len() * 2);
    let lines: Vec<&str> = code.split_inclusive('\n').collect();
    for part in lines.chunk_by(|a, b| is_command(a) == is_command(b)) {
        let text = part.concat();
        if is_command(&text) {
            push_span(&mut out, TokenClass::Attribute, &text)
        } else {
            tokenize(&text).iter().for_each(|(kind, text)| push_span(&mut out, *kind, text))
        }
    }
    out
}

fn push_span(out: &mut String, kind: TokenClass, text: &str) {
    if kind == TokenClass::Plain {
        return out.push_str(&escape(text));
    }
    let class = char::from(kind as u8);
    out.push_str(&format!("<span class=\"{class}\">{}</span>", escape(text)));
}

/// Returns whether a line has a command of the kernel, such as `:dep rand`.
fn is_command(line: &str) -> bool {
    line.strip_prefix(':').is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Splits Rust code into tokens; every character is in exactly one. The code may be broken.
fn tokenize(code: &str) -> Vec<(TokenClass, &str)> {
    // Statements are parsed in a function.
    const HEAD: &str = "fn cell() {\n";
    let file = SourceFile::parse(&format!("{HEAD}{code}\n}}"), Edition::Edition2024).tree();
    let tokens = file.syntax().descendants_with_tokens().filter_map(|found| found.into_token());
    let of_code = |token: SyntaxToken| {
        let range = token.text_range();
        let start = usize::from(range.start()).saturating_sub(HEAD.len());
        let end = usize::from(range.end()).saturating_sub(HEAD.len()).min(code.len());
        (start < end).then(|| (classify_token(&token), &code[start..end]))
    };
    tokens.filter_map(of_code).collect()
}

fn classify_token(token: &SyntaxToken) -> TokenClass {
    if token.parent_ancestors().any(|node| node.kind() == ATTR) {
        return TokenClass::Attribute;
    }
    match token.kind() {
        COMMENT => TokenClass::Comment,
        STRING | BYTE_STRING | C_STRING | CHAR | BYTE => TokenClass::Text,
        INT_NUMBER | FLOAT_NUMBER => TokenClass::Number,
        LIFETIME_IDENT => TokenClass::Lifetime,
        IDENT => classify_identifier(token),
        BANG if token.prev_token().is_some_and(|before| is_macro(&before)) => TokenClass::Macro,
        other if other.is_keyword(Edition::Edition2024) => TokenClass::Keyword,
        _ => TokenClass::Plain,
    }
}

fn is_macro(name: &SyntaxToken) -> bool {
    let follows = |token: &SyntaxToken, kind: SyntaxKind| {
        token.next_token().filter(|next| next.kind() == kind)
    };
    // In `a != b` the sign is one token or two.
    name.kind() == IDENT && follows(name, BANG).is_some_and(|bang| follows(&bang, EQ).is_none())
}

fn classify_identifier(token: &SyntaxToken) -> TokenClass {
    let text = token.text();
    let next: Vec<SyntaxKind> =
        std::iter::successors(token.next_token(), |token| token.next_token())
            .map(|token| token.kind())
            .take(3)
            .collect();
    let calls = next.first() == Some(&L_PAREN)
        || next.starts_with(&[COLON2, L_ANGLE])
        || next.starts_with(&[COLON, COLON, L_ANGLE]);
    match () {
        () if is_macro(token) => TokenClass::Macro,
        () if PRIMITIVES.contains(&text) || text.starts_with(char::is_uppercase) => {
            TokenClass::Type
        }
        () if calls => TokenClass::Function,
        () => TokenClass::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of the page without tags and entities.
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
    fn assert_class(code: &str, kind: TokenClass) {
        assert_eq!(tokenize(code), [(kind, code)]);
    }

    #[test]
    fn each_sort_of_token_is_known() {
        assert_class("let", TokenClass::Keyword);
        assert_class("Vec", TokenClass::Type);
        assert_class("f64", TokenClass::Type);
        assert_class("'a", TokenClass::Lifetime);
        assert_class("'a'", TokenClass::Text);
        assert_class("'\\u{1f600}'", TokenClass::Text);
        assert_class("\"a \\\" b\"", TokenClass::Text);
        assert_class("r#\"a \" b\"#", TokenClass::Text);
        assert_class("b\"bytes\"", TokenClass::Text);
        assert_class("1_000.5e-3f64", TokenClass::Number);
        assert_class("0xff_u8", TokenClass::Number);
        assert_class("// to the end", TokenClass::Comment);
        assert_class("/* a /* nested */ b */", TokenClass::Comment);
        assert_eq!(tokenize("train(x)")[0], (TokenClass::Function, "train"));
        assert_eq!(
            tokenize("println!(x)")[..2],
            [(TokenClass::Macro, "println"), (TokenClass::Macro, "!")]
        );
        assert_eq!(tokenize("1..5")[0], (TokenClass::Number, "1"));
        assert_eq!(tokenize("1.max(2)")[0], (TokenClass::Number, "1"));
        assert_eq!(tokenize("a != b")[0], (TokenClass::Plain, "a"));
        assert!(
            tokenize("#[derive(Clone)]\nstruct A;")[..4]
                .iter()
                .all(|t| t.0 == TokenClass::Attribute)
        );
        let commands = ":dep rand = \"0.9\"\n";
        assert_eq!(highlight(":vars"), "<span class=\"a\">:vars</span>");
        assert!(highlight(&format!("{commands}let x = 1;")).contains("<span class=\"k\">let"));
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
