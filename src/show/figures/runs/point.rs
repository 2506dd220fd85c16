//! Accuracy and epsilon of one run.

use crate::show::{Coverage, run_coverage};
use crate::train::Run;

/// Accuracy and epsilon of one run, as the figures of many runs draw it. A run, the runs of a grid
/// and a project's list of runs give it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPoint {
    /// Method, and the settings that tell series apart: `dp-ssgd, dropped 0.5`.
    pub series: String,
    /// The epsilon that was spent; `None` without a guarantee.
    pub epsilon: Option<f64>,
    /// The epsilon that the noise was calibrated to, if there was one. Runs of a series with the
    /// same target are repetitions.
    pub target: Option<f64>,
    /// Accuracy on the test part, in [0, 1].
    pub accuracy: f64,
    /// Settings and seed of the run, for tooltips.
    pub tooltip: String,
    /// Coverage of the accuracy: what it reveals of private data.
    pub coverage: Coverage,
}

impl From<&Run> for RunPoint {
    fn from(run: &Run) -> Self {
        let plan = run.plan();
        let seed = plan.seed().map_or(String::new(), |seed| format!(", seed {seed}"));
        Self {
            series: plan.method().to_owned(),
            epsilon: run.record().epsilon,
            target: plan.privacy().and_then(|privacy| privacy.target).map(|target| target.0),
            accuracy: run.accuracy(),
            tooltip: format!(
                "{} on {}, learning rate {}, batch {}, {} steps{seed}",
                plan.method(),
                run.record().data,
                plan.learning_rate(),
                plan.expected_batch_size(),
                run.record().steps
            ),
            coverage: run_coverage(run.record()),
        }
    }
}
