//! The way of a GPU: everything stays where it is made, and nobody waits for it.
//!
//! One chunk of examples at a time goes forward and back; what each parameter saw becomes a form,
//! as on the CPU, and forms become norms, factors and the weighted sum by tensor operations and
//! the lab's own kernels. Which examples count is a tensor too: those that are not finite are
//! selected away on the device, in place, and the host never learns of it.
//!
//! The instances of a chunk are kept until the norms over all parameters are known: they are
//! written once, read for the norm and read for the sum. Measuring them, dropping them and making
//! the sum by a second product over scaled gradients would take less memory, but it unfolds the
//! patches of convolutions again, which are larger than the instances wherever an image has more
//! positions than the layer has channels, and does the product twice. Where the instances of many
//! examples do not fit, fewer examples at a time do: a few hundred keep a GPU busy.

mod chunk_sizer;
mod chunking;
mod plain_sum;
mod site_gradient;

use std::collections::BTreeMap;

use burn::prelude::*;

use super::chunk::Job;
use super::recorder::Recorder;
use super::site_gradient::SiteGradient;
use crate::Result;
use crate::device::{DeviceArray, kernels, synchronize};
use crate::engine::{Batch, ClippedSum, Gradient, Gradients};
use crate::nn::{Parameter, Value};
use chunk_sizer::ChunkError;
pub(super) use chunk_sizer::{ChunkKey, ChunkSizer};
pub(super) use chunking::Chunking;
use chunking::PaddedChunk;
pub(super) use plain_sum::PlainSum;

/// Something that makes a sum of some of a batch's examples.
pub(super) trait Pass {
    /// The chunk of some examples.
    ///
    /// # Errors
    /// If a layer was given other rows than one per copy of an example.
    fn run(&self, chunk: PaddedChunk) -> Result<ChunkSum>;
}

/// What a chunk adds.
pub(super) struct ChunkSum {
    /// Its values of the sum, flat, by entry; parameters without any values in the loss are missing.
    sum: BTreeMap<usize, Tensor<1>>,
    /// `[examples]`, NaN for examples left out.
    norms: Tensor<1>,
    /// The same.
    losses: Tensor<1>,
}

/// Goes over the batch, at most `size` examples at a time. With `verify` the host waits for the result,
/// to learn whether there was room for it.
pub(super) fn sum(
    pass: &dyn Pass,
    parameters: Vec<Parameter>,
    batch: &Batch,
    device: &Device,
    (chunking, size): (Chunking, usize),
    verify: bool,
) -> Result<ClippedSum, ChunkError> {
    let mut sum = BTreeMap::<usize, Tensor<1>>::new();
    let (mut norms, mut losses) = (Vec::new(), Vec::new());
    if !batch.is_empty() {
        let features = batch.features_on(device);
        for (examples, padded) in chunking.chunks(batch.len(), size) {
            let chunk = pass.run(PaddedChunk::new(&features, batch, examples, padded))?;
            for (entry, values) in chunk.sum {
                let values = match sum.remove(&entry) {
                    Some(sum) => sum + values,
                    None => values,
                };
                sum.insert(entry, values);
            }
            norms.push(chunk.norms);
            losses.push(chunk.losses);
        }
    }
    if verify && !batch.is_empty() {
        let first = |values: &Tensor<1>| values.clone().narrow(0, 0, 1);
        let some = sum.values().chain(&norms).chain(&losses).map(first).collect();
        synchronize(Tensor::cat(some, 0)).map_err(ChunkError::from_message)?;
    }
    let entries = parameters.into_iter().enumerate().map(|(entry, parameter)| Gradient {
        values: DeviceArray::of(match sum.remove(&entry) {
            Some(sum) => sum,
            None => Tensor::zeros([parameter.len()], device),
        }),
        path: parameter.path,
        id: parameter.id,
        shape: parameter.shape,
    });
    let sum = Gradients { entries: entries.collect() };
    Ok(ClippedSum { sum, norms: concatenated(norms), losses: concatenated(losses) })
}

fn concatenated(mut parts: Vec<Tensor<1>>) -> DeviceArray {
    match parts.len() {
        0 => DeviceArray::default(),
        1 => DeviceArray::of(parts.remove(0)),
        _ => DeviceArray::of(Tensor::cat(parts, 0)),
    }
}

impl Pass for Job<'_> {
    fn run(&self, chunk: PaddedChunk) -> Result<ChunkSum> {
        let tape = Recorder::new(self.batch, &chunk.examples)
            .on_device(&self.device, self.requested.precision());
        let x = Value::of(chunk.rows.clone(), self.batch.shape());
        let (site_gradients, losses) = self.forward_backward(x, &chunk.labels, tape)?;
        let norms = self.norms_device(&site_gradients, chunk.examples.len());
        let both = Tensor::stack::<2>(vec![norms.clone(), losses.clone()], 1);
        let excluded = (kernels::finite(both) * chunk.finite.clone()).equal_elem(0.0);
        let factors = self.rule.factors(norms.clone()).mask_fill(excluded.clone(), 0.0);
        let sum = site_gradients.into_iter().map(|(entry, site_gradient)| {
            (entry, site_gradient.sum_device(&factors, &self.norm_weights[entry]))
        });
        Ok(ChunkSum {
            sum: sum.collect(),
            norms: chunk.without_padding(norms.mask_fill(excluded.clone(), f32::NAN)),
            losses: chunk.without_padding(losses.mask_fill(excluded, f32::NAN)),
        })
    }
}

impl Job<'_> {
    /// Norms over all parameters, `[examples]`.
    fn norms_device(&self, site_gradients: &BTreeMap<usize, SiteGradient>, n: usize) -> Tensor<1> {
        let each: Vec<_> = site_gradients
            .iter()
            .map(|(&entry, site_gradient)| site_gradient.norms_device(&self.norm_weights[entry]))
            .collect();
        match each.is_empty() {
            true => Tensor::zeros([n], &self.device),
            false => kernels::norms(Tensor::stack(each, 1), None),
        }
    }
}
