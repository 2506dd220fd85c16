//! Progress of a run on stderr: a live line on a terminal, otherwise a line now and then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use epsilab::Error;
use epsilab::show::format;
use epsilab::train::{Divergence, Observer, Progress, Run};

/// Time between updates of the live line.
const LIVE_INTERVAL: Duration = Duration::from_millis(500);
/// Time between lines if stderr is a file.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Progress output of a run on stderr.
pub struct StderrRunObserver {
    heading: String,
    is_terminal: bool,
    last_update: Option<Instant>,
    warned: bool,
}

impl StderrRunObserver {
    /// Creates progress output with this heading.
    pub fn new(heading: String) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { heading, is_terminal, last_update: None, warned: false }
    }

    /// Prints a line that stays.
    fn print_line(&self, line: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{line}");
    }

    /// Prints, only once, that the run diverges.
    fn warn_once(&mut self, divergence: Option<Divergence>) {
        if let Some(divergence) = divergence.filter(|_| !self.warned) {
            self.print_line(&divergence.to_string());
            self.warned = true;
        }
    }
}

impl Observer for StderrRunObserver {
    fn on_note(&mut self, text: &str) {
        self.print_line(text);
    }

    fn on_start(&mut self, progress: &Progress<'_>) {
        self.print_line(&format!("{}, {} steps", self.heading, progress.plan.steps()));
        self.last_update = Some(Instant::now());
    }

    fn on_step(&mut self, progress: &Progress<'_>) {
        let pace = if self.is_terminal { LIVE_INTERVAL } else { LINE_INTERVAL };
        if self.last_update.is_some_and(|shown| shown.elapsed() < pace) {
            return;
        }
        self.last_update = Some(Instant::now());
        self.warn_once(progress.curve.divergence());
        let (step, steps) = (progress.step, progress.plan.steps());
        let left = progress.seconds * (steps - step) as f64 / step.max(1) as f64;
        let pace = format::step_rate(step as f64, progress.seconds);
        let line = format!("step {step} of {steps}; {pace}, {left:.0} s left");
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        } else {
            self.print_line(&line)
        }
    }

    fn on_warning(&mut self, error: &Error) {
        self.print_line(&format!("the run is trained, but: {error}"));
    }

    fn on_finish(&mut self, run: &Run) {
        let record = run.record();
        // A short run may end before its first line.
        self.warn_once(record.curve.divergence());
        let waiting = record.waiting_fraction().map_or(String::new(), |share| {
            format!(", {:.1} % of them waiting for files", 100.0 * share)
        });
        let time = match run.plan().selection() {
            // It would tell how many trials there were.
            Some(_) => String::new(),
            None => format!("{:.1} s{waiting}; ", record.seconds),
        };
        self.print_line(&format!("{time}run {}", record.id));
    }
}
