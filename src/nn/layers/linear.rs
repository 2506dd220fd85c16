//! Linear (fully connected) layer.

use burn::module::Module;
use burn::nn;
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::parameter_source::{
    ParameterInit, ParameterSource, ParameterSpec, check_parameter_size, check_sizes,
};
use crate::nn::{BatchTensor, ParameterSite, Precision, Tape};
use crate::{Error, ErrorKind, Result};

/// Specification of a [`Linear`] layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearSpec {
    /// Number of input features.
    pub inputs: usize,
    /// Number of output features.
    pub outputs: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

impl LinearSpec {
    pub(super) fn check(&self) -> Result<()> {
        check_sizes("Linear", &[("inputs", self.inputs), ("outputs", self.outputs)])?;
        check_parameter_size("Linear", &[self.inputs, self.outputs])
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        match *input {
            [inputs] if inputs == self.inputs => Ok(vec![self.outputs]),
            [time, inputs] if inputs == self.inputs => Ok(vec![time, self.outputs]),
            _ => {
                let what = format!("a Linear layer received examples of shape {input:?}");
                let why =
                    format!("the layer expects {0} features, [{0}] or [time, {0}]", self.inputs);
                Err(Error::new(ErrorKind::Model, what, why)
                    .fix("put Flatten before it and give it the number of flattened features"))
            }
        }
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        let fan_in = self.inputs;
        let weight = ParameterSpec::new(
            "weight",
            &[self.inputs, self.outputs],
            ParameterInit::Weight { fan_in },
        );
        let bias = self
            .bias
            .then(|| ParameterSpec::new("bias", &[self.outputs], ParameterInit::Bias { fan_in }));
        [weight].into_iter().chain(bias).collect()
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> Linear {
        let weight = source.take_next();
        let bias = self.bias.then(|| source.take_next());
        Linear { inner: nn::Linear { weight, bias } }
    }
}

/// Linear layer: y = x W + b on plain features `[batch, inputs]` or at every step of a sequence
/// `[batch, time, inputs]`.
#[derive(Module, Debug)]
pub struct Linear {
    /// Burn's layer: weight `[inputs, outputs]`, bias `[outputs]`.
    pub inner: nn::Linear,
}

impl Linear {
    /// Computes x W + b: `[batch, outputs]` or `[batch, time, outputs]`.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let (x, y) = match x {
            BatchTensor::Sequence(x) => {
                let y = affine(&self.inner, x.clone(), tape.precision());
                (BatchTensor::Sequence(x), BatchTensor::Sequence(y))
            }
            x => {
                let x = x.into_flat();
                let y = affine(&self.inner, x.clone(), tape.precision());
                (BatchTensor::Flat(x), BatchTensor::Flat(y))
            }
        };
        tape.record_layer(site(&self.inner), &x, y)
    }
}

/// Computes x W + b, with the product in the given precision.
pub(super) fn affine<const D: usize>(
    linear: &nn::Linear,
    x: Tensor<D>,
    precision: Precision,
) -> Tensor<D> {
    if precision.is_default() {
        return linear.forward(x);
    }
    let y = precision.matmul(x, linear.weight.val().unsqueeze());
    match &linear.bias {
        Some(bias) => y + bias.val().unsqueeze(),
        None => y,
    }
}

/// Returns the site of a linear map.
pub(super) fn site(linear: &nn::Linear) -> ParameterSite {
    ParameterSite::Linear {
        weight: linear.weight.id,
        bias: linear.bias.as_ref().map(|bias| bias.id),
    }
}
