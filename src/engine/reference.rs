//! The reference executor: one backward pass per example.

use super::batch::Chunk;
use super::per_example::PerExample;
use super::tap::DropoutTape;
use super::{Batch, Bound, ClippedSum, CoordinateWeights, Executor, Gradients};
use crate::Result;
use crate::device::host::tensor_to_vec;
use crate::nn::loss::cross_entropy;
use crate::nn::{BatchTensor, Network};

/// Executor that computes each example's gradient by one backward pass of Burn over the network's
/// own parameters, without ghost norms or the lab's kernels, and with no backward hook but that of
/// layers with clips. Norms and sums are computed in f64. The tests compare the other executors
/// with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceExecutor;

/// Computes loss and gradient of a chunk of one example, averaged over its copies. The gradient
/// has no values for parameters that the loss does not depend on.
fn example_gradient(tracked: &Network, example: Chunk) -> (f32, Vec<Vec<f32>>) {
    let (batch, (features, labels)) = (example.batch, example.to_rows());
    let x = BatchTensor::new(features, batch.copies(), batch.shape(), &tracked.device());
    let mut tape = DropoutTape::new(batch, example.examples);
    let loss = cross_entropy(tracked.forward(x, &mut tape), &labels).mean();
    let gradients = tracked.gradients(&loss.backward()).into_iter();
    (
        tensor_to_vec(loss)[0],
        gradients.map(|gradient| gradient.map_or_else(Vec::new, tensor_to_vec)).collect(),
    )
}

impl Executor for ReferenceExecutor {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        let groups = super::validated_groups(network, batch, bound, weights)?;
        let tracked = network.tracked();
        let mut sum = Gradients::zeros_like(network);
        let mut total: Vec<Vec<f64>> =
            sum.entries.iter().map(|entry| vec![0.0; entry.values.len()]).collect();
        let weight = |entry: usize, j: usize| {
            weights.map_or(1.0, |weights| f64::from(weights.entries()[entry].values[j]))
        };
        let (mut values, mut finite) = (PerExample::none(groups.group_count()), Vec::new());
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
            let mut squares = vec![0.0; groups.group_count()];
            for (entry, &group) in gradient.iter().enumerate().zip(groups.group_indices()) {
                squares[group] += square(entry);
            }
            let norm = squares.iter().sum::<f64>().sqrt() as f32;
            if !norm.is_finite() || !loss.is_finite() {
                return;
            }
            let each: Vec<f32> = squares.iter().map(|square| square.sqrt() as f32).collect();
            let group_norms = each.iter().map(|&norm| vec![norm]).collect();
            let (norms, losses) = (vec![norm], vec![loss]);
            values.append(&mut PerExample { norms, group_norms, losses });
            finite.push(i);
            let gradient = gradient.iter().zip(groups.group_indices());
            for (total, (gradient, &group)) in total.iter_mut().zip(gradient) {
                let factor = f64::from(groups.clip_function(group).factor(each[group]));
                for (t, &g) in total.iter_mut().zip(gradient) {
                    *t += factor * f64::from(g);
                }
            }
        };
        let examples = batch.finite_examples()?;
        let split = |n: usize| super::batch::chunk_ranges(n, batch.chunk_len());
        batch.for_each_chunk(&examples, &split, |_, chunk| {
            let left_out = batch.excluded_examples();
            let is_read = |one: &Chunk| !left_out.contains(&one.examples[0]);
            chunk.split_by(1).filter(is_read).for_each(&mut add);
            Ok(())
        })?;
        for (entry, total) in sum.entries.iter_mut().zip(total) {
            entry.values = total.into_iter().map(|v| v as f32).collect();
        }
        if let Some(weights) = weights {
            weights.apply_mask(&mut sum);
        }
        Ok(values.to_clipped_sum(sum, batch, &finite))
    }
}
