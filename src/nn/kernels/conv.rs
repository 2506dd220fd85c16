//! Convolution as one matrix product per example.

use rayon::prelude::*;

use super::Window;
use super::product::{Matrix, Store, product, turn};

/// Each example's output is patches · weightᵀ + bias, turned to `[channels, positions]`. The
/// weight is `[channels, patch]`; there are as many channels as the bias has values.
pub(super) fn forward(
    window: &Window,
    images: &[f32],
    weight: &[f32],
    bias: &[f32],
    out: &mut [f32],
) {
    let (channels, patch, positions) = (bias.len(), window.patch(), window.positions());
    // The product reads its operands best in this layout: turning the weight once and the small
    // output of each example costs less than the product's own repacking of every patch.
    let mut turned = vec![0.0; weight.len()];
    turn(weight, channels, &mut turned, |to, from| *to = from);
    let turned = Matrix::new(&turned, patch, channels);
    out.par_chunks_exact_mut(channels * positions)
        .zip(images.par_chunks_exact(window.image()))
        .for_each_init(
            || (vec![0.0; positions * patch], vec![0.0; positions * channels]),
            |(patches, product_of), (out, image)| {
                window.columns(image, patches);
                let patches = Matrix::new(patches, positions, patch);
                product(product_of, Store::Replace, patches, turned);
                turn(product_of, positions, out, |to, from| *to = from);
                for (channel, b) in out.chunks_exact_mut(positions).zip(bias) {
                    channel.iter_mut().for_each(|value| *value += b);
                }
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
