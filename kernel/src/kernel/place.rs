//! The place in a cell of an error that rustc reports in generated code.

use super::is_complete;

/// Part of a line of a cell, in characters. All numbers count from 1; `to` is behind the part.
#[derive(Debug, PartialEq)]
pub struct Part {
    pub line: usize,
    pub from: usize,
    pub to: usize,
}

/// The place that the error is about, as far as it can be told from the generated code.
pub fn of_error(error: &evcxr::CompilationError, code: &str) -> Option<Part> {
    let spans = error.json["spans"].as_array()?;
    let (first, others): (Vec<_>, Vec<_>) =
        spans.iter().partition(|span| span["is_primary"] == true);
    let spans = first.into_iter().chain(others);
    let mut texts = spans.flat_map(|span| span["text"].as_array()).flatten();
    texts.find_map(|text| {
        let text = text["text"].as_str()?.trim();
        match kept_variable(text) {
            Some(name) => definition(name, code),
            None => of_text(text, code),
        }
    })
}

/// The variable that a line of generated code keeps for later cells.
pub fn kept_variable(line: &str) -> Option<&str> {
    line.split_once("(stringify!(")?.1.split(')').next()
}

/// Where a cell defines a variable.
fn definition(name: &str, code: &str) -> Option<Part> {
    ["let ", "let mut "].iter().find_map(|start| {
        let words = format!("{start}{name}");
        let (line, at) = code.lines().enumerate().find_map(|(line, text)| {
            let at = text.find(&words)?;
            let rest = text[at + words.len()..].chars().next();
            (!rest.is_some_and(|c| c.is_alphanumeric() || c == '_')).then_some((line, at))
        })?;
        let text = code.lines().nth(line)?;
        Some(part(line, text, at + start.len(), name))
    })
}

/// A line that is equal to `text`, or the first that contains it.
fn of_text(text: &str, code: &str) -> Option<Part> {
    // Brackets and the like are everywhere.
    if text.chars().filter(|c| c.is_alphanumeric()).count() < 2 {
        return None;
    }
    let find = |is: &dyn Fn(&str) -> bool| code.lines().enumerate().find(|(_, line)| is(line));
    let (index, line) =
        find(&|line| line.trim() == text).or_else(|| find(&|line| line.contains(text)))?;
    Some(part(index, line, line.find(text)?, text))
}

fn part(index: usize, line: &str, byte: usize, text: &str) -> Part {
    let from = line[..byte].chars().count() + 1;
    Part { line: index + 1, from, to: from + text.chars().count() }
}

/// The last bracket that is opened and never closed.
pub fn open_bracket(code: &str) -> Option<(char, Part)> {
    let at = is_complete::open_bracket(code)?;
    let (before, bracket) = (&code[..at], code[at..].chars().next()?);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = code[start..].lines().next()?;
    Some((bracket, part(before.matches('\n').count(), line, at - start, &bracket.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_text() {
        let code = "let ä = 0; 1/ä0\nuse rand::Rng;\n  use rand::Rng;";
        assert_eq!(of_text("1/ä0", code), Some(Part { line: 1, from: 12, to: 16 }));
        assert_eq!(of_text("use rand::Rng;", code).map(|part| part.line), Some(2));
        assert_eq!((of_text("})();", code), of_text("match &(", code)), (None, None));
    }

    #[test]
    fn kept_variables_lead_to_their_definition() {
        let line = "store.put_variable::<Handle<!>>(stringify!(h), h);";
        assert_eq!(kept_variable(line), Some("h"));
        let code = "let hi = 1;\nlet mut h = spawn();";
        assert_eq!(definition("h", code), Some(Part { line: 2, from: 9, to: 10 }));
        assert_eq!(definition("x", code), None);
    }

    #[test]
    fn the_bracket_that_is_never_closed_is_found() {
        let found = |code| open_bracket(code).map(|(c, part)| (c, part.line, part.from));
        assert_eq!(found("f();\n ä!(\"(\", n"), Some(('(', 2, 4)));
        assert_eq!(found("fn f() { [1]; \n/* ( */"), Some(('{', 1, 8)));
        assert_eq!(found("f(\"[\")"), None);
    }
}
