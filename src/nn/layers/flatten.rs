//! Images to plain features.

use burn::module::Module;

use crate::nn::Value;

/// `[batch, channels, height, width]` to `[batch, channels x height x width]`.
#[derive(Module, Debug)]
pub struct Flatten;

impl Flatten {
    pub(super) fn forward(&self, x: Value) -> Value {
        Value::Flat(x.flat())
    }
}
