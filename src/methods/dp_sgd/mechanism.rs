//! The release of a DP-SGD step: clipped sum plus noise, divided by the expected batch size.

use crate::Result;
use crate::engine::{
    AutoExecutor, Batch, Executor, GaussianNoise, Gradients, Weights, typical_max_batch_size,
};
use crate::methods::{Mechanism, Plan, Privacy, Release};
use crate::nn::{Network, Precision};

/// The Gaussian mechanism on a sum of clipped per-example gradients.
///
/// # Guarantee
/// Neighbours: one example added or removed. The sum changes by at most the sensitivity of the clip
/// rule in L2 norm. Independent Gaussian noise of standard deviation `noise_multiplier *
/// sensitivity` is added to every coordinate of the sum, which is then divided by the expected
/// batch size, a public number. The release of an empty batch is noise only. With selected
/// coordinates, norm, clipping, sum and noise are restricted to them, and all others are zero for
/// every batch.
pub struct GaussianSum {
    privacy: Privacy,
    expected_batch_size: f64,
    noise: GaussianNoise,
    executor: AutoExecutor,
}

impl GaussianSum {
    /// The mechanism of these privacy settings, with a noise stream of its own.
    pub fn new(privacy: &Privacy, expected_batch_size: usize, noise_seed: [u8; 32]) -> Self {
        Self {
            privacy: privacy.clone(),
            expected_batch_size: expected_batch_size as f64,
            noise: GaussianNoise::new(noise_seed),
            executor: AutoExecutor::default()
                .fixed_chunks(typical_max_batch_size(expected_batch_size)),
        }
    }

    /// The same with this precision of products on a GPU.
    pub fn precision(self, precision: Precision) -> Self {
        Self { executor: self.executor.precision(precision), ..self }
    }

    /// Adds noise to a clipped sum and divides it by the expected batch size.
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
