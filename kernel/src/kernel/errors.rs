//! How a failing cell is told to the user: a name, one line, and the whole story.

use serde_json::{Value, json};

use super::crash;
use super::output::{Ended, is_panic_header};

/// The content of an `error` message.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Sort of failure: `CompileError`, `Panic`, `Error`, `Crash`, `Interrupted`, `KernelError`.
    pub name: &'static str,
    /// One line.
    pub value: String,
    /// The whole text.
    pub traceback: Vec<String>,
}

impl Failure {
    /// A failure told by one text: its first line is the value.
    pub fn new(name: &'static str, text: &str) -> Self {
        let value = text.lines().next().unwrap_or_default().to_owned();
        let mut traceback = vec![format!("{name}: {value}")];
        traceback.extend(text.lines().skip(1).map(str::to_owned));
        Self { name, value, traceback }
    }

    /// The cell's process says that it panicked or returned early.
    pub fn of_ended(ended: &Ended) -> Option<Self> {
        if ended.panicked {
            Some(Self::panic(&ended.text))
        } else if ended.errored {
            Some(Self::early_return(&ended.text))
        } else {
            None
        }
    }

    fn panic(text: &[String]) -> Self {
        let mut value = None;
        let mut story = Vec::new();
        let mut lines = text.iter().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("note: run with `RUST_BACKTRACE=") {
                continue;
            }
            if !is_panic_header(line) {
                story.push(line.clone());
                continue;
            }
            value = lines.peek().map(|line| (*line).clone()).or(value);
            // Cells are wrapped into generated code: its line numbers would mislead.
            if let Some(place) = line.split(" panicked at ").nth(1)
                && !place.starts_with("src/lib.rs")
            {
                story.push(format!("at {}", place.trim_end_matches(':')));
            }
        }
        let value = value.unwrap_or_else(|| "the cell panicked".into());
        let mut traceback = vec![format!("Panic: {value}")];
        let rest = story.into_iter().filter(|line| *line != value);
        traceback.extend(rest);
        traceback.push(
            "Variables that the cell did not use are kept; those it used or made are gone.".into(),
        );
        Self { name: "Panic", value, traceback }
    }

    /// `?` on an error: evcxr printed its text on standard error just before.
    fn early_return(text: &[String]) -> Self {
        // The last paragraph: one line and the indented ones below it.
        let last = text.iter().rposition(|line| !line.starts_with([' ', '\t']) && !line.is_empty());
        let start = last.unwrap_or(0);
        let value = text.get(start).cloned().unwrap_or_else(|| "the cell returned an error".into());
        let mut traceback: Vec<_> = text[..start].to_vec();
        traceback.push(format!("Error: {value}"));
        traceback.extend(text.iter().skip(start + 1).cloned());
        Self { name: "Error", value, traceback }
    }

    /// The cell was not run, or its process ended.
    pub fn of_evcxr(error: &evcxr::Error, code: &str, count: u64, ended: &Ended) -> Self {
        match error {
            evcxr::Error::CompilationErrors(errors) => compile_errors(errors, code, count),
            evcxr::Error::SubprocessTerminated(how) => crash::failure(how, ended),
            other => Self::new("CompileError", &other.to_string()),
        }
    }

    /// The content of the `error` broadcast.
    pub fn content(&self) -> Value {
        json!({ "ename": self.name, "evalue": self.value, "traceback": self.traceback })
    }
}

fn compile_errors(errors: &[evcxr::CompilationError], code: &str, count: u64) -> Failure {
    let mut serious: Vec<_> = errors.iter().filter(|error| error.level() != "warning").collect();
    let mut traceback = Vec::new();
    let mut value = None;
    if serious.is_empty() {
        // evcxr reports the warnings of a cell in place of its own trouble with a variable.
        let text = "the type of a variable can't be found: give it one (`let x: Type = …`)";
        value = Some(text.to_owned());
        traceback.push(format!("CompileError: {text}"));
        serious = errors.iter().collect();
    }
    for error in serious {
        value.get_or_insert_with(|| error.message());
        if !traceback.is_empty() {
            traceback.push(String::new());
        }
        report(error, code, count, &mut traceback);
    }
    let value = value.unwrap_or_else(|| "the cell does not compile".into());
    Failure { name: "CompileError", value, traceback }
}

/// One error in the manner of rustc, with lines as numbered in the cell.
fn report(error: &evcxr::CompilationError, code: &str, count: u64, into: &mut Vec<String>) {
    let number = error.code().map(|code| format!("[{code}]")).unwrap_or_default();
    into.push(format!("{}{number}: {}", error.level(), error.message()));
    let mut messages: Vec<_> = error.spanned_messages().iter().collect();
    messages.sort_by_key(|message| !message.is_primary);
    let mut shown = None;
    for message in messages {
        // evcxr fills an empty label with the message that is already above.
        let label = Some(message.label.as_str()).filter(|label| !label.ends_with(&error.message()));
        let Some(span) = message.span else {
            into.extend(
                label.filter(|label| !label.is_empty()).map(|label| format!("  = {label}")),
            );
            continue;
        };
        if shown.is_none() {
            into.push(format!(" --> cell {count}, line {}", span.start_line));
        }
        let mut lines =
            underline(code, span.start_line, span.start_column, span.end_line, span.end_column);
        if shown.replace(span.start_line) == Some(span.start_line) && !lines.is_empty() {
            lines.remove(0);
        }
        if let (Some(line), Some(label)) = (lines.last_mut(), label) {
            line.push(' ');
            line.push_str(label);
        }
        into.extend(lines.iter().map(|line| line.trim_end().to_owned()));
    }
    for help in error.help() {
        let lines: Vec<_> = help.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        into.push(format!("  = help: {}", lines.join(": ")));
    }
}

fn underline(code: &str, line: usize, from: usize, last: usize, to: usize) -> Vec<String> {
    let Some(text) = code.lines().nth(line.saturating_sub(1)) else { return Vec::new() };
    let width = text.chars().count();
    let from = from.saturating_sub(1).min(width);
    let to = if last == line { to.saturating_sub(1).clamp(from, width.max(from)) } else { width };
    let margin = line.to_string();
    let blank = " ".repeat(margin.len());
    vec![
        format!("{margin} | {text}"),
        format!("{blank} | {}{}", " ".repeat(from), "^".repeat((to - from).max(1))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_panic_is_its_message_and_never_a_place_in_generated_code() {
        let text = lines(&[
            "thread 'main' (7) panicked at src/lib.rs:90:5:",
            "index out of bounds",
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
        ]);
        let failure = Failure::panic(&text);
        assert_eq!(failure.value, "index out of bounds");
        assert!(!failure.traceback.join("\n").contains("lib.rs"));
        assert!(!failure.traceback.join("\n").contains("RUST_BACKTRACE"));
        let text = lines(&["thread 'main' (7) panicked at /burn/tensor.rs:3:4:", "shapes", "more"]);
        let failure = Failure::panic(&text);
        assert_eq!(failure.traceback[..3], ["Panic: shapes", "at /burn/tensor.rs:3:4", "more"]);
    }

    #[test]
    fn an_early_return_is_the_last_paragraph() {
        let text = lines(&["said before", "epsilon = 0: too small", "  what to do: raise it"]);
        let failure = Failure::early_return(&text);
        assert_eq!(failure.value, "epsilon = 0: too small");
        assert_eq!(
            failure.traceback,
            ["said before", "Error: epsilon = 0: too small", "  what to do: raise it"]
        );
        assert_eq!(Failure::early_return(&[]).value, "the cell returned an error");
    }

    #[test]
    fn underlines_count_characters_and_stay_inside_the_line() {
        let code = "let ä = \"x\";\nlet y = 1";
        assert_eq!(underline(code, 1, 5, 1, 6), ["1 | let ä = \"x\";", "  |     ^"]);
        assert_eq!(underline(code, 2, 9, 3, 1), ["2 | let y = 1", "  |         ^"]);
        assert_eq!(underline(code, 2, 40, 2, 50), ["2 | let y = 1", "  |          ^"]);
        assert!(underline(code, 9, 1, 9, 2).is_empty());
    }
}
