//! Convolution as one matrix product per example.

use rayon::prelude::*;

use super::Window;
use super::product::{Matrix, Store, product};

/// Each example's output `[channels, positions]` is weight · patchesᵀ + bias. The weight is
/// `[channels, patch]`; there are as many channels as the bias has values.
pub(super) fn forward(
    window: &Window,
    images: &[f32],
    weight: &[f32],
    bias: &[f32],
    out: &mut [f32],
) {
    let (channels, positions) = (bias.len(), window.positions());
    let weight = Matrix::new(weight, channels, window.patch());
    out.par_chunks_exact_mut(channels * positions)
        .zip(images.par_chunks_exact(window.image()))
        .for_each_init(
            || vec![0.0; positions * window.patch()],
            |patches, (out, image)| {
                for (channel, b) in out.chunks_exact_mut(positions).zip(bias) {
                    channel.fill(*b);
                }
                window.columns(image, patches);
                let patches = Matrix::new(patches, positions, window.patch());
                product(out, Store::Add, weight, patches.transposed());
            },
        );
}

/// Each example's gradient by its image: the patches' gradients, gradientᵀ · weight, added up
/// where the patches came from.
pub(super) fn backward(window: &Window, gradient: &[f32], weight: &[f32], out: &mut [f32]) {
    let (channels, positions) = (weight.len() / window.patch(), window.positions());
    let weight = Matrix::new(weight, channels, window.patch());
    out.par_chunks_exact_mut(window.image())
        .zip(gradient.par_chunks_exact(channels * positions))
        .for_each_init(
            || vec![0.0; positions * window.patch()],
            |patches, (out, gradient)| {
                let gradient = Matrix::new(gradient, channels, positions);
                product(patches, Store::Replace, gradient.transposed(), weight);
                window.add_columns(patches, out);
            },
        );
}
