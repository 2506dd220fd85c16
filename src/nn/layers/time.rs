//! Sequences to plain features: the mean over time.

use burn::module::Module;

use crate::nn::Value;

/// Mean over time (average pooling over all steps): `[batch, time, features]` to
/// `[batch, features]`.
#[derive(Module, Debug)]
pub struct MeanOverTime;

impl MeanOverTime {
    /// The mean over all steps.
    pub fn forward(&self, x: Value) -> Value {
        Value::Flat(x.sequence().mean_dim(1).squeeze_dim(1))
    }
}
