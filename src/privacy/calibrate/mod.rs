//! Calibration: solves for one of noise multiplier, steps, batch size, delta and epsilon, given the
//! others.
//!
//! | result | function | optimality |
//! |---|---|---|
//! | noise multiplier | [`noise_multiplier_for`] | the smallest |
//! | initial noise multiplier | [`noise_multiplier_for_schedule`] | the smallest |
//! | noise multiplier with a prior | [`noise_multiplier_given_prior`] | the smallest |
//! | steps | [`steps_for`] | the largest |
//! | batch size | [`batch_size_for`] | the largest |
//! | delta | [`delta_for`] | the smallest |
//! | epsilon | [`epsilon_for`] | that of the accountant |
//!
//! Every result is conservative: the accountant has evaluated it, and its epsilon is at most the
//! target. The result holds that epsilon. Each function documents how close the result is to the
//! optimum.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::digits::Rounded;
use super::{
    Accountant, Delta, Epsilon, Event, NoiseMultiplier, NoiseSchedule, SamplingRate, Spent,
};
use crate::{Error, Result};

mod batch_size;
mod delta;
mod given_prior;
mod search;
mod steps;
#[cfg(test)]
mod tests;

pub use batch_size::{CalibratedBatchSize, batch_size_for};
pub use delta::{CalibratedDelta, delta_for};
pub use given_prior::noise_multiplier_given_prior;
use search::{Outcome, Parameter, Search, infeasible};
pub use steps::{CalibratedSteps, Length, steps_for};

/// Relative tolerance above the smallest noise multiplier.
const TOLERANCE: f64 = 1e-5;

/// Range of the search for a noise multiplier.
const RANGE: (f64, f64) = (1e-9, 1e12);

/// A calibrated noise multiplier and its epsilon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The noise multiplier, at most a factor 1 + 1e-5 above the smallest that meets the target.
    /// For a schedule, the initial noise multiplier.
    pub noise_multiplier: NoiseMultiplier,
    /// The epsilon of this noise multiplier, at most the target.
    pub epsilon: f64,
    /// Name of the accountant.
    pub accountant: String,
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "noise multiplier {} gives epsilon {} ({})",
            Rounded(self.noise_multiplier.0),
            Rounded(self.epsilon),
            self.accountant
        )
    }
}

/// The smallest noise multiplier for which `steps` steps of the Poisson-subsampled Gaussian
/// mechanism are (`target`, `delta`)-differentially private.
///
/// # Errors
/// Kind `Setting` for a number outside its range or zero steps. Kind `Accounting` if the target is
/// at or below the accountant's floor, or cannot be reached for another reason.
///
/// # Guarantee
/// The accountant has evaluated the result, and its epsilon is at most `target`. The neighbouring
/// relation and the assumptions are those of the accountant.
///
/// ```
/// use epsilab::privacy::{Delta, Epsilon, Rdp, SamplingRate, noise_multiplier_for};
/// let found = noise_multiplier_for(
///     Epsilon(3.0), Delta(1e-5), SamplingRate(2048.0 / 60_000.0), 879, &Rdp::default(),
/// )?;
/// assert!(found.epsilon <= 3.0 && (found.noise_multiplier.0 - 1.72).abs() < 0.01);
/// # Ok::<(), epsilab::Error>(())
/// ```
pub fn noise_multiplier_for(
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<Calibrated> {
    let sampling_rate = sampling_rate.check()?;
    let events = |noise_multiplier| Ok(vec![training(sampling_rate, noise_multiplier, steps)]);
    at_least_one("steps", steps)?;
    smallest_noise_multiplier(target, delta, &events, accountant)
}

/// The smallest initial noise multiplier for which `epochs` epochs of `schedule` are (`target`,
/// `delta`)-differentially private.
///
/// # Errors
/// As [`noise_multiplier_for`], and those of [`NoiseSchedule::events`].
///
/// # Guarantee
/// As [`noise_multiplier_for`]. The schedule is fixed before training and must not depend on the
/// data.
pub fn noise_multiplier_for_schedule(
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    schedule: &NoiseSchedule,
    epochs: u64,
    accountant: &dyn Accountant,
) -> Result<Calibrated> {
    at_least_one("epochs", epochs)?;
    // Rejects an invalid rate, and a schedule that overflows or underflows.
    schedule.events(NoiseMultiplier(1.0), sampling_rate, epochs)?;
    let events = |noise_multiplier| schedule.events(noise_multiplier, sampling_rate, epochs);
    smallest_noise_multiplier(target, delta, &events, accountant)
}

/// The epsilon of `steps` steps of the Poisson-subsampled Gaussian mechanism at `delta`.
///
/// # Errors
/// As [`Accountant::epsilon`].
///
/// # Guarantee
/// That of the accountant.
pub fn epsilon_for(
    delta: Delta,
    sampling_rate: SamplingRate,
    noise_multiplier: NoiseMultiplier,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<Spent> {
    accountant.epsilon(&[training(sampling_rate, noise_multiplier, steps)], delta)
}

fn smallest_noise_multiplier(
    target: Epsilon,
    delta: Delta,
    events: &dyn Fn(NoiseMultiplier) -> Result<Vec<Event>>,
    accountant: &dyn Accountant,
) -> Result<Calibrated> {
    let target = check_reachable("noise multiplier", target, delta, accountant)?;
    let search = Search {
        target: target.0,
        parameter: Parameter {
            range: RANGE,
            increasing_is_safer: true,
            integer: false,
            tolerance: TOLERANCE,
            initial: 1.0,
            elasticity: 1.5,
        },
        epsilon: &|sigma, accountant| {
            accountant.epsilon(&events(NoiseMultiplier(sigma))?, delta).map(|spent| spent.epsilon)
        },
    };
    match search.solve(accountant)? {
        Outcome::Found { value, epsilon } => Ok(Calibrated {
            noise_multiplier: NoiseMultiplier(value),
            epsilon,
            accountant: accountant.name().to_string(),
        }),
        Outcome::Infeasible { epsilon } => {
            let why = format!(
                "a noise multiplier of {:e} still costs epsilon {}",
                RANGE.1,
                Rounded(epsilon)
            );
            Err(infeasible("noise multiplier", target, accountant, why)
                .fix("use a larger epsilon or delta, or fewer steps"))
        }
    }
}

fn training(sampling_rate: SamplingRate, noise_multiplier: NoiseMultiplier, steps: u64) -> Event {
    Event::PoissonGaussian {
        sampling_rate: sampling_rate.0,
        noise_multiplier: noise_multiplier.0,
        steps,
    }
}

/// Returns the target if it is in range and above the accountant's floor.
fn check_reachable(
    what: &str,
    target: Epsilon,
    delta: Delta,
    accountant: &dyn Accountant,
) -> Result<Epsilon> {
    let target = target.check()?;
    let floor = accountant.floor(delta.check()?)?;
    if target.0 > floor {
        return Ok(target);
    }
    let why = format!("at delta {delta} this accountant reports at least {floor:.4}");
    Err(infeasible(what, target, accountant, why)
        .fix("use a larger epsilon or delta, or a longer list of orders"))
}

fn at_least_one(name: &str, value: u64) -> Result<()> {
    if value == 0 {
        let why = "there is nothing to calibrate with 0";
        return Err(Error::setting(name, value, why).fix("use at least 1"));
    }
    Ok(())
}
