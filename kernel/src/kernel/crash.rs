//! How the end of the cells' process is told: what happened, what is lost and what to do.

use super::errors::Failure;
use super::output::Ended;

/// evcxr's words before what the system says of the end.
const STATUS: &str = "Subprocess terminated with status: ";

/// What Rust's runtime says of a stack overflow.
const OF_RUNTIME: [&str; 2] = ["has overflowed its stack", "fatal runtime error:"];

/// The line is not the cell's own, and this module says it better.
pub fn is_of_runtime(line: &str) -> bool {
    OF_RUNTIME.iter().any(|of| line.contains(of))
}

/// The failure of a cell whose process ended. `how`: what evcxr says.
pub fn failure(how: &str, ended: &Ended) -> Failure {
    let status = how.lines().find_map(|line| line.strip_prefix(STATUS)).unwrap_or(how);
    let cause = cause(status, &ended.last_words);
    let mut failure = Failure::new("Crash", &format!("{cause}: all variables are lost"));
    let own = ended.text.iter().filter(|line| !is_of_runtime(line) && !line.trim().is_empty());
    failure.traceback.extend(own.cloned());
    failure
        .traceback
        .push("Imports and functions are kept. Run the cells that make variables again.".into());
    failure
}

/// `exit status: 3`, or `signal: 6 (SIGABRT) (core dumped)`.
fn cause(status: &str, said: &[String]) -> String {
    let has_said = |words: &str| said.iter().any(|line| line.contains(words));
    if has_said(OF_RUNTIME[0]) {
        return "the cell used up its stack, most likely by a recursion without end".into();
    }
    if let Some(code) = status.strip_prefix("exit status: ") {
        return format!("the cell ended its own process by exit({code})");
    }
    let number = status.strip_prefix("signal: ").and_then(|rest| rest.split(' ').next());
    match number.and_then(|number| number.parse().ok()) {
        Some(libc::SIGABRT) if has_said("memory allocation of") => "memory ran out".into(),
        Some(libc::SIGABRT) => "the cell aborted its own process".into(),
        Some(libc::SIGSEGV | libc::SIGBUS) => {
            "the cell touched memory that is not its own (unsafe code, or a recursion without end \
             in a thread)"
                .into()
        }
        Some(libc::SIGKILL) => {
            "the process of the cells was killed, most likely because memory ran out".into()
        }
        Some(libc::SIGILL) => "the cell met an instruction that this processor lacks".into(),
        _ => format!("the process of the cells ended ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_a_readable_line() {
        for (how, said, expected) in [
            ("signal: 6 (SIGABRT)", "thread 'main' has overflowed its stack", "used up its stack"),
            ("signal: 6 (SIGABRT) (core dumped)", "", "aborted its own process"),
            ("signal: 6 (SIGABRT)", "memory allocation of 8 bytes failed", "memory ran out"),
            ("signal: 11 (SIGSEGV)", "", "touched memory"),
            ("signal: 9 (SIGKILL)", "", "memory ran out"),
            ("exit status: 3", "", "exit(3)"),
            ("signal: 15 (SIGTERM)", "", "signal: 15 (SIGTERM)"),
        ] {
            let ended = Ended { last_words: vec![said.to_owned()], ..Ended::default() };
            let failure = failure(&format!("{STATUS}{how}"), &ended);
            assert!(failure.value.contains(expected), "{how}: {}", failure.value);
            assert!(failure.value.ends_with("all variables are lost"), "{}", failure.value);
        }
    }

    #[test]
    fn only_the_words_of_the_cell_are_repeated() {
        let said =
            ["", "why", "thread 'main' (7) has overflowed its stack", "fatal runtime error: x"];
        let text = said.iter().map(|line| (*line).to_owned()).collect();
        let ended = Ended { text, ..Ended::default() };
        let failure = failure(&format!("{STATUS}signal: 6 (SIGABRT)"), &ended);
        assert_eq!((failure.traceback.len(), failure.traceback[1].as_str()), (3, "why"));
    }
}
