//! Norms and weighted sums of a form where it is, by the lab's own operations for GPUs.

use burn::prelude::*;
use burn::tensor::IndexingUpdateOp;

use crate::device::kernels;
use crate::engine::tap::norm_weights::NormWeights;
use crate::engine::tap::site_gradient::{SiteGradient, outer_norms, table_as_rows};

/// Parts that a table is summed in at most: some GPUs add the places of one part one after the
/// other, on one thread per feature; others by atomic additions, so that the last bits of such a
/// sum differ from time to time.
const PARTS: usize = 64;

impl SiteGradient {
    /// The norm of each example's gradient, `[examples]`.
    ///
    /// # Guarantee
    /// Up to f32 rounding no norm is too small, for all finite numbers; not finite where a number
    /// that counts is not.
    pub(super) fn norms_device(&self, norm_weights: &NormWeights) -> Tensor<1> {
        let norms_device = match self {
            Self::Instance(instance) => kernels::row_norms(instance.clone(), norm_weights.root()),
            // Products in f32, here and in the sum: Burn's may round their factors on a GPU, and
            // what is measured would not be what is added.
            Self::Outer { input, gradient } => match norm_weights.share() {
                Some(_) => outer_norms(input, gradient, norm_weights, |a, b| {
                    let shape = [a.dims()[0], b.dims()[1]];
                    kernels::matmul(a, b).reshape(shape)
                }),
                None => {
                    kernels::row_norms(input.clone(), None)
                        * kernels::row_norms(gradient.clone(), None)
                }
            },
            Self::Table { tokens, rows, count, .. } => {
                kernels::row_norms(table_as_rows(tokens, rows, count, norm_weights), None)
            }
        };
        match norm_weights.scale as f32 {
            1.0 => norms_device,
            scale => norms_device * scale,
        }
    }

    /// Σ factor · gradient, flat. Examples that are left out have factors of exactly 0.
    ///
    /// # Guarantee
    /// What is left out adds exactly nothing, whatever its gradient holds; coordinates of weight 0
    /// are exactly zero.
    pub(super) fn sum_device(self, factors: &Tensor<1>, norm_weights: &NormWeights) -> Tensor<1> {
        let sum = match self {
            Self::Instance(instance) => kernels::weighted_row_sum(instance, factors),
            Self::Outer { input, gradient } => {
                kernels::weighted_outer_sum(input, gradient, factors)
            }
            Self::Table { tokens, rows, vocabulary, .. } => {
                let [n, places, features] = rows.dims();
                let rows = kernels::scale_rows(rows.flatten(1, 2), factors);
                let rows = rows.reshape([n * places, features]);
                table(tokens.reshape([n * places]), rows, vocabulary)
            }
        };
        match norm_weights.root() {
            Some(root) => sum.mask_fill(root.clone().equal_elem(0.0), 0.0),
            None => sum,
        }
    }
}

/// Adds row i of `rows`, `[places, features]`, to row `tokens[i]` of a table, which is made flat.
fn table(tokens: Tensor<1>, rows: Tensor<2>, vocabulary: usize) -> Tensor<1> {
    let [places, features] = rows.dims();
    // Several tables side by side, as long as they are no larger than what goes into them.
    let fits = |parts: &usize| places.is_multiple_of(*parts) && parts * vocabulary <= places;
    let parts = (2..=PARTS).rev().find(fits).unwrap_or(1);
    let shape = [parts, places / parts, features];
    let index = tokens.int().reshape([parts, places / parts, 1]).expand(shape);
    let tables = Tensor::<3>::zeros([parts, vocabulary, features], &rows.device());
    let tables = tables.scatter(1, index, rows.reshape(shape), IndexingUpdateOp::Add);
    tables.sum_dim(0).reshape([vocabulary * features])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::values;

    #[test]
    fn tables_add_up_in_any_number_of_parts() {
        let device = Device::flex();
        for (places, vocabulary) in [(12, 3), (7, 5), (256, 2), (1, 1)] {
            let tokens: Vec<f32> = (0..places).map(|i| (i * i % vocabulary) as f32).collect();
            let rows: Vec<f32> = (0..places * 2).map(|i| (i % 11) as f32 - 5.0).collect();
            let mut want = vec![0.0; vocabulary * 2];
            for (i, row) in rows.chunks(2).enumerate() {
                let at = 2 * tokens[i] as usize;
                (want[at], want[at + 1]) = (want[at] + row[0], want[at + 1] + row[1]);
            }
            let rows = Tensor::from_data(TensorData::new(rows, [places, 2]), &device);
            let tokens = Tensor::from_data(tokens.as_slice(), &device);
            assert_eq!(values(table(tokens, rows, vocabulary)), want, "{places} {vocabulary}");
        }
    }

    #[test]
    fn what_is_left_out_adds_nothing_in_any_form() {
        let device = Device::flex();
        let bad = [f32::NAN, f32::INFINITY, 1.0];
        let two = |good: [f32; 3]| Tensor::<2>::from_data([good, bad], &device);
        let factors = Tensor::from_data([0.5, 0.0], &device);
        let all = NormWeights::all(None, 1, &device).remove(0);
        let sum = |site_gradient: SiteGradient| values(site_gradient.sum_device(&factors, &all));
        assert_eq!(sum(SiteGradient::Instance(two([1.0, 2.0, 4.0]))), [0.5, 1.0, 2.0]);
        let outer =
            SiteGradient::Outer { input: two([1.0, 2.0, 4.0]), gradient: two([2.0, 0.0, 0.0]) };
        assert!(!values(outer.norms_device(&all))[1].is_finite());
        assert_eq!(sum(outer), [1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
        let tokens = Tensor::<2>::from_data([[0.0, 1.0, 1.0], [2.0, 2.0, 0.0]], &device);
        let gradient = two([1.0, 2.0, 4.0]).reshape([2, 3, 1]);
        let table = SiteGradient::table(tokens, gradient, 3);
        let norms_device = values(table.norms_device(&all));
        assert!((norms_device[0] - 37f32.sqrt()).abs() < 1e-5 && !norms_device[1].is_finite());
        assert_eq!(sum(table), [0.5, 3.0, 0.0]);
    }
}
