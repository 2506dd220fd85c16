//! Element-wise activation functions.

use burn::module::Module;
use burn::prelude::*;
use burn::tensor::activation::{relu, tanh};

use crate::nn::{BatchTensor, Tape, kernels};

/// Element-wise hyperbolic tangent.
///
/// Its bounded output keeps per-example gradients small, which suits clipping (Papernot et al.,
/// 2020, "Tempered sigmoid activations for deep learning with differential privacy").
#[derive(Module, Debug)]
pub struct Tanh;

impl Tanh {
    /// Computes tanh x, element-wise.
    pub fn forward(&self, x: BatchTensor, tape: &dyn Tape) -> BatchTensor {
        if tape.use_cpu_kernels() && x.is_on_cpu() {
            return x.map(kernels::tanh, kernels::tanh, kernels::tanh);
        }
        x.map(tanh, tanh, tanh)
    }
}

/// Rectified linear unit: element-wise max(0, x).
#[derive(Module, Debug)]
pub struct Relu;

impl Relu {
    /// Computes max(0, x), element-wise.
    pub fn forward(&self, x: BatchTensor) -> BatchTensor {
        x.map(relu, relu, relu)
    }
}

/// Scaled exponential linear unit: element-wise λ x for x > 0 and λ α (eˣ - 1) for x <= 0
/// (Klambauer et al., 2017, "Self-normalizing neural networks").
///
/// λ and α are such that activations keep mean 0 and variance 1 from layer to layer, if weights are
/// drawn from N(0, 1/fan-in) ([`Initialisation::LecunNormal`](crate::nn::Initialisation)).
#[derive(Module, Debug)]
pub struct Selu;

impl Selu {
    /// Computes λ max(0, x) + λ α min(0, eˣ - 1), element-wise.
    pub fn forward(&self, x: BatchTensor) -> BatchTensor {
        x.map(selu, selu, selu)
    }
}

fn selu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let [scale, alpha] = kernels::SELU;
    // min(x, 0) is computed as x - max(x, 0), which autodiff differentiates to 1 at 0: the
    // derivative of SELU at 0 is then the one from the left, as in PyTorch. Only negative values
    // are exponentiated: e^x of a large x would be infinite, and its derivative infinity times 0.
    let negative = (x.clone() - relu(x.clone())).exp() - 1.0;
    relu(x) * scale + negative * (scale * alpha)
}
