//! Calibration of the noise: of a constant noise multiplier and of the first one of a schedule,
//! with or without earlier releases.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::check_reachable;
use super::search::{Search, SearchParameter};
use crate::digits::RoundedUp;
use crate::{
    Accountant, Delta, Epsilon, Event, NoiseMultiplier, Rdp, SamplingRate, Stages, Trials,
};
use crate::{Error, ErrorKind, Result};

/// Relative tolerance above the smallest noise multiplier.
pub(super) const TOLERANCE: f64 = 1e-5;

/// Range of the search for a noise multiplier.
const RANGE: (f64, f64) = (1e-9, 1e12);

/// A calibrated noise multiplier and its epsilon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedNoise {
    /// The noise multiplier, at most a factor 1 + 1e-5 above the smallest that meets the target.
    /// For a schedule, the initial noise multiplier.
    pub noise_multiplier: NoiseMultiplier,
    /// The epsilon of this noise multiplier, at most the target.
    pub epsilon: f64,
    /// Name of the accountant.
    pub accountant: String,
}

impl fmt::Display for CalibratedNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "noise multiplier {} gives epsilon {} ({})",
            RoundedUp(self.noise_multiplier.0),
            RoundedUp(self.epsilon),
            self.accountant
        )
    }
}

/// Computes the smallest factor on the noise multipliers of `relative` for which these stages,
/// composed with the releases in `prior` on the same data, are (`target`, `delta`)-differentially
/// private.
///
/// For a table made with the initial noise multiplier 1 the factor is the initial noise multiplier,
/// and [`Stages::scaled`] by it has the same values as the table made with it.
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if the target is at or below
/// the accountant's floor, if `prior` alone costs as much as the target, if the accountant does not
/// support it, or if the target cannot be reached for another reason.
///
/// # Guarantee
/// The accountant has evaluated the epsilon of all releases together, and it is at most `target`.
/// The neighbouring relation and the assumptions are those of the accountant. `prior` and the
/// stages must not depend on the data.
///
/// ```
/// use epsilab_accounting::{
///     ClipSchedule, Delta, Epsilon, Event, NoiseMultiplier, NoiseSchedule, Rdp, SamplingRate,
///     Stages, noise_multiplier_for_stages,
/// };
/// let (rate, steps) = (SamplingRate(2048.0 / 60_000.0), 879);
/// let (noise, clip) = (NoiseSchedule::linear(0.99), ClipSchedule::constant());
/// let relative = Stages::from_schedules(&noise, &clip, NoiseMultiplier(1.0), rate, steps)?;
/// let (mask, target, delta) = ([Event::gaussian(8.0)], Epsilon(3.0), Delta(1e-5));
/// let found =
///     noise_multiplier_for_stages(&mask, &relative, target, delta, rate, &Rdp::default())?;
/// let stages = relative.scaled(found.noise_multiplier.0)?;
/// assert_eq!(stages, Stages::from_schedules(&noise, &clip, found.noise_multiplier, rate, steps)?);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
pub fn noise_multiplier_for_stages(
    prior: &[Event],
    relative: &Stages,
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    accountant: &dyn Accountant,
) -> Result<CalibratedNoise> {
    let sampling_rate = sampling_rate.check()?;
    let event = |stages: &Stages| stages.event(sampling_rate, stages.steps());
    noise_multiplier_for_events(prior, relative, target, delta, &event, accountant)
}

/// Computes the factor of [`noise_multiplier_for_stages`] for steps that release `event` of their
/// stages.
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if the accountant does not
/// support the releases, or the target can't be reached.
///
/// # Guarantee
/// As [`noise_multiplier_for_stages`], if `event` returns everything that the steps of the given
/// stages release.
pub fn noise_multiplier_for_events(
    prior: &[Event],
    relative: &Stages,
    target: Epsilon,
    delta: Delta,
    event: &dyn Fn(&Stages) -> Event,
    accountant: &dyn Accountant,
) -> Result<CalibratedNoise> {
    let delta = delta.check()?;
    let target = check_reachable("noise multiplier", target, delta, accountant)?;
    check_prior(prior, target, delta, accountant)?;
    let search = Search {
        what: "noise multiplier",
        target,
        parameter: SearchParameter {
            range: RANGE,
            increasing_is_safer: true,
            integer: false,
            tolerance: TOLERANCE,
            initial: 1.0,
            elasticity: 1.5,
        },
        unreachable: &format!("a noise multiplier of {:e} still costs epsilon", RANGE.1),
        advice: "use a larger epsilon or delta, or fewer steps",
        epsilon: &|factor, accountant| {
            let mut events = prior.to_vec();
            events.push(event(&relative.scaled(factor)?));
            accountant.epsilon(&events, delta).map(|spent| spent.epsilon)
        },
    };
    let (value, epsilon) = search.solve(accountant)?;
    let noise_multiplier = NoiseMultiplier(value);
    Ok(CalibratedNoise { noise_multiplier, epsilon, accountant: accountant.name().to_string() })
}

/// Computes the smallest noise multiplier for which `steps` steps of the Poisson-subsampled
/// Gaussian mechanism are (`target`, `delta`)-differentially private.
///
/// # Errors
/// Kind `Setting` for a number outside its range and for zero steps. Kind `Accounting` if the
/// accountant does not support the releases, or the target can't be reached.
///
/// # Guarantee
/// As [`noise_multiplier_for_stages`].
///
/// ```
/// use epsilab_accounting::{Delta, Epsilon, Rdp, SamplingRate, noise_multiplier_for};
/// let found = noise_multiplier_for(
///     Epsilon(3.0), Delta(1e-5), SamplingRate(2048.0 / 60_000.0), 879, &Rdp::default(),
/// )?;
/// assert!(found.epsilon <= 3.0 && (found.noise_multiplier.0 - 1.72).abs() < 0.01);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
pub fn noise_multiplier_for(
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<CalibratedNoise> {
    noise_multiplier_given_prior(&[], target, delta, sampling_rate, steps, accountant)
}

/// Computes the smallest noise multiplier for which `steps` steps of the Poisson-subsampled
/// Gaussian mechanism, composed with the releases in `prior` on the same data, are (`target`,
/// `delta`)-differentially private.
///
/// # Errors
/// Kind `Setting` for a number outside its range and for zero steps. Kind `Accounting` if the
/// accountant does not support the releases, or the target can't be reached.
///
/// # Guarantee
/// As [`noise_multiplier_for_stages`].
///
/// ```
/// use epsilab_accounting::{
///     Delta, Epsilon, Event, Rdp, SamplingRate, noise_multiplier_given_prior,
/// };
/// let mask = Event::gaussian(8.0);
/// let (target, delta, rate) = (Epsilon(3.0), Delta(1e-5), SamplingRate(2048.0 / 60_000.0));
/// let accountant = Rdp::default();
/// let beside = noise_multiplier_given_prior(&[mask], target, delta, rate, 879, &accountant)?;
/// let alone = noise_multiplier_given_prior(&[], target, delta, rate, 879, &accountant)?;
/// assert!(beside.epsilon <= 3.0 && beside.noise_multiplier.0 > alone.noise_multiplier.0);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
pub fn noise_multiplier_given_prior(
    prior: &[Event],
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<CalibratedNoise> {
    let one = Stages::constant(NoiseMultiplier(1.0), steps)?;
    noise_multiplier_for_stages(prior, &one, target, delta, sampling_rate, accountant)
}

/// Computes the smallest noise multiplier for which the best of a random number of trials, each of
/// `steps` steps of the Poisson-subsampled Gaussian mechanism, is (`target`,
/// `delta`)-differentially private: one epsilon for all trials together.
///
/// # Errors
/// Kind `Setting` for a number outside its range, zero steps, and a distribution of the number of
/// trials that is out of range. Kind `Accounting` if the accountant does not support the releases,
/// or the target can't be reached.
///
/// # Guarantee
/// As [`noise_multiplier_for_stages`] by [`Rdp`] for one example added or removed, if only the best
/// trial is shown, and not how many there were ([`Event::PrivateSelection`]).
///
/// ```
/// use epsilab_accounting::{
///     Delta, Epsilon, SamplingRate, Trials, noise_multiplier_for, noise_multiplier_for_best_of,
/// };
/// let (target, delta, rate) = (Epsilon(3.0), Delta(1e-5), SamplingRate(2048.0 / 60_000.0));
/// let best =
///     noise_multiplier_for_best_of(Trials::geometric(10.0), target, delta, rate, 879)?;
/// let one = noise_multiplier_for(target, delta, rate, 879, &epsilab_accounting::Rdp::default())?;
/// // The best of ten on average needs a quarter more noise or so, not the noise of ten runs.
/// let factor = best.noise_multiplier.0 / one.noise_multiplier.0;
/// assert!(factor > 1.1 && factor < 2.0, "{factor}");
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
pub fn noise_multiplier_for_best_of(
    trials: Trials,
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    steps: u64,
) -> Result<CalibratedNoise> {
    let (trials, rate) = (*trials.check()?, sampling_rate.check()?);
    let one = Stages::constant(NoiseMultiplier(1.0), steps)?;
    let event = |stages: &Stages| stages.event(rate, stages.steps()).best_of(trials);
    // No other accountant supports a selection.
    noise_multiplier_for_events(&[], &one, target, delta, &event, &Rdp::default())
}

/// Checks that the releases in `prior` leave a part of the target.
///
/// # Errors
/// Kind `Accounting` if the releases in `prior` leave nothing of the target.
fn check_prior(
    prior: &[Event],
    target: Epsilon,
    delta: Delta,
    accountant: &dyn Accountant,
) -> Result<()> {
    if prior.is_empty() {
        return Ok(());
    }
    let spent = accountant.epsilon(prior, delta)?;
    if spent.epsilon < target.0 {
        return Ok(());
    }
    let cost = RoundedUp(spent.epsilon);
    let what =
        format!("the releases before the training cost epsilon {cost} ({})", spent.accountant);
    let why =
        format!("the total target is {target} at delta {delta}: nothing is left for training");
    Err(Error::new(ErrorKind::Accounting, what, why)
        .fix("add more noise to those releases, or use a larger target epsilon"))
}
