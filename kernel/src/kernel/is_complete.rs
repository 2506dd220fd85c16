//! Completeness of code typed into a console, determined by the tokens that rust-analyzer's lexer
//! finds in it. Nothing is compiled.

use ra_ap_parser::SyntaxKind::{
    COMMENT, L_BRACK, L_CURLY, L_PAREN, R_BRACK, R_CURLY, R_PAREN, WHITESPACE,
};
use ra_ap_parser::{Edition, LexedStr};
use serde::Serialize;

/// Status of an `is_complete_reply`, by its name in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Completeness {
    /// The code can be run.
    Complete,
    /// A bracket, string or expression is still open.
    Incomplete,
    /// A closing bracket has no opening bracket. More lines can't correct it.
    Invalid,
}

/// Classifies the code.
pub fn check_completeness(code: &str) -> Completeness {
    if code.trim_start().starts_with(':') {
        return Completeness::Complete;
    }
    let tokens = LexedStr::new(Edition::Edition2024, code);
    let Some(open) = open_brackets(&tokens) else { return Completeness::Invalid };
    let is_code = |token: &usize| !matches!(tokens.kind(*token), WHITESPACE | COMMENT);
    let mut tokens_backwards =
        (0..tokens.len()).rev().filter(is_code).map(|token| tokens.text(token));
    let (last, before) =
        (tokens_backwards.next().unwrap_or_default(), tokens_backwards.next().unwrap_or_default());
    // Each character of an operator is a token.
    let waits = last.ends_with(['=', '+', '-', '*', '/', '%', '&', '|', '.', ',', '^'])
        || matches!((before, last), ("-" | "=", ">") | (":", ":"));
    let is_range = (before, last) == (".", ".");
    let is_unfinished = (0..tokens.len()).any(|token| is_unfinished(&tokens, token));
    if is_unfinished || !open.is_empty() || (waits && !is_range) {
        Completeness::Incomplete
    } else {
        Completeness::Complete
    }
}

/// Returns the byte offset of the last bracket that is open at the end of the code.
pub fn open_bracket(code: &str) -> Option<usize> {
    let tokens = LexedStr::new(Edition::Edition2024, code);
    open_brackets(&tokens)?.pop().map(|token| tokens.text_start(token))
}

/// Returns the brackets that are open at the end; `None` if one is closed that was not opened.
fn open_brackets(tokens: &LexedStr<'_>) -> Option<Vec<usize>> {
    let mut open = Vec::new();
    for token in 0..tokens.len() {
        let opening = match tokens.kind(token) {
            L_PAREN | L_BRACK | L_CURLY => {
                open.push(token);
                continue;
            }
            R_PAREN => L_PAREN,
            R_BRACK => L_BRACK,
            R_CURLY => L_CURLY,
            _ => continue,
        };
        open.pop().filter(|token| tokens.kind(*token) == opening)?;
    }
    Some(open)
}

/// Returns the number, from 1, of the line in which a block comment begins that is never closed.
/// evcxr would silently drop the code after it.
pub fn find_open_comment(code: &str) -> Option<usize> {
    // Commands before the code are not Rust.
    let other = |line: &&str| {
        let text = line.trim_start();
        line.starts_with('!') || [":", "//"].iter().any(|marker| text.starts_with(marker))
    };
    let skipped = code.lines().take_while(|line| other(line) || line.trim().is_empty()).count();
    let rust: String = code.split_inclusive('\n').skip(skipped).collect();
    let tokens = LexedStr::new(Edition::Edition2024, &rust);
    let first = (0..tokens.len()).find(|token| is_unfinished(&tokens, *token))?;
    let breaks = rust[..tokens.text_start(first)].matches('\n').count();
    (tokens.kind(first) == COMMENT).then_some(skipped + breaks + 1)
}

/// Returns whether the end of a comment, string or character is missing, by the lexer's message.
fn is_unfinished(tokens: &LexedStr<'_>, token: usize) -> bool {
    let error = tokens.error(token).unwrap_or_default();
    error.starts_with("Missing trailing") || error == "Invalid raw string literal"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_incomplete_and_invalid_code() {
        use Completeness::{Complete, Incomplete, Invalid};
        for (code, expected) in [
            ("", Complete),
            ("let x = 1;", Complete),
            ("x", Complete),
            (":dep rand = {", Complete),
            ("fn f() {", Incomplete),
            ("fn f() {\n    1\n}", Complete),
            ("vec![1, 2", Incomplete),
            ("f(x))", Invalid),
            ("(]", Invalid),
            ("}", Invalid),
            ("let s = \"a", Incomplete),
            ("let s = \"a\\\"", Incomplete),
            ("let s = \"}\";", Complete),
            ("let s = r\"\\\";", Complete),
            ("let s = r#\"a\"", Incomplete),
            ("let s = r#\"a\"b\"#;", Complete),
            ("let s = br##\"}\"# \"##;", Complete),
            ("let r#type = 1;", Complete),
            ("return r\"\\\";", Complete),
            ("let s = b\"{\";", Complete),
            ("let c = '{';", Complete),
            ("let c = '\\'';", Complete),
            ("let c = '\\u{7b}';", Complete),
            ("let c = b'{';", Complete),
            ("fn f<'a>(x: &'a str) -> &'a str { x }", Complete),
            ("'outer: loop {", Incomplete),
            ("// {", Complete),
            ("x // \"", Complete),
            ("/* {", Incomplete),
            ("/* /* */", Incomplete),
            ("/* /* } */ */ x", Complete),
            ("let x =", Incomplete),
            ("a +\n", Incomplete),
            ("a.", Incomplete),
            ("f(1).g()", Complete),
            ("let r = 0..", Complete),
            ("fn f() ->", Incomplete),
            ("std::", Incomplete),
            ("let v: Vec<u8>", Complete),
            ("let x = 1 // sum =", Complete),
            ("\"a=\"", Complete),
        ] {
            assert_eq!(check_completeness(code), expected, "{code:?}");
        }
    }

    #[test]
    fn only_unclosed_comments_are_found() {
        for (code, expected) in [
            ("/* never", Some(1)),
            ("1\n+ 1; /* a /* b */", Some(2)),
            (":dep a = { path = \"/b/*\" }\n!ls /tmp/*\n\nlet x = 1;\n/*", Some(5)),
            ("x; /* closed */ // /*", None),
            ("!ls /tmp/*", None),
            ("\"/*\"", None),
            ("r#\"\" /* \"#", None),
            ("let s = \"open /*", None),
            ("let c = '\"'; let d = \"/*\";", None),
        ] {
            assert_eq!(find_open_comment(code), expected, "{code:?}");
        }
    }
}
