//! Progress of a run, carried along from step to step.

use std::time::{Duration, Instant};

use crate::Error;
use crate::methods::Plan;
use crate::train::{Curve, Progress};

/// Progress of a run.
pub(super) struct RunTracker<'a> {
    pub(super) plan: &'a Plan,
    /// Number of steps whose result was used.
    pub(super) steps: u64,
    /// The measurements so far.
    pub(super) curve: Curve,
    /// The clip norm of every step, of a method that adapts it.
    pub(super) thresholds: Vec<f64>,
    /// The error of a read that left a gap in the curve or, without privacy, an example out.
    pub(super) first_error: Option<Error>,
    /// Time that the steps waited for features from files; `None` if these are in memory. Before
    /// the end, only that of the processes before this one.
    pub(super) wait_time: Option<Duration>,
    /// Seconds before this process took over.
    prior_seconds: f64,
    started_at: Instant,
}

impl<'a> RunTracker<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let (curve, start) = (Curve::default(), Instant::now());
        let thresholds = Vec::new();
        let (steps, before) = (0, 0.0);
        Self {
            plan,
            steps,
            curve,
            thresholds,
            first_error: None,
            wait_time: None,
            prior_seconds: before,
            started_at: start,
        }
    }

    /// Resumes after `steps` steps that took `seconds`, and waited that long for features.
    pub(super) fn resume(
        &mut self,
        steps: u64,
        (seconds, waited): (f64, Option<f64>),
        (curve, thresholds): (Curve, Vec<f64>),
    ) {
        self.steps = steps;
        self.prior_seconds = seconds;
        self.wait_time = waited.map(Duration::from_secs_f64);
        self.curve = curve;
        self.thresholds = thresholds;
    }

    /// Returns the time that the steps waited in all, if those of this process waited `now`.
    pub(super) fn total_wait(&self, now: Option<Duration>) -> Option<Duration> {
        now.map(|now| now + self.wait_time.unwrap_or_default())
    }

    pub(super) fn elapsed_seconds(&self) -> f64 {
        self.prior_seconds + self.started_at.elapsed().as_secs_f64()
    }

    pub(super) fn progress(&self) -> Progress<'_> {
        let (step, seconds) = (self.steps, self.elapsed_seconds());
        Progress { plan: self.plan, step, curve: &self.curve, seconds }
    }
}
