//! Sequences to plain features.

use burn::module::Module;

use crate::nn::Value;

/// The mean over all steps: `[batch, time, features]` to `[batch, features]`.
#[derive(Module, Debug)]
pub struct MeanOverTime;

impl MeanOverTime {
    /// The mean over all steps.
    pub fn forward(&self, x: Value) -> Value {
        Value::Flat(x.sequence().mean_dim(1).squeeze_dim(1))
    }
}
