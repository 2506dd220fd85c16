//! The release of a DP-SGD step: clipped sum plus noise, divided by the expected batch size.

use crate::engine::{
    AutoExecutor, Batch, Executor, GaussianNoise, Gradients, Weights, typical_max_batch_size,
};
use crate::methods::{Mechanism, Plan, Privacy, Release};
use crate::nn::{Network, Precision};
use crate::privacy::Event;
use crate::{Error, ErrorKind, Result};

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
        let stds = vec![std; sum.entries.len()];
        self.noise.add_to_each(&mut sum, &stds, selected)?;
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
pub(crate) fn of(plan: &Plan, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let privacy = private_part(plan)?;
    let sum = GaussianSum::new(privacy, plan.expected_batch_size(), noise_seed);
    Ok(Box::new(sum.precision(plan.precision())))
}

/// The event of the first steps of a private plan.
///
/// # Guarantee
/// As [`GaussianSum`], on Poisson samples of the plan's sampling rate.
pub(crate) fn event(plan: &Plan, steps: u64) -> Event {
    match private_part(plan) {
        Ok(privacy) => Event::PoissonGaussian {
            sampling_rate: plan.sampling_rate(),
            noise_multiplier: privacy.noise_multiplier,
            steps,
        },
        Err(error) => Event::Unaccountable { why: error.to_string() },
    }
}

/// The private part, which a plan lacks only if its file was edited.
fn private_part(plan: &Plan) -> Result<&Privacy> {
    plan.privacy().ok_or_else(|| {
        let what = format!("a plan of {} without clip rule and noise", plan.method());
        Error::new(ErrorKind::CorruptData, what, "its steps would release raw gradients")
            .fix("make the plan anew")
    })
}
