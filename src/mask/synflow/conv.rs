//! The convolution of one image in f64, forward and back.

use super::flow::Tensor;
use super::product::{Matrix, product};
use crate::nn::{Conv2dSpec, Window};

/// A convolution of images `[channels, height, width]`.
pub(super) struct Convolution {
    /// How the kernel walks over the image, as one group of channels sees it.
    window: Window,
    /// Height and width of the output.
    output: [usize; 2],
    groups: usize,
    /// Channels that come out of all groups.
    channels_out: usize,
}

impl Convolution {
    /// The convolution for images of `size` that gives images of `output`.
    pub(super) fn new(spec: &Conv2dSpec, size: [usize; 2], output: [usize; 2]) -> Self {
        let all = spec.window(size);
        let window = Window { channels: all.channels / spec.groups, ..all };
        Self { window, output, groups: spec.groups, channels_out: spec.channels_out }
    }

    /// The output `[channels out, rows, columns]`. `room` is scratch.
    pub(super) fn forward(&self, weights: &[f64], x: &[f64], room: &mut Vec<f64>) -> Vec<f64> {
        let mut y = vec![0.0; self.channels_out * self.positions()];
        let (part, out) = (weights.len() / self.groups, y.len() / self.groups);
        let parts = x.chunks_exact(self.window.image()).zip(weights.chunks_exact(part));
        for (y, (x, weights)) in y.chunks_exact_mut(out).zip(parts) {
            let patches = Matrix::new(self.patches(x, room), self.positions());
            product(y, Matrix::new(weights, self.window.patch()), patches);
        }
        y
    }

    /// Writes the gradient by the weights into the scores, and returns the one by the input.
    pub(super) fn backward(
        &self,
        tensor: &mut Tensor,
        x: &[f64],
        gradient: &[f64],
        room: &mut Vec<f64>,
    ) -> Vec<f64> {
        let (patch, positions) = (self.window.patch(), self.positions());
        let mut back = vec![0.0; x.len()];
        let part = tensor.weights.len() / self.groups;
        let maps = x.chunks_exact(self.window.image());
        let maps = maps.zip(back.chunks_exact_mut(self.window.image()));
        let outputs = gradient.chunks_exact(gradient.len() / self.groups);
        let weights = tensor.weights.chunks_exact(part).zip(tensor.scores.chunks_exact_mut(part));
        for (((x, back), gradient), (weights, scores)) in maps.zip(outputs).zip(weights) {
            let patches = Matrix::new(self.patches(x, room), positions);
            let gradient = Matrix::new(gradient, positions);
            product(scores, gradient, patches.transposed());
            let weights = Matrix::new(weights, patch).transposed();
            if self.is_pixelwise() {
                product(back, weights, gradient);
                continue;
            }
            product(room, weights, gradient);
            let step = self.window.stride[1];
            self.each_run(|place, pixel, len| {
                let (from, to) = (&room[place..place + len], &mut back[pixel..]);
                match step {
                    // The usual case, in a form that the compiler can put into vectors.
                    1 => to[..len].iter_mut().zip(from).for_each(|(to, from)| *to += from),
                    _ => (0..len).for_each(|i| to[i * step] += from[i]),
                }
            });
        }
        back
    }

    /// What the kernel sees, `[channels x kernel height x kernel width, positions]`.
    fn patches<'a>(&self, x: &'a [f64], room: &'a mut Vec<f64>) -> &'a [f64] {
        if self.is_pixelwise() {
            return x;
        }
        // Places outside the image are zeros, and no run comes by.
        room.clear();
        room.resize(self.window.patch() * self.positions(), 0.0);
        let step = self.window.stride[1];
        self.each_run(|place, pixel, len| {
            let (from, to) = (&x[pixel..], &mut room[place..place + len]);
            match step {
                1 => to.copy_from_slice(&from[..len]),
                _ => (0..len).for_each(|i| to[i] = from[i * step]),
            }
        });
        room
    }

    /// The kernel is one pixel that visits each pixel once: the patches are the image.
    fn is_pixelwise(&self) -> bool {
        let Window { kernel, stride, padding, .. } = self.window;
        kernel == [1, 1] && stride == [1, 1] && padding == [0, 0]
    }

    fn positions(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// Calls `run` for each part of a row of the patches that lies inside the image: where it
    /// begins in the patches, its first pixel (others follow a stride apart), and its length.
    fn each_run(&self, mut run: impl FnMut(usize, usize, usize)) {
        let Window { channels, size, kernel, stride, padding, dilation } = self.window;
        let [rows, columns] = self.output;
        // The outputs whose pixel lies inside the image, for one place in the kernel.
        let inside = |axis: usize, offset: usize| {
            let first = padding[axis].saturating_sub(offset).div_ceil(stride[axis]);
            let end = (size[axis] + padding[axis]).saturating_sub(offset).div_ceil(stride[axis]);
            first..end.min(self.output[axis])
        };
        let mut line = 0;
        for channel in 0..channels {
            for place in 0..kernel[0] * kernel[1] {
                let down = place / kernel[1] * dilation[0];
                let right = place % kernel[1] * dilation[1];
                let across = inside(1, right);
                for row in inside(0, down).filter(|_| !across.is_empty()) {
                    let y = row * stride[0] + down - padding[0];
                    let x = across.start * stride[1] + right - padding[1];
                    let pixel = (channel * size[0] + y) * size[1] + x;
                    run(line + row * columns + across.start, pixel, across.len());
                }
                line += rows * columns;
            }
        }
    }
}
