//! The methods: one folder per paper or baseline, all of the same shape.
//!
//! `config.rs` holds the checked settings, `mechanism.rs` what one step releases and with which
//! sensitivity, `tests.rs` the proofs by example. A method turns its settings into a [`Plan`]:
//! sampler, clip rule, noise and number of steps fixed together. The training loop, the ledger
//! and the preview all read that one plan, so no sampler can be set that the accountant does not
//! know.

mod batches;
mod optimizer;
mod plan;
mod private;
mod settings;
#[cfg(test)]
mod tests;
mod update;

pub mod dp_sgd;
pub mod dp_ssgd;
pub mod non_private;

pub use batches::Batches;
pub use dp_sgd::DpSgd;
pub use dp_ssgd::DpSsgd;
pub(crate) use dp_ssgd::{Coordinates, MaskSeeds};
pub use non_private::NonPrivate;
pub use optimizer::Optimizer;
pub use plan::{Plan, Privacy};
pub use settings::Settings;
pub(crate) use update::Update;

use crate::Result;
use crate::device::DeviceArray;
use crate::engine::{Batch, Gradients, Weights, mean};
use crate::nn::Network;

/// What one step hands to the optimizer.
#[derive(Clone, Debug)]
pub struct Release {
    /// The gradient estimate, one entry per trainable tensor. Private methods have added their
    /// noise: from here on everything is post-processing.
    pub gradient: Gradients,
    /// The training loss of each example of the batch, NaN where it was left out. They are NOT
    /// covered by any epsilon: figures that show their mean carry that mark.
    pub losses: DeviceArray,
}

impl Release {
    /// The mean loss of the examples that count, if there are any. Waits for the step.
    pub fn mean_loss(&self) -> Option<f64> {
        mean(&self.losses)
    }
}

/// One step of a method: from a batch to a gradient that may be used.
///
/// The loop calls [`release`](Mechanism::release) once per logical step, with the batch drawn by
/// the plan's own sampler (it may be empty) and the coordinates that this step is about, and hands
/// the result to the optimizer.
pub trait Mechanism {
    /// Computes and, for a private method, privatises the gradient of one batch. With `selected`
    /// (zeros and ones, chosen without a look at the batch) the other coordinates count neither
    /// for the norm nor in the sum, get no noise and are exactly zero.
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&Weights>,
    ) -> Result<Release>;
}
