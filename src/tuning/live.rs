//! The live display of a tuning.

use super::outcome::Trial;
use crate::Error;
use crate::show::{Bundle, Coverage, LiveDisplay, display, format};
use crate::train::{Observer, Progress};

/// Shows how far a tuning is in one output of the notebook.
#[derive(Default)]
pub(super) struct LiveTuning {
    display: LiveDisplay,
    now: String,
}

impl LiveTuning {
    /// The next run: `step 2, run 3 of 6: learning rate 0.1, clip norm 1`.
    pub(super) fn begins(&mut self, step: &str, run: usize, runs: usize, trial: &Trial) {
        let rate = format::significant(trial.learning_rate, 3);
        let clip = trial.clip.map(|clip| format!(", clip norm {}", format::significant(clip, 3)));
        let clip = clip.unwrap_or_default();
        self.now = format!("{step}: run {run} of {runs}, learning rate {rate}{clip}");
        self.display.update(&Bundle::text(&self.now));
    }

    pub(super) fn finish(&self) {
        self.display
            .finish(&Bundle::text("The tuning is finished.").with_coverage(Coverage::Public));
    }
}

impl Observer for LiveTuning {
    fn progressed(&mut self, progress: &Progress<'_>) {
        if self.display.is_due() {
            let (step, steps) = (progress.step, progress.plan.steps());
            self.display.update(&Bundle::text(format!("{}: step {step}/{steps}", self.now)));
        }
    }

    fn trouble(&mut self, error: &Error) {
        display(&Bundle::text(format!("the run is trained, but: {error}")));
    }
}
