//! Mean over time.

use burn::module::Module;

use crate::nn::BatchTensor;

/// Average pooling over time: the mean of all steps. Maps sequences `[batch, time, features]` to
/// plain features `[batch, features]`.
#[derive(Module, Debug)]
pub struct MeanOverTime;

impl MeanOverTime {
    /// Computes the mean over all steps.
    pub fn forward(&self, x: BatchTensor) -> BatchTensor {
        BatchTensor::Flat(x.into_sequence().mean_dim(1).squeeze_dim(1))
    }
}
