//! Flattening of images and sequences.

use burn::module::Module;

use crate::nn::BatchTensor;

/// Flattening of images `[batch, channels, height, width]` to `[batch, channels x height x width]`
/// and sequences `[batch, time, features]` to `[batch, time x features]`.
#[derive(Module, Debug)]
pub struct Flatten;

impl Flatten {
    /// Returns `x` as plain features.
    pub fn forward(&self, x: BatchTensor) -> BatchTensor {
        BatchTensor::Flat(x.into_flat())
    }
}
