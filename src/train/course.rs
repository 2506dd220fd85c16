//! What a run carries along from step to step.

use std::time::{Duration, Instant};

use crate::Error;
use crate::methods::Plan;
use crate::train::{Curve, Progress};

/// How far a run has come.
pub(super) struct Course<'a> {
    pub(super) plan: &'a Plan,
    /// Number of steps whose result was used.
    pub(super) steps: u64,
    /// The measurements so far.
    pub(super) curve: Curve,
    /// The clip threshold of every step, of a method that adapts it.
    pub(super) thresholds: Vec<f64>,
    /// The error of a read that left a gap in the curve or, without privacy, an example out.
    pub(super) trouble: Option<Error>,
    /// How long the steps waited for features from files; `None` if these are in memory.
    pub(super) waited: Option<Duration>,
    start: Instant,
}

impl<'a> Course<'a> {
    pub(super) fn start(plan: &'a Plan) -> Self {
        let (curve, start) = (Curve::default(), Instant::now());
        let thresholds = Vec::new();
        Self { plan, steps: 0, curve, thresholds, trouble: None, waited: None, start }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    pub(super) fn progress(&self) -> Progress<'_> {
        let (step, seconds) = (self.steps, self.seconds());
        Progress { plan: self.plan, step, curve: &self.curve, seconds }
    }
}
