//! Activations: the same function on every value.

use burn::module::Module;
use burn::prelude::*;
use burn::tensor::activation::{relu, tanh};

use crate::nn::{Tape, Value, kernels};

/// Hyperbolic tangent. Its bounded output keeps gradients of single examples small, which suits
/// clipping (Papernot et al., 2020, "Tempered sigmoid activations").
#[derive(Module, Debug)]
pub struct Tanh;

impl Tanh {
    /// tanh x.
    pub fn forward(&self, x: Value, tape: &dyn Tape) -> Value {
        if tape.own_kernels() && x.on_cpu() {
            return x.map(kernels::tanh, kernels::tanh, kernels::tanh);
        }
        x.map(tanh, tanh, tanh)
    }
}

/// max(0, x).
#[derive(Module, Debug)]
pub struct Relu;

impl Relu {
    /// max(0, x).
    pub fn forward(&self, x: Value) -> Value {
        x.map(relu, relu, relu)
    }
}

/// Scaled exponential linear unit: λ x for x > 0, λ α (eˣ - 1) below, with λ and α such that mean
/// 0 and variance 1 stay as they are from layer to layer (Klambauer et al., 2017,
/// "Self-normalizing neural networks"). Wants weights drawn from N(0, 1/fan-in).
#[derive(Module, Debug)]
pub struct Selu;

impl Selu {
    /// λ max(0, x) + λ α min(0, eˣ - 1).
    pub fn forward(&self, x: Value) -> Value {
        x.map(selu, selu, selu)
    }
}

fn selu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let [scale, alpha] = kernels::SELU;
    // min(x, 0) as x - max(x, 0): its derivative at 0 is 1, so that of the whole is that from the
    // left, as in PyTorch. The exponent is taken of negative numbers only: e^x of a large x would be infinite, and
    // its share of the derivative infinity times 0.
    let below = (x.clone() - relu(x.clone())).exp() - 1.0;
    relu(x) * scale + below * (scale * alpha)
}
