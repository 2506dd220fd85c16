//! The release of an Auto DP-SGD step, as published.

use crate::Result;
use crate::engine::{Batch, ClipRule, CoordinateWeights, Executor, finite_mean};
use crate::methods::noisy_aggregator::NoisyAggregator;
use crate::methods::{Mechanism, Plan, Release, Threshold};
use crate::nn::Network;

/// The sum of gradients, each times the scale s, with noise in proportion to the batch's mean
/// threshold (Algorithm 1 with algorithm AC).
///
/// # Guarantee
/// None: see [`AutoDpSgd`](super::AutoDpSgd). An empty batch releases zeros, because its mean
/// threshold is zero; that alone distinguishes it from every other batch.
pub struct AutoDpSgdMechanism {
    scale: f64,
    aggregator: NoisyAggregator,
}

impl Mechanism for AutoDpSgdMechanism {
    /// Copies the norms from a GPU in every step, because they decide the noise.
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let rule = ClipRule::Unbounded { scale: self.scale };
        let scaled = self.aggregator.executor.weighted_sum(network, batch, &rule, selected)?;
        let threshold = finite_mean(&scaled.norms).map(|norm| self.scale * norm);
        let std = self.aggregator.stage().noise_multiplier * threshold.unwrap_or(0.0);
        let threshold = threshold.map(|value| Threshold { value, noise_multiplier: None });
        Ok(Release { threshold, ..self.aggregator.release(scaled, std, selected)? })
    }

    fn resume(&mut self, steps: u64, state: &[f64]) -> Result<()> {
        self.aggregator.resume(steps, state, 0)
    }
}

/// Creates the mechanism of a plan.
pub(super) fn build_mechanism(plan: &Plan, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let clip = plan.privacy().map(|privacy| &privacy.clip);
    let (Some(&ClipRule::Unbounded { scale }), Some(stages)) = (clip, plan.stages()?) else {
        return Err(plan
            .edited("with a clip norm")
            .fix("make a new plan, or change its method to DP-SGD"));
    };
    Ok(Box::new(AutoDpSgdMechanism {
        scale,
        aggregator: NoisyAggregator::from_plan(plan, stages, noise_seed),
    }))
}
