//! Calibration of the number of steps.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::search::{Search, SearchParameter};
use super::{check_reachable, training};
use crate::Result;
use crate::digits::{RoundedUp, counted_plainly};
use crate::training_length::MAX_STEPS;
use crate::{Accountant, Delta, Epsilon, NoiseMultiplier, SamplingRate};

/// A calibrated number of steps and its epsilon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedSteps {
    /// The largest number of steps that meets the target. Above a million it may be smaller than
    /// that, by a fraction of at most 1e-6.
    pub steps: u64,
    /// The same in epochs: steps times the sampling rate.
    pub epochs: f64,
    /// The epsilon of this number of steps, at most the target.
    pub epsilon: f64,
    /// Name of the accountant.
    pub accountant: String,
}

impl fmt::Display for CalibratedSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, epochs, epsilon, accountant } = self;
        let (steps, epsilon) = (counted_plainly(*steps, "step"), RoundedUp(*epsilon));
        write!(f, "{steps} ({epochs:.2} epochs) cost epsilon {epsilon} ({accountant})")
    }
}

/// Computes the largest number of steps of the Poisson-subsampled Gaussian mechanism that is
/// (`target`, `delta`)-differentially private, up to 2^53.
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if a single step already
/// exceeds the target.
///
/// # Guarantee
/// The accountant has evaluated the result, and its epsilon is at most `target`. The neighbouring
/// relation and the assumptions are those of the accountant.
///
/// ```
/// use epsilab_accounting::{Delta, Epsilon, NoiseMultiplier, Rdp, SamplingRate, steps_for};
/// let found = steps_for(
///     Epsilon(3.0), Delta(1e-5), SamplingRate(0.01), NoiseMultiplier(1.0), &Rdp::default(),
/// )?;
/// assert!(found.epsilon <= 3.0 && (2000..3000).contains(&found.steps), "{found}");
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
pub fn steps_for(
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    noise_multiplier: NoiseMultiplier,
    accountant: &dyn Accountant,
) -> Result<CalibratedSteps> {
    let (rate, noise) = (sampling_rate.check()?, noise_multiplier.check()?);
    let target = check_reachable("number of steps", target, delta, accountant)?;
    let search = Search {
        what: "number of steps",
        target,
        parameter: SearchParameter {
            range: (1.0, MAX_STEPS),
            increasing_is_safer: false,
            integer: true,
            tolerance: 1e-6,
            initial: 1000.0,
            elasticity: 0.6,
        },
        unreachable: "a single step already costs epsilon",
        advice: "use more noise, a smaller batch, or a larger epsilon or delta",
        epsilon: &|steps, accountant| {
            let event = training(rate, noise, steps as u64);
            accountant.epsilon(&[event], delta).map(|spent| spent.epsilon)
        },
    };
    let (value, epsilon) = search.solve(accountant)?;
    Ok(CalibratedSteps {
        steps: value as u64,
        epochs: value * rate.0,
        epsilon,
        accountant: accountant.name().to_string(),
    })
}
