//! Calibration of the batch size.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::search::{Search, SearchParameter};
use super::{TrainingLength, at_least_one, check_reachable, training};
use crate::digits::{RoundedUp, counted_plainly};
use crate::{Accountant, Delta, Epsilon, NoiseMultiplier, SamplingRate};
use crate::{Error, ErrorKind, Result};

/// A calibrated expected batch size and its epsilon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedBatchSize {
    /// The expected batch size.
    pub batch_size: u64,
    /// The sampling rate: batch size divided by the number of examples.
    pub sampling_rate: SamplingRate,
    /// The number of steps with this batch size.
    pub steps: u64,
    /// The epsilon of this run, at most the target.
    pub epsilon: f64,
    /// Name of the accountant.
    pub accountant: String,
}

impl fmt::Display for CalibratedBatchSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch_size, steps, epsilon, accountant, .. } = self;
        let (steps, epsilon) = (counted_plainly(*steps, "step"), RoundedUp(*epsilon));
        write!(f, "batch size {batch_size} for {steps} costs epsilon {epsilon} ({accountant})")
    }
}

/// Computes the largest expected batch size, out of `examples`, for which a run of the given
/// length is (`target`, `delta`)-differentially private.
///
/// With a fixed number of *steps* epsilon increases with the batch size, and the result is the
/// largest batch size. Above a million it may be smaller than that, by a fraction of at most 1e-6.
///
/// With a fixed number of *epochs* a larger batch also means fewer steps, and epsilon is not
/// monotone. It drops at every batch size that saves one whole step, and it may decrease towards
/// the full data set: three epochs with noise multiplier 0.3 have the largest epsilon at a sampling
/// rate of about 1/4. The search therefore tries the full data set first. Otherwise it finds the
/// fewest steps that meet the target, and then the largest batch size for that number of steps. The
/// result is the largest batch size if, apart from the drops, epsilon first increases and then
/// decreases; this was observed for all noise multipliers from 0.2 to 1. Otherwise the result still
/// meets the target, but a larger batch size may meet it too.
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if even an expected batch size
/// of 1 exceeds the target.
///
/// # Guarantee
/// The accountant has evaluated the result, and its epsilon is at most `target`, whether or not
/// epsilon has the shape described above. `examples` is treated as public. The neighbouring
/// relation and the other assumptions are those of the accountant.
pub fn batch_size_for(
    target: Epsilon,
    delta: Delta,
    examples: u64,
    length: TrainingLength,
    noise_multiplier: NoiseMultiplier,
    accountant: &dyn Accountant,
) -> Result<CalibratedBatchSize> {
    let noise = noise_multiplier.check()?;
    let target = check_reachable("batch size", target, delta, accountant)?;
    at_least_one("examples", examples)?;
    if examples > 1 << 53 {
        let why = "numbers of examples above 2^53 are not exact";
        return Err(Error::setting("examples", examples, why).fix("use the size of the data set"));
    }
    let run = BatchSizeProblem { target, delta, examples: examples as f64, noise };
    let (least, most, steps) = match length {
        TrainingLength::Steps(_) => (1.0, run.examples, length.steps(SamplingRate(1.0))?),
        TrainingLength::Epochs(epochs) => {
            let steps = length.steps(SamplingRate(1.0))?;
            match run.epsilon(run.examples, steps, accountant) {
                Ok(epsilon) if epsilon <= target.0 => (run.examples, run.examples, steps),
                Err(error) if error.kind() != ErrorKind::Accounting => return Err(error),
                _ => run.min_steps_for_target(epochs, accountant)?,
            }
        }
    };
    let (batch_size, epsilon) = run.max_batch_for_steps(least, most, steps, accountant)?;
    Ok(CalibratedBatchSize {
        batch_size: batch_size as u64,
        sampling_rate: run.rate(batch_size),
        steps,
        epsilon,
        accountant: accountant.name().to_string(),
    })
}

struct BatchSizeProblem {
    target: Epsilon,
    delta: Delta,
    examples: f64,
    noise: NoiseMultiplier,
}

impl BatchSizeProblem {
    fn rate(&self, batch: f64) -> SamplingRate {
        SamplingRate((batch / self.examples).min(1.0))
    }

    fn epsilon(&self, batch: f64, steps: u64, accountant: &dyn Accountant) -> Result<f64> {
        let event = training(self.rate(batch), self.noise, steps);
        accountant.epsilon(&[event], self.delta).map(|spent| spent.epsilon)
    }

    /// Computes the smallest batch size that completes the epochs in this number of steps.
    fn smallest_batch(&self, epochs: f64, steps: f64) -> f64 {
        (epochs * self.examples / steps - 1e-9).ceil().clamp(1.0, self.examples)
    }

    /// Computes the fewest steps that meet the target, and the smallest and largest batch size
    /// that take exactly this many steps.
    fn min_steps_for_target(
        &self,
        epochs: f64,
        accountant: &dyn Accountant,
    ) -> Result<(f64, f64, u64)> {
        let steps_of = |batch| TrainingLength::Epochs(epochs).steps(self.rate(batch));
        let range = (steps_of(self.examples)? as f64, steps_of(1.0)? as f64);
        let cheapest = |steps| {
            let batch = self.smallest_batch(epochs, steps);
            // For tiny batches not every number of steps has a batch size.
            steps_of(batch).map(|steps| (batch, steps))
        };
        let parameter = SearchParameter {
            range,
            increasing_is_safer: true,
            integer: true,
            tolerance: 1e-6,
            initial: steps_of(256.0)?.clamp(range.0 as u64, range.1 as u64) as f64,
            elasticity: 0.5,
        };
        let epsilon = |steps, accountant: &dyn Accountant| {
            let (batch, steps) = cheapest(steps)?;
            self.epsilon(batch, steps, accountant)
        };
        let (fewest, _) = self.solve(parameter, &epsilon, accountant)?;
        let (least, steps) = cheapest(fewest)?;
        let most = if steps as f64 <= range.0 {
            self.examples
        } else {
            self.smallest_batch(epochs, (steps - 1) as f64) - 1.0
        };
        Ok((least, most.max(least), steps))
    }

    /// Computes the largest batch size for this number of steps, and its epsilon.
    fn max_batch_for_steps(
        &self,
        least: f64,
        most: f64,
        steps: u64,
        accountant: &dyn Accountant,
    ) -> Result<(f64, f64)> {
        let parameter = SearchParameter {
            range: (least, most),
            increasing_is_safer: false,
            integer: true,
            tolerance: 1e-6,
            initial: 256.0,
            elasticity: 1.2,
        };
        let epsilon = |batch, accountant: &dyn Accountant| self.epsilon(batch, steps, accountant);
        self.solve(parameter, &epsilon, accountant)
    }

    fn solve(
        &self,
        parameter: SearchParameter,
        epsilon: &dyn Fn(f64, &dyn Accountant) -> Result<f64>,
        accountant: &dyn Accountant,
    ) -> Result<(f64, f64)> {
        let search = Search {
            what: "batch size",
            target: self.target,
            parameter,
            unreachable: "an expected batch size of 1 already costs epsilon",
            advice: "use more noise, a shorter training, or a larger epsilon or delta",
            epsilon,
        };
        search.solve(accountant)
    }
}
