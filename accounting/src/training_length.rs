//! The length of a run in steps or epochs.

use serde::{Deserialize, Serialize};

use super::SamplingRate;
use crate::{Error, Result};

/// Largest number of steps that a float represents exactly.
pub(crate) const MAX_STEPS: f64 = (1u64 << 53) as f64;

/// The length of a training run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainingLength {
    /// A number of steps.
    Steps(u64),
    /// A number of epochs e at sampling rate q: ceil(e / q) steps. Every example is drawn e times
    /// in expectation, or slightly more where a step is rounded up.
    Epochs(f64),
}

impl TrainingLength {
    /// Computes the number of steps at a sampling rate, at least 1.
    ///
    /// # Errors
    /// Kind `Setting` for a sampling rate or a length out of range.
    pub fn steps(self, sampling_rate: SamplingRate) -> Result<u64> {
        let rate = sampling_rate.check()?.0;
        let epochs = match self {
            TrainingLength::Steps(0) => {
                return Err(Error::setting("steps", 0, "with 0 steps nothing is released")
                    .fix("train for at least 1 step"));
            }
            TrainingLength::Steps(steps) => return Ok(steps),
            TrainingLength::Epochs(epochs) => epochs,
        };
        if !(epochs > 0.0 && epochs.is_finite()) {
            let why = "the number of epochs must be finite and above 0";
            return Err(Error::setting("epochs", epochs, why).fix("use for example 10"));
        }
        // An exact quotient may be rounded up.
        let steps = (epochs / rate - 1e-9).ceil().max(1.0);
        if steps > MAX_STEPS {
            let why = format!("at sampling rate {sampling_rate} that is {steps:e} steps: too many");
            return Err(Error::setting("epochs", epochs, why).fix("train for fewer epochs"));
        }
        Ok(steps as u64)
    }
}
