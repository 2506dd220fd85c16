//! The linear layer.

use burn::module::Module;
use burn::nn;
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::source::{Init, ParameterSpec, Source, fits_memory, sizes};
use crate::nn::{Precision, Site, Tape, Value};
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
    pub(super) fn check(&self) -> Result<()> {
        sizes("Linear", &[("inputs", self.inputs), ("outputs", self.outputs)])?;
        fits_memory("Linear", &[self.inputs, self.outputs])
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        match *input {
            [inputs] if inputs == self.inputs => Ok(vec![self.outputs]),
            [time, inputs] if inputs == self.inputs => Ok(vec![time, self.outputs]),
            _ => {
                let what = format!("a Linear layer was given examples of shape {input:?}");
                let why = format!("it takes plain features, [{}]", self.inputs);
                Err(Error::new(ErrorKind::Model, what, why)
                    .fix("put Flatten before it and give it the number of flattened features"))
            }
        }
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        let fan_in = self.inputs;
        let weight =
            ParameterSpec::new("weight", &[self.inputs, self.outputs], Init::Weight { fan_in });
        let bias =
            self.bias.then(|| ParameterSpec::new("bias", &[self.outputs], Init::Bias { fan_in }));
        [weight].into_iter().chain(bias).collect()
    }

    pub(super) fn build(&self, source: &mut Source) -> Linear {
        let weight = source.next();
        let bias = self.bias.then(|| source.next());
        Linear { inner: nn::Linear { weight, bias } }
    }
}

/// `y = x W + b` on plain features `[batch, inputs]`, or at every step of a sequence
/// `[batch, time, inputs]`.
#[derive(Module, Debug)]
pub struct Linear {
    /// Burn's layer: weight `[inputs, outputs]`, bias `[outputs]`.
    pub inner: nn::Linear,
}

impl Linear {
    /// The layer's output.
    pub fn forward(&self, x: Value, tape: &mut dyn Tape) -> Value {
        let (x, y) = match x {
            Value::Sequence(x) => {
                let y = map(&self.inner, x.clone(), tape.precision());
                (Value::Sequence(x), Value::Sequence(y))
            }
            x => {
                let x = x.flat();
                let y = map(&self.inner, x.clone(), tape.precision());
                (Value::Flat(x), Value::Flat(y))
            }
        };
        tape.layer(site(&self.inner), &x, y)
    }
}

/// x W + b.
pub(super) fn map<const D: usize>(
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

/// Where the gradients of a linear map go.
pub(super) fn site(linear: &nn::Linear) -> Site {
    Site::Linear { weight: linear.weight.id, bias: linear.bias.as_ref().map(|bias| bias.id) }
}
