//! Progress and error reports of `run`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use epsilab::train::interrupt;
use epsilab::{Error, program};
use jupyter_zmq_client::ErrorOutput;

use crate::html::without_colours;

/// Maximum width of the code shown for a cell.
const MAX_CODE_WIDTH: usize = 60;

/// Reason why the execution of a notebook stopped early.
pub enum HaltReason {
    /// A cell failed.
    Failed { number: usize, of: usize, source: String, failure: ErrorOutput },
    /// The user stopped the execution.
    Interrupted,
    /// A cell took longer than the timeout.
    TimedOut { number: usize, source: String, seconds: u64 },
    /// The kernel ended.
    KernelDied(Error),
    /// All cells ran, but their outputs differ from the saved ones: the differences by cell.
    OutputsDiffer(Vec<String>),
}

impl HaltReason {
    /// Returns the exit code of the program.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            HaltReason::Interrupted => ExitCode::from(interrupt::exit_code()),
            _ => ExitCode::FAILURE,
        }
    }

    /// Describes in a few words where the execution stopped.
    pub fn summary(&self) -> String {
        match self {
            HaltReason::Failed { number, .. } => format!("code cell {number}"),
            HaltReason::TimedOut { number, .. } => format!("code cell {number} took too long"),
            HaltReason::Interrupted => "interrupted".into(),
            HaltReason::KernelDied(error) => error.what().to_owned(),
            HaltReason::OutputsDiffer(_) => "other outputs than the saved ones".into(),
        }
    }

    /// Returns the report for the user: cell, code and error.
    pub fn report(&self, colours: bool) -> String {
        match self {
            HaltReason::Failed { number, of, source, failure } => {
                let traceback = failure.traceback.join("\n");
                let text = if traceback.trim().is_empty() {
                    format!("{}: {}", failure.ename, failure.evalue)
                } else {
                    traceback
                };
                let text = if colours { text } else { without_colours(&text) };
                format!(
                    "error: code cell {number} of {of} failed: {}: {}\n\n{}\n\n{}\n",
                    failure.ename,
                    without_colours(failure.evalue.lines().next().unwrap_or_default()),
                    indent(source),
                    text.trim_end()
                )
            }
            HaltReason::Interrupted => "error: interrupted".to_owned(),
            HaltReason::TimedOut { number, source, seconds } => format!(
                "error: code cell {number} took longer than {seconds} s (--timeout)\n\n{}\n",
                indent(source)
            ),
            HaltReason::KernelDied(error) => format!("error: {error}"),
            HaltReason::OutputsDiffer(cells) => format!(
                "error: the outputs differ from the saved ones\n  {}\n  what to do: if the new \
                 ones are right, save them with `{}`; a cell that trains without a \
                 seed has other numbers in every run: give it the tag `noisy-output`, or \
                 `ignore-output` if its words differ too",
                cells.join("\n  "),
                program::command("run NB --inplace"),
            ),
        }
    }
}

fn indent(source: &str) -> String {
    let lines: Vec<String> = source.trim_end().lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

/// Formats the number and the first line of a cell; the time of the cell is printed behind them.
pub fn of_cell(number: usize, total: usize, source: &str) -> String {
    let width = total.to_string().len();
    format!("[{number:>width$}/{total}] {:<MAX_CODE_WIDTH$} ", first_line(source))
}
/// Prints the description of a step that begins, and returns the time.
pub fn begin(what: &str) -> Instant {
    eprint!("{what}");
    // The execution continues if progress can't be printed.
    let _ = std::io::stderr().flush();
    Instant::now()
}
/// Prints the duration of the step and whether it succeeded.
pub fn finish(started: Instant, halted: bool, failed: bool) {
    let note = match (halted, failed) {
        (true, _) => "  stopped here",
        (false, true) => "  error, as expected",
        (false, false) => "",
    };
    eprintln!("{:6.1} s{note}", started.elapsed().as_secs_f64());
}

fn first_line(source: &str) -> String {
    let line = source.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.chars().count() <= MAX_CODE_WIDTH {
        return line.to_owned();
    }
    line.chars().take(MAX_CODE_WIDTH - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_cell_is_named_with_its_code_and_error() {
        let failure = ErrorOutput {
            ename: "E0425".into(),
            evalue: "cannot find value `y`".into(),
            traceback: vec!["\u{1b}[31merror\u{1b}[0m: cannot find".into()],
        };
        let halt = HaltReason::Failed { number: 2, of: 3, source: "let x = y;\n".into(), failure };
        let text = halt.report(false);
        assert!(text.starts_with("error: code cell 2 of 3 failed: E0425: cannot find value `y`"));
        assert!(text.contains("\n    let x = y;\n") && text.contains("error: cannot find"));
        assert!(halt.report(true).contains("\u{1b}[31m"));
    }

    #[test]
    fn long_first_lines_are_cut() {
        assert_eq!(first_line("\n  let x = 1;\nlet y = 2;"), "let x = 1;");
        assert_eq!(first_line(&"ε".repeat(100)).chars().count(), MAX_CODE_WIDTH);
    }
}
