//! Rewording of the compiler's messages in the terms of a notebook.

use serde_json::Value;

use crate::pattern::{Pattern, pattern};

/// Returns the variable of evcxr's message about a reference.
pub fn borrowing_variable(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("The variable `")?;
    let (name, rest) = rest.split_once('`')?;
    rest.starts_with(" contains a reference").then_some(name)
}

/// Returns a message of the compiler with the name of the lab's crate, which it does not know, and
/// without evcxr's terms.
pub fn rewrite_message(message: &str) -> String {
    if let Some(name) = borrowing_variable(message) {
        return format!("`{name}` borrows from another variable, so it can't be kept");
    }
    if let Some(name) = message.strip_prefix("Variable does not exist: ") {
        return format!("there is no variable `{name}`");
    }
    let message = message
        .replace("`Result<(), EvcxrUserCodeError>`", "what a cell returns")
        .replace("`EvcxrUserCodeError`", "the error of a cell")
        .replace("`evcxr_variable_store`", "the end of the cell");
    static CRATE: Pattern = Pattern::new(|| pattern(r"\b_::"));
    CRATE.replace_all(&message, "epsilab::").into_owned()
}

/// Returns the headline of an error. A cell is the body of a closure, which its author did not
/// write.
pub fn error_title(error: &evcxr::CompilationError) -> String {
    let message = rewrite_message(&error.message());
    let labels = error.spanned_messages().iter().map(|message| &message.label);
    let mut labels = labels.filter(|label| label.contains("EvcxrUserCodeError"));
    match message.strip_suffix(", in a closure that returns `Result`") {
        Some(short) if labels.next().is_some() => short.to_owned(),
        _ => message,
    }
}

/// Returns the compiler's advice: sentences, and the code that each suggests.
pub fn help_messages(error: &evcxr::CompilationError) -> Vec<String> {
    let children = error.json["children"].as_array().into_iter().flatten();
    children.filter(|child| child["level"] == "help").filter_map(help_message).collect()
}

fn help_message(child: &Value) -> Option<String> {
    let text = child["message"].as_str()?;
    let sentence = rewrite_message(text.lines().next()?.trim().trim_end_matches(':'));
    // A list of types has no end, and the one that is needed is rarely among them.
    if sentence.starts_with("the following other types implement") {
        return None;
    }
    let code = suggested_code(child["spans"].as_array()?).map(|code| rewrite_message(code.trim()));
    Some(match code {
        Some(code) if !sentence.contains(&format!("`{code}`")) && !code.is_empty() => {
            format!("{sentence}: `{}`", code.replace("epsilab::prelude::", ""))
        }
        _ => sentence,
    })
}

/// Returns the code that a suggestion makes: the parts that change, with the words around them.
fn suggested_code(spans: &[Value]) -> Option<String> {
    let first = spans.iter().find(|span| span["suggested_replacement"].is_string())?;
    let number = |span: &Value, key: &str| {
        span[key].as_u64().and_then(|column| usize::try_from(column).ok())?.checked_sub(1)
    };
    let text = |span: &Value| span["suggested_replacement"].as_str().map(str::to_owned);
    let Some(line) = first["text"][0]["text"].as_str() else { return text(first) };
    let of_line = |span: &&Value| {
        span["line_start"] == first["line_start"] && span["line_end"] == first["line_start"]
    };
    let edits = spans.iter().filter(of_line).filter_map(|span| {
        Some((number(span, "column_start")?, number(span, "column_end")?, text(span)?))
    });
    let mut edits: Vec<_> = edits.collect();
    edits.sort_by_key(|(start, ..)| *start);
    let (start, end) = (edits.first()?.0, edits.last()?.1);
    let line: Vec<char> = line.chars().collect();
    // Of a whole line or more, what is new is enough.
    if end > line.len() || edits.iter().any(|(.., new)| new.contains('\n')) {
        return text(first);
    }
    let belongs = |c: &&char| c.is_alphanumeric() || "_.:=!<>&*+-/|".contains(**c);
    let before = line[..start].iter().rev().take_while(belongs).count();
    let after = line[end..].iter().take_while(belongs).count();
    let mut out = String::new();
    let mut at = start - before;
    for (from, to, new) in edits {
        out.extend(line.get(at..from)?);
        out.push_str(&new);
        at = to;
    }
    out.extend(&line[at..end + after]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_crate_of_the_lab_has_its_name() {
        assert_eq!(
            rewrite_message("found `Result<_::Model, _>`"),
            "found `Result<epsilab::Model, _>`"
        );
        assert_eq!(rewrite_message("`a_::b` and `&_::c`"), "`a_::b` and `&epsilab::c`");
        let text = rewrite_message("expected `Result<(), EvcxrUserCodeError>`, found integer");
        assert_eq!(text, "expected what a cell returns, found integer");
    }

    /// Formats the advice of a sentence with edits: first column from 0, last, new text.
    fn shown(sentence: &str, line: &str, edits: &[(usize, usize, &str)]) -> Option<String> {
        let span = |(from, to, new): &(usize, usize, &str)| {
            json!({ "line_start": 7, "line_end": 7, "column_start": from + 1,
                "column_end": to + 1, "suggested_replacement": new, "text": [{ "text": line }] })
        };
        let spans: Vec<_> = edits.iter().map(span).collect();
        help_message(&json!({ "message": sentence, "spans": spans }))
    }

    #[test]
    fn suggested_code_is_whole() {
        let code = |line, edits: &[_]| shown("try", line, edits).unwrap();
        let line = "p.target(3.0, 1e-5)";
        let wrapped = code(line, &[(9, 9, "_::prelude::Epsilon("), (12, 12, ")")]);
        assert_eq!(wrapped, "try: `Epsilon(3.0)`");
        assert_eq!(code("if v.len() = 1 {}", &[(12, 12, "=")]), "try: `==`");
        assert_eq!(code("let a: f64 = 1;", &[(14, 14, ".0")]), "try: `1.0`");
        assert_eq!(code("let q = Vec::new();", &[(5, 5, ": Vec<T>")]), "try: `q: Vec<T>`");
        assert_eq!(code("ä(model)", &[(7, 7, ".clone()")]), "try: `model.clone()`");
        assert_eq!(code("f()", &[(0, 0, "use a::f;\n")]), "try: `use a::f;`");
    }

    #[test]
    fn sentences_are_shown_once_and_lists_of_types_not_at_all() {
        assert_eq!(shown("add `;` here", "f()", &[(3, 3, ";")]).unwrap(), "add `;` here");
        assert_eq!(
            shown("remove the argument", "f(1)", &[(2, 3, "")]).unwrap(),
            "remove the argument"
        );
        let list = "the following other types implement trait `Add<Rhs>`:\n  `&u8`\n  `u8`";
        assert_eq!(shown(list, "", &[]), None);
    }
}
