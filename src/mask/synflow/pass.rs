//! The forward and backward pass of Synflow through the linearised network.

use rayon::prelude::*;

use super::linearised::{LinearisedNetwork, Op, ScoredTensor};
use crate::nn::kernels::product::{MatrixView, parallel_product};

impl LinearisedNetwork {
    /// Computes the Synflow objective R: the sum of all outputs for an input of ones.
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
        let finite = tensors.map(|ScoredTensor { scores, weights, .. }| {
            scores.iter_mut().zip(weights).fold(true, |finite, (score, weight)| {
                *score *= *weight;
                finite & score.is_finite()
            })
        });
        if finite.reduce(|| true, |a, b| a & b) { outputs.iter().sum() } else { f64::NAN }
    }
}

struct Pass<'a> {
    tensors: &'a mut [ScoredTensor],
    /// Inputs of the operations with weights, in the order of the forward pass.
    inputs: Vec<Vec<f64>>,
    /// The scratch buffer of the convolutions.
    scratch: Vec<f64>,
}

impl Pass<'_> {
    fn forward(&mut self, ops: &[Op], x: Vec<f64>) -> Vec<f64> {
        ops.iter().fold(x, |mut x, op| match op {
            Op::Linear { weight, inputs, outputs } => {
                let rows = x.len() / inputs;
                let mut y = vec![0.0; rows * outputs];
                let weights = MatrixView::new(&self.tensors[*weight].weights, *inputs, *outputs);
                parallel_product(&mut y, MatrixView::new(&x, rows, *inputs), weights);
                self.inputs.push(x);
                y
            }
            Op::Conv { weight, conv } => {
                let y = conv.forward(&self.tensors[*weight].weights, &x, &mut self.scratch);
                self.inputs.push(x);
                y
            }
            Op::FixedLinearMap(sums) => sums.forward(&x),
            Op::Scale { factors, run } => {
                scale(&mut x, factors, *run);
                x
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
                let ScoredTensor { weights, scores, .. } = &mut self.tensors[*weight];
                let (mut back, rows) = (vec![0.0; x.len()], x.len() / inputs);
                let gradient = MatrixView::new(&gradient, rows, *outputs);
                let weights = MatrixView::new(weights, *inputs, *outputs);
                parallel_product(scores, MatrixView::new(&x, rows, *inputs).transposed(), gradient);
                parallel_product(&mut back, gradient, weights.transposed());
                back
            }
            Op::Conv { weight, conv } => {
                let x = self.inputs.pop().expect("one input per operation with weights");
                conv.backward(&mut self.tensors[*weight], &x, &gradient, &mut self.scratch)
            }
            Op::FixedLinearMap(sums) => sums.backward(&gradient),
            Op::Scale { factors, run } => {
                scale(&mut gradient, factors, *run);
                gradient
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
