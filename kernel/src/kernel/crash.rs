//! Error of a cell whose process ended: cause, lost variables and advice.

use super::errors::CellFailure;
use super::output_reader::CellEnd;
use super::panics;
use super::variables::join_names;

/// Words in evcxr's message before the exit status.
const STATUS: &str = "Subprocess terminated with status: ";

/// Words that Rust's runtime prints when the stack or the memory is used up.
const RUNTIME_MESSAGES: [&str; 6] = [
    "has overflowed its stack",
    "fatal runtime error:",
    "memory allocation of ",
    "note: run with `RUST_BACKTRACE=",
    "thread caused non-unwinding panic",
    " panicked in /rustc/",
];

/// Returns `true` for a line that Rust's runtime printed.
pub fn is_runtime_message(line: &str) -> bool {
    RUNTIME_MESSAGES.iter().any(|message| line.contains(message))
}

/// Returns the failure of a cell whose process ended. `how` is the message of evcxr.
pub fn crash_failure(how: &str, end: &CellEnd) -> CellFailure {
    let status = how.lines().find_map(|line| line.strip_prefix(STATUS)).unwrap_or(how);
    let cause = describe_cause(status, &end.last_lines);
    let text = if end.started {
        format!("{cause}: all variables are lost")
    } else {
        format!(
            "after an earlier cell had ended, a thread that it started ended the process ({}): all \
         variables are lost\nThis cell did not run: run it again.",
            cause.replacen("the cell ", "it ", 1)
        )
    };
    let mut failure = CellFailure::new("Crash", &text);
    let own_lines =
        end.failure_text.iter().filter(|line| !is_runtime_message(line) && !line.trim().is_empty());
    failure.traceback.extend(own_lines.cloned().map(panics::strip_generated_locations));
    failure
}

/// Returns the failure of a cell whose process was ended because it did not stop.
pub fn killed_failure() -> CellFailure {
    let text = "the cell did not stop by itself, so its process was ended: all variables are lost";
    CellFailure::new("Interrupted", text)
}

/// Returns lines about the consequences of the end of the process: `lost` variables of earlier
/// cells, and the state that remains.
pub fn describe_loss(lost: &[String]) -> Vec<String> {
    let lost = (!lost.is_empty())
        .then(|| format!("Lost: {}. Run the cells that define them again.", join_names(lost)));
    let kept = "Kept: imports and functions, and what is on disk: stored runs, checkpoints and \
                ledgers. A run that was training stays in the ledger with its whole plan \
                (`:runs`, `:ledger`).";
    lost.into_iter().chain([kept.to_owned()]).collect()
}

/// Describes the cause of the end of the process from its status, `exit status: 3` or `signal: 6
/// (SIGABRT) (core dumped)`, and the last lines on standard error.
fn describe_cause(status: &str, lines: &[String]) -> String {
    let has_line = |phrase: &str| lines.iter().any(|line| line.contains(phrase));
    if has_line(RUNTIME_MESSAGES[0]) {
        return "the cell overflowed its stack, most likely by infinite recursion".into();
    }
    if has_line("panic in a destructor during cleanup") {
        return "a destructor (`drop`) panicked while another panic was handled".into();
    }
    if let Some(code) = status.strip_prefix("exit status: ") {
        return format!("the cell ended its own process by exit({code})");
    }
    let number = status.strip_prefix("signal: ").and_then(|rest| rest.split(' ').next());
    let cause = match number.and_then(|number| number.parse().ok()) {
        Some(libc::SIGABRT) if has_line("memory allocation of") => "memory ran out",
        Some(libc::SIGABRT) => "the cell aborted its own process",
        Some(libc::SIGSEGV | libc::SIGBUS) => {
            "the cell accessed invalid memory (unsafe code, or infinite recursion in a thread)"
        }
        Some(libc::SIGKILL) => "the cell process was killed, most likely because memory ran out",
        Some(libc::SIGILL) => "the cell executed an instruction that this processor does not have",
        _ => return format!("the cell process ended ({status})"),
    };
    cause.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_status_has_a_readable_line() {
        for (how, last_line, expected) in [
            (
                "signal: 6 (SIGABRT)",
                "thread 'main' has overflowed its stack",
                "the cell overflowed its stack",
            ),
            ("signal: 6 (SIGABRT) (core dumped)", "", "aborted its own process"),
            ("signal: 6 (SIGABRT)", "panic in a destructor during cleanup", "a destructor"),
            ("signal: 6 (SIGABRT)", "memory allocation of 8 bytes failed", "memory ran out"),
            ("signal: 11 (SIGSEGV)", "", "invalid memory"),
            ("signal: 9 (SIGKILL)", "", "memory ran out"),
            ("exit status: 3", "", "exit(3)"),
            ("signal: 15 (SIGTERM)", "", "signal: 15 (SIGTERM)"),
        ] {
            let end = CellEnd {
                started: true,
                last_lines: vec![last_line.to_owned()],
                ..CellEnd::default()
            };
            let failure = crash_failure(&format!("{STATUS}{how}"), &end);
            assert!(failure.value.contains(expected), "{how}: {}", failure.value);
            assert!(failure.value.ends_with("all variables are lost"), "{}", failure.value);
        }
    }

    #[test]
    fn a_cell_that_did_not_run_is_not_blamed() {
        let failure = crash_failure(&format!("{STATUS}exit status: 3"), &CellEnd::default());
        let text = failure.traceback.join("\n");
        assert!(text.contains("a thread that it started") && text.contains("exit(3)"), "{text}");
        assert!(text.contains("This cell did not run"), "{text}");
    }

    #[test]
    fn lost_and_kept_variables_are_named() {
        let lines = describe_loss(&["data".into(), "run".into()]);
        assert!(lines[0].starts_with("Lost: `data`, `run`.") && lines[1].contains("ledgers"));
        assert_eq!(describe_loss(&[]).len(), 1);
    }

    #[test]
    fn only_lines_of_the_cell_are_repeated() {
        let printed =
            ["", "why", "thread 'main' (7) has overflowed its stack", "fatal runtime error: x"];
        let text = printed.iter().map(|line| (*line).to_owned()).collect();
        let end = CellEnd { started: true, failure_text: text, ..CellEnd::default() };
        let failure = crash_failure(&format!("{STATUS}signal: 6 (SIGABRT)"), &end);
        assert_eq!((failure.traceback.len(), failure.traceback[1].as_str()), (2, "why"));
    }
}
