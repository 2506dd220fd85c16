//! One chunk of examples: forward, backward, norms, factors, weighted sum.

use std::collections::BTreeMap;

use burn::prelude::*;

use super::norm_weights::NormWeights;
use super::recorder::Recorder;
use super::site::{RequestedGrads, site_gradients};
use super::site_gradient::SiteGradient;
use crate::Result;
use crate::device::host::values;
use crate::engine::{Batch, ClipRule};
use crate::nn::loss::cross_entropy;
use crate::nn::{Network, Value};

/// What all chunks of a batch have in common.
pub(super) struct Job<'a> {
    pub(super) network: &'a Network,
    pub(super) device: Device,
    pub(super) batch: &'a Batch,
    pub(super) rule: &'a ClipRule,
    pub(super) norm_weights: Vec<NormWeights>,
    pub(super) requested: RequestedGrads,
}

/// The chunk's share of a pass.
pub(super) struct Chunk {
    /// Σ factor · gradient, flat, by entry; parameters without any part in the loss are missing.
    pub(super) sum: BTreeMap<usize, Tensor<1>>,
    pub(super) norms: Vec<f32>,
    pub(super) losses: Vec<f32>,
}

impl Chunk {
    /// Adds the share of the chunk that comes next.
    pub(super) fn add(&mut self, chunk: Self) {
        for (entry, share) in chunk.sum {
            let share = match self.sum.remove(&entry) {
                Some(sum) => sum + share,
                None => share,
            };
            self.sum.insert(entry, share);
        }
        self.norms.extend(chunk.norms);
        self.losses.extend(chunk.losses);
    }
}

impl Job<'_> {
    /// # Errors
    /// If a layer was given other rows than one per copy of an example.
    pub(super) fn run(&self, ids: &[usize]) -> Result<Chunk> {
        let (n, copies, device) = (ids.len(), self.batch.copies(), &self.device);
        let (features, labels) = self.batch.gather(ids);
        let x = Value::new(features, n * copies, self.batch.shape(), device);
        let (site_gradients, losses) = self.listen(x, &labels, Recorder::new(self.batch, ids))?;
        let (norms, losses) = self.norms(&site_gradients, losses);
        let factors: Vec<f32> = norms.iter().map(|&norm| self.rule.factor(norm)).collect();
        let factors = Tensor::<1>::from_data(factors.as_slice(), device);
        let sum = site_gradients
            .into_iter()
            .map(|(entry, site_gradient)| (entry, site_gradient.sum(&factors)))
            .collect();
        Ok(Chunk { sum, norms, losses })
    }

    /// Forward and backward: a form for each parameter with a part in the loss, and the losses,
    /// `[examples]`. There is one label for each row of `x`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn listen(
        &self,
        x: Value,
        labels: &[u32],
        mut tape: Recorder,
    ) -> Result<(BTreeMap<usize, SiteGradient>, Tensor<1>)> {
        let copies = self.batch.copies();
        let n = labels.len() / copies;
        let logits = self.network.forward(x, &mut tape);
        tape.check(n * copies)?;
        let losses = cross_entropy(logits, labels).reshape([n, copies]).mean_dim(1).reshape([n]);
        // The sum, never the mean: an example's gradient must not know how many others there are.
        let grads = losses.clone().sum().backward();
        Ok((site_gradients(tape.listen(grads), copies, &self.requested), losses.inner()))
    }

    /// Norms over all parameters, and losses, in one transfer to the host; in two for a chunk
    /// with an example whose squares f32 can't hold.
    fn norms(
        &self,
        site_gradients: &BTreeMap<usize, SiteGradient>,
        losses: Tensor<1>,
    ) -> (Vec<f32>, Vec<f32>) {
        let n = losses.dims()[0];
        let largest =
            site_gradients.keys().map(|&entry| self.norm_weights[entry].scale).fold(0.0, f64::max);
        let read = |careful: bool| {
            let each = site_gradients.iter().map(|(&entry, site_gradient)| {
                site_gradient.norms(&self.norm_weights[entry], careful)
            });
            let all = values(Tensor::cat(std::iter::once(losses.clone()).chain(each).collect(), 0));
            let (losses, norms) = all.split_at(n);
            let norm = |i: usize| {
                let square = |(&entry, row): (&usize, &[f32])| {
                    (self.norm_weights[entry].scale * f64::from(row[i])).powi(2)
                };
                site_gradients.keys().zip(norms.chunks(n)).map(square).sum::<f64>().sqrt()
            };
            ((0..n).map(norm).collect::<Vec<_>>(), losses.to_vec())
        };
        let (mut norms, losses) = read(false);
        // What was lost below 1e-16 does not matter beside a norm of 1e-12.
        if norms.iter().any(|&norm| !norm.is_finite() || norm < 1e-12 * largest) {
            norms = read(true).0;
        }
        (norms.into_iter().map(|norm| norm as f32).collect(), losses)
    }
}
