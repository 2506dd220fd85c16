//! Completion and documentation: the protocol counts code points, evcxr counts bytes.

use evcxr::CommandContext;
use serde_json::{Value, json};

/// The reply when nothing can be said now.
pub fn nothing_to_complete(cursor: usize) -> Value {
    json!({
        "status": "ok", "matches": [], "metadata": {},
        "cursor_start": cursor, "cursor_end": cursor,
    })
}

/// The reply when there is nothing to show.
pub fn nothing_to_inspect() -> Value {
    json!({ "status": "ok", "found": false, "data": {}, "metadata": {} })
}

/// Content of a `complete_reply`.
pub fn complete(context: &mut CommandContext, code: &str, cursor: usize) -> Value {
    let Ok(found) = context.completions(code, byte_of(code, cursor)) else {
        return nothing_to_complete(cursor);
    };
    let (start, end) = (char_of(code, found.start_offset), char_of(code, found.end_offset));
    let mut seen = std::collections::HashSet::new();
    let mut matches = Vec::new();
    let mut types = Vec::new();
    for item in found.completions {
        if seen.insert(item.code.clone()) {
            types.push(json!({
                "text": item.code, "type": item.kind, "signature": item.label,
                "start": start, "end": end,
            }));
            matches.push(item.code);
        }
    }
    json!({
        "status": "ok", "matches": matches, "cursor_start": start, "cursor_end": end,
        "metadata": { "_jupyter_types_experimental": types },
    })
}

/// Content of an `inspect_reply`: the word at the cursor, or the call whose arguments it is in.
pub fn inspect(context: &mut CommandContext, code: &str, cursor: usize) -> Value {
    let at = byte_of(code, cursor);
    for at in [Some(end_of_word(code, at)), open_call(&code[..at])].into_iter().flatten() {
        if let Ok((text, html)) = context.hover_at(code, at)
            && text != "No documentation found"
            && !text.trim().is_empty()
        {
            return json!({
                "status": "ok", "found": true, "metadata": {},
                "data": { "text/plain": text, "text/html": html },
            });
        }
    }
    nothing_to_inspect()
}

fn byte_of(code: &str, cursor: usize) -> usize {
    code.char_indices().nth(cursor).map_or(code.len(), |(byte, _)| byte)
}

fn char_of(code: &str, byte: usize) -> usize {
    code.char_indices().take_while(|(at, _)| *at < byte).count()
}

/// evcxr describes what ends at the cursor; a cursor inside a word means the whole word. The name
/// of a method is only known together with the bracket that opens its arguments.
fn end_of_word(code: &str, byte: usize) -> usize {
    let rest = &code[byte..];
    let end = byte + rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    if code[end..].starts_with('(') { end + 1 } else { end }
}

/// Just behind the bracket of the call that is still open at the end of the code.
fn open_call(code: &str) -> Option<usize> {
    let mut closed = 0;
    for (at, c) in code.char_indices().rev() {
        match c {
            ')' | ']' | '}' => closed += 1,
            '(' if closed == 0 => return Some(at + 1),
            '[' | '{' if closed == 0 => return None,
            '(' | '[' | '{' => closed -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_code_points() {
        // One grapheme of two code points (e + accent), and one of four bytes.
        let code = "e\u{301}🙂x";
        assert_eq!((byte_of(code, 2), byte_of(code, 3), byte_of(code, 99)), (3, 7, 8));
        assert_eq!((char_of(code, 3), char_of(code, 7), char_of(code, 8)), (2, 3, 4));
    }

    #[test]
    fn a_cursor_inside_a_word_means_the_whole_word() {
        assert_eq!(end_of_word("let größe = 1;", 6), "let größe".len());
        assert_eq!(end_of_word("x.len()", 3), "x.len(".len());
        assert_eq!(end_of_word("a + b", 1), 1);
    }

    #[test]
    fn arguments_belong_to_the_call_that_is_open() {
        assert_eq!(open_call("f(g(1), "), Some(2));
        assert_eq!(open_call("f(1)"), None);
        assert_eq!(open_call("f([1, "), None);
    }
}
