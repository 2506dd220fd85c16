//! The operations as Burn's backends see them.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

use super::{Masks, Noise};

/// One method for each function of this room; those say what they do. Integers are 32 bits wide;
/// no tensor is empty.
#[cfg_attr(feature = "gpu", backend_extension(Flex, Cube))]
#[cfg_attr(not(feature = "gpu"), backend_extension(Flex))]
pub trait DeviceOps: Backend {
    /// See [`norms`](super::norms).
    fn norms(rows: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`norms`](super::norms).
    fn weighted_norms(rows: FloatTensor<Self>, roots: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`finite`](super::finite).
    fn finite(rows: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`scaled`](super::scaled).
    fn scaled(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`accumulated`](super::accumulated).
    fn accumulated(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`product`](super::product).
    fn product(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`outer_sum`](super::outer_sum).
    fn outer_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        factors: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
    /// See [`noised`](super::noised).
    fn noised(values: FloatTensor<Self>, noise: Noise) -> FloatTensor<Self>;
    /// See [`noised`](super::noised).
    fn noised_where(
        values: FloatTensor<Self>,
        selected: FloatTensor<Self>,
        noise: Noise,
    ) -> FloatTensor<Self>;
    /// See [`random_bits`](super::random_bits). The tensor only says where.
    fn random_bits(place: FloatTensor<Self>, noise: Noise, blocks: usize) -> IntTensor<Self>;
    /// See [`normals`](super::normals).
    fn normals(words: IntTensor<Self>) -> FloatTensor<Self>;
    /// See [`keep_largest`](super::keep_largest).
    fn keep_largest(
        values: FloatTensor<Self>,
        among: FloatTensor<Self>,
        drop: usize,
    ) -> FloatTensor<Self>;
    /// See [`stretches`](super::stretches).
    fn count_nonzero_bins(values: FloatTensor<Self>, places: usize) -> FloatTensor<Self>;
    /// See [`dropout`](super::dropout): rows of the example's number and its copy's.
    fn dropout(rows: IntTensor<Self>, masks: Masks, each: usize) -> FloatTensor<Self>;
    /// See [`versions`](super::versions).
    fn augment(
        images: FloatTensor<Self>,
        choices: IntTensor<Self>,
        shape: [usize; 3],
        copies: usize,
    ) -> FloatTensor<Self>;
}
