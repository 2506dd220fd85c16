//! The forward and backward pass of Synflow through the linearised network.

use rayon::prelude::*;

use super::linearised::{LinearisedNetwork, Op, Tensor};
use super::product::{Matrix, product};
use crate::nn::{Window, ZeroPad2dSpec};

impl LinearisedNetwork {
    /// The Synflow objective R: the sum of all outputs for an input of ones.
    pub(super) fn objective(&mut self) -> f64 {
        let mut pass = Pass { tensors: &mut self.tensors, inputs: Vec::new(), scratch: Vec::new() };
        pass.forward(&self.ops, vec![1.0; self.inputs]).iter().sum()
    }

    /// Computes the scores |w| ∂R/∂|w| and returns the objective R, or NaN if a score is not
    /// finite.
    pub(super) fn update_scores(&mut self) -> f64 {
        let mut pass = Pass { tensors: &mut self.tensors, inputs: Vec::new(), scratch: Vec::new() };
        let outputs = pass.forward(&self.ops, vec![1.0; self.inputs]);
        pass.backward(&self.ops, vec![1.0; outputs.len()]);
        let tensors = self.tensors.par_iter_mut().with_max_len(1);
        let finite = tensors.map(|Tensor { scores, weights, .. }| {
            scores.iter_mut().zip(weights).fold(true, |finite, (score, weight)| {
                *score *= *weight;
                finite & score.is_finite()
            })
        });
        if finite.reduce(|| true, |a, b| a & b) { outputs.iter().sum() } else { f64::NAN }
    }
}

struct Pass<'a> {
    tensors: &'a mut [Tensor],
    /// The inputs of the operations with weights, in the order of the forward pass.
    inputs: Vec<Vec<f64>>,
    /// The scratch buffer of the convolutions.
    scratch: Vec<f64>,
}

impl Pass<'_> {
    fn forward(&mut self, ops: &[Op], x: Vec<f64>) -> Vec<f64> {
        ops.iter().fold(x, |mut x, op| match op {
            Op::Linear { weight, inputs, outputs } => {
                let mut y = vec![0.0; x.len() / inputs * outputs];
                let weights = Matrix::new(&self.tensors[*weight].weights, *outputs);
                product(&mut y, Matrix::new(&x, *inputs), weights);
                self.inputs.push(x);
                y
            }
            Op::Conv { weight, conv } => {
                let y = conv.forward(&self.tensors[*weight].weights, &x, &mut self.scratch);
                self.inputs.push(x);
                y
            }
            Op::Pool { window, output } => {
                let mut y = vec![0.0; window.channels * output[0] * output[1]];
                let scale = 1.0 / (window.kernel[0] * window.kernel[1]) as f64;
                for_each_pixel(window, *output, |from, to| y[to] += scale * x[from]);
                y
            }
            Op::Mean { count, inner } => {
                let blocks = x.chunks_exact(count * inner);
                let mean = |block: &[f64], i: usize| {
                    block[i..].iter().step_by(*inner).sum::<f64>() / *count as f64
                };
                blocks.flat_map(|block| (0..*inner).map(move |i| mean(block, i))).collect()
            }
            Op::Repeat { times } => {
                x.iter().flat_map(|&value| std::iter::repeat_n(value, *times)).collect()
            }
            Op::Scale { factors, run } => {
                scale(&mut x, factors, *run);
                x
            }
            Op::Pad { image, sides } => {
                let mut y = vec![0.0; padded_len(*image, *sides)];
                for_each_padded(*image, *sides, |from, to| y[to] = x[from]);
                y
            }
            Op::Ones { outputs, .. } => vec![1.0; *outputs],
            Op::Residual { body, shortcut } => {
                let mut sum = self.forward(body, x.clone());
                let other = self.forward(shortcut, x);
                sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
                sum
            }
        })
    }

    /// Returns the gradient of R with respect to the input of `ops`, given the gradient with
    /// respect to their output. Writes the gradients with respect to the weights into the scores.
    fn backward(&mut self, ops: &[Op], gradient: Vec<f64>) -> Vec<f64> {
        ops.iter().rev().fold(gradient, |mut gradient, op| match op {
            Op::Linear { weight, inputs, outputs } => {
                let x = self.inputs.pop().expect("one input per operation with weights");
                let Tensor { weights, scores, .. } = &mut self.tensors[*weight];
                let mut back = vec![0.0; x.len()];
                let gradient = Matrix::new(&gradient, *outputs);
                product(scores, Matrix::new(&x, *inputs).transposed(), gradient);
                product(&mut back, gradient, Matrix::new(weights, *outputs).transposed());
                back
            }
            Op::Conv { weight, conv } => {
                let x = self.inputs.pop().expect("one input per operation with weights");
                conv.backward(&mut self.tensors[*weight], &x, &gradient, &mut self.scratch)
            }
            Op::Pool { window, output } => {
                let mut back = vec![0.0; window.image()];
                let scale = 1.0 / (window.kernel[0] * window.kernel[1]) as f64;
                for_each_pixel(window, *output, |from, to| back[from] += scale * gradient[to]);
                back
            }
            Op::Mean { count, inner } => {
                let blocks = gradient.chunks_exact(*inner);
                let divided = |block: &[f64]| -> Vec<f64> {
                    block.iter().map(|value| value / *count as f64).collect()
                };
                blocks.flat_map(|block| divided(block).repeat(*count)).collect()
            }
            Op::Repeat { times } => {
                gradient.chunks_exact(*times).map(|copies| copies.iter().sum()).collect()
            }
            Op::Scale { factors, run } => {
                scale(&mut gradient, factors, *run);
                gradient
            }
            Op::Pad { image, sides } => {
                let mut back = vec![0.0; image.iter().product()];
                for_each_padded(*image, *sides, |from, to| back[from] = gradient[to]);
                back
            }
            Op::Ones { inputs, .. } => vec![0.0; *inputs],
            Op::Residual { body, shortcut } => {
                // The forward pass computed the shortcut last.
                let other = self.backward(shortcut, gradient.clone());
                let mut sum = self.backward(body, gradient);
                sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
                sum
            }
        })
    }
}

/// Multiplies each run of `run` values by its factor, cycling through the factors.
fn scale(x: &mut [f64], factors: &[f64], run: usize) {
    for (run, factor) in x.chunks_exact_mut(run).zip(factors.iter().cycle()) {
        run.iter_mut().for_each(|value| *value *= factor);
    }
}

/// Calls `visit` with every pixel of every pooling window and the output of that window.
fn for_each_pixel(window: &Window, output: [usize; 2], mut visit: impl FnMut(usize, usize)) {
    let Window { channels, size, kernel, stride, .. } = *window;
    let mut to = 0;
    for channel in 0..channels {
        for position in 0..output[0] * output[1] {
            let (top, left) = (position / output[1] * stride[0], position % output[1] * stride[1]);
            for y in top..top + kernel[0] {
                let row = (channel * size[0] + y) * size[1];
                (row + left..row + left + kernel[1]).for_each(|from| visit(from, to));
            }
            to += 1;
        }
    }
}

/// Number of values of an image `[channels, height, width]` after zero padding.
fn padded_len([channels, height, width]: [usize; 3], sides: ZeroPad2dSpec) -> usize {
    let ZeroPad2dSpec { before, after } = sides;
    channels * (height + before[0] + after[0]) * (width + before[1] + after[1])
}

/// Calls `visit` with the index of every pixel of the image and its index in the padded image.
fn for_each_padded(image: [usize; 3], sides: ZeroPad2dSpec, mut visit: impl FnMut(usize, usize)) {
    let ([channels, height, width], ZeroPad2dSpec { before, after }) = (image, sides);
    let (rows, columns) = (height + before[0] + after[0], width + before[1] + after[1]);
    for row in 0..channels * height {
        let to = (row / height * rows + before[0] + row % height) * columns + before[1];
        (0..width).for_each(|x| visit(row * width + x, to + x));
    }
}
