//! The linear layer.

use burn::module::Module;
use burn::nn;
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Fill, param, sizes};
use crate::nn::Value;
use crate::{Error, ErrorKind, Result};

/// A linear layer without its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearSpec {
    /// Features that go in.
    pub inputs: usize,
    /// Features that come out.
    pub outputs: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

impl LinearSpec {
    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        sizes("Linear", &[("inputs", self.inputs), ("outputs", self.outputs)])?;
        if input != [self.inputs] {
            let what = format!("a Linear layer was given examples of shape {input:?}");
            let why = format!("it takes plain features, [{}]", self.inputs);
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("put Flatten before it and give it the number of flattened features"));
        }
        Ok(vec![self.outputs])
    }

    pub(super) fn parameters(&self) -> Vec<(&'static str, Vec<usize>)> {
        let bias = self.bias.then(|| ("bias", vec![self.outputs]));
        [("weight", vec![self.inputs, self.outputs])].into_iter().chain(bias).collect()
    }

    pub(super) fn build(&self, fill: Fill, device: &Device) -> Linear {
        let shape = [self.inputs, self.outputs];
        let weight = param("weight", shape, self.inputs, &mut *fill, device);
        let bias = self.bias.then(|| param("bias", [self.outputs], self.inputs, fill, device));
        Linear { inner: nn::Linear { weight, bias } }
    }
}

/// `y = x W + b` on plain features `[batch, inputs]`.
#[derive(Module, Debug)]
pub struct Linear {
    /// Burn's layer: weight `[inputs, outputs]`, bias `[outputs]`.
    pub inner: nn::Linear,
}

impl Linear {
    pub(super) fn forward(&self, x: Value) -> Value {
        Value::Flat(self.inner.forward(x.flat()))
    }
}
