//! [`Precision`]: the floating-point format of matrix products.

use burn::prelude::*;
use burn::tensor::FloatDType;
use serde::{Deserialize, Serialize};

/// Floating-point format of the matrix products of linear layers, LSTMs and convolutions: those of
/// the forward pass, of the backward pass and of the per-example gradients.
///
/// ```
/// use epsilab::prelude::*;
/// let population = data::Population::with_size(60_000);
/// let method = DpSgd::new().noise_multiplier(1.0);
/// let exact = method.plan_for(&population)?;
/// let fast = method.precision(Precision::Bf16).plan_for(&population)?;
/// assert_eq!(fast.settings().precision, Precision::Bf16);
/// assert_eq!(fast.event(), exact.event()); // the same guarantee
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// The sensitivity is that of the clip rule in both formats. Norms are computed in f32 from the
/// same values that are summed, also in f32, so the clipped contribution of an example is never
/// longer than the bound. Only the value of the gradient differs, by the rounding of its products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// IEEE single precision: 32 bits, 24 of them significant.
    #[default]
    F32,
    /// bfloat16 matrix products: the operands are rounded to 16 bits, 8 of them significant, and so
    /// are the results. Everything else is computed in f32. Several times as fast as f32 on GPUs
    /// with tensor cores. The fused executor, which runs on the CPU, always computes in f32.
    Bf16,
}

impl Precision {
    /// Returns whether this is the default format, f32.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::F32
    }

    /// Casts an operand to the format of the products.
    pub(crate) fn cast_operand<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => x,
            Self::Bf16 => x.cast(FloatDType::BF16),
        }
    }

    /// Casts a product back to f32.
    pub(crate) fn cast_result<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => x,
            Self::Bf16 => x.cast(FloatDType::F32),
        }
    }

    /// Computes the matrix product of two f32 tensors in this format, as f32.
    pub(crate) fn matmul<const D: usize>(self, x: Tensor<D>, w: Tensor<D>) -> Tensor<D> {
        self.cast_result(self.cast_operand(x).matmul(self.cast_operand(w)))
    }
}
