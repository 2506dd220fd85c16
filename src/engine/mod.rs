//! Gradients of single examples, clipped and summed, and the noise on the sum.
//!
//! Two executors make the same [`ClippedSum`]: [`Taps`], fast, and [`Oracle`], one backward pass
//! per example and nothing clever, which the tests trust. A private step is
//! `clipped_sum` → `GaussianNoise::add_to` → `Gradients::scale(1 / expected batch size)` → [`step`]
//! of any Burn optimizer.

mod batch;
mod clip;
mod gradients;
pub mod noise;
mod oracle;
mod tap;
mod taps;

pub use batch::Batch;
pub use clip::ClipRule;
pub use gradients::{Gradient, Gradients};
pub use noise::GaussianNoise;
pub use oracle::Oracle;
pub use tap::tap;
pub use taps::Taps;

use burn::optim::ModuleOptimizer;

use crate::Result;
use crate::nn::Network;

/// What an executor makes of a batch.
#[derive(Clone, Debug)]
pub struct ClippedSum {
    /// Σ gᵢ · min(1, C/‖gᵢ‖) over the examples with finite gradients.
    pub sum: Gradients,
    /// ‖gᵢ‖ over all parameters jointly, before clipping, in the order of the batch. NaN for
    /// examples left out. Not private: never show or store these without saying so.
    pub norms: Vec<f32>,
    /// Cross-entropy of each example in nats, in the order of the batch. NaN for examples left
    /// out. Not private either.
    pub losses: Vec<f32>,
    /// Examples left out because a feature, the loss or the norm was not finite.
    pub non_finite: usize,
}

impl ClippedSum {
    /// The mean loss of the examples that count, if there are any.
    pub fn mean_loss(&self) -> Option<f64> {
        let counted: Vec<f64> =
            self.losses.iter().filter(|l| l.is_finite()).map(|&l| f64::from(l)).collect();
        let mean = counted.iter().sum::<f64>() / counted.len() as f64;
        (!counted.is_empty()).then_some(mean)
    }
}

/// Makes sums of clipped gradients.
///
/// # Guarantee
/// Each example adds a vector of L2 norm at most [`ClipRule::sensitivity`] to the sum (up to
/// the rounding of an f32 sum: about 1e-7 of the sum's own length) and changes no other example's share: the loss is the SUM of the
/// examples' losses, no layer mixes examples, and an example whose gradient is not finite adds
/// exactly zero, by selection, so that the sum is bit for bit that of the batch without it.
pub trait PerExample {
    /// The sum of the batch's clipped gradients. An empty batch gives zeros.
    ///
    /// # Errors
    /// If the batch's shape or labels do not suit the network, or the rule is out of range.
    fn clipped_sum(&self, network: &Network, batch: &Batch, rule: &ClipRule) -> Result<ClippedSum>;
}

/// One step of a Burn optimizer: the network it leads to.
///
/// Burn's optimizers take tracked parameters only; models keep theirs untracked, so that nothing
/// but an executor ever computes a gradient. This goes from the one to the other and back.
pub fn step(
    optimizer: &mut ModuleOptimizer,
    learning_rate: f64,
    network: &Network,
    gradients: &Gradients,
) -> Network {
    let gradients = gradients.to_params(&network.device());
    optimizer.step(learning_rate, network.tracked(), gradients).untracked()
}
