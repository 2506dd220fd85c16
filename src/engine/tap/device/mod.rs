//! The device path: all results stay on the device, and the host does not wait for them.
//!
//! One chunk of examples at a time goes through the forward and backward pass. As on the CPU, each
//! site gives per-example gradients in a form that has norms and a weighted sum; both are computed
//! by tensor operations and the lab's own kernels. Non-finite examples are masked out by a tensor
//! of flags on the device; the host does not read it.
//!
//! The instance gradients of a chunk are kept until the norms over all parameters are known: they
//! are written once, read for the norm and read for the sum. The alternative is to discard them
//! after the norm and to form the sum by a second product with scaled gradients. It takes less
//! memory, but it unfolds the patches of convolutions again, which are larger than the instance
//! gradients wherever an image has more positions than the layer has channels, and computes every
//! product twice. If the instance gradients of many examples do not fit, smaller chunks do: a few
//! hundred examples keep a GPU busy.

mod chunk_sizer;
mod chunking;
mod site_gradient;
mod unclipped_sum;

use std::collections::BTreeMap;

use burn::prelude::*;

use super::chunk_sum::{BatchJob, ChunkSum};
use super::recorder::RecordingTape;
use super::site_gradient::SiteGradient;
use crate::Result;
use crate::device::{DeviceArray, kernels, synchronize, with_failure_detection};
use crate::engine::per_example::PerExample;
use crate::engine::{Batch, ClippedSum, Gradients};
use crate::nn::{BatchTensor, Parameter};
use chunk_sizer::ChunkError;
pub(super) use chunk_sizer::{ChunkKey, ChunkSizer};
pub(super) use chunking::Chunking;
use chunking::PaddedChunk;
pub(super) use unclipped_sum::UnclippedPass;

/// Pass that computes the sum of one chunk.
pub(super) trait ChunkPass {
    /// Computes sum, norms and losses of the examples of one chunk, in one tensor each: NaN for
    /// excluded examples. There are no norms of groups if there is only one.
    ///
    /// # Errors
    /// If a layer's input or output does not have one row per copy of an example.
    fn run(&self, chunk: PaddedChunk) -> Result<ChunkSum<Tensor<1>>>;
}

/// Sums the chunks of a batch, at most `size` examples each.
///
/// With `verify`, the host waits for the result, to find out whether it fitted into memory. The sum
/// is then computed again, with all kernels compiled and tuned, and every failure of a kernel
/// reported: one that does not show in the result would make norms and sums disagree.
pub(super) fn sum_batch(
    pass: &dyn ChunkPass,
    parameters: Vec<Parameter>,
    batch: &Batch,
    device: &Device,
    chunking: (Chunking, usize),
    verify: bool,
) -> Result<ClippedSum, ChunkError> {
    let (chunking, size) = chunking;
    let once = |verify: bool| -> Result<ClippedSum, ChunkError> {
        let mut total = ChunkSum::empty(0);
        if !batch.is_empty() {
            let chunks = chunking.chunks(batch.len(), size);
            let piece = |(examples, _)| vec![examples];
            let split = |n: usize| chunking.chunks(n, size).into_iter().map(piece).collect();
            batch.for_each_chunk_on(device, &split, |number, features| {
                let (examples, padded) = chunks[number].clone();
                total.add(pass.run(PaddedChunk::new(features, batch, examples, padded))?);
                Ok::<_, ChunkError>(())
            })?;
        }
        let ChunkSum { mut sum, per_example: PerExample { norms, group_norms, losses } } = total;
        if verify && !batch.is_empty() {
            let first = |values: &Tensor<1>| values.clone().narrow(0, 0, 1);
            let some = sum.values().chain(&norms).chain(&losses).map(first).collect();
            synchronize(some).map_err(ChunkError::from_message)?;
        }
        let sum = Gradients::with_values(parameters.clone(), |entry, parameter| {
            let zeros = || Tensor::zeros([parameter.len()], device);
            DeviceArray::from_tensor(sum.remove(&entry).unwrap_or_else(zeros))
        });
        let group_norms = group_norms.into_iter().map(concatenate).collect();
        Ok(ClippedSum { sum, norms: concatenate(norms), group_norms, losses: concatenate(losses) })
    };
    let first = once(verify)?;
    if !verify || batch.is_empty() || *device == Device::flex() {
        return Ok(first);
    }
    drop(first);
    with_failure_detection(device, || once(true))
        .unwrap_or_else(|message| Err(ChunkError::from_message(message)))
}

fn concatenate(mut parts: Vec<Tensor<1>>) -> DeviceArray {
    match parts.len() {
        0 => DeviceArray::default(),
        1 => DeviceArray::from_tensor(parts.remove(0)),
        _ => DeviceArray::from_tensor(kernels::concat(parts)),
    }
}

impl ChunkPass for BatchJob<'_> {
    fn run(&self, chunk: PaddedChunk) -> Result<ChunkSum<Tensor<1>>> {
        let tape = RecordingTape::new(self.batch, &chunk.examples)
            .on_device(&self.device, self.requested.path.precision());
        let x = BatchTensor::from_flat(chunk.rows.clone(), self.batch.shape());
        let (site_gradients, losses) = self.forward_backward(x, &chunk.labels, tape)?;
        let groups = self.group_norms_device(&site_gradients, chunk.examples.len());
        let norms = combine_norms(groups.clone());
        let finite = |each: &Tensor<1>| kernels::finite_rows(each.clone().unsqueeze_dim(1));
        let included = finite(&norms) * finite(&losses) * chunk.finite.clone();
        let excluded = included.equal_elem(0.0);
        let factors = groups.iter().enumerate().map(|(group, norms)| {
            self.groups.clip_function(group).factors(norms.clone()).mask_fill(excluded.clone(), 0.0)
        });
        let (factors, group_of_tensor) = (factors.collect::<Vec<_>>(), self.groups.group_indices());
        let sum = site_gradients.into_iter().map(|(entry, site_gradient)| {
            let factors = &factors[group_of_tensor[entry]];
            (entry, site_gradient.sum_device(factors, &self.norm_weights[entry]))
        });
        let included =
            |values: Tensor<1>| chunk.without_padding(values.mask_fill(excluded.clone(), f32::NAN));
        let group_norms = if groups.len() == 1 { Vec::new() } else { groups };
        let per_example = PerExample {
            norms: vec![included(norms)],
            group_norms: group_norms.into_iter().map(|norms| vec![included(norms)]).collect(),
            losses: vec![included(losses)],
        };
        Ok(ChunkSum { sum: sum.collect(), per_example })
    }
}

impl BatchJob<'_> {
    /// Computes the norms over the parameters of each group, `[groups][examples]`.
    fn group_norms_device(
        &self,
        site_gradients: &BTreeMap<usize, SiteGradient>,
        n: usize,
    ) -> Vec<Tensor<1>> {
        let mut each: Vec<Vec<Tensor<1>>> = vec![Vec::new(); self.groups.group_count()];
        for (&entry, site_gradient) in site_gradients {
            let norms = site_gradient.norms_device(&self.norm_weights[entry]);
            each[self.groups.group_indices()[entry]].push(norms);
        }
        let norms = each.into_iter().map(|norms| {
            if norms.is_empty() { Tensor::zeros([n], &self.device) } else { combine_norms(norms) }
        });
        norms.collect()
    }
}

/// Computes the norms over several parts, from the norms of each part, `[examples]`.
fn combine_norms(mut parts: Vec<Tensor<1>>) -> Tensor<1> {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let [n] = parts[0].dims();
    let rows = kernels::concat(parts).reshape([-1, n as i32]).transpose();
    kernels::row_norms(rows, None)
}
