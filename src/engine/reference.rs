//! The reference executor: one backward pass per example.

use burn::module::{Module, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::Gradients as BurnGradients;

use super::batch::Chunk;
use super::gradient_hook::clip_gradient;
use super::{Batch, Bound, ClippedSum, Executor, Gradients, Weights};
use crate::Result;
use crate::device::DeviceArray;
use crate::device::host::values;
use crate::nn::loss::cross_entropy;
use crate::nn::{Network, Tape, UpstreamClip, Value};

/// Computes each example's gradient by one backward pass of Burn over the network's own parameters,
/// without ghost norms or the lab's kernels, and with no backward hook but that of layers with
/// clips. Norms and sums are computed in f64.
/// The tests compare the other executors with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceExecutor;

/// Disables the lab's kernels and draws the batch's dropout masks.
struct ReferenceTape<'a> {
    batch: &'a Batch,
    example: usize,
    dropouts: usize,
}

impl Tape for ReferenceTape<'_> {
    fn use_cpu_kernels(&self) -> bool {
        false
    }

    fn clip_upstream(&mut self, y: Value, clip: &UpstreamClip) -> Value {
        clip_gradient(y, *clip, self.batch.copies())
    }

    fn dropout(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        let layer = self.dropouts;
        self.dropouts += 1;
        let rows = self.batch.rows(&[self.example]);
        let mut mask = vec![0.0; shape.iter().product()];
        let each = mask.len() / rows.len();
        for (mask, row) in mask.chunks_mut(each).zip(rows) {
            self.batch.dropout_mask(row, layer, rate, mask);
        }
        Some(mask.into())
    }
}

/// Collects the gradient of every parameter, in the network's order.
struct GradientCollector<'a> {
    grads: &'a BurnGradients,
    gradients: Vec<Vec<f32>>,
}

impl ModuleVisitor for GradientCollector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.grads);
        self.gradients.push(
            gradient.map(values).unwrap_or_else(|| vec![0.0; param.val().shape().num_elements()]),
        );
    }
}

/// Loss and gradient of a chunk of one example, averaged over its copies.
fn example_gradient(tracked: &Network, one: Chunk) -> (f32, Vec<Vec<f32>>) {
    let (batch, (features, labels)) = (one.batch, one.rows());
    let x = Value::new(features, batch.copies(), batch.shape(), &tracked.device());
    let mut tape = ReferenceTape { batch, example: one.examples[0], dropouts: 0 };
    let loss = cross_entropy(tracked.forward(x, &mut tape), &labels).mean();
    let grads = loss.backward();
    let mut collector = GradientCollector { grads: &grads, gradients: Vec::new() };
    tracked.visit(&mut collector);
    (values(loss)[0], collector.gradients)
}

impl Executor for ReferenceExecutor {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
        weights: Option<&Weights>,
    ) -> Result<ClippedSum> {
        let groups = super::check(network, batch, bound, weights)?;
        let tracked = network.tracked();
        let mut sum = Gradients::zeros_like(network);
        let mut total: Vec<Vec<f64>> =
            sum.entries.iter().map(|entry| vec![0.0; entry.values.len()]).collect();
        let weight = |entry: usize, j: usize| {
            weights.map_or(1.0, |weights| f64::from(weights.entries()[entry].values[j]))
        };
        let mut norms = vec![f32::NAN; batch.len()];
        let mut group_norms = vec![norms.clone(); groups.count()];
        let mut losses = vec![f32::NAN; batch.len()];
        let mut add = |one: Chunk| {
            let i = one.examples[0];
            let (loss, gradient) = example_gradient(&tracked, one);
            let square = |(entry, values): (usize, &Vec<f32>)| {
                let squares = values
                    .iter()
                    .enumerate()
                    .map(|(j, &g)| weight(entry, j) * f64::from(g).powi(2));
                squares.sum::<f64>()
            };
            let mut squares = vec![0.0; groups.count()];
            for (entry, &group) in gradient.iter().enumerate().zip(groups.of_parameters()) {
                squares[group] += square(entry);
            }
            let norm = squares.iter().sum::<f64>().sqrt() as f32;
            if !norm.is_finite() || !loss.is_finite() {
                return;
            }
            norms[i] = norm;
            losses[i] = loss;
            let each: Vec<f32> = squares.iter().map(|square| square.sqrt() as f32).collect();
            for (all, &norm) in group_norms.iter_mut().zip(&each) {
                all[i] = norm;
            }
            let gradient = gradient.iter().zip(groups.of_parameters());
            for (total, (gradient, &group)) in total.iter_mut().zip(gradient) {
                let factor = f64::from(groups.rule(group).factor(each[group]));
                for (t, &g) in total.iter_mut().zip(gradient) {
                    *t += factor * f64::from(g);
                }
            }
        };
        let examples = batch.finite()?;
        let split = |n: usize| super::batch::pieces(n, batch.chunk_len());
        batch.for_each_chunk(&examples, &split, |_, chunk| {
            let left_out = batch.left_out();
            let is_read = |one: &Chunk| !left_out.contains(&one.examples[0]);
            chunk.parts(1).filter(is_read).for_each(&mut add);
            Ok(())
        })?;
        for (entry, total) in sum.entries.iter_mut().zip(total) {
            entry.values = total.into_iter().map(|v| v as f32).collect();
        }
        if let Some(weights) = weights {
            weights.select(&mut sum);
        }
        let group_norms = match groups.count() {
            1 => Vec::new(),
            _ => group_norms.into_iter().map(Into::into).collect(),
        };
        Ok(ClippedSum { sum, norms: norms.into(), group_norms, losses: losses.into() })
    }
}
