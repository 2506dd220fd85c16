//! Calibration: solves for one of noise multiplier, steps, batch size, delta and epsilon, given the
//! others.
//!
//! | result | function | optimality |
//! |---|---|---|
//! | noise multiplier | [`noise_multiplier_for`] | the smallest |
//! | noise multiplier with a prior | [`noise_multiplier_given_prior`] | the smallest |
//! | first noise multiplier of a schedule | [`noise_multiplier_for_stages`] | the smallest |
//! | steps | [`steps_for`] | the largest |
//! | batch size | [`batch_size_for`] | the largest |
//! | delta | [`delta_for`] | the smallest |
//! | epsilon | [`epsilon_for`] | that of the accountant |
//!
//! Every result but that of [`epsilon_for`], which has no target, is conservative: the accountant
//! has evaluated it, and its epsilon, which the result contains, is at most the target. Each
//! function documents how close the result is to the optimum.

pub use super::TrainingLength;
use super::{Accountant, Delta, Epsilon, Event, NoiseMultiplier, PrivacyCost, SamplingRate};
use crate::{Error, Result};

mod batch_size;
mod delta;
mod noise;
mod search;
mod steps;
#[cfg(test)]
mod tests;

pub use batch_size::{CalibratedBatchSize, batch_size_for};
pub use delta::{CalibratedDelta, delta_for};
pub use noise::noise_multiplier_for_events;
pub use noise::{
    CalibratedNoise, noise_multiplier_for, noise_multiplier_for_best_of,
    noise_multiplier_for_stages, noise_multiplier_given_prior,
};
use search::infeasible;
pub use steps::{CalibratedSteps, steps_for};

/// Computes the epsilon of `steps` steps of the Poisson-subsampled Gaussian mechanism at `delta`.
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if no accountant supports the
/// steps, or for an epsilon that overflows.
///
/// # Guarantee
/// That of the accountant.
pub fn epsilon_for(
    delta: Delta,
    sampling_rate: SamplingRate,
    noise_multiplier: NoiseMultiplier,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<PrivacyCost> {
    accountant.epsilon(&[training(sampling_rate, noise_multiplier, steps)], delta)
}

fn training(sampling_rate: SamplingRate, noise_multiplier: NoiseMultiplier, steps: u64) -> Event {
    Event::poisson(sampling_rate.0, noise_multiplier.0, steps)
}

/// Returns the target if it is in range and above the accountant's floor.
fn check_reachable(
    what: &str,
    target: Epsilon,
    delta: Delta,
    accountant: &dyn Accountant,
) -> Result<Epsilon> {
    let target = target.check()?;
    let floor = accountant.epsilon_floor(delta.check()?)?;
    if target.0 > floor {
        return Ok(target);
    }
    let why = format!("at delta {delta} this accountant reports at least {floor:.4}");
    Err(infeasible(what, target, accountant, why)
        .fix("use a larger epsilon or delta, or a longer list of orders"))
}

fn at_least_one(name: &str, value: u64) -> Result<()> {
    if value == 0 {
        let why = "nothing can be calibrated with 0";
        return Err(Error::setting(name, value, why).fix("use at least 1"));
    }
    Ok(())
}
