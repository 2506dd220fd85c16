//! In which numbers products are computed.

use burn::prelude::*;
use burn::tensor::FloatDType;
use serde::{Deserialize, Serialize};

/// The numbers that large products are made of: those of linear maps and convolutions, forward,
/// backward and for the gradients of single examples.
///
/// # Guarantee
/// The clip rule's, in either: norms are taken in f32 of the very numbers that are summed (in f32
/// too), so an example's share is never longer than the bound. Only what the gradient *is* differs,
/// by the rounding of its factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 24 bits of precision.
    #[default]
    F32,
    /// 8 bits in the factors, several times as fast on GPUs with matrix units. The CPU's fused
    /// executor computes in f32 all the same.
    Bf16,
}

impl Precision {
    /// Whether it is the one that needs no word.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::F32
    }

    /// A factor of a product.
    pub(crate) fn factor<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => x,
            Self::Bf16 => x.cast(FloatDType::BF16),
        }
    }

    /// A product of two factors, as everything else takes it.
    pub(crate) fn product<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => x,
            Self::Bf16 => x.cast(FloatDType::F32),
        }
    }

    /// x w.
    pub(crate) fn matmul<const D: usize>(self, x: Tensor<D>, w: Tensor<D>) -> Tensor<D> {
        self.product(self.factor(x).matmul(self.factor(w)))
    }
}
