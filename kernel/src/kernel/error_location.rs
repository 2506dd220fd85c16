//! Place in a cell of an error that rustc reports in generated code.

use super::is_complete;

/// Part of a line of a cell, in characters. All numbers count from 1; `to` is behind the part.
#[derive(Debug, PartialEq)]
pub struct LineSpan {
    pub line: usize,
    pub from: usize,
    pub to: usize,
}

/// Returns the place that the error is about, as far as it can be derived from the generated code.
pub fn locate_error(error: &evcxr::CompilationError, code: &str) -> Option<LineSpan> {
    let spans = error.json["spans"].as_array()?;
    let (first, others): (Vec<_>, Vec<_>) =
        spans.iter().partition(|span| span["is_primary"] == true);
    let spans = first.into_iter().chain(others);
    let mut texts = spans.flat_map(|span| span["text"].as_array()).flatten();
    texts.find_map(|text| {
        let text = text["text"].as_str()?.trim();
        match stored_variable(text) {
            Some(name) => find_definition(name, code),
            None => find_text(text, code),
        }
    })
}

/// Returns the variable that a line of generated code stores for later cells.
pub fn stored_variable(line: &str) -> Option<&str> {
    line.split_once("(stringify!(")?.1.split(')').next()
}

/// Returns the place where a cell defines a variable.
fn find_definition(name: &str, code: &str) -> Option<LineSpan> {
    ["let ", "let mut "].iter().find_map(|start| {
        let definition = format!("{start}{name}");
        let (line, at) = code.lines().enumerate().find_map(|(line, text)| {
            let at = text.find(&definition)?;
            let rest = text[at + definition.len()..].chars().next();
            (!rest.is_some_and(|c| c.is_alphanumeric() || c == '_')).then_some((line, at))
        })?;
        let text = code.lines().nth(line)?;
        Some(line_span(line, text, at + start.len(), name))
    })
}

/// Returns the place of a line that is equal to `text`, or of the first that contains it.
fn find_text(text: &str, code: &str) -> Option<LineSpan> {
    // Brackets and the like are everywhere.
    if text.chars().filter(|c| c.is_alphanumeric()).count() < 2 {
        return None;
    }
    let find = |is: &dyn Fn(&str) -> bool| code.lines().enumerate().find(|(_, line)| is(line));
    let (index, line) =
        find(&|line| line.trim() == text).or_else(|| find(&|line| line.contains(text)))?;
    Some(line_span(index, line, line.find(text)?, text))
}

fn line_span(index: usize, line: &str, byte: usize, text: &str) -> LineSpan {
    let from = line[..byte].chars().count() + 1;
    LineSpan { line: index + 1, from, to: from + text.chars().count() }
}

/// Returns the last bracket that is opened and never closed, and its place.
pub fn find_unclosed_bracket(code: &str) -> Option<(char, LineSpan)> {
    let at = is_complete::open_bracket(code)?;
    let (before, bracket) = (&code[..at], code[at..].chars().next()?);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = code[start..].lines().next()?;
    Some((bracket, line_span(before.matches('\n').count(), line, at - start, &bracket.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_text() {
        let code = "let ä = 0; 1/ä0\nuse rand::Rng;\n  use rand::Rng;";
        assert_eq!(find_text("1/ä0", code), Some(LineSpan { line: 1, from: 12, to: 16 }));
        assert_eq!(find_text("use rand::Rng;", code).map(|part| part.line), Some(2));
        assert_eq!((find_text("})();", code), find_text("match &(", code)), (None, None));
    }

    #[test]
    fn kept_variables_lead_to_their_definition() {
        let line = "store.put_variable::<Handle<!>>(stringify!(h), h);";
        assert_eq!(stored_variable(line), Some("h"));
        let code = "let hi = 1;\nlet mut h = spawn();";
        assert_eq!(find_definition("h", code), Some(LineSpan { line: 2, from: 9, to: 10 }));
        assert_eq!(find_definition("x", code), None);
    }

    #[test]
    fn the_bracket_that_is_never_closed_is_found() {
        let found = |code| find_unclosed_bracket(code).map(|(c, part)| (c, part.line, part.from));
        assert_eq!(found("f();\n ä!(\"(\", n"), Some(('(', 2, 4)));
        assert_eq!(found("fn f() { [1]; \n/* ( */"), Some(('{', 1, 8)));
        assert_eq!(found("f(\"[\")"), None);
    }
}
