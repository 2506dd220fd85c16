//! Notifications of a grid.

use super::result::{CellResult, CellRun};
use crate::Error;

/// The progress of a grid.
#[derive(Clone, Copy, Debug)]
pub struct GridProgress<'a> {
    /// Number of runs that have ended, including restored and failed runs.
    pub completed: usize,
    /// Number of all runs.
    pub total: usize,
    /// Number of runs that are being trained at the moment.
    pub running: usize,
    /// Number of runs that have failed; they are among those that have ended.
    pub failed: usize,
    /// Case of the reported run: method, epsilon, rates.
    pub cell: &'a CellResult,
    /// Seed of the reported run.
    pub seed: u64,
    /// Number of steps that the reported run has taken.
    pub step: u64,
    /// Number of steps of the plan of the reported run.
    pub steps: u64,
    /// Seconds since the grid began; `None` where a case is a private selection, whose time is
    /// secret.
    pub seconds: Option<f64>,
    /// Estimated seconds until the end, from the runs trained so far; `None` before the first of
    /// them and where [`seconds`](Self::seconds) is `None`.
    pub seconds_left: Option<f64>,
    /// All cases with the runs that are finished so far.
    pub cells: &'a [CellResult],
}

/// Receiver of notifications from a grid.
pub trait GridObserver {
    /// Called when a run has begun or taken a step; implementations decide how often to draw.
    fn on_progress(&mut self, _progress: &GridProgress<'_>) {}
    /// Called when a run was trained, found in the store, or failed.
    fn on_run_end(&mut self, _progress: &GridProgress<'_>, _run: Result<&CellRun, &Error>) {}
    /// Called with a remark: which ledger is charged (once, before the first run), or the cost of
    /// earlier attempts at a run.
    fn on_note(&mut self, _text: &str) {}
    /// Called with an error that loses no run, for example that one could not be stored.
    fn on_warning(&mut self, _error: &Error) {}
}

/// An observer that ignores all notifications.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopGridObserver;

impl GridObserver for NoopGridObserver {}
