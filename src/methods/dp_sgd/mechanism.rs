//! What one step of DP-SGD releases: the clipped sum, noised, over the expected batch size.

use crate::Result;
use crate::engine::{
    AutoExecutor, Batch, Executor, GaussianNoise, Gradients, Weights, typical_max_batch_size,
};
use crate::methods::{Mechanism, Plan, Privacy, Release};
use crate::nn::{Network, Precision};

/// The Gaussian mechanism on a sum of clipped per-example gradients.
///
/// # Guarantee
/// Neighbours: add or remove one example. The sum changes by at most the clip rule's sensitivity
/// in L2 norm; independent noise of `noise_multiplier * sensitivity` is added to every coordinate
/// of the SUM; only then is it divided by the EXPECTED batch size, a public number. An empty
/// batch is released like any other: noise only. With selected coordinates the same holds for
/// them: norm, clip, sum and noise are theirs alone, and the others are zero whatever the batch.
pub struct GaussianSum {
    privacy: Privacy,
    expected_batch_size: f64,
    noise: GaussianNoise,
    executor: AutoExecutor,
}

impl GaussianSum {
    /// The mechanism of a private part of a plan, with its own noise stream.
    pub fn new(privacy: &Privacy, expected_batch_size: usize, noise_seed: [u8; 32]) -> Self {
        Self {
            privacy: privacy.clone(),
            expected_batch_size: expected_batch_size as f64,
            noise: GaussianNoise::new(noise_seed),
            executor: AutoExecutor::default()
                .fixed_chunks(typical_max_batch_size(expected_batch_size)),
        }
    }

    /// With products in such numbers on a card.
    pub fn precision(self, precision: Precision) -> Self {
        Self { executor: self.executor.precision(precision), ..self }
    }

    /// Noises a clipped sum and divides it by the expected batch size.
    ///
    /// # Errors
    /// `Setting` if the noise is not a finite number; as [`GaussianNoise::add_to_selected`] if the
    /// sum was not made with the same selection.
    pub fn privatise(
        &mut self,
        mut sum: Gradients,
        selected: Option<&Weights>,
    ) -> Result<Gradients> {
        let std = self.privacy.clip.noise_std(self.privacy.noise_multiplier);
        match selected {
            Some(selected) => self.noise.add_to_selected(&mut sum, std, selected)?,
            None => self.noise.add_to(&mut sum, std)?,
        }
        sum.scale(1.0 / self.expected_batch_size);
        Ok(sum)
    }
}

impl Mechanism for GaussianSum {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&Weights>,
    ) -> Result<Release> {
        let clip = &self.privacy.clip;
        let clipped = self.executor.weighted_sum(network, batch, clip, selected)?;
        let gradient = self.privatise(clipped.sum, selected)?;
        Ok(Release { gradient, losses: clipped.losses })
    }
}

/// The mechanism of a private plan.
pub(crate) fn of(plan: &Plan, privacy: &Privacy, noise_seed: [u8; 32]) -> Box<dyn Mechanism> {
    let sum = GaussianSum::new(privacy, plan.expected_batch_size(), noise_seed);
    Box::new(sum.precision(plan.precision()))
}
