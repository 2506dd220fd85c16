//! Activations: the same function on every value.

use burn::module::Module;
use burn::tensor::activation::{relu, tanh};

use crate::nn::{Value, kernels};

/// Hyperbolic tangent. Its bounded output keeps gradients of single examples small, which suits
/// clipping (Papernot et al., 2020, "Tempered sigmoid activations").
#[derive(Module, Debug)]
pub struct Tanh;

impl Tanh {
    pub(super) fn forward(&self, x: Value, own_kernel: bool) -> Value {
        if own_kernel && x.on_cpu() {
            return x.map(kernels::tanh, kernels::tanh);
        }
        x.map(tanh, tanh)
    }
}

/// max(0, x).
#[derive(Module, Debug)]
pub struct Relu;

impl Relu {
    pub(super) fn forward(&self, x: Value) -> Value {
        x.map(relu, relu)
    }
}
