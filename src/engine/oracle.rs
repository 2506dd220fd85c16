//! One example at a time: slow, plain, always right.

use burn::module::{Module, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::Gradients as BurnGradients;

use super::{Batch, ClipRule, ClippedSum, Gradients, PerExample};
use crate::Result;
use crate::nn::host::values;
use crate::nn::loss::cross_entropy;
use crate::nn::{Network, Tape, Value};

/// One backward pass of Burn per example on the weights themselves, no tap, no ghost norm, none
/// of the lab's own kernels, sums in f64. What the fast executor is tested against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

/// Says no to own kernels.
struct Plain;

impl Tape for Plain {
    fn own_kernels(&self) -> bool {
        false
    }
}

/// Reads the gradient of every parameter, in the network's order.
struct Read<'a> {
    grads: &'a BurnGradients,
    found: Vec<Vec<f32>>,
}

impl ModuleVisitor for Read<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.grads);
        self.found.push(
            gradient.map(values).unwrap_or_else(|| vec![0.0; param.val().shape().num_elements()]),
        );
    }
}

impl PerExample for Oracle {
    fn clipped_sum(&self, network: &Network, batch: &Batch, rule: &ClipRule) -> Result<ClippedSum> {
        batch.check(network)?;
        rule.check()?;
        let tracked = network.tracked();
        let mut sum = Gradients::zeros_like(network);
        let mut total: Vec<Vec<f64>> =
            sum.entries.iter().map(|entry| vec![0.0; entry.values.len()]).collect();
        let mut norms = vec![f32::NAN; batch.len()];
        let mut losses = vec![f32::NAN; batch.len()];
        let mut counted = 0;
        for i in batch.finite() {
            let (features, labels) = batch.rows(&[i]);
            let x = Value::new(features, 1, network.input_shape(), &network.device());
            let loss = cross_entropy(tracked.forward(x, &mut Plain), &labels);
            let grads = loss.backward();
            let mut read = Read { grads: &grads, found: Vec::new() };
            tracked.visit(&mut read);
            let squares = read.found.iter().flatten().map(|&g| f64::from(g).powi(2));
            let norm = squares.sum::<f64>().sqrt() as f32;
            let loss = values(loss)[0];
            if !norm.is_finite() || !loss.is_finite() {
                continue;
            }
            counted += 1;
            (norms[i], losses[i]) = (norm, loss);
            let factor = f64::from(rule.factor(norm));
            for (total, gradient) in total.iter_mut().zip(&read.found) {
                for (t, &g) in total.iter_mut().zip(gradient) {
                    *t += factor * f64::from(g);
                }
            }
        }
        for (entry, total) in sum.entries.iter_mut().zip(total) {
            entry.values = total.into_iter().map(|v| v as f32).collect();
        }
        Ok(ClippedSum { sum, norms, losses, non_finite: batch.len() - counted })
    }
}
