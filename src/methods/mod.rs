//! Training methods: one folder per paper or baseline.
//!
//! `config.rs` has the settings. `mechanism.rs`, of methods that do not use that of another, has
//! the release of one step and its sensitivity. A method checks its settings into a [`Plan`], which
//! fixes sampler, clip rule, noise and number of steps together. Training loop, ledger and preview
//! all read that plan, so the accounting always assumes the sampler that is used. Its
//! [`MethodDescriptor`] makes the mechanism of a plan and says what it releases. [`methods`] lists
//! all methods: grids, commands and tests read it.
//!
//! | settings | method | guarantee |
//! |---|---|---|
//! | [`DpSgd`] | DP-SGD (Abadi et al., 2016) with all clip rules | proved |
//! | [`DpSsgd`] | DP-SGD with a mask and gradient dropping | proved; none with a mask by SNIP |
//! | [`AdaptiveDpSgd`], [`DynamicDpSgd`] | DP-SGD with schedules of noise and clip norm | proved |
//! | [`QuantileDpSgd`] | the clip norm follows a noisy quantile (Andrew et al., 2021) | proved |
//! | [`BackpropClip`] | inputs and upstream gradients are clipped | proved, also `as_published()` |
//! | [`AutoDpSgd`] | Auto DP-SGD as published; `sound()` is its variant with a bound | none |
//! | [`NonPrivate`] | SGD on raw gradients, for comparison | none |
//!
//! ```
//! use epsilab::data::Population;
//! use epsilab::prelude::*;
//! let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).batch_size(1024).epochs(8);
//! // A plan needs the number of examples, not the examples.
//! let plan = method.plan_for(&Population::with_size(60_000))?;
//! assert!(plan.epsilon_after(plan.steps())?.is_some_and(|epsilon| epsilon <= 3.0));
//! # Ok::<(), epsilab::Error>(())
//! ```

pub mod builder;
mod noisy_aggregator;
mod plan;
mod private_selection;
mod registry;
mod settings;
#[cfg(test)]
pub(crate) mod tests;

pub mod adaptive_dp_sgd;
pub mod auto_dp_sgd;
pub mod backprop_clip;
pub mod dp_sgd;
pub mod dp_ssgd;
pub mod dynamic_dp_sgd;
pub mod non_private;
pub mod quantile_dp_sgd;
pub mod recipes;

pub use crate::optim::Optimizer;
pub use adaptive_dp_sgd::AdaptiveDpSgd;
pub use auto_dp_sgd::AutoDpSgd;
pub use backprop_clip::BackpropClip;
pub use builder::{Builder, MethodSettings};
pub use dp_sgd::DpSgd;
pub use dp_ssgd::DpSsgd;
pub use dynamic_dp_sgd::DynamicDpSgd;
pub use non_private::NonPrivate;
pub use plan::{Plan, Privacy, Scaled, TrialSelection};
pub use private_selection::PrivateSelection;
pub use quantile_dp_sgd::{QuantileClipping, QuantileDpSgd};
pub(crate) use registry::is_built_in;
pub use registry::{ClaimedEpsilon, FigureStyle, Method, MethodDescriptor, methods, register};
pub use settings::{
    Affects, CheckpointInterval, CheckpointSettings, DataLoader, PrivacySettings, Sampling, Scope,
    SettingSpec, Settings, shared_settings,
};

use crate::device::DeviceArray;
use crate::engine::{Batch, CoordinateWeights, Gradients, finite_mean};
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// The output of one step for the optimizer.
#[derive(Clone, Debug)]
pub struct Release {
    /// The gradient estimate, one entry per trainable tensor. Private methods have added their
    /// noise: everything computed from it is post-processing.
    pub gradient: Gradients,
    /// Training loss of each example of the batch, `[examples]`; NaN for examples that were masked
    /// out. No epsilon covers them, and figures that show their mean say so.
    pub losses: DeviceArray,
    /// Standard deviation of the noise in each selected coordinate of the gradient, one value per
    /// parameter tensor; zeros without noise. Public if the method has a guarantee.
    pub noise_std: Vec<f64>,
    /// The clip norm of this step, if the method adapts it.
    pub threshold: Option<Threshold>,
    /// L2 norm of each example's gradient before clipping, `[examples]`, over the selected
    /// coordinates, if the step computed it. NaN for excluded examples. Like the losses, they
    /// are not covered.
    pub norms: Option<DeviceArray>,
}

/// The clip norm of one step of a method that adapts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The clip norm of the step.
    pub value: f64,
    /// Noise multiplier of the release by which the step adapts the threshold; `None` if it is
    /// computed from the examples without noise, and no epsilon covers it.
    pub noise_multiplier: Option<f64>,
}

impl Release {
    /// Creates a release of a method whose clip norm, if it has one, is part of its plan.
    pub fn new(gradient: Gradients, losses: DeviceArray, noise_std: Vec<f64>) -> Self {
        Self { gradient, losses, noise_std, threshold: None, norms: None }
    }

    /// Returns the mean loss of the examples that were not masked out, if there are any.
    /// Synchronizes with the device.
    pub fn mean_loss(&self) -> Option<f64> {
        finite_mean(&self.losses)
    }
}

/// A mechanism, which turns a batch into a gradient that the optimizer may use.
///
/// The training loop calls [`release`](Mechanism::release) once per step, with the batch of the
/// plan's sampler (which may be empty) and the coordinates selected for this step.
pub trait Mechanism {
    /// Computes the gradient of one batch; a private method clips it per example and adds noise.
    /// `network` holds the parameters that were released last. `selected` holds zeros and ones, one
    /// per parameter, that do not depend on the batch; `None` selects all coordinates. Coordinates
    /// with zero enter neither norm nor sum, get no noise, and are exactly zero in the result. The
    /// gradient has one entry per parameter tensor of `network`, in its order and shape; it and
    /// [`Release::noise_std`] are in units of a sum of per-example gradients divided by the
    /// expected batch size, never by the size of the batch. An empty batch is a step too, with its
    /// noise.
    ///
    /// # Guarantee
    /// The event of the method ([`MethodDescriptor::event`]) must describe this release: at most
    /// the stated bound on one example's contribution, with the stated noise on the sum.
    ///
    /// # Errors
    /// As [`Executor::weighted_sum`](crate::engine::Executor::weighted_sum) and
    /// [`GaussianNoise::add_to_each`](crate::engine::GaussianNoise::add_to_each). The error ends
    /// the run. Its whole plan then stays charged, unless the error is in the first step, or of a
    /// device from which nothing was copied yet.
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release>;

    /// Returns the numbers that later releases depend on, beside the number of the step: what the
    /// releases so far have adapted. Empty for a mechanism that adapts nothing.
    fn state(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Resumes after `steps` releases that left [`state`](Self::state): the next release has, bit
    /// for bit, the noise that the mechanism of the same plan and seed adds in that step.
    ///
    /// # Guarantee
    /// A step that is repeated after a resumption has the same noise. On the CPU it releases the
    /// same bits, so repeating it reveals nothing.
    ///
    /// # Errors
    /// `Setting` for a mechanism that can't be resumed, which is the default; `CorruptData` for a
    /// state of another mechanism.
    fn resume(&mut self, _steps: u64, _state: &[f64]) -> Result<()> {
        let what = "the mechanism of this method";
        let why = "the mechanism can't resume from a checkpoint: it does not implement `resume`";
        Err(Error::new(ErrorKind::Setting, what, why).fix("implement Mechanism::resume"))
    }
}

/// Checks that the [state](Mechanism::state) of a mechanism has `expected` values, all finite.
///
/// # Errors
/// `CorruptData` for another number of values, and for values that are not finite.
pub fn check_state(state: &[f64], expected: usize) -> Result<()> {
    if state.len() == expected && state.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    let what = format!("the state of a mechanism with {} values", state.len());
    let why = format!("this mechanism has {expected}, all finite");
    Err(Error::new(ErrorKind::CorruptData, what, why).fix("start the run again"))
}
