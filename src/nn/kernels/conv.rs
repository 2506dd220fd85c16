//! Convolution as one matrix product per example.

use rayon::prelude::*;

use super::product::{MatrixView, WriteMode, matmul, transpose};
use super::{Im2col, Window};

/// Convolves `images`, `[batch, channels in, height, width]`, into `out`,
/// `[batch, channels out, positions]`: the transpose of patches · weightᵀ, plus the bias.
///
/// The weight is `[channels out, patch]` and the bias `[channels out]`. Examples are computed in
/// parallel.
pub(super) fn forward(
    window: &Window,
    images: &[f32],
    weight: &[f32],
    bias: &[f32],
    out: &mut [f32],
) {
    let (channels, patch, positions) = (bias.len(), window.patch_len(), window.positions());
    let im2col = Im2col::channels_first(window);
    // `gemm` is fastest in this layout: transposing the weight once and the small output of each
    // example costs less than letting `gemm` repack every patch matrix.
    let mut weight_t = vec![0.0; weight.len()];
    transpose(weight, channels, &mut weight_t, |to, from| *to = from);
    let weight_t = MatrixView::new(&weight_t, patch, channels);
    out.par_chunks_exact_mut(channels * positions)
        .zip(images.par_chunks_exact(window.image()))
        .for_each_init(
            || (vec![0.0; positions * patch], vec![0.0; positions * channels]),
            |(patches, channels_last), (out, image)| {
                im2col.gather(image, patches);
                let patches = MatrixView::new(patches, positions, patch);
                matmul(channels_last, WriteMode::Overwrite, patches, weight_t);
                transpose(channels_last, positions, out, |to, from| *to = from);
                for (channel, b) in out.chunks_exact_mut(positions).zip(bias) {
                    channel.iter_mut().for_each(|value| *value += b);
                }
            },
        );
}

/// Computes the gradient of the convolution with respect to its input,
/// `[batch, channels in, height, width]`, given the output gradient
/// `[batch, channels out, positions]`: col2im of gradientᵀ · weight.
pub(super) fn backward(window: &Window, gradient: &[f32], weight: &[f32], out: &mut [f32]) {
    let (channels, positions) = (weight.len() / window.patch_len(), window.positions());
    let weight = MatrixView::new(weight, channels, window.patch_len());
    let im2col = Im2col::channels_first(window);
    out.par_chunks_exact_mut(window.image())
        .zip(gradient.par_chunks_exact(channels * positions))
        .for_each_init(
            || vec![0.0; positions * window.patch_len()],
            |patches, (out, gradient)| {
                let gradient = MatrixView::new(gradient, channels, positions);
                matmul(patches, WriteMode::Overwrite, gradient.transposed(), weight);
                im2col.scatter(patches, out);
            },
        );
}
