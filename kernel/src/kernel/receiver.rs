//! Completions behind a dot that evcxr itself does not return.
//!
//! For a member that can be called, such as the closure in an iterator's `map`, rust-analyzer edits
//! the code at two places: `(a.f)()`. evcxr then gives no completion at all. Where a function is
//! expected, rust-analyzer edits only the name.

use ra_ap_syntax::ast::{self, AstNode};
use ra_ap_syntax::{Edition, SourceFile, TextSize, TokenAtOffset};

/// Code before an expression that makes a function the expected type.
const FN_CONTEXT_PREFIX: &str = "{ let _f: fn() = ";
const FN_CONTEXT_SUFFIX: &str = "; }";

/// Returns the code with the member access at `byte` in a place where a function is expected, and
/// the number of bytes by which the position grows. `None` if there is no dot before the word.
pub fn wrap_in_fn_context(code: &str, byte: usize) -> Option<(String, usize)> {
    let receiver = receiver_start(split_word(&code[..byte]).0)?;
    let changed = [
        &code[..receiver],
        FN_CONTEXT_PREFIX,
        &code[receiver..byte],
        FN_CONTEXT_SUFFIX,
        &code[byte..],
    ];
    Some((changed.concat(), FN_CONTEXT_PREFIX.len()))
}

/// Returns the code before the word at its end, and the word, which may be empty.
pub fn split_word(code: &str) -> (&str, &str) {
    code.split_at(code.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len())
}

/// Returns the byte offset at which the expression before the dot at the end begins.
fn receiver_start(code: &str) -> Option<usize> {
    const FUNCTION: &str = "fn f() {";
    let dot = code.trim_end().strip_suffix('.')?.len() + FUNCTION.len();
    let file = SourceFile::parse(&format!("{FUNCTION}{code}x"), Edition::Edition2024).tree();
    let at = file.syntax().token_at_offset(TextSize::try_from(dot).ok()?);
    let token = match at {
        TokenAtOffset::Single(token) | TokenAtOffset::Between(_, token) => token,
        TokenAtOffset::None => return None,
    };
    let field = token.parent().and_then(ast::FieldExpr::cast)?;
    let start = usize::from(field.expr()?.syntax().text_range().start());
    start.checked_sub(FUNCTION.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_receiver_is_moved_to_where_a_function_is_expected() {
        let changed = |before: &str, behind: &str| {
            wrap_in_fn_context(&format!("{before}{behind}"), before.len()).map(|(code, _)| code)
        };
        let expected = "let a = { let _f: fn() = v.iter().map(|x| x + 1).fi; };";
        assert_eq!(changed("let a = v.iter().map(|x| x + 1).fi", ";").as_deref(), Some(expected));
        let two_lines = changed("let w = 1;\nw.", "").unwrap();
        assert_eq!(two_lines, "let w = 1;\n{ let _f: fn() = w.; }");
        assert_eq!(changed("a::b", ""), None);
        assert_eq!(changed("let a = 1", ""), None);
    }
}
