//! What a grid tells the world while it goes.

use super::result::{CellResult, CellRun};
use crate::Error;

/// Where a grid stands.
#[derive(Clone, Copy, Debug)]
pub struct GridProgress<'a> {
    /// Runs that have ended, shown again or failed ones included.
    pub done: usize,
    /// Runs in all.
    pub all: usize,
    /// The present cell: method, epsilon, rates.
    pub cell: &'a CellResult,
    /// The present seed.
    pub seed: u64,
    /// Steps that the present run has taken.
    pub step: u64,
    /// Steps it will take.
    pub steps: u64,
    /// Seconds since the grid began.
    pub seconds: f64,
    /// Expected seconds until its end, from the runs that were trained so far; `None` before the
    /// first of them.
    pub seconds_left: Option<f64>,
    /// What there is so far, cell by cell.
    pub cells: &'a [CellResult],
}

/// Told what happens in a grid.
pub trait GridObserver {
    /// A run has begun or taken a step; implementations decide how often to draw.
    fn progressed(&mut self, _progress: &GridProgress<'_>) {}
    /// A run has ended: was trained, found in the store, or failed.
    fn ended(&mut self, _progress: &GridProgress<'_>, _run: Result<&CellRun, &Error>) {}
    /// Something to know that stops nothing: which ledger is charged (once, before the first run),
    /// or what earlier attempts at a run have cost.
    fn noted(&mut self, _words: &str) {}
    /// Something went wrong that takes no run away: one could not be stored, say.
    fn trouble(&mut self, _error: &Error) {}
}

/// An observer that says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl GridObserver for Quiet {}
