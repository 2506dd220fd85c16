//! Locates the line of a cell at which a panic occurred.
//!
//! evcxr wraps the statements of a cell in generated code, so the line number in a panic message
//! belongs to the generated file. The statements themselves are copied line by line.

use super::safepoints;
use crate::pattern::{Pattern, pattern};

/// Line of a cell.
#[derive(Debug, PartialEq)]
pub struct CellLine {
    /// Execution count of the cell.
    pub cell: u64,
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The text of the line.
    pub text: String,
}

/// Returns line and column in the generated file, from the first line of a panic message.
fn parse_position(header: &str) -> Option<(usize, usize)> {
    let (_, rest) = header.rsplit_once(" panicked at src/lib.rs:")?;
    let mut numbers = rest.trim_end_matches(':').split(':').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the line of a cell that a panic message names, or `None` if it names no line of a cell.
/// `source` is the generated file, and `cells` are execution count and code, the newest cell
/// first.
pub fn locate(header: &str, source: &str, cells: &[(u64, String)]) -> Option<CellLine> {
    let (line, column) = parse_position(header)?;
    let at = line.checked_sub(1)?;
    let column = safepoints::original_column(source.lines().nth(at)?, column);
    let source = safepoints::remove_safepoints(source);
    let source: Vec<&str> = source.lines().collect();
    let expected = source.get(at)?.trim();
    let indent = source[at].chars().take_while(|c| c.is_whitespace()).count();
    let mut best = None;
    for (cell, code) in cells {
        let lines: Vec<&str> = code.lines().collect();
        for (index, text) in lines.iter().enumerate() {
            let Some(start) = find_column(text, expected) else { continue };
            let exact = usize::from(text.trim() == expected);
            let score = (exact, equal_neighbours(&source, at, &lines, index));
            if best.as_ref().is_none_or(|(highest, _)| score > *highest) {
                let column = start + column.saturating_sub(indent);
                let text = (*text).to_owned();
                best = Some((score, CellLine { cell: *cell, line: index + 1, column, text }));
            }
        }
    }
    best.map(|(_, line)| line)
}

/// Removes places in the generated file, which mean nothing to the user, from printed text.
pub fn strip_generated_locations(text: String) -> String {
    static PLACE: Pattern =
        Pattern::new(|| pattern(r"(?m)^(thread '.*?) panicked at src/lib\.rs:.*"));
    PLACE.replace_all(&text, "$1 panicked:").into_owned()
}

/// Returns the lines that panics after a stop print, without those that only repeat the stop.
pub fn panics_after_interrupt(text: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.iter().filter(|line| !line.is_empty()) {
        if line == "a scoped thread panicked" {
            lines.pop_if(|header| header.starts_with("thread '"));
            continue;
        }
        lines.push(strip_generated_locations(line.clone()));
    }
    lines
}

/// Returns the column, from 0, at which `text` contains `expected`. Short pieces such as a bracket
/// must be the whole line.
fn find_column(text: &str, expected: &str) -> Option<usize> {
    if expected.is_empty() || (expected.chars().count() < 4 && text.trim() != expected) {
        return None;
    }
    text.find(expected).map(|byte| text[..byte].chars().count())
}

/// Returns the number of equal lines directly above and below.
fn equal_neighbours(source: &[&str], at: usize, lines: &[&str], index: usize) -> usize {
    let equal = |(a, b): &(&&str, &&str)| a.trim() == b.trim();
    let above = source[..at].iter().rev().zip(lines[..index].iter().rev()).take_while(equal);
    let below = source[at + 1..].iter().zip(&lines[index + 1..]).take_while(equal);
    above.count() + below.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: usize, source: &str, cells: &[(u64, &str)]) -> Option<(u64, usize, usize)> {
        let header = format!("thread 'main' panicked at src/lib.rs:{line}:5:");
        let cells: Vec<_> = cells.iter().map(|(cell, code)| (*cell, (*code).to_owned())).collect();
        locate(&header, source, &cells).map(|found| (found.cell, found.line, found.column))
    }

    #[test]
    fn the_line_is_found_by_its_text_and_the_lines_around_it() {
        let source = "generated {\nlet a = 1;\n    check(a);\nlet b = 2;\n    check(a);\n}\n";
        let cell = "let a = 1;\n    check(a);\nlet b = 2;\n    check(a);";
        assert_eq!(found(3, source, &[(7, cell)]), Some((7, 2, 5)));
        assert_eq!(found(5, source, &[(7, cell)]), Some((7, 4, 5)));
        assert_eq!(found(1, source, &[(7, cell)]), None);
    }

    #[test]
    fn statements_of_one_line_and_functions_of_earlier_cells_are_found() {
        let source = "x {\n    let v = f();\n}\nfn f() -> u8 {\n    [1][i()]\n}\n";
        let cells = [(9, "let u = 1; let v = f();"), (2, "fn f() -> u8 {\n    [1][i()]\n}")];
        assert_eq!(found(2, source, &cells), Some((9, 1, 12)));
        assert_eq!(found(5, source, &cells), Some((2, 2, 5)));
    }

    #[test]
    fn other_files_and_lines_beyond_the_end_have_no_cell() {
        assert_eq!(locate("thread 'a' panicked at /burn/src/a.rs:1:2:", "x", &[]), None);
        assert_eq!(found(99, "check(a);", &[(1, "check(a);")]), None);
    }

    #[test]
    fn places_in_the_generated_file_are_not_shown() {
        let text = "a\nthread '<unnamed>' panicked at src/lib.rs:1:2:\nboom\n";
        assert_eq!(
            strip_generated_locations(text.into()),
            "a\nthread '<unnamed>' panicked:\nboom\n"
        );
        let other = "thread 'a' panicked at /burn/a.rs:1:2:\nx";
        assert_eq!(strip_generated_locations(other.into()), other);
        let header = "thread '<unnamed>' panicked at src/lib.rs:1:2:".to_owned();
        let stopped = [header.clone(), "a scoped thread panicked".into()];
        assert!(panics_after_interrupt(&stopped).is_empty());
        let unwrapped =
            panics_after_interrupt(&[String::new(), header, "called `Result::unwrap()`".into()]);
        assert_eq!(unwrapped, ["thread '<unnamed>' panicked:", "called `Result::unwrap()`"]);
    }
}
