//! Per-example gradients: clipping, summation and Gaussian noise.
//!
//! An [`Executor`] computes the [`ClippedSum`] of a batch. There are three implementations:
//!
//! - [`FusedExecutor`] runs its own CPU kernels, for networks that are lists of the lab's layers.
//! - [`TapExecutor`] uses Burn's tensor operations, for any module on any device.
//! - [`ReferenceExecutor`] runs one backward pass per example. The tests compare the others with
//!   it.
//!
//! Training uses [`AutoExecutor`], which takes the fused executor where it applies and the tap
//! executor otherwise. [`Model::check_gradients`](crate::nn::Model::check_gradients) compares it
//! with the reference on a given model and data set.
//!
//! A private step is [`Executor::weighted_sum`] → [`GaussianNoise::add_to_each`] →
//! [`Gradients::scale`] by 1 / expected batch size → a step of the lab's
//! [optimizers](crate::optim), or [`optimizer_step`] of any Burn optimizer.
//!
//! Throughout this module, "examples" are indices into a batch, and "rows" are the augmented copies
//! of the examples: a batch of `n` examples with `k` copies each has `n * k` rows, the `k` rows of
//! an example next to each other.

mod auto;
mod backprop_clip_groups;
mod batch;
mod bound;
mod clip_functions;
mod clip_rule;
mod clipped_fractions;
mod coordinate_weights;
#[cfg(test)]
mod extremes_tests;
mod fused;
mod gradient_check;
mod gradient_hook;
mod gradient_norms;
mod gradients;
pub mod noise;
mod per_example;
mod reference;
mod roofline;
mod tap;

pub use auto::AutoExecutor;
pub use batch::Batch;
pub use bound::{Bound, ClipFunction, ClipGroups};
pub use clip_rule::ClipRule;
pub use clipped_fractions::{ClippedFractions, LayerClippedFractions};
pub use coordinate_weights::CoordinateWeights;
pub use fused::{FusedExecutor, LayerProfile, StepProfile};
pub use gradient_check::{GradientCheck, ParameterCheck, check_gradients};
#[cfg(test)]
pub(crate) use gradient_hook::tap;
pub use gradient_norms::GradientNorms;
pub use gradients::{Gradient, Gradients};
pub use noise::GaussianNoise;
pub use reference::ReferenceExecutor;
pub use roofline::{CpuRoofline, LayerWork};
pub use tap::TapExecutor;

use burn::optim::ModuleOptimizer;

use crate::Result;
use crate::device::DeviceArray;
use crate::nn::Network;

/// Sum of clipped per-example gradients, with the norm and the loss of every example.
#[derive(Clone, Debug)]
pub struct ClippedSum {
    /// Σᵢ gᵢ · factor(‖gᵢ‖) over the examples whose gradient is finite, where gᵢ is the mean
    /// gradient over the copies of example i. With a bound on several groups of parameters, each
    /// group is rescaled by its own norm.
    pub sum: Gradients,
    /// ‖gᵢ‖ before clipping, over all parameters jointly, `[examples]`; the weighted norm if
    /// weights were given. NaN for excluded examples. Not private: computed from the data without
    /// noise.
    pub norms: DeviceArray,
    /// ‖gᵢ‖ before clipping for each group of parameters, `[groups][examples]`; empty if all
    /// parameters are one group. Not private.
    pub group_norms: Vec<DeviceArray>,
    /// Cross-entropy of each example in nats, averaged over its copies, `[examples]`. NaN for
    /// excluded examples. Not private: computed from the data without noise.
    pub losses: DeviceArray,
}

impl ClippedSum {
    /// Returns the mean loss of the examples that are not excluded; `None` if there are none.
    pub fn mean_loss(&self) -> Option<f64> {
        finite_mean(&self.losses)
    }

    /// Returns the number of examples that were excluded because a feature, the loss or the norm
    /// was not finite.
    pub fn excluded_count(&self) -> usize {
        self.losses.iter().filter(|loss| loss.is_nan()).count()
    }
}

/// Returns the mean plus three standard deviations of the size of a Poisson batch: an upper end of
/// the sizes that occur in practice.
pub(crate) fn typical_max_batch_size(expected_batch_size: usize) -> usize {
    let expected = expected_batch_size as f64;
    (expected + 3.0 * expected.sqrt()).ceil() as usize
}

/// Returns the mean of the finite values; `None` if there are none.
pub(crate) fn finite_mean(losses: &[f32]) -> Option<f64> {
    let finite: Vec<f64> = losses.iter().filter(|l| l.is_finite()).map(|&l| f64::from(l)).collect();
    let mean = finite.iter().sum::<f64>() / finite.len() as f64;
    (!finite.is_empty()).then_some(mean)
}

/// Executor that computes sums of clipped per-example gradients.
///
/// # Guarantee
/// Neighbouring batches differ by one example with all its copies, added or removed. Their sums
/// differ by at most C in L2 norm, where C is the [joint
/// sensitivity](ClipGroups::joint_sensitivity) of the bound, and in each group by at most the
/// sensitivity of that group; with weights, in the weighted norm. This holds up to the rounding of
/// an f32 sum, about 1e-7 of the norm of the sum.
///
/// It follows from three properties. The loss is the sum, not the mean, of the per-example losses,
/// and no layer mixes examples, so an example does not affect the gradients of the others. Each
/// gradient is scaled to a norm of at most C before it is added, or the clips of its layers keep it
/// below C ([`ClipRule::Backprop`]). An example whose gradient is not finite is excluded by
/// selection, so that the sum is bitwise equal to that of the batch without it ([`TapExecutor`]
/// states how this differs on a GPU).
///
/// With dropout, the masks must be secret, and two sums are compared under equal masks for the
/// common examples: see [`Batch::seed`].
pub trait Executor {
    /// Computes the weighted clipped sum: Σᵢ factor(normᵢ) · gᵢ with normᵢ = √(Σⱼ wⱼ gᵢⱼ²), in
    /// each group of parameters of the bound.
    ///
    /// Coordinates of weight 0 are exactly zero in the sum. Other weights enter the norm only.
    /// `None` gives every coordinate the weight 1. The sum of an empty batch is zero.
    ///
    /// # Errors
    /// If the shape, tokens or labels of the batch, the weights or the bound do not fit the
    /// network, or the bound is out of range; kind `Device` if the device fails or has too little
    /// memory for one example.
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum>;

    /// Computes the clipped sum with weight 1 for every coordinate.
    ///
    /// # Errors
    /// As [`weighted_sum`](Self::weighted_sum).
    fn clipped_sum(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
    ) -> Result<ClippedSum> {
        self.weighted_sum(network, batch, bound, None)
    }

    /// Computes the sum of the gradients without clipping: for training without privacy, and for
    /// networks whose layers have clips. Norms are NaN where the executor does not compute them.
    /// Coordinates of weight 0 are exactly zero in the sum; gradients of tensors of weight 0 are
    /// not computed.
    ///
    /// # Errors
    /// As [`weighted_sum`](Self::weighted_sum).
    fn unclipped_sum(
        &self,
        network: &Network,
        batch: &Batch,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        self.weighted_sum(network, batch, &ClipRule::unclipped(), weights)
    }

    /// Returns the norm method of each parameter, in the network's order: `"ghost"` if norms
    /// follow from layer inputs and output gradients, `"instantiated"` if per-example gradients
    /// are formed.
    fn norm_methods(&self, network: &Network) -> Vec<&'static str> {
        vec!["instantiated"; network.parameters().len()]
    }
}

/// Checks the arguments of every executor; returns the bound on this network.
pub(crate) fn validated_groups(
    network: &Network,
    batch: &Batch,
    bound: &dyn Bound,
    weights: Option<&CoordinateWeights>,
) -> Result<ClipGroups> {
    batch.check(network)?;
    bound.check()?;
    weights.map_or(Ok(()), |weights| weights.check(network))?;
    bound.groups(network)
}

/// Computes the L2 norm over all groups of each example, from its norms in each group.
pub(crate) fn joint_norm(norms: impl Iterator<Item = f32>) -> f32 {
    norms.map(|norm| f64::from(norm).powi(2)).sum::<f64>().sqrt() as f32
}

/// Applies one step of a Burn optimizer and returns the updated network.
///
/// Burn's optimizers expect parameters on an autodiff device. Networks keep theirs on the inner
/// device, so that only executors compute gradients; this function converts in both directions.
pub fn optimizer_step(
    optimizer: &mut ModuleOptimizer,
    learning_rate: f64,
    network: &Network,
    gradients: &Gradients,
) -> Network {
    let gradients = gradients.to_params(&network.device());
    optimizer.step(learning_rate, network.for_optimizer(), gradients).untracked()
}
