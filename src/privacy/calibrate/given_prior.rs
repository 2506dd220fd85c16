//! Calibration of the noise of a training run that shares its privacy budget with other releases.

use super::{Calibrated, at_least_one, smallest_noise_multiplier, training};
use crate::privacy::digits::Rounded;
use crate::privacy::{Accountant, Delta, Epsilon, Event, SamplingRate};
use crate::{Error, ErrorKind, Result};

/// The smallest noise multiplier for which `steps` steps of the Poisson-subsampled Gaussian
/// mechanism, composed with the releases in `prior` on the same data, are (`target`,
/// `delta`)-differentially private.
///
/// # Errors
/// As [`noise_multiplier_for`](super::noise_multiplier_for). Kind `Accounting` also if `prior`
/// alone costs as much as the target, or if the accountant does not support it.
///
/// # Guarantee
/// The accountant has evaluated the epsilon of all releases together, and it is at most `target`.
/// The neighbouring relation and the assumptions are those of the accountant. `prior` and the
/// number of steps must not depend on the data.
///
/// ```
/// use epsilab::privacy::{Delta, Epsilon, Event, Rdp, SamplingRate, noise_multiplier_given_prior};
/// let mask = Event::gaussian(8.0);
/// let (target, delta, rate) = (Epsilon(3.0), Delta(1e-5), SamplingRate(2048.0 / 60_000.0));
/// let accountant = Rdp::default();
/// let beside = noise_multiplier_given_prior(&[mask], target, delta, rate, 879, &accountant)?;
/// let alone = noise_multiplier_given_prior(&[], target, delta, rate, 879, &accountant)?;
/// assert!(beside.epsilon <= 3.0 && beside.noise_multiplier.0 > alone.noise_multiplier.0);
/// # Ok::<(), epsilab::Error>(())
/// ```
pub fn noise_multiplier_given_prior(
    prior: &[Event],
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<Calibrated> {
    let (target, delta) = (target.check()?, delta.check()?);
    let sampling_rate = sampling_rate.check()?;
    at_least_one("steps", steps)?;
    if !prior.is_empty() {
        let spent = accountant.epsilon(prior, delta)?;
        if spent.epsilon >= target.0 {
            let cost = Rounded(spent.epsilon);
            let what = format!(
                "the releases before the training cost epsilon {cost} ({})",
                spent.accountant
            );
            let why = format!(
                "the total target is {target} at delta {delta}: nothing is left for training"
            );
            return Err(Error::new(ErrorKind::Accounting, what, why)
                .fix("add more noise to those releases, or use a larger target epsilon"));
        }
    }
    let events = |noise_multiplier| {
        let mut all = prior.to_vec();
        all.push(training(sampling_rate, noise_multiplier, steps));
        Ok(all)
    };
    smallest_noise_multiplier(target, delta, &events, accountant)
}
