//! How far a grid is, on stderr: one line per run, and on a terminal one that moves.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use epsilab::Error;
use epsilab::grid::{CellRun, GridObserver, GridProgress};

/// How often the moving line moves.
const PACE: Duration = Duration::from_millis(500);

/// Tells stderr.
#[derive(Default)]
pub struct ToStderr {
    shown: Option<Instant>,
}

impl ToStderr {
    /// A line that stays.
    fn say(&mut self, line: &str) {
        let clear = if self.shown.take().is_some() { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{line}");
    }
}

impl GridObserver for ToStderr {
    fn progressed(&mut self, progress: &GridProgress<'_>) {
        let rested = self.shown.is_none_or(|shown| shown.elapsed() >= PACE);
        if rested && std::io::stderr().is_terminal() {
            let GridProgress { step, steps, .. } = progress;
            let _ =
                write!(std::io::stderr(), "\r\x1b[K{}; step {step}/{steps}", progress.how_far());
            self.shown = Some(Instant::now());
        }
    }

    fn ended(&mut self, progress: &GridProgress<'_>, run: Result<&CellRun, &Error>) {
        self.say(&progress.ended_line(run));
    }

    fn trouble(&mut self, error: &Error) {
        self.say(&format!("the run is kept, but: {error}"));
    }
}
