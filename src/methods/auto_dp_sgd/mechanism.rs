//! The release of an Auto DP-SGD step, as published.

use crate::engine::{
    AutoExecutor, Batch, ClipRule, Executor, GaussianNoise, Weights, mean, typical_max_batch_size,
};
use crate::methods::{Mechanism, Plan, Release, Threshold, check_state};
use crate::nn::Network;
use crate::privacy::Stages;
use crate::{Error, ErrorKind, Result};

/// The sum of gradients, each times the scale s, with noise in proportion to the batch's mean
/// threshold (Algorithm 1 with algorithm AC).
///
/// # Guarantee
/// None: see [`AutoDpSgd`](super::AutoDpSgd). An empty batch releases zeros, because its mean
/// threshold is zero; that alone distinguishes it from every other batch.
pub struct ScaledSum {
    scale: f64,
    stages: Stages,
    expected_batch_size: f64,
    noise: GaussianNoise,
    executor: AutoExecutor,
}

impl Mechanism for ScaledSum {
    /// Copies the norms from a GPU in every step, because they decide the noise.
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&Weights>,
    ) -> Result<Release> {
        let rule = ClipRule::Unbounded { scale: self.scale };
        let scaled = self.executor.weighted_sum(network, batch, &rule, selected)?;
        let threshold = mean(&scaled.norms).map(|norm| self.scale * norm);
        let sigma = self.stages.at(self.noise.step()).noise_multiplier;
        let std = sigma * threshold.unwrap_or(0.0);
        let mut gradient = scaled.sum;
        let stds = vec![std; gradient.entries.len()];
        self.noise.add_to_each(&mut gradient, &stds, selected)?;
        gradient.scale(1.0 / self.expected_batch_size);
        let noise_std = vec![std / self.expected_batch_size; gradient.entries.len()];
        let threshold = threshold.map(|value| Threshold { value, noise_multiplier: None });
        let release = Release::new(gradient, scaled.losses, noise_std);
        Ok(Release { threshold, ..release.with_norms(scaled.norms) })
    }

    fn resume(&mut self, steps: u64, state: &[f64]) -> Result<()> {
        check_state(state, 0)?;
        self.noise = self.noise.clone().at_step(steps);
        Ok(())
    }
}

/// The mechanism of a plan.
pub(super) fn of(plan: &Plan, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let clip = plan.privacy().map(|privacy| &privacy.clip);
    let (Some(&ClipRule::Unbounded { scale }), Some(stages)) = (clip, plan.stages()?) else {
        let what = format!("a plan of {} with a clip bound", plan.method());
        return Err(Error::new(ErrorKind::CorruptData, what, "the file was edited")
            .fix("make the plan anew, or change its method to DP-SGD"));
    };
    let chunk = typical_max_batch_size(plan.expected_batch_size());
    Ok(Box::new(ScaledSum {
        scale,
        stages,
        expected_batch_size: plan.expected_batch_size() as f64,
        noise: GaussianNoise::new(noise_seed),
        executor: AutoExecutor::default().fixed_chunks(chunk).precision(plan.precision()),
    }))
}
