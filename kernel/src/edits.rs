//! Edits of source code at places that the parser found.

use std::ops::Range;

/// Returns the code with ranges of it replaced by texts; the ranges must be in order.
pub fn edited(code: &str, edits: impl IntoIterator<Item = (Range<usize>, String)>) -> String {
    let mut out = String::with_capacity(code.len());
    let mut copied = 0;
    for (range, text) in edits {
        out.push_str(&code[copied..range.start]);
        out.push_str(&text);
        copied = range.end;
    }
    out + &code[copied..]
}
