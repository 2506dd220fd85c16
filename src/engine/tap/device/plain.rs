//! Plain sums on a GPU: the gradient of the summed loss by the parameters, as Burn finds it.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::Gradients;

use super::{Pass, Share, Slice};
use crate::Result;
use crate::device::kernels;
use crate::engine::Batch;
use crate::engine::tap::dropouts::Dropouts;
use crate::nn::loss::cross_entropy;
use crate::nn::{Network, Precision, Value};

/// No norms, no gradient of an example: the cheapest pass there is.
///
/// Examples whose features, logits or losses are not finite are selected away before the backward
/// pass. One that overflows inside the network all the same makes the sum of its chunk not finite,
/// and without norms nobody can tell which it was: the whole chunk is left out.
pub(in crate::engine::tap) struct Plain<'a> {
    /// With tracked parameters.
    pub(in crate::engine::tap) network: Network,
    pub(in crate::engine::tap) batch: &'a Batch,
    pub(in crate::engine::tap) precision: Precision,
}

impl Pass for Plain<'_> {
    fn run(&self, slice: Slice) -> Result<Share> {
        let (n, copies) = (slice.ids.len(), self.batch.copies());
        let tape = Dropouts::new(self.batch, &slice.ids).on(&slice.rows.device());
        let mut tape = tape.precise(self.precision);
        let x = Value::of(slice.rows.clone(), self.batch.shape());
        let logits = self.network.forward(x, &mut tape);
        let [_, classes] = logits.dims();
        let logits = logits.reshape([n, copies * classes]);
        let sound = kernels::finite_rows(logits.clone().inner()) * slice.readable.clone();
        let unsound = sound.clone().equal_elem(0.0).reshape([n, 1]).expand([n, copies * classes]);
        let logits = logits.mask_fill(unsound, 0.0).reshape([n * copies, classes]);
        let losses =
            cross_entropy(logits, &slice.labels).reshape([n, copies]).mean_dim(1).reshape([n]);
        let sound = kernels::finite_rows(losses.clone().inner().reshape([n, 1])) * sound;
        let left_out = sound.equal_elem(0.0);
        let total = losses.clone().mask_fill(left_out.clone(), 0.0).sum();
        let mut read = Read { grads: &total.backward(), entry: 0, found: BTreeMap::new() };
        self.network.visit(&mut read);
        let (sum, overflowed) = whole(read.found);
        let losses = losses.inner().mask_fill(left_out, f32::NAN);
        let losses = match overflowed {
            Some(overflowed) => losses.mask_fill(overflowed.expand([n]), f32::NAN),
            None => losses,
        };
        let losses = slice.real(losses);
        Ok(Share { sum, norms: losses.full_like(f32::NAN), losses })
    }
}

/// The sum if all its numbers are finite, else zeros; and whether it was so, `[1]`.
fn whole(sum: BTreeMap<usize, Tensor<1>>) -> (BTreeMap<usize, Tensor<1>>, Option<Tensor<1, Bool>>) {
    let finite = |part: &Tensor<1>| kernels::finite_rows(part.clone().unsqueeze());
    let Some(finite) = sum.values().map(finite).reduce(|a, b| a * b) else { return (sum, None) };
    let overflowed = finite.equal_elem(0.0);
    let select = |(entry, part): (usize, Tensor<1>)| {
        let all = overflowed.clone().expand(part.dims());
        (entry, part.mask_fill(all, 0.0))
    };
    (sum.into_iter().map(select).collect(), Some(overflowed))
}

/// Collects the gradient of every parameter, flat, by its number in the network's order.
struct Read<'a> {
    grads: &'a Gradients,
    entry: usize,
    found: BTreeMap<usize, Tensor<1>>,
}

impl ModuleVisitor for Read<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.val().grad(self.grads) {
            let len = gradient.shape().num_elements();
            self.found.insert(self.entry, gradient.reshape([len]));
        }
        self.entry += 1;
    }
}
