//! Progress of a run on stderr: a live line on a terminal, otherwise a line now and then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use epsilab::Error;
use epsilab::show::format;
use epsilab::train::{Divergence, Observer, Progress, Run};

/// Time between updates of the live line.
const PACE: Duration = Duration::from_millis(500);
/// Time between lines where stderr is a file.
const LINES: Duration = Duration::from_secs(30);

/// Prints progress to stderr.
pub struct ToStderr {
    heading: String,
    is_terminal: bool,
    shown: Option<Instant>,
    warned: bool,
}

impl ToStderr {
    /// Progress with this heading.
    pub fn new(heading: String) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { heading, is_terminal, shown: None, warned: false }
    }

    /// Prints a permanent line.
    fn say(&self, line: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{line}");
    }

    /// Says once that the run diverges.
    fn warn(&mut self, divergence: Option<Divergence>) {
        if let Some(divergence) = divergence.filter(|_| !self.warned) {
            self.say(&divergence.to_string());
            self.warned = true;
        }
    }
}

impl Observer for ToStderr {
    fn noted(&mut self, words: &str) {
        self.say(words);
    }

    fn started(&mut self, progress: &Progress<'_>) {
        self.say(&format!("{}, {} steps", self.heading, progress.plan.steps()));
        self.shown = Some(Instant::now());
    }

    fn progressed(&mut self, progress: &Progress<'_>) {
        let pace = if self.is_terminal { PACE } else { LINES };
        if self.shown.is_some_and(|shown| shown.elapsed() < pace) {
            return;
        }
        self.shown = Some(Instant::now());
        self.warn(progress.curve.divergence());
        let (step, steps) = (progress.step, progress.plan.steps());
        let left = progress.seconds * (steps - step) as f64 / step.max(1) as f64;
        let pace = format::pace(step as f64, progress.seconds);
        let line = format!("step {step} of {steps}; {pace}, {left:.0} s left");
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        } else {
            self.say(&line)
        }
    }

    fn trouble(&mut self, error: &Error) {
        self.say(&format!("the run is trained, but: {error}"));
    }

    fn finished(&mut self, run: &Run) {
        let record = run.record();
        // A short run may end before its first line.
        self.warn(record.curve.divergence());
        let waiting = record.wait_share().map_or(String::new(), |share| {
            format!(", {:.1} % of them waiting for files", 100.0 * share)
        });
        let time = match run.plan().selection() {
            // It would tell how many trials there were.
            Some(_) => String::new(),
            None => format!("{:.1} s{waiting}; ", record.seconds),
        };
        self.say(&format!("{time}run {}", record.id));
    }
}
