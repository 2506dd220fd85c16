//! Measurements during a run.

use serde::{Deserialize, Serialize};

/// Measurements after one step; those not taken at that step are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Steps taken so far.
    pub step: u64,
    /// Mean training loss of the batches since the last point. No epsilon covers it.
    pub loss: Option<f64>,
    /// Accuracy on the test part, in [0, 1].
    pub test_accuracy: Option<f64>,
    /// Epsilon spent by this run so far, at the plan's delta; `None` without privacy.
    pub epsilon: Option<f64>,
    /// L2 norm of the parameters over that of the initial parameters, which counts as 5 if it is
    /// smaller. Runs stored before this was recorded have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_ratio: Option<f64>,
    /// Mean clip norm of the steps since the last point, for methods that adapt it. Covered by
    /// the run's epsilon, if it has one; otherwise computed from the examples without noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Mean L2 norm of the examples' gradients before clipping, over the steps since the last
    /// point, where the method computes it. No epsilon covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<f64>,
}

/// The points of a run, in order of steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Curve {
    /// The points.
    pub points: Vec<CurvePoint>,
}

impl Curve {
    /// Returns the `(step, value)` pairs of one measurement, where it was taken.
    pub(crate) fn series(&self, value: impl Fn(&CurvePoint) -> Option<f64>) -> Vec<(f64, f64)> {
        self.points.iter().filter_map(|p| value(p).map(|v| (p.step as f64, v))).collect()
    }

    /// Returns the last measured test accuracy.
    pub fn last_accuracy(&self) -> Option<f64> {
        self.points.iter().rev().find_map(|p| p.test_accuracy)
    }
}
