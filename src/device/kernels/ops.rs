//! The operations of [`kernels`](super) as an extension of Burn's backends.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

use super::{DropoutMasks, NoiseParams};

/// The operations of [`kernels`](super), one method per function, where they are documented.
///
/// Integers are 32 bits wide, and no tensor is empty.
#[cfg_attr(feature = "gpu", backend_extension(Flex, Cube))]
#[cfg_attr(not(feature = "gpu"), backend_extension(Flex))]
pub trait DeviceOps: Backend {
    /// See [`row_norms`](super::row_norms).
    fn row_norms(rows: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`row_norms`](super::row_norms).
    fn weighted_row_norms(rows: FloatTensor<Self>, roots: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`finite_rows`](super::finite_rows).
    fn finite_rows(rows: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`scale_rows`](super::scale_rows).
    fn scale_rows(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`weighted_row_sum`](super::weighted_row_sum).
    fn weighted_row_sum(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`matmul`](super::matmul).
    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`weighted_outer_sum`](super::weighted_outer_sum).
    fn weighted_outer_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        factors: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
    /// See [`concat`](super::concat).
    fn concat(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`add_noise`](super::add_noise).
    fn add_noise(values: FloatTensor<Self>, noise: NoiseParams) -> FloatTensor<Self>;
    /// See [`add_noise`](super::add_noise).
    fn add_noise_where(
        values: FloatTensor<Self>,
        selected: FloatTensor<Self>,
        noise: NoiseParams,
    ) -> FloatTensor<Self>;
    /// See [`random_bits`](super::random_bits). `tensor` only determines the device.
    fn random_bits(tensor: FloatTensor<Self>, noise: NoiseParams, blocks: usize)
    -> IntTensor<Self>;
    /// See [`normals`](super::normals).
    fn normals(bits: IntTensor<Self>, noise: NoiseParams) -> FloatTensor<Self>;
    /// See [`largest_mask`](super::largest_mask).
    fn largest_mask(
        values: FloatTensor<Self>,
        candidates: FloatTensor<Self>,
        drop: usize,
    ) -> FloatTensor<Self>;
    /// See [`count_nonzero_bins`](super::count_nonzero_bins).
    fn count_nonzero_bins(values: FloatTensor<Self>, bins: usize) -> FloatTensor<Self>;
    /// See [`dropout_masks`](super::dropout_masks()). `rows` holds the index and the copy of each
    /// example.
    fn dropout_masks(rows: IntTensor<Self>, masks: DropoutMasks, width: usize)
    -> FloatTensor<Self>;
    /// See [`augment`](super::augment). `choices` has three integers per copy.
    fn augment(
        images: FloatTensor<Self>,
        choices: IntTensor<Self>,
        shape: [usize; 3],
        copies: usize,
    ) -> FloatTensor<Self>;
}
