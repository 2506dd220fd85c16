//! [`FixedLinearMap`]: linear maps without weights.

use crate::nn::{Window, ZeroPad2dSpec};

/// Map whose outputs are sums of some inputs, times one constant.
pub(super) struct FixedLinearMap {
    inputs: usize,
    outputs: usize,
    /// Constant of the map, as a factor of each term and a divisor of the sum: the choice between
    /// them decides the rounding.
    factor: f64,
    divisor: f64,
    /// Terms of all sums: input and output of each.
    terms: Vec<(u32, u32)>,
}

impl FixedLinearMap {
    /// Creates average pooling per channel.
    pub(super) fn pooling(window: &Window) -> Self {
        let (corners, taps) = (window.corners(), window.taps());
        let mut sums = Self::new(window.image(), window.channels * corners.len());
        sums.factor = 1.0 / taps.len() as f64;
        for to in 0..sums.outputs {
            let channel = to / corners.len() * (window.image() / window.channels);
            let first = channel + corners[to % corners.len()];
            taps.iter().for_each(|tap| sums.add(first + tap, to));
        }
        sums
    }

    /// Creates the map from `[_, count, inner]` to `[_, inner]`: the mean over `count`.
    pub(super) fn means(inputs: usize, count: usize, inner: usize) -> Self {
        let mut sums = Self::new(inputs, inputs / count);
        sums.divisor = count as f64;
        for from in 0..inputs {
            sums.add(from, from / (count * inner) * inner + from % inner);
        }
        sums
    }

    /// Creates the map that repeats every value `times` times in a row.
    pub(super) fn repeat(inputs: usize, times: usize) -> Self {
        let mut sums = Self::new(inputs, inputs * times);
        (0..sums.outputs).for_each(|to| sums.add(to / times, to));
        sums
    }

    /// Creates zero padding of images of shape `[channels, height, width]` to `outputs` values.
    pub(super) fn padding(image: [usize; 3], sides: ZeroPad2dSpec, outputs: usize) -> Self {
        let ([channels, height, width], ZeroPad2dSpec { before, after }) = (image, sides);
        let (rows, columns) = (before[0] + height + after[0], before[1] + width + after[1]);
        let mut sums = Self::new(channels * height * width, outputs);
        for from in 0..sums.inputs {
            let (row, x) = (from / width, from % width);
            let row = row / height * rows + before[0] + row % height;
            sums.add(from, row * columns + before[1] + x);
        }
        sums
    }

    /// Creates a map without terms: all outputs are 0.
    fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, factor: 1.0, divisor: 1.0, terms: Vec::new() }
    }

    fn add(&mut self, from: usize, to: usize) {
        self.terms.push((from as u32, to as u32));
    }

    /// Computes the outputs for the inputs `x`.
    pub(super) fn forward(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; self.outputs];
        for &(from, to) in &self.terms {
            y[to as usize] += self.factor * x[from as usize];
        }
        y.iter_mut().for_each(|y| *y /= self.divisor);
        y
    }

    /// Computes the gradient with respect to the inputs, given that with respect to the outputs.
    pub(super) fn backward(&self, gradient: &[f64]) -> Vec<f64> {
        let mut back = vec![0.0; self.inputs];
        for &(from, to) in &self.terms {
            back[from as usize] += self.factor * (gradient[to as usize] / self.divisor);
        }
        back
    }
}
