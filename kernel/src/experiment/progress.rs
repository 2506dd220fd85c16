//! Progress of a grid on stderr: one line per run, and a live line on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use epsilab::Error;
use epsilab::grid::{CellRun, GridObserver, GridProgress};

/// Time between updates of the live line.
const PACE: Duration = Duration::from_millis(500);

/// Progress output on stderr.
pub struct ToStderr {
    /// Heading, printed before the first line. A refused plan gets an error and no heading.
    heading: Option<String>,
    last_update: Option<Instant>,
}

impl ToStderr {
    /// Creates progress output with this heading.
    pub fn new(heading: String) -> Self {
        Self { heading: Some(heading), last_update: None }
    }

    fn head(&mut self) {
        if let Some(heading) = self.heading.take() {
            eprintln!("{heading}");
        }
    }

    /// Prints a line that stays.
    fn say(&mut self, line: &str) {
        self.head();
        let clear = if self.last_update.take().is_some() { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{line}");
    }
}

impl GridObserver for ToStderr {
    fn on_progress(&mut self, progress: &GridProgress<'_>) {
        self.head();
        let rested = self.last_update.is_none_or(|shown| shown.elapsed() >= PACE);
        if rested && std::io::stderr().is_terminal() {
            let GridProgress { step, steps, .. } = progress;
            let _ = write!(
                std::io::stderr(),
                "\r\x1b[K{}; step {step}/{steps}",
                progress.progress_line()
            );
            self.last_update = Some(Instant::now());
        }
    }

    fn on_run_end(&mut self, progress: &GridProgress<'_>, run: Result<&CellRun, &Error>) {
        // stderr is read by the owner of the data, who may want to open the run.
        let stored = run.map(|run| format!("; stored in runs/{}", run.id)).unwrap_or_default();
        self.say(&format!("{}{stored}", progress.run_line(run)));
    }

    fn on_note(&mut self, text: &str) {
        self.say(text);
    }

    fn on_warning(&mut self, error: &Error) {
        self.say(&format!("the run is trained, but: {error}"));
    }
}
