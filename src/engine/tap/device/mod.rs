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
mod plain;
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
pub(super) use chunk_sizer::{ChunkSizer, Work};
pub(super) use chunking::Chunking;
use chunking::Slice;
pub(super) use plain::Plain;

/// Something that makes a sum of some of a batch's examples.
pub(super) trait Pass {
    /// The share of some examples.
    ///
    /// # Errors
    /// If a layer was given other rows than one per copy of an example.
    fn run(&self, slice: Slice) -> Result<Share>;
}

/// What a chunk adds.
pub(super) struct Share {
    /// Its part of the sum, flat, by entry; parameters without any part in the loss are missing.
    sum: BTreeMap<usize, Tensor<1>>,
    /// `[examples]`, NaN for examples left out.
    norms: Tensor<1>,
    /// The same.
    losses: Tensor<1>,
}

/// Goes over the batch, at most `size` examples at a time. With `look` the host waits for the result,
/// to learn whether there was room for it.
pub(super) fn sum(
    pass: &dyn Pass,
    parameters: Vec<Parameter>,
    batch: &Batch,
    device: &Device,
    (chunking, size): (Chunking, usize),
    look: bool,
) -> Result<ClippedSum, ChunkError> {
    let mut sum = BTreeMap::<usize, Tensor<1>>::new();
    let (mut norms, mut losses) = (Vec::new(), Vec::new());
    if !batch.is_empty() {
        let features = batch.features_on(device);
        for (ids, filled) in chunking.passes(batch.len(), size) {
            let share = pass.run(Slice::new(&features, batch, ids, filled))?;
            for (entry, part) in share.sum {
                let part = match sum.remove(&entry) {
                    Some(sum) => sum + part,
                    None => part,
                };
                sum.insert(entry, part);
            }
            norms.push(share.norms);
            losses.push(share.losses);
        }
    }
    if look && !batch.is_empty() {
        let first = |part: &Tensor<1>| part.clone().narrow(0, 0, 1);
        let some = sum.values().chain(&norms).chain(&losses).map(first).collect();
        synchronize(Tensor::cat(some, 0)).map_err(ChunkError::of)?;
    }
    let entries = parameters.into_iter().enumerate().map(|(entry, parameter)| Gradient {
        values: DeviceArray::from_tensor(match sum.remove(&entry) {
            Some(sum) => sum,
            None => Tensor::zeros([parameter.len()], device),
        }),
        path: parameter.path,
        id: parameter.id,
        shape: parameter.shape,
    });
    let sum = Gradients { entries: entries.collect() };
    Ok(ClippedSum { sum, norms: joined(norms), losses: joined(losses) })
}

fn joined(mut parts: Vec<Tensor<1>>) -> DeviceArray {
    match parts.len() {
        0 => DeviceArray::default(),
        1 => DeviceArray::from_tensor(parts.remove(0)),
        _ => DeviceArray::from_tensor(Tensor::cat(parts, 0)),
    }
}

impl Pass for Job<'_> {
    fn run(&self, slice: Slice) -> Result<Share> {
        let tape =
            Recorder::new(self.batch, &slice.ids).on(&self.device, self.requested.precision());
        let x = Value::of(slice.rows.clone(), self.batch.shape());
        let (site_gradients, losses) = self.listen(x, &slice.labels, tape)?;
        let norms = self.norms_device(&site_gradients, slice.ids.len());
        let both = Tensor::stack::<2>(vec![norms.clone(), losses.clone()], 1);
        let left_out = (kernels::finite_rows(both) * slice.readable.clone()).equal_elem(0.0);
        let factors = self.rule.factors(norms.clone()).mask_fill(left_out.clone(), 0.0);
        let sum = site_gradients.into_iter().map(|(entry, site_gradient)| {
            (entry, site_gradient.sum_device(&factors, &self.norm_weights[entry]))
        });
        Ok(Share {
            sum: sum.collect(),
            norms: slice.real(norms.mask_fill(left_out.clone(), f32::NAN)),
            losses: slice.real(losses.mask_fill(left_out, f32::NAN)),
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
            false => kernels::row_norms(Tensor::stack(each, 1), None),
        }
    }
}
