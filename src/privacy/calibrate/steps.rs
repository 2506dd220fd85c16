//! How long a training run may be.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::search::{Outcome, Parameter, Search, infeasible};
use super::{check_reachable, training};
use crate::privacy::digits::Rounded;
use crate::privacy::{Accountant, Delta, Epsilon, NoiseMultiplier, SamplingRate};
use crate::{Error, Result};

/// More steps than any number counts exactly; beyond them nothing is looked for.
const MAX_STEPS: f64 = (1u64 << 53) as f64;

/// The length of a training run, said in one of two ways.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// So many steps.
    Steps(u64),
    /// Enough steps for every example to be drawn so often on average: ceil(epochs / q).
    Epochs(f64),
}

impl Length {
    /// The number of steps at a sampling rate, at least 1.
    ///
    /// # Errors
    /// Kind `Setting` for a sampling rate or a length outside its range.
    pub fn steps(self, sampling_rate: SamplingRate) -> Result<u64> {
        let rate = sampling_rate.check()?.0;
        let steps = match self {
            Length::Steps(0) => {
                return Err(Error::setting("steps", 0, "nothing would ever be released")
                    .fix("train for at least 1 step"));
            }
            Length::Steps(steps) => return Ok(steps),
            Length::Epochs(epochs) if epochs > 0.0 && epochs.is_finite() => {
                // A quotient that is whole may come out a rounding error above.
                (epochs / rate - 1e-9).ceil().max(1.0)
            }
            Length::Epochs(epochs) => {
                return Err(Error::setting("epochs", epochs, "it must be a finite number above 0")
                    .fix("take for example 10"));
            }
        };
        if steps > MAX_STEPS {
            let why = format!("at sampling rate {sampling_rate} that is {steps:e} steps");
            return Err(Error::setting("epochs", epochs_of(self), why).fix("train for less long"));
        }
        Ok(steps as u64)
    }
}

fn epochs_of(length: Length) -> f64 {
    match length {
        Length::Epochs(epochs) => epochs,
        Length::Steps(steps) => steps as f64,
    }
}

/// A number of steps and the epsilon it truly costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedSteps {
    /// The most steps that meet the target; beyond a million, at most a millionth fewer.
    pub steps: u64,
    /// The same as passes over the data: steps times the sampling rate.
    pub epochs: f64,
    /// The epsilon of exactly so many steps, at most the target.
    pub epsilon: f64,
    /// Name of the accountant that found it.
    pub accountant: String,
}

impl fmt::Display for CalibratedSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, epochs, epsilon, accountant } = self;
        let plural = if *steps == 1 { "" } else { "s" };
        let epsilon = Rounded(*epsilon);
        write!(f, "{steps} step{plural} ({epochs:.2} epochs) cost epsilon {epsilon} ({accountant})")
    }
}

/// The largest number of Poisson-sampled Gaussian steps that stay within (`target`, `delta`), up
/// to 2^53.
///
/// # Errors
/// Kind `Setting` for a number outside its range; kind `Accounting` if a single step already
/// costs more.
///
/// # Guarantee
/// The result errs on the safe side: its epsilon was evaluated by the same accountant and is at
/// most `target`. Neighbouring relation and assumptions are the accountant's.
///
/// ```
/// use epsilab::privacy::{Delta, Epsilon, NoiseMultiplier, Rdp, SamplingRate, steps_for};
/// let found = steps_for(
///     Epsilon(3.0), Delta(1e-5), SamplingRate(0.01), NoiseMultiplier(1.0), &Rdp::default(),
/// )?;
/// assert!(found.epsilon <= 3.0 && (2000..3000).contains(&found.steps), "{found}");
/// # Ok::<(), epsilab::Error>(())
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
        target: target.0,
        parameter: Parameter {
            range: (1.0, MAX_STEPS),
            increasing_is_safer: false,
            integer: true,
            tolerance: 1e-6,
            initial: 1000.0,
            elasticity: 0.6,
        },
        epsilon: &|steps, accountant| {
            let event = training(rate, noise, steps as u64);
            accountant.epsilon(&[event], delta).map(|spent| spent.epsilon)
        },
    };
    match search.solve(accountant)? {
        Outcome::Found { value, epsilon } => Ok(CalibratedSteps {
            steps: value as u64,
            epochs: value * rate.0,
            epsilon,
            accountant: accountant.name().to_string(),
        }),
        Outcome::Infeasible { epsilon } => {
            let why = format!("a single step already costs epsilon {}", Rounded(epsilon));
            Err(infeasible("number of steps", target, accountant, why)
                .fix("use more noise, a smaller batch, or ask for a larger epsilon or delta"))
        }
    }
}
