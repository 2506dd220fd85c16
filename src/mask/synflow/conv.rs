//! 2D convolution of one image in f64, forward and backward, by im2col.

use super::linearised::Tensor;
use super::product::{Matrix, product};
use crate::nn::{Conv2dSpec, Window};

/// A 2D convolution of images `[channels, height, width]`.
pub(super) struct Convolution {
    /// The geometry for one group of channels.
    window: Window,
    /// Height and width of the output.
    output: [usize; 2],
    groups: usize,
    /// The output channels of all groups.
    channels_out: usize,
}

impl Convolution {
    /// The convolution of `spec` for images of height and width `size` and outputs of height and
    /// width `output`.
    pub(super) fn new(spec: &Conv2dSpec, size: [usize; 2], output: [usize; 2]) -> Self {
        let all = spec.window(size);
        let window = Window { channels: all.channels / spec.groups, ..all };
        Self { window, output, groups: spec.groups, channels_out: spec.channels_out }
    }

    /// The output `[channels_out, rows, columns]`. `scratch` is a reusable buffer.
    pub(super) fn forward(&self, weights: &[f64], x: &[f64], scratch: &mut Vec<f64>) -> Vec<f64> {
        let mut y = vec![0.0; self.channels_out * self.positions()];
        let (part, out) = (weights.len() / self.groups, y.len() / self.groups);
        let parts = x.chunks_exact(self.window.image()).zip(weights.chunks_exact(part));
        for (y, (x, weights)) in y.chunks_exact_mut(out).zip(parts) {
            let patches = Matrix::new(self.patches(x, scratch), self.positions());
            product(y, Matrix::new(weights, self.window.patch()), patches);
        }
        y
    }

    /// Writes the gradient with respect to the weights into the tensor's scores, and returns the
    /// gradient with respect to the input.
    pub(super) fn backward(
        &self,
        tensor: &mut Tensor,
        x: &[f64],
        gradient: &[f64],
        scratch: &mut Vec<f64>,
    ) -> Vec<f64> {
        let (patch, positions) = (self.window.patch(), self.positions());
        let mut back = vec![0.0; x.len()];
        let part = tensor.weights.len() / self.groups;
        let maps = x.chunks_exact(self.window.image());
        let maps = maps.zip(back.chunks_exact_mut(self.window.image()));
        let outputs = gradient.chunks_exact(gradient.len() / self.groups);
        let weights = tensor.weights.chunks_exact(part).zip(tensor.scores.chunks_exact_mut(part));
        for (((x, back), gradient), (weights, scores)) in maps.zip(outputs).zip(weights) {
            let patches = Matrix::new(self.patches(x, scratch), positions);
            let gradient = Matrix::new(gradient, positions);
            product(scores, gradient, patches.transposed());
            let weights = Matrix::new(weights, patch).transposed();
            if self.is_identity_im2col() {
                product(back, weights, gradient);
                continue;
            }
            product(scratch, weights, gradient);
            let step = self.window.stride[1];
            self.for_each_run(|patch, pixel, len| {
                let (from, to) = (&scratch[patch..patch + len], &mut back[pixel..]);
                match step {
                    // The usual case; the compiler vectorises it.
                    1 => to[..len].iter_mut().zip(from).for_each(|(to, from)| *to += from),
                    _ => (0..len).for_each(|i| to[i * step] += from[i]),
                }
            });
        }
        back
    }

    /// The im2col matrix `[channels · kernel_height · kernel_width, positions]` of one group.
    fn patches<'a>(&self, x: &'a [f64], scratch: &'a mut Vec<f64>) -> &'a [f64] {
        if self.is_identity_im2col() {
            return x;
        }
        // Padding stays zero: the runs cover the inside of the image only.
        scratch.clear();
        scratch.resize(self.window.patch() * self.positions(), 0.0);
        let step = self.window.stride[1];
        self.for_each_run(|patch, pixel, len| {
            let (from, to) = (&x[pixel..], &mut scratch[patch..patch + len]);
            match step {
                1 => to.copy_from_slice(&from[..len]),
                _ => (0..len).for_each(|i| to[i] = from[i * step]),
            }
        });
        scratch
    }

    /// Whether the im2col matrix is the image itself: a 1x1 kernel with stride 1 and no padding.
    fn is_identity_im2col(&self) -> bool {
        let Window { kernel, stride, padding, .. } = self.window;
        kernel == [1, 1] && stride == [1, 1] && padding == [0, 0]
    }

    fn positions(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// Calls `run` for each contiguous part of an im2col row that lies inside the image, with its
    /// start in the matrix, its first pixel (the next ones are a stride apart) and its length.
    fn for_each_run(&self, mut run: impl FnMut(usize, usize, usize)) {
        let Window { channels, size, kernel, stride, padding, dilation } = self.window;
        let [rows, columns] = self.output;
        // The outputs along an axis whose input pixel at this kernel offset is inside the image.
        let inside = |axis: usize, offset: usize| {
            let first = padding[axis].saturating_sub(offset).div_ceil(stride[axis]);
            let end = (size[axis] + padding[axis]).saturating_sub(offset).div_ceil(stride[axis]);
            first..end.min(self.output[axis])
        };
        let mut matrix_row = 0;
        for channel in 0..channels {
            for tap in 0..kernel[0] * kernel[1] {
                let offset_y = tap / kernel[1] * dilation[0];
                let offset_x = tap % kernel[1] * dilation[1];
                let columns_inside = inside(1, offset_x);
                for row in inside(0, offset_y).filter(|_| !columns_inside.is_empty()) {
                    let y = row * stride[0] + offset_y - padding[0];
                    let x = columns_inside.start * stride[1] + offset_x - padding[1];
                    let pixel = (channel * size[0] + y) * size[1] + x;
                    let start = matrix_row + row * columns + columns_inside.start;
                    run(start, pixel, columns_inside.len());
                }
                matrix_row += rows * columns;
            }
        }
    }
}
