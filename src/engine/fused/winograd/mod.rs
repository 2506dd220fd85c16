//! 3x3 convolutions with stride 1 by minimal filtering.
//!
//! Winograd's algorithm F(2x2, 3x3) (Lavin and Gray, 2015, arXiv:1509.09308) computes four outputs
//! of one channel from 16 products instead of 36. Inputs `d` of 4x4 pixels and kernels `w` are
//! transformed, multiplied point by point, and transformed back: `y = Aᵀ [(G w Gᵀ) ⊙ (Bᵀ d B)] A`.
//! Summed over channels, each of the 16 points is a matrix product over tiles. The weight gradient
//! is the transpose of the same map: `Gᵀ [(Bᵀ d B) ⊙ (A g Aᵀ)] G`, summed over tiles.
//!
//! All constants are 0, 1 and 1/2, so results differ from direct products by a few roundings.

mod filter;
#[cfg(test)]
mod tests;
mod transform;

use pulp::{Simd, WithSimd};

use super::op::{Convolution, resize_buffer};
use super::small_product::{LhsView, ProductShape, RhsView, multiply};
use crate::device::simd::{dispatch, f32_lanes};
use crate::nn::kernels::Im2col;
use crate::nn::kernels::product::WriteMode;

/// Products per tile and pair of channels.
const POINTS: usize = 16;

/// Rows of the weight gradient that are transformed back together, while all points of these rows
/// are in the L1 cache.
const GRADIENT_ROWS: usize = 12;

/// Largest number of channels for which a block of rows is read from the points in place. With
/// more, the values of neighbouring tiles are so far apart that few of them fit into the L1 cache
/// together (measured).
const MAX_CHANNELS_IN_PLACE: usize = 128;

/// Returns the cost of the transforms of a tile, per channel of input and output, in
/// multiplications (measured, with vectors of 16 values and of 8).
fn transform_cost() -> usize {
    if f32_lanes() > 8 { 200 } else { 300 }
}

/// Smallest number of tiles for which weight gradients are faster than products with patches
/// (measured).
const MIN_GRADIENT_TILES: usize = 16;

/// A 3x3 convolution with stride 1 of channels-last images.
#[derive(Clone, Copy, Debug)]
pub(super) struct Winograd {
    size: [usize; 2],
    output: [usize; 2],
    padding: [usize; 2],
    input: usize,
    out: usize,
}

impl Winograd {
    /// Creates the convolution with `out` output channels, if this algorithm can compute it and is
    /// expected to be faster than a product with im2col patches.
    pub(super) fn new_if_faster(im2col: &Im2col, out: usize) -> Option<Self> {
        let plan = Self::new_if_supported(im2col, out)?;
        // Per tile: 4 outputs of 9 products each.
        let (direct, transformed) = (36 * plan.input * out, POINTS * plan.input * out);
        (transformed + transform_cost() * (plan.input + out) < direct).then_some(plan)
    }

    /// Creates the convolution if this algorithm can compute it, whether faster or not.
    pub(super) fn new_if_supported(im2col: &Im2col, out: usize) -> Option<Self> {
        let Im2col { size, padding, output, group_channels: input, .. } = *im2col;
        let lanes = f32_lanes();
        let plan = Self { size, output, padding, input, out };
        let shape = im2col.kernel == [3, 3]
            && im2col.stride == [1, 1]
            && im2col.dilation == [1, 1]
            && input == im2col.channels
            && (0..2).all(|i| padding[i] <= 2 && output[i] + 2 == size[i] + 2 * padding[i]);
        (shape && lanes > 1 && input.is_multiple_of(lanes) && out.is_multiple_of(lanes))
            .then_some(plan)
    }

    /// Returns the numbers of tiles in a column and in a row of the output.
    fn grid(&self) -> [usize; 2] {
        self.output.map(|n| n.div_ceil(2))
    }

    fn tiles(&self) -> usize {
        self.grid().iter().product()
    }

    /// Returns the number of multiplications for one image, without those of the transforms.
    pub(super) fn multiplications(&self) -> usize {
        POINTS * self.tiles() * self.input * self.out
    }

    fn image_len(&self) -> usize {
        self.size[0] * self.size[1] * self.input
    }

    /// Returns the number of values of an image with zeros around it, so that all tiles lie
    /// inside.
    fn padded_len(&self) -> usize {
        self.grid().iter().map(|n| 2 * n + 2).product::<usize>() * self.input
    }

    /// Returns the number of tiles that are transformed and multiplied together: enough for the
    /// matrix products, and few enough for the caches.
    fn tiles_per_block(&self) -> usize {
        (8192 / self.input).clamp(32, 128)
    }

    /// Returns the number of images that fill a block.
    pub(super) fn images_per_block(&self) -> usize {
        self.tiles_per_block().div_ceil(self.tiles())
    }

    /// Returns whether the weight gradient of this many images is expected to be faster than a
    /// product with patches. Transforming it back costs as much for one tile as for many.
    pub(super) fn is_weight_gradient_faster(&self, images: usize) -> bool {
        images * self.tiles() >= MIN_GRADIENT_TILES
    }

    /// Returns the image of a tile, and the top left pixel of its output.
    #[inline(always)]
    fn tile_origin(&self, tile: usize) -> (usize, usize, usize) {
        let (image, tile) = (tile / self.tiles(), tile % self.tiles());
        let columns = self.grid()[1];
        (image, 2 * (tile / columns), 2 * (tile % columns))
    }

    /// Convolves images with a transformed kernel into `out`, `[images, positions, outputs]`.
    pub(super) fn convolve(&self, convolution: Convolution) {
        dispatch(WinogradForward(self, convolution));
    }

    /// Computes the gradient of the kernel, `[3, 3, input, outputs]`, summed over images.
    pub(super) fn weight_gradient(&self, convolution: Convolution) {
        dispatch(WinogradWeightGradient(self, convolution));
    }
}

/// Returns the number of output channels that a product computes together, two vectors.
#[inline(always)]
fn panel<S: Simd>() -> usize {
    2 * S::F32_LANES
}

struct WinogradForward<'a>(&'a Winograd, Convolution<'a>);

impl WithSimd for WinogradForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(plan, Convolution { images, with: filter, out, store, scratch }) = self;
        let (input, outputs, panel) = (plan.input, plan.out, panel::<S>());
        let total = images.len() / plan.image_len() * plan.tiles();
        let block = plan.tiles_per_block().min(total);
        let scratch = resize_buffer(scratch, plan.padded_len() + POINTS * block * (input + panel));
        let (padded, rest) = scratch.split_at_mut(plan.padded_len());
        let (transformed, products) = rest.split_at_mut(POINTS * block * input);
        for first in (0..total).step_by(block) {
            let count = block.min(total - first);
            let transformed = &mut transformed[..POINTS * count * input];
            transform::input(simd, plan, (images, padded), first, transformed);
            for start in (0..outputs).step_by(panel) {
                let width = panel.min(outputs - start);
                let products = &mut products[..POINTS * count * width];
                let each = transformed
                    .chunks_exact(count * input)
                    .zip(filter.chunks_exact(input * outputs))
                    .zip(products.chunks_exact_mut(count * width));
                for ((a, b), c) in each {
                    let size = ProductShape { rows: count, runs: 1, terms: input, width };
                    let a = LhsView { values: a, row_stride: input, run_stride: 0, term_stride: 1 };
                    let b = RhsView { values: &b[start * input..], term_stride: width };
                    multiply(simd, size, a, b, (c, width, WriteMode::Overwrite));
                }
                transform::output(simd, plan, products, first, (start, width), out, store);
            }
        }
    }
}

struct WinogradWeightGradient<'a>(&'a Winograd, Convolution<'a>);

impl WithSimd for WinogradWeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(plan, Convolution { images, with: gradients, out, mut store, scratch }) = self;
        let (input, outputs, panel) = (plan.input, plan.out, panel::<S>());
        let total = images.len() / plan.image_len() * plan.tiles();
        let block = plan.tiles_per_block().max(128).min(total);
        let together = input > MAX_CHANNELS_IN_PLACE;
        let lens = [
            plan.padded_len(),
            outputs,
            POINTS * block * input,
            if together { POINTS * block * input } else { 0 },
            POINTS * block * panel,
            POINTS * GRADIENT_ROWS * panel,
        ];
        let mut rest = resize_buffer(scratch, lens.iter().sum());
        let [padded, zeros, transformed, blocks, slopes, products] = lens.map(|len| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(len);
            rest = others;
            part
        });
        zeros.fill(0.0);
        for first in (0..total).step_by(block) {
            let count = block.min(total - first);
            let transformed = &mut transformed[..POINTS * count * input];
            transform::input(simd, plan, (images, padded), first, transformed);
            if together {
                pack_row_blocks(transformed, count, input, &mut blocks[..transformed.len()]);
            }
            for start in (0..outputs).step_by(panel) {
                let width = panel.min(outputs - start);
                let slopes = &mut slopes[..POINTS * count * width];
                transform::gradient(simd, plan, (gradients, zeros), first, (start, width), slopes);
                for row in (0..input).step_by(GRADIENT_ROWS) {
                    let rows = GRADIENT_ROWS.min(input - row);
                    let products = &mut products[..POINTS * rows * width];
                    // Where point 0 begins, what is between the points, and between the tiles.
                    let (left, point, step) = if together {
                        (&blocks[POINTS * count * row..], count * rows, rows)
                    } else {
                        (&transformed[row..], count * input, input)
                    };
                    let each = slopes
                        .chunks_exact(count * width)
                        .zip(products.chunks_exact_mut(rows * width));
                    for (p, (b, c)) in each.enumerate() {
                        let size = ProductShape { rows, runs: 1, terms: count, width };
                        let a = LhsView {
                            values: &left[p * point..],
                            row_stride: 1,
                            run_stride: 0,
                            term_stride: step,
                        };
                        let b = RhsView { values: b, term_stride: width };
                        multiply(simd, size, a, b, (c, width, WriteMode::Overwrite));
                    }
                    transform::kernel_gradient(
                        simd,
                        plan,
                        products,
                        row,
                        (start, width),
                        out,
                        store,
                    );
                }
            }
            store = WriteMode::Accumulate;
        }
    }
}

/// Rearranges `[points, tiles, channels]` to
/// `[blocks of channels, points, tiles, channels of the block]`, so that values that a product
/// reads together lie together.
#[inline(always)]
fn pack_row_blocks(from: &[f32], tiles: usize, channels: usize, to: &mut [f32]) {
    for row in (0..channels).step_by(GRADIENT_ROWS) {
        let rows = GRADIENT_ROWS.min(channels - row);
        let to = &mut to[POINTS * tiles * row..][..POINTS * tiles * rows];
        let from = from.chunks_exact(channels);
        match rows {
            // The compiler knows the length.
            GRADIENT_ROWS => {
                for (from, to) in from.zip(to.chunks_exact_mut(GRADIENT_ROWS)) {
                    to.copy_from_slice(&from[row..row + GRADIENT_ROWS]);
                }
            }
            _ => {
                for (from, to) in from.zip(to.chunks_exact_mut(rows)) {
                    to.copy_from_slice(&from[row..row + rows]);
                }
            }
        }
    }
}
