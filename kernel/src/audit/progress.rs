//! The progress bar of an audit, on stderr if it is a terminal.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between updates of the bar.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);
/// Width of the bar in characters.
const WIDTH: usize = 30;

/// Progress bar that shows the number of finished trials; usable from any thread.
pub struct ProgressBar {
    heading: String,
    began: Instant,
    last: Mutex<Instant>,
}

impl ProgressBar {
    /// Creates a bar with this heading; nothing is shown if stderr is no terminal.
    pub fn new(heading: &str) -> Self {
        let (heading, began) = (heading.to_owned(), Instant::now());
        Self { heading, began, last: Mutex::new(began) }
    }
    /// Shows `done` of `total` trials, unless the bar has just been updated.
    pub fn show(&self, done: usize, total: usize) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= UPDATE_INTERVAL {
            *last = Instant::now();
            replace(&line(self, done, total));
        }
    }
}
/// Replaces the bar by a line of text.
pub fn replace(line: &str) {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }
}
fn line(progress: &ProgressBar, done: usize, total: usize) -> String {
    let full = WIDTH * done / total.max(1);
    let left = progress.began.elapsed().as_secs_f64() * (total - done) as f64 / done.max(1) as f64;
    let (bar, rest) = ("#".repeat(full), ".".repeat(WIDTH - full));
    format!("{} [{bar}{rest}] {done} of {total} trials; {left:.0} s left", progress.heading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up() {
        let now = Instant::now();
        let shown = ProgressBar { heading: "dp-sgd".into(), began: now, last: Mutex::new(now) };
        let half = line(&shown, 50, 100);
        assert!(half.starts_with(&format!("dp-sgd [{}{}]", "#".repeat(15), ".".repeat(15))));
        assert!(line(&shown, 0, 100).contains(&".".repeat(30)));
        assert!(line(&shown, 100, 100).ends_with("100 of 100 trials; 0 s left"));
    }
}
