//! Element-wise activations, computed in place. Each derivative follows from the output alone.

use crate::nn::kernels::{SELU, tanh, vectorised};

/// The activation that a layer applies to its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FusedActivation {
    None,
    Relu,
    Tanh,
    Selu,
}

const SCALE: f32 = SELU[0] as f32;
const ALPHA: f32 = SELU[1] as f32;

impl FusedActivation {
    /// Computes `y = act(y + bias)`, for rows of `y` as wide as the bias; an empty one is zero.
    pub(super) fn apply(self, y: &mut [f32], bias: &[f32]) {
        if !bias.is_empty() {
            match self {
                Self::Relu => return add_bias_relu(y, bias),
                _ => add_bias(y, bias),
            }
        }
        match self {
            Self::None => {}
            Self::Relu => relu(y),
            Self::Tanh => tanh::in_place(y),
            Self::Selu => selu(y),
        }
    }

    /// Computes `g = g · act'(x)`, where `y = act(x)`.
    pub(super) fn backward(self, y: &[f32], g: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Relu => relu_backward(y, g),
            Self::Tanh => tanh::backward(y, g),
            Self::Selu => selu_backward(y, g),
        }
    }
}

vectorised! {
    fn add_bias_relu(y: &mut [f32], bias: &[f32]) {
        for row in y.chunks_exact_mut(bias.len()) {
            for (y, b) in row.iter_mut().zip(bias) {
                let v = *y + b;
                // This comparison keeps NaN; `f32::max` would drop it.
                *y = if v < 0.0 { 0.0 } else { v };
            }
        }
    }
}
vectorised! {
    fn add_bias(y: &mut [f32], bias: &[f32]) {
        for row in y.chunks_exact_mut(bias.len()) {
            for (y, b) in row.iter_mut().zip(bias) {
                *y += b;
            }
        }
    }
}
vectorised! {
    fn relu(y: &mut [f32]) {
        for y in y {
            *y = if *y < 0.0 { 0.0 } else { *y };
        }
    }
}
vectorised! {
    fn relu_backward(y: &[f32], g: &mut [f32]) {
        for (g, y) in g.iter_mut().zip(y) {
            *g = if *y > 0.0 { *g } else { 0.0 };
        }
    }
}
fn selu(y: &mut [f32]) {
    for y in y {
        *y = SCALE * if *y > 0.0 { *y } else { ALPHA * y.exp_m1() };
    }
}
vectorised! {
    fn selu_backward(y: &[f32], g: &mut [f32]) {
        for (g, y) in g.iter_mut().zip(y) {
            // For x <= 0, SCALE · ALPHA · eˣ = y + SCALE · ALPHA.
            *g *= if *y > 0.0 { SCALE } else { y + SCALE * ALPHA };
        }
    }
}
