//! Gradients of single examples, clipped and summed, and the noise on the sum.
//!
//! Several executors make the same [`ClippedSum`]: [`FusedExecutor`], by kernels of its own for lists of
//! the lab's layers on the CPU; [`TapExecutor`], by tensor operations for any module on any device; and
//! [`ReferenceExecutor`], one backward pass per example and nothing clever, which the tests trust. Training
//! uses [`AutoExecutor`], which takes the first of these that can. Whether they agree on a model and its
//! data, [`Model::prove`](crate::nn::Model::prove) says. A private step is
//! `clipped_sum` → `GaussianNoise::add_to` → `Gradients::scale(1 / expected batch size)` → [`step`]
//! of any Burn optimizer.

mod auto;
mod batch;
mod clip;
#[cfg(test)]
mod extremes;
mod fused;
mod gradient_hook;
mod gradients;
pub mod noise;
mod prove;
mod reference;
mod tap;
mod weights;

pub use auto::AutoExecutor;
pub use batch::Batch;
pub use clip::ClipRule;
pub use fused::FusedExecutor;
pub use gradient_hook::tap;
pub use gradients::{Gradient, Gradients};
pub use noise::GaussianNoise;
pub use prove::{Proof, Proved, prove};
pub use reference::ReferenceExecutor;
pub use tap::TapExecutor;
pub use weights::Weights;

use burn::optim::ModuleOptimizer;

use crate::Result;
use crate::device::DeviceArray;
use crate::nn::Network;

/// What an executor makes of a batch.
#[derive(Clone, Debug)]
pub struct ClippedSum {
    /// Σ gᵢ · min(1, C/‖gᵢ‖) over the examples with finite gradients; gᵢ is the mean over the
    /// copies of example i.
    pub sum: Gradients,
    /// ‖gᵢ‖ over all parameters jointly, before clipping, in the order of the batch; with
    /// weights, the weighted norm. NaN for examples left out. Not private: never show or store
    /// these without saying so.
    pub norms: DeviceArray,
    /// Cross-entropy of each example in nats (the mean over its copies), in the order of the
    /// batch. NaN for examples left out. Not private either.
    pub losses: DeviceArray,
}

impl ClippedSum {
    /// The mean loss of the examples that count, if there are any.
    pub fn mean_loss(&self) -> Option<f64> {
        mean(&self.losses)
    }

    /// Examples left out because a feature, the loss or the norm was not finite.
    pub fn non_finite(&self) -> usize {
        self.losses.iter().filter(|loss| loss.is_nan()).count()
    }
}

/// Few Poisson batches of this expected size have more examples: its mean and three standard
/// deviations.
pub(crate) fn typical_max_batch_size(expected_batch_size: usize) -> usize {
    let expected = expected_batch_size as f64;
    (expected + 3.0 * expected.sqrt()).ceil() as usize
}

/// The mean of the numbers that are finite, if there are any.
pub(crate) fn mean(losses: &[f32]) -> Option<f64> {
    let finite: Vec<f64> = losses.iter().filter(|l| l.is_finite()).map(|&l| f64::from(l)).collect();
    let mean = finite.iter().sum::<f64>() / finite.len() as f64;
    (!finite.is_empty()).then_some(mean)
}

/// Makes sums of clipped gradients.
///
/// # Guarantee
/// Each example adds a vector of L2 norm at most [`ClipRule::sensitivity`] to the sum (in the
/// weighted norm where weights are given; up to the rounding of an f32 sum, about 1e-7 of the sum's
/// own length) and changes no other example's share: the loss is the SUM of the examples' losses,
/// no layer mixes examples, and an example whose gradient is not finite adds exactly zero, by
/// selection, so that the sum is bit for bit that of the batch without it. Neighbouring batches
/// differ by one example with all its copies. With dropout, see [`Batch::seed`]: the masks must
/// be secret, and the sums are then compared under equal masks for the examples in both.
pub trait Executor {
    /// The sum over the examples of factor(normᵢ) · gᵢ with normᵢ = √Σⱼ wⱼ gᵢⱼ². Coordinates of
    /// weight 0 are exactly zero in the sum; other weights change the norm only. Without weights
    /// every coordinate counts once. An empty batch gives zeros.
    ///
    /// # Errors
    /// If the batch's shape, tokens or labels or the weights do not suit the network, or the rule
    /// is out of range.
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        rule: &ClipRule,
        weights: Option<&Weights>,
    ) -> Result<ClippedSum>;

    /// The sum of the batch's clipped gradients: every coordinate counts once.
    ///
    /// # Errors
    /// As [`weighted_sum`](Self::weighted_sum).
    fn clipped_sum(&self, network: &Network, batch: &Batch, rule: &ClipRule) -> Result<ClippedSum> {
        self.weighted_sum(network, batch, rule, None)
    }

    /// The plain sum of the batch's gradients, for training without privacy. Norms are NaN where
    /// an executor does not need them.
    ///
    /// # Errors
    /// As [`weighted_sum`](Self::weighted_sum).
    fn plain_sum(&self, network: &Network, batch: &Batch) -> Result<ClippedSum> {
        self.clipped_sum(network, batch, &ClipRule::unclipped())
    }

    /// How each parameter's norms are found, in a word, in the network's order: `"ghost"` (from
    /// inputs and output gradients alone), `"instantiated"` (each example's gradient is formed).
    fn norm_methods(&self, network: &Network) -> Vec<&'static str> {
        vec!["instantiated"; network.parameters().len()]
    }
}

/// What every executor refuses.
pub(crate) fn check(
    network: &Network,
    batch: &Batch,
    rule: &ClipRule,
    weights: Option<&Weights>,
) -> Result<()> {
    batch.check(network)?;
    rule.check()?;
    weights.map_or(Ok(()), |weights| weights.check(network))
}

/// One step of a Burn optimizer: the network it leads to.
///
/// Burn's optimizers take parameters on an autodiff device only; models keep theirs outside, so
/// that nothing but an executor ever computes a gradient. This goes from the one to the other and back.
pub fn step(
    optimizer: &mut ModuleOptimizer,
    learning_rate: f64,
    network: &Network,
    gradients: &Gradients,
) -> Network {
    let gradients = gradients.to_params(&network.device());
    optimizer.step(learning_rate, network.lifted(), gradients).untracked()
}
