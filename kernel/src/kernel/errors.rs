//! Errors of cells in the form shown to the user: a name, one line, and a traceback.

use evcxr::CompilationError;
use serde_json::{Value, json};

use super::advice;
use super::borrow_advice;
use super::cell_commands;
use super::crash;
use super::disk_full;
use super::error_location::{self, LineSpan};
use super::output_reader::CellEnd;
use super::panics::{self, CellLine};
use super::rustc_messages;
use super::stream_buffer::is_panic_header;
use super::variables::VariableTracker;
use crate::pattern::{Pattern, pattern};

/// The content of an `error` message.
#[derive(Clone, Debug, PartialEq)]
pub struct CellFailure {
    /// Kind of failure: `CompileError`, `Panic`, `Error`, `Crash`, `Interrupted`, `InputError`,
    /// `KernelError`.
    pub name: &'static str,
    /// Failure in one line.
    pub value: String,
    /// The full text, line by line.
    pub traceback: Vec<String>,
}

impl CellFailure {
    /// Creates a failure from one text, whose first line is the value.
    pub fn new(name: &'static str, text: &str) -> Self {
        let value = text.lines().next().unwrap_or_default().to_owned();
        let mut traceback = vec![format!("{name}: {value}")];
        traceback.extend(text.lines().skip(1).map(str::to_owned));
        Self { name, value, traceback }
    }

    /// Creates the failure of a panic from its message `text`, the file `source` that evcxr
    /// generated, and execution count and code of `cells`, the newest first.
    pub fn from_panic(text: &[String], source: &str, cells: &[(u64, String)]) -> Self {
        let mut value = None;
        let mut cell_line = None;
        let mut rest = Vec::new();
        let mut lines = text.iter().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("note: run with `RUST_BACKTRACE=")
                || line.starts_with("  panicked in /rustc/")
            {
                continue;
            }
            if !is_panic_header(line) {
                rest.push(line.clone());
                continue;
            }
            value = lines.peek().map(|line| (*line).clone()).or(value);
            cell_line = panics::locate(line, source, cells).or(cell_line);
            // Places in the generated file and in the standard library mean nothing to the user.
            if let Some(at) = line.split(" panicked at ").nth(1)
                && !at.starts_with("src/lib.rs")
                && !at.starts_with("/rustc/")
            {
                rest.push(format!("  panicked in {}", at.trim_end_matches(':')));
            }
        }
        let value = value.unwrap_or_else(|| "the cell panicked".into());
        let mut traceback = vec![format!("Panic: {value}")];
        traceback.extend(cell_line.iter().flat_map(render_panic_line));
        rest.retain(|line| *line != value);
        while rest.last().is_some_and(|line| line.trim().is_empty()) {
            rest.pop();
        }
        traceback.extend(rest);
        Self { name: "Panic", value, traceback }
    }

    /// Creates the failure of a cell that returned early by `?` on an error. `text` is the error
    /// as evcxr printed it, followed by the output of destructors.
    pub fn from_early_return(text: &[String]) -> Self {
        let mut lines = text.iter().map(|line| cli_advice_to_code(line));
        let value = lines.find(|line| !line.is_empty());
        let value = value.unwrap_or_else(|| "the cell returned an error without a text".into());
        let mut traceback = vec![format!("Error: {value}")];
        traceback.extend(lines);
        Self { name: "Error", value, traceback }
    }

    /// Creates the failure of a cell that did not run, or whose process ended.
    pub fn from_evcxr(error: &evcxr::Error, source: &CellSource<'_>, end: &CellEnd) -> Self {
        if disk_full::is_disk_full_error(error) {
            return Self::new(
                "CompileError",
                &disk_full::disk_full_message(disk_full::CELL_CONSEQUENCE),
            );
        }
        match error {
            evcxr::Error::CompilationErrors(errors) => from_compile_errors(errors, source),
            evcxr::Error::SubprocessTerminated(how) => crash::crash_failure(how, end),
            other => {
                let text = other.to_string();
                Self::new(
                    "CompileError",
                    &advice::explain_unkept_variable(strip_build_output(&text)),
                )
            }
        }
    }

    /// Creates the failure of an engine that can't be started.
    pub fn from_startup(text: &str) -> Self {
        let full = disk_full::is_disk_full_message(text)
            .then(|| disk_full::disk_full_message(disk_full::STARTUP_CONSEQUENCE));
        Self::new("KernelError", full.as_deref().unwrap_or_else(|| strip_build_output(text)))
    }

    /// Returns the content of the `error` broadcast.
    pub fn to_content(&self) -> Value {
        json!({ "ename": self.name, "evalue": self.value, "traceback": self.traceback })
    }

    /// Returns the content of a reply.
    pub fn reply(&self) -> Value {
        let mut content = self.to_content();
        content["status"] = "error".into();
        content
    }
}

/// Returns the text without the command lines of compilers and the output of cargo for programs.
fn strip_build_output(text: &str) -> &str {
    let ends = ["\nCaused by:", "process didn't exit successfully", "\nSTDOUT:"];
    let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    text[..end].trim_end()
}

/// Rewrites advice for the command line into code: `--device cpu` becomes `.device("cpu")`.
fn cli_advice_to_code(line: &str) -> String {
    static OPTION: Pattern = Pattern::new(|| pattern(r"--device ([\w:]*)"));
    OPTION.replace_all(line, ".device(\"$1\")").into_owned()
}

/// Cell that does not compile.
pub struct CellSource<'a> {
    pub code: &'a str,
    pub count: u64,
    pub variables: &'a VariableTracker,
}

/// Returns the line of a panic, with a marker below it.
fn render_panic_line(location: &CellLine) -> Vec<String> {
    let mut lines = vec![format!(" --> cell {}, line {}", location.cell, location.line)];
    let before = location.column.saturating_sub(1);
    lines.extend(marked(location.line, location.text.trim_end(), before, before + 1));
    lines
}

/// Returns a line with its number, and markers below the characters from `from` to `to`.
fn marked(line: usize, text: &str, from: usize, to: usize) -> [String; 2] {
    let margin = line.to_string();
    let (blank, space) = (" ".repeat(margin.len()), " ".repeat(from));
    [format!("{margin} | {text}"), format!("{blank} | {space}{}", "^".repeat((to - from).max(1)))]
}

fn from_compile_errors(errors: &[CompilationError], source: &CellSource<'_>) -> CellFailure {
    let mut serious: Vec<_> = errors.iter().filter(|error| error.level() != "warning").collect();
    let mut traceback = Vec::new();
    let mut value = None;
    if serious.is_empty() {
        // evcxr returns the warnings of a cell when it fails to find the type of a variable.
        let text = "the type of a variable can't be found: give it one (`let x: Type = …`)";
        value = Some(text.to_owned());
        traceback.push(format!("CompileError: {text}"));
        serious = errors.iter().collect();
    }
    if let Some(name) = serious.iter().find_map(|error| type_without_debug(error)) {
        let text = format!("the value can't be shown: `{name}` has no `Debug` form");
        let help = "put `#[derive(Debug)]` above its definition, or end the cell with `;`";
        return rewritten_failure(text, vec![format!("  = help: {help}")]);
    }
    if serious.iter().any(|error| error.message().contains("delimiter"))
        && let Some((bracket, part)) = error_location::find_unclosed_bracket(source.code)
    {
        return rewritten_failure(
            format!("`{bracket}` is never closed"),
            render_span(source, &part),
        );
    }
    if let Some(failure) = misplaced_command_failure(&serious, source) {
        return failure;
    }
    let mut reported = Vec::new();
    for error in serious {
        if borrow_advice::is_followup_error(error, &reported) {
            continue;
        }
        reported.push(error);
        value.get_or_insert_with(|| rustc_messages::error_title(error));
        if !traceback.is_empty() {
            traceback.push(String::new());
        }
        render_error(error, source, &mut traceback);
    }
    let value = value.unwrap_or_else(|| "the cell does not compile".into());
    CellFailure { name: "CompileError", value, traceback }
}

/// Returns the failure of a cell with a command below code, which is a syntax error that others
/// follow from.
fn misplaced_command_failure(
    errors: &[&CompilationError],
    source: &CellSource<'_>,
) -> Option<CellFailure> {
    let spans = errors.iter().flat_map(|error| error.spanned_messages());
    let mut lines = spans.filter_map(|message| Some(message.span?.start_line));
    let (line, name) = lines.find_map(|line| {
        let above = line.checked_sub(1)?;
        let is_code = |text: &str| !text.trim().is_empty() && !text.trim().starts_with([':', '/']);
        source.code.lines().take(above).find(|text| is_code(text))?;
        Some((line, cell_commands::misplaced_command(source.code.lines().nth(above)?)?))
    })?;
    let text = format!("commands stand before the code: move `{name}` to the top of the cell");
    Some(rewritten_failure(
        text,
        render_span(source, &LineSpan { line, from: 1, to: name.len() + 1 }),
    ))
}

/// Creates a failure with our text in place of the compiler's, and the lines `below` it.
fn rewritten_failure(text: String, below: Vec<String>) -> CellFailure {
    let traceback = [vec![format!("error: {text}")], below].concat();
    CellFailure { name: "CompileError", value: text, traceback }
}

/// Returns the type of a cell's value that can't be shown. The error itself lies in generated
/// code, so evcxr passes on only its help.
fn type_without_debug(error: &CompilationError) -> Option<String> {
    let message = error.message();
    let name = message.strip_prefix("consider annotating `")?.split('`').next()?;
    (error.level() == "help" && message.contains("derive(Debug)")).then(|| name.to_owned())
}

/// Formats one error as rustc does, with the line numbers of the cell.
fn render_error(error: &CompilationError, source: &CellSource<'_>, into: &mut Vec<String>) {
    let CellSource { code, count, .. } = *source;
    let number = error.code().map(|code| format!("[{code}]")).unwrap_or_default();
    let title = rustc_messages::error_title(error);
    into.push(format!("{}{number}: {title}", error.level()));
    let mut messages: Vec<_> = error.spanned_messages().iter().collect();
    messages.sort_by_key(|message| !message.is_primary);
    let advice = advice::for_error(error, source);
    if advice.replaces_rustc {
        messages.retain(|message| message.span.is_some());
    }
    let mut shown = None;
    // Without a span, the error lies in generated code.
    if error.spanned_messages().iter().all(|message| message.span.is_none())
        && let Some(part) = error_location::locate_error(error, code)
    {
        into.extend(render_span(source, &part));
    }
    for message in messages {
        // evcxr fills an empty label with the message, which stands above already.
        let label = Some(message.label.as_str()).filter(|label| !label.ends_with(&error.message()));
        let label = label.map(rustc_messages::rewrite_message);
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
            line.push_str(&label);
        }
        into.extend(lines.iter().map(|line| line.trim_end().to_owned()));
    }
    into.extend(advice.lines);
    if advice.replaces_rustc {
        return;
    }
    into.extend(
        rustc_messages::help_messages(error).into_iter().map(|help| format!("  = help: {help}")),
    );
}

/// Returns the line of a part, with a marker below it.
fn render_span(source: &CellSource<'_>, part: &LineSpan) -> Vec<String> {
    let location = format!(" --> cell {}, line {}", source.count, part.line);
    [vec![location], underline(source.code, part.line, part.from, part.line, part.to)].concat()
}

fn underline(code: &str, line: usize, from: usize, last: usize, to: usize) -> Vec<String> {
    let Some(text) = code.lines().nth(line.saturating_sub(1)) else { return Vec::new() };
    let width = text.chars().count();
    let from = from.saturating_sub(1).min(width);
    let to = if last == line { to.saturating_sub(1).clamp(from, width.max(from)) } else { width };
    marked(line, text, from, to).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_failed_compiler_or_a_full_disk_is_not_shown_as_a_dump() {
        let variables = VariableTracker::default();
        let failure_from = |text: &str| {
            let source = CellSource { code: "", count: 1, variables: &variables };
            CellFailure::from_evcxr(
                &evcxr::Error::Message(text.into()),
                &source,
                &CellEnd::default(),
            )
        };
        let dump = "Compilation failed, but no parsable errors were found. STDERR:\n\
                    error: could not compile `ctx` (lib)\n\nCaused by:\n  process didn't exit \
                    successfully: `rustc --crate-name ctx` (signal: 9)\nSTDOUT:{\"reason\":1}\n";
        let failure = failure_from(dump);
        assert_eq!(
            failure.traceback.last().map(String::as_str),
            Some("error: could not compile `ctx` (lib)")
        );
        let full =
            failure_from(&dump.replace("signal: 9", "No space left on device (os error 28)"));
        assert!(full.value.contains("is full: the cell did not run"), "{full:?}");
        assert_eq!(full.traceback.len(), 2, "{full:?}");
        let start =
            CellFailure::from_startup("Error writing 'x': No space left on device (os error 28)");
        assert!(start.value.contains("is full: cells can't be compiled"), "{start:?}");
        assert!(!CellFailure::from_startup(dump).traceback.join("\n").contains("crate-name"));
        assert_eq!(failure_from("plain").value, "plain");
    }

    #[test]
    fn a_panic_shows_its_message_and_the_line_of_the_cell() {
        let text = lines(&[
            "thread 'main' (7) panicked at src/lib.rs:90:5:",
            "index out of bounds",
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
        ]);
        let source = format!("{}    v[3]\n", "generated\n".repeat(89));
        let cells = [(4, "let v = vec![1];\nv[3]".to_owned())];
        let failure = CellFailure::from_panic(&text, &source, &cells);
        assert_eq!(failure.value, "index out of bounds");
        let expected = ["Panic: index out of bounds", " --> cell 4, line 2", "2 | v[3]", "  | ^"];
        assert_eq!(failure.traceback, expected);
        let text = lines(&["thread 'main' panicked at /rustc/5980/alloc/src/a.rs:28:5:", "full"]);
        assert_eq!(CellFailure::from_panic(&text, &source, &cells).traceback, ["Panic: full"]);
        let text = lines(&["thread 'main' panicked at /burn/tensor.rs:3:4:", "shapes", "more"]);
        let failure = CellFailure::from_panic(&text, &source, &cells);
        let expected = ["Panic: shapes", "  panicked in /burn/tensor.rs:3:4", "more"];
        assert_eq!(failure.traceback, expected);
    }

    #[test]
    fn the_first_line_of_an_error_is_its_value() {
        let text = lines(&["epsilon = 0: too small", "  what to do: raise it", "by a destructor"]);
        let failure = CellFailure::from_early_return(&text);
        assert_eq!(failure.value, "epsilon = 0: too small");
        let expected =
            ["Error: epsilon = 0: too small", "  what to do: raise it", "by a destructor"];
        assert_eq!(failure.traceback, expected);
        let nothing = CellFailure::from_early_return(&lines(&[""])).value;
        assert_eq!(nothing, "the cell returned an error without a text");
    }

    #[test]
    fn advice_about_devices_is_code_in_a_cell() {
        let text =
            lines(&["no CUDA", "  what to do: build with --features cuda, or --device cpu."]);
        let failure = CellFailure::from_early_return(&text);
        let expected = "  what to do: build with --features cuda, or .device(\"cpu\").";
        assert_eq!(failure.traceback[1], expected);
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
