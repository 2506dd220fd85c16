//! Progress of long reads, as lines on standard error.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::digest::format_count;

/// Seconds between lines, and before the first: shorter jobs print nothing.
const EVERY: u64 = 5;

/// Counter of finished items, for any number of threads.
pub(super) struct ProgressPrinter {
    what: &'static str,
    total: usize,
    done: AtomicUsize,
    started: Instant,
    /// Seconds after the start at which the next line is due.
    due: AtomicU64,
}

impl ProgressPrinter {
    /// Creates the progress over `total` items; `what` is the end of the line: `images checked`.
    pub(super) fn new(what: &'static str, total: usize) -> Self {
        let (done, due) = (AtomicUsize::new(0), AtomicU64::new(EVERY));
        Self { what, total, done, started: Instant::now(), due }
    }

    /// Counts one more finished item.
    pub(super) fn increment(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(line) = self.line(done, self.started.elapsed()) {
            eprintln!("{line}");
        }
    }

    /// Returns the line to print, if one is due; only one thread gets it.
    fn line(&self, done: usize, elapsed: Duration) -> Option<String> {
        let (now, due) = (elapsed.as_secs(), self.due.load(Ordering::Relaxed));
        if now < due || done >= self.total {
            return None;
        }
        let next = now + EVERY;
        let exchanged = self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        exchanged.ok()?;
        Some(format!("{} of {} {}", format_count(done), format_count(self.total), self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_job_prints_no_progress_and_a_long_one_a_line_every_few_seconds() {
        let progress = ProgressPrinter::new("images checked", 2_000);
        let line = |done, seconds| progress.line(done, Duration::from_secs(seconds));
        assert_eq!(line(1, 0), None);
        assert_eq!(line(900, 4), None);
        assert_eq!(line(1_000, 5).unwrap(), "1,000 of 2,000 images checked");
        assert_eq!(line(1_001, 5), None, "said once");
        assert_eq!(line(1_400, 9), None);
        assert_eq!(line(1_500, 31).unwrap(), "1,500 of 2,000 images checked");
        assert_eq!(line(1_600, 35), None);
        assert_eq!(line(2_000, 60), None, "all is done");
    }
}
