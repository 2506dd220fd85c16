//! Clipped sum of one chunk of examples: forward pass, backward pass, norms, factors, weighted sum.

use std::collections::BTreeMap;

use burn::prelude::*;

use super::norm_weights::NormWeights;
use super::recorder::RecordingTape;
use super::site::{RequestedGrads, site_gradients};
use super::site_gradient::SiteGradient;
use crate::Result;
use crate::device::host::tensor_to_vec;
use crate::engine::batch::Chunk;
use crate::engine::per_example::PerExample;
use crate::engine::{Batch, ClipGroups, joint_norm};
use crate::nn::loss::cross_entropy;
use crate::nn::{BatchTensor, Network};

/// Arguments that all chunks of a batch have in common.
pub(super) struct BatchJob<'a> {
    pub(super) network: &'a Network,
    pub(super) device: Device,
    pub(super) batch: &'a Batch,
    pub(super) groups: ClipGroups,
    pub(super) norm_weights: Vec<NormWeights>,
    pub(super) requested: RequestedGrads,
}

/// Sum over one or more chunks, with the norms and losses of their examples.
pub(super) struct ChunkSum<T = f32> {
    /// Σ factor · gradient, flattened, by entry. Parameters that the loss does not depend on are
    /// absent.
    pub(super) sum: BTreeMap<usize, Tensor<1>>,
    pub(super) per_example: PerExample<T>,
}

impl<T: Clone> ChunkSum<T> {
    /// Returns the sum of no examples.
    pub(super) fn empty(groups: usize) -> Self {
        Self { sum: BTreeMap::new(), per_example: PerExample::none(groups) }
    }

    /// Adds the result of the next chunk.
    pub(super) fn add(&mut self, mut chunk: Self) {
        for (entry, values) in chunk.sum {
            let values = match self.sum.remove(&entry) {
                Some(sum) => sum + values,
                None => values,
            };
            self.sum.insert(entry, values);
        }
        self.per_example.append(&mut chunk.per_example);
    }
}

impl BatchJob<'_> {
    /// Computes the clipped sum of the given examples.
    ///
    /// # Errors
    /// If a layer's input or output does not have one row per copy of an example.
    pub(super) fn sum_chunk(&self, chunk: Chunk) -> Result<ChunkSum> {
        let (n, copies, device) = (chunk.len(), self.batch.copies(), &self.device);
        let (features, labels) = chunk.to_rows();
        let x = BatchTensor::new(features, n * copies, self.batch.shape(), device);
        let (site_gradients, losses) =
            self.forward_backward(x, &labels, RecordingTape::new(self.batch, chunk.examples))?;
        let (group_norms, losses) = self.norms(&site_gradients, losses);
        let factors = group_norms.iter().enumerate().map(|(group, norms)| {
            let rule = self.groups.clip_function(group);
            let factors: Vec<f32> = norms.iter().map(|&norm| rule.factor(norm)).collect();
            Tensor::<1>::from_data(factors.as_slice(), device)
        });
        let factors: Vec<_> = factors.collect();
        let group_of_tensor = self.groups.group_indices();
        let sum = site_gradients
            .into_iter()
            .map(|(entry, site_gradient)| {
                (entry, site_gradient.sum(&factors[group_of_tensor[entry]]))
            })
            .collect();
        let norms = (0..n).map(|i| joint_norm(group_norms.iter().map(|norms| norms[i]))).collect();
        Ok(ChunkSum { sum, per_example: PerExample { norms, group_norms, losses } })
    }

    /// Runs the forward and backward pass: per-example gradients of each parameter that the loss
    /// depends on, and the losses, `[examples]`. `labels` has one label per row of `x`.
    ///
    /// # Errors
    /// As [`sum_chunk`](Self::sum_chunk).
    pub(super) fn forward_backward(
        &self,
        x: BatchTensor,
        labels: &[u32],
        mut tape: RecordingTape,
    ) -> Result<(BTreeMap<usize, SiteGradient>, Tensor<1>)> {
        let copies = self.batch.copies();
        let n = labels.len() / copies;
        let logits = self.network.forward(x, &mut tape);
        tape.check(n * copies)?;
        let losses = cross_entropy(logits, labels).reshape([n, copies]).mean_dim(1).reshape([n]);
        // The sum, not the mean: gradients must not depend on the number of examples.
        let grads = losses.clone().sum().backward();
        Ok((site_gradients(tape.into_records(grads), copies, &self.requested), losses.inner()))
    }

    /// Computes the norms of each group, `[groups][examples]`, and the losses, `[examples]`. Takes
    /// one transfer to the host, and a second one if squares of a gradient may leave the f32
    /// range.
    fn norms(
        &self,
        site_gradients: &BTreeMap<usize, SiteGradient>,
        losses: Tensor<1>,
    ) -> (Vec<Vec<f32>>, Vec<f32>) {
        let (n, group_of_tensor) = (losses.dims()[0], self.groups.group_indices());
        let largest_scale =
            site_gradients.keys().map(|&entry| self.norm_weights[entry].scale).fold(0.0, f64::max);
        let compute = |rescale: bool| {
            let each = site_gradients.iter().map(|(&entry, site_gradient)| {
                site_gradient.norms(&self.norm_weights[entry], rescale)
            });
            let joined = tensor_to_vec(Tensor::cat(
                std::iter::once(losses.clone()).chain(each).collect(),
                0,
            ));
            let (losses, norms) = joined.split_at(n);
            let mut squares = vec![vec![0.0; n]; self.groups.group_count()];
            for (&entry, row) in site_gradients.keys().zip(norms.chunks(n)) {
                let scale = self.norm_weights[entry].scale;
                let squares = squares[group_of_tensor[entry]].iter_mut().zip(row);
                squares.for_each(|(square, &norm)| *square += (scale * f64::from(norm)).powi(2));
            }
            let norms = squares
                .into_iter()
                .map(|squares| squares.into_iter().map(f64::sqrt).collect::<Vec<_>>());
            (norms.collect::<Vec<_>>(), losses.to_vec())
        };
        let (mut norms, losses) = compute(false);
        // Norms below 1e-16 per parameter may be lost; beside a norm of 1e-12 they do not matter.
        let is_lost = |norm: &f64| !norm.is_finite() || *norm < 1e-12 * largest_scale;
        if norms.iter().flatten().any(is_lost) {
            norms = compute(true).0;
        }
        let rounded = |norms: Vec<f64>| norms.into_iter().map(|norm| norm as f32).collect();
        (norms.into_iter().map(rounded).collect(), losses)
    }
}
