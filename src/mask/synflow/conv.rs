//! 2D convolution of one image in f64, forward and backward, by im2col.

use super::linearised::ScoredTensor;
use crate::nn::kernels::Im2col;
use crate::nn::kernels::product::{MatrixView, parallel_product};
use crate::nn::{Conv2dSpec, Window};

/// A 2D convolution of images `[channels, height, width]`.
pub(super) struct Convolution {
    /// Number of values of an image in the channels of one group.
    image: usize,
    /// The im2col matrix `[channels · kernel_height · kernel_width, positions]` of one group.
    im2col: Im2col,
    groups: usize,
    /// The output channels of one group.
    channels_out: usize,
}

impl Convolution {
    /// Creates the convolution of `spec` for images of height and width `size`.
    pub(super) fn new(spec: &Conv2dSpec, size: [usize; 2]) -> Self {
        let all = spec.geometry(size);
        let window = Window { channels: all.channels / spec.groups, ..all };
        let im2col = Im2col::channels_first_transposed(&window);
        let channels_out = spec.channels_out / spec.groups;
        Self { image: window.image(), im2col, groups: spec.groups, channels_out }
    }

    /// Computes the output `[channels_out, rows, columns]`. `scratch` is a reusable buffer.
    pub(super) fn forward(&self, weights: &[f64], x: &[f64], scratch: &mut Vec<f64>) -> Vec<f64> {
        let (patch, positions) = (self.im2col.patch_len(), self.im2col.positions());
        let mut y = vec![0.0; self.groups * self.channels_out * positions];
        let groups =
            x.chunks_exact(self.image).zip(weights.chunks_exact(self.channels_out * patch));
        for (y, (x, weights)) in y.chunks_exact_mut(self.channels_out * positions).zip(groups) {
            let weights = MatrixView::new(weights, self.channels_out, patch);
            parallel_product(y, weights, self.patches(x, scratch));
        }
        y
    }

    /// Writes the gradient with respect to the weights into the tensor's scores, and returns the
    /// gradient with respect to the input.
    pub(super) fn backward(
        &self,
        tensor: &mut ScoredTensor,
        x: &[f64],
        gradient: &[f64],
        scratch: &mut Vec<f64>,
    ) -> Vec<f64> {
        let (patch, positions) = (self.im2col.patch_len(), self.im2col.positions());
        let mut back = vec![0.0; x.len()];
        let part = self.channels_out * patch;
        let images = x.chunks_exact(self.image).zip(back.chunks_exact_mut(self.image));
        let gradients = gradient.chunks_exact(self.channels_out * positions);
        let weights = tensor.weights.chunks_exact(part).zip(tensor.scores.chunks_exact_mut(part));
        for (((x, back), gradient), (weights, scores)) in images.zip(gradients).zip(weights) {
            let gradient = MatrixView::new(gradient, self.channels_out, positions);
            parallel_product(scores, gradient, self.patches(x, scratch).transposed());
            let weights = MatrixView::new(weights, self.channels_out, patch).transposed();
            if self.im2col.are_pixels() {
                parallel_product(back, weights, gradient);
            } else {
                parallel_product(scratch, weights, gradient);
                self.im2col.scatter(scratch, back);
            }
        }
        back
    }

    /// Returns the im2col matrix of one group.
    fn patches<'a>(&self, x: &'a [f64], scratch: &'a mut Vec<f64>) -> MatrixView<'a, f64> {
        let (patch, positions) = (self.im2col.patch_len(), self.im2col.positions());
        if self.im2col.are_pixels() {
            return MatrixView::new(x, patch, positions);
        }
        scratch.resize(patch * positions, 0.0);
        self.im2col.gather(x, scratch);
        MatrixView::new(scratch, patch, positions)
    }
}
