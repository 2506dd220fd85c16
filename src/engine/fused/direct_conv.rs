//! Convolutions without patches.
//!
//! A matrix of patches repeats each pixel once per kernel position that reads it, and with few
//! channels writing it takes longer than the product. Here the product reads the pixels where they
//! are, in an image with zeros around it: along an output row, the pixel of a kernel position moves
//! by the stride, and a kernel row with its channels is contiguous.

#[cfg(test)]
mod tests;

use pulp::{Simd, WithSimd};

use super::op::{Convolution, resize_buffer};
use super::small_product::{LhsView, ProductShape, RhsView, multiply};
use crate::device::simd::{dispatch, f32_lanes};
use crate::nn::kernels::Im2col;
use crate::nn::kernels::product::WriteMode;

/// Largest number of weights for which the product is faster than one with patches (measured): it
/// reads them once per output row.
const MAX_WEIGHTS: usize = 1 << 17;

/// Largest number of terms of sums that, for at least [`MIN_PATCH_OUTPUTS`] channels, take less
/// time than writing them. The product with patches, which writes memory in order, is then the
/// faster one (measured).
const SHORT_SUM_TERMS: usize = 16;
const MIN_PATCH_OUTPUTS: usize = 128;

/// Smallest number of output columns whose sums keep the vector units busy.
const MIN_COLUMNS: usize = 4;

/// Largest number of weights whose gradients stay in the L1 cache, so that they are added to for a
/// few output rows at a time, and of values of the output gradient in these rows.
const L1_WEIGHTS: usize = 1 << 12;
const BLOCK_VALUES: usize = 1 << 12;

/// A convolution of channels-last images, `[positions, outputs]` from `[height, width, channels]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectConv {
    geometry: Im2col,
    out: usize,
}

impl DirectConv {
    /// Creates the convolution with `out` output channels, if it is expected to be faster without
    /// patches than with them.
    pub(super) fn new_if_faster(geometry: &Im2col, out: usize) -> Option<Self> {
        let [height, width] = geometry.kernel;
        let faster = height * width > 1
            && geometry.output[1] >= MIN_COLUMNS
            && (geometry.patch_len() > SHORT_SUM_TERMS || out < MIN_PATCH_OUTPUTS)
            && geometry.patch_len() * out <= MAX_WEIGHTS;
        Self::new_if_supported(geometry, out).filter(|_| faster)
    }

    /// Creates the convolution if it is possible, whether faster or not.
    pub(super) fn new_if_supported(geometry: &Im2col, out: usize) -> Option<Self> {
        let shape = geometry.group_channels == geometry.channels && geometry.dilation == [1, 1];
        (shape && f32_lanes() > 1 && out.is_multiple_of(f32_lanes()))
            .then_some(Self { geometry: *geometry, out })
    }

    /// Returns the number of values between the starts of neighbouring rows of an image with zeros
    /// around it.
    fn padded_row(&self) -> usize {
        (self.geometry.size[1] + 2 * self.geometry.padding[1]) * self.geometry.channels
    }

    fn padded_len(&self) -> usize {
        (self.geometry.size[0] + 2 * self.geometry.padding[0]) * self.padded_row()
    }

    fn image_len(&self) -> usize {
        self.geometry.size.iter().product::<usize>() * self.geometry.channels
    }

    /// Returns an image of zeros, into which [`pad`](Self::pad) writes.
    fn zeros<'a>(&self, scratch: &'a mut Vec<f32>) -> &'a mut [f32] {
        let padded = resize_buffer(scratch, self.padded_len());
        padded.fill(0.0);
        padded
    }

    /// Writes an image into a padded one, whose zero borders are written already.
    fn pad(&self, image: &[f32], padded: &mut [f32]) {
        let Im2col { size, padding, channels, .. } = self.geometry;
        let row = self.padded_row();
        let rows = padded.chunks_exact_mut(row).skip(padding[0]);
        let start = padding[1] * channels;
        for (from, to) in image.chunks_exact(size[1] * channels).zip(rows) {
            to[start..start + from.len()].copy_from_slice(from);
        }
    }

    /// Convolves images into `out`, `[images, positions, outputs]`, with a kernel
    /// `[kernel height, kernel width, channels, outputs]`.
    pub(super) fn convolve(&self, convolution: Convolution) {
        dispatch(DirectForward(self, convolution));
    }

    /// Computes the gradient of the kernel, `[kernel height, kernel width, channels, outputs]`,
    /// summed over images.
    pub(super) fn weight_gradient(&self, convolution: Convolution) {
        dispatch(DirectWeightGradient(self, convolution));
    }
}

struct DirectForward<'a>(&'a DirectConv, Convolution<'a>);

impl WithSimd for DirectForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(plan, Convolution { images, with: kernel, out, store, scratch }) = self;
        let padded = plan.zeros(scratch);
        let Im2col { kernel: [runs, kernel_width], stride, channels, output, .. } = plan.geometry;
        let (outputs, panel) = (plan.out, 2 * S::F32_LANES);
        let row_len = output[1] * outputs;
        let each =
            images.chunks_exact(plan.image_len()).zip(out.chunks_exact_mut(output[0] * row_len));
        for (image, out) in each {
            plan.pad(image, padded);
            for (row, out) in out.chunks_exact_mut(row_len).enumerate() {
                let values = &padded[row * stride[0] * plan.padded_row()..];
                let (row, apart) = (stride[1] * channels, plan.padded_row());
                let a = LhsView { values, row_stride: row, run_stride: apart, term_stride: 1 };
                for start in (0..outputs).step_by(panel) {
                    let width = panel.min(outputs - start);
                    let terms = kernel_width * channels;
                    let size = ProductShape { rows: output[1], runs, terms, width };
                    let b = RhsView { values: &kernel[start..], term_stride: outputs };
                    multiply(simd, size, a, b, (&mut out[start..], outputs, store));
                }
            }
        }
    }
}

struct DirectWeightGradient<'a>(&'a DirectConv, Convolution<'a>);

impl WithSimd for DirectWeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(plan, Convolution { images, with: gradients, out, mut store, scratch }) = self;
        let padded = plan.zeros(scratch);
        let Im2col { kernel, stride, channels, output, .. } = plan.geometry;
        let (outputs, panel) = (plan.out, 2 * S::F32_LANES);
        let (rows, row_len) = (kernel[1] * channels, output[1] * outputs);
        let apart = stride[0] * plan.padded_row();
        let block = if out.len() <= L1_WEIGHTS { BLOCK_VALUES / row_len } else { output[0] };
        let block = block.clamp(1, output[0]);
        let each =
            images.chunks_exact(plan.image_len()).zip(gradients.chunks_exact(output[0] * row_len));
        for (image, g) in each {
            plan.pad(image, padded);
            for (at, g) in g.chunks(block * row_len).enumerate() {
                // Each kernel row is a block of rows of the product.
                for (row, out) in out.chunks_exact_mut(rows * outputs).enumerate() {
                    let values = &padded[at * block * apart + row * plan.padded_row()..];
                    let a = LhsView {
                        values,
                        row_stride: 1,
                        run_stride: apart,
                        term_stride: stride[1] * channels,
                    };
                    for start in (0..outputs).step_by(panel) {
                        let width = panel.min(outputs - start);
                        let size =
                            ProductShape { rows, runs: g.len() / row_len, terms: output[1], width };
                        let b = RhsView { values: &g[start..], term_stride: outputs };
                        multiply(simd, size, a, b, (&mut out[start..], outputs, store));
                    }
                }
                store = WriteMode::Accumulate;
            }
        }
    }
}
