//! Plain sums on a GPU: one backward pass of Burn over the parameters.

use std::collections::BTreeMap;

use burn::prelude::*;

use super::{ChunkPass, PaddedChunk};
use crate::Result;
use crate::device::kernels;
use crate::engine::Batch;
use crate::engine::per_example::PerExample;
use crate::engine::tap::chunk_sum::ChunkSum;
use crate::engine::tap::dropout_tape::DropoutTape;
use crate::nn::loss::cross_entropy;
use crate::nn::{BatchTensor, Network, Precision};

/// Pass that sums gradients without norms and without forming per-example gradients.
///
/// Examples whose features, logits or losses are not finite are masked out before the backward
/// pass. If a gradient overflows all the same, the sum of the chunk is not finite, and without
/// norms the example can't be identified: the whole chunk is excluded.
pub(in crate::engine::tap) struct UnclippedPass<'a> {
    /// The network with tracked parameters.
    pub(in crate::engine::tap) network: Network,
    pub(in crate::engine::tap) batch: &'a Batch,
    pub(in crate::engine::tap) precision: Precision,
}

impl ChunkPass for UnclippedPass<'_> {
    fn run(&self, chunk: PaddedChunk) -> Result<ChunkSum<Tensor<1>>> {
        let (n, copies) = (chunk.examples.len(), self.batch.copies());
        let tape = DropoutTape::new(self.batch, &chunk.examples).on_device(&chunk.rows.device());
        let mut tape = tape.with_precision(self.precision);
        let x = BatchTensor::from_flat(chunk.rows.clone(), self.batch.shape());
        let logits = self.network.forward(x, &mut tape);
        let [_, classes] = logits.dims();
        let logits = logits.reshape([n, copies * classes]);
        let finite = kernels::finite_rows(logits.clone().inner()) * chunk.finite.clone();
        let not_finite =
            finite.clone().equal_elem(0.0).reshape([n, 1]).expand([n, copies * classes]);
        let logits = logits.mask_fill(not_finite, 0.0).reshape([n * copies, classes]);
        let losses =
            cross_entropy(logits, &chunk.labels).reshape([n, copies]).mean_dim(1).reshape([n]);
        let finite = kernels::finite_rows(losses.clone().inner().reshape([n, 1])) * finite;
        let excluded = finite.equal_elem(0.0);
        let total = losses.clone().mask_fill(excluded.clone(), 0.0).sum();
        let gradients = self.network.gradients(&total.backward()).into_iter().enumerate();
        let gradients = gradients.filter_map(|(entry, gradient)| gradient.map(|g| (entry, g)));
        let (sum, overflowed) = zero_unless_finite(gradients.collect());
        let losses = losses.inner().mask_fill(excluded, f32::NAN);
        let losses = match overflowed {
            Some(overflowed) => losses.mask_fill(overflowed.expand([n]), f32::NAN),
            None => losses,
        };
        let losses = chunk.without_padding(losses);
        let (norms, losses) = (vec![losses.full_like(f32::NAN)], vec![losses]);
        Ok(ChunkSum { sum, per_example: PerExample { norms, group_norms: Vec::new(), losses } })
    }
}

/// Returns `sum` if all its values are finite, else zeros; and a flag, 1 if it was replaced,
/// `[1]`.
fn zero_unless_finite(
    sum: BTreeMap<usize, Tensor<1>>,
) -> (BTreeMap<usize, Tensor<1>>, Option<Tensor<1, Bool>>) {
    let finite = |values: &Tensor<1>| kernels::finite_rows(values.clone().unsqueeze());
    let Some(finite) = sum.values().map(finite).reduce(|a, b| a * b) else { return (sum, None) };
    let overflowed = finite.equal_elem(0.0);
    let select = |(entry, values): (usize, Tensor<1>)| {
        let all = overflowed.clone().expand(values.dims());
        (entry, values.mask_fill(all, 0.0))
    };
    (sum.into_iter().map(select).collect(), Some(overflowed))
}
