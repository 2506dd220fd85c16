//! Aggregation of a step, which the private mechanisms share: the sum over a batch, its Gaussian
//! noise and the division by the expected batch size.

use crate::Result;
use crate::engine::{
    AutoExecutor, ClippedSum, CoordinateWeights, GaussianNoise, Gradients, typical_max_batch_size,
};
use crate::methods::{Plan, Release, check_state};
use crate::privacy::{Stage, Stages};

/// The noisy aggregation of the steps of a run: the executor that computes their sums, and the
/// noise that is added.
pub(super) struct NoisyAggregator {
    stages: Stages,
    pub(super) expected_batch_size: f64,
    noise: GaussianNoise,
    pub(super) executor: AutoExecutor,
}

impl NoisyAggregator {
    /// Creates the aggregator of these stages, with a noise stream of its own.
    pub(super) fn new(stages: Stages, expected_batch_size: usize, noise_seed: [u8; 32]) -> Self {
        let chunk = typical_max_batch_size(expected_batch_size);
        Self {
            stages,
            expected_batch_size: expected_batch_size as f64,
            noise: GaussianNoise::new(noise_seed),
            executor: AutoExecutor::default().fixed_chunks(chunk),
        }
    }

    /// Creates the aggregator of a plan with these stages, at the precision of the plan.
    pub(super) fn from_plan(plan: &Plan, stages: Stages, noise_seed: [u8; 32]) -> Self {
        let aggregator = Self::new(stages, plan.expected_batch_size(), noise_seed);
        Self { executor: aggregator.executor.precision(plan.settings().precision), ..aggregator }
    }

    /// Returns noise multiplier and clip scale of the next step.
    pub(super) fn stage(&self) -> Stage {
        self.stages.at(self.noise.step())
    }

    /// Adds noise with standard deviation `stds[p]` to parameter tensor p of a sum, and advances to
    /// the next step.
    ///
    /// # Errors
    /// As [`GaussianNoise::add_to_each`].
    pub(super) fn add_noise(
        &mut self,
        sum: &mut Gradients,
        stds: &[f64],
        selected: Option<&CoordinateWeights>,
    ) -> Result<()> {
        self.noise.add_to_each(sum, stds, selected)
    }

    /// Returns a sum and the standard deviations of its noise, both divided by the expected batch
    /// size.
    pub(super) fn divided(&self, mut sum: Gradients, stds: &[f64]) -> (Gradients, Vec<f64>) {
        sum.scale(1.0 / self.expected_batch_size);
        (sum, stds.iter().map(|std| std / self.expected_batch_size).collect())
    }

    /// Returns a sum with noise of this standard deviation in every selected coordinate, and the
    /// standard deviations of the noise, [divided](Self::divided).
    ///
    /// # Errors
    /// As [`GaussianNoise::add_to_each`].
    pub(super) fn noisy_mean(
        &mut self,
        mut sum: Gradients,
        std: f64,
        selected: Option<&CoordinateWeights>,
    ) -> Result<(Gradients, Vec<f64>)> {
        let stds = vec![std; sum.entries.len()];
        self.add_noise(&mut sum, &stds, selected)?;
        Ok(self.divided(sum, &stds))
    }

    /// Returns the release of a clipped sum with the noise of [`noisy_mean`](Self::noisy_mean).
    ///
    /// # Errors
    /// As [`GaussianNoise::add_to_each`].
    pub(super) fn release(
        &mut self,
        clipped: ClippedSum,
        std: f64,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let (gradient, noise_std) = self.noisy_mean(clipped.sum, std, selected)?;
        let norms = Some(clipped.norms);
        Ok(Release { norms, ..Release::new(gradient, clipped.losses, noise_std) })
    }

    /// Resumes after `steps` steps: the next noise is that of the step after them.
    ///
    /// # Errors
    /// As [`check_state`], for the state of the mechanism, which has this number of values.
    pub(super) fn resume(&mut self, steps: u64, state: &[f64], values: usize) -> Result<()> {
        check_state(state, values)?;
        self.noise = self.noise.clone().at_step(steps);
        Ok(())
    }
}
