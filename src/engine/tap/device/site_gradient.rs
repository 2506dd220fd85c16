//! Norms and weighted sums of site gradients on the device, by the lab's own kernels.

use burn::prelude::*;
use burn::tensor::IndexingUpdateOp;

use crate::device::kernels;
use crate::engine::tap::norm_weights::NormWeights;
use crate::engine::tap::site_gradient::{SiteGradient, outer_norms, table_as_rows};

/// Upper limit on the number of partial tables of a scatter-add. Some backends add the rows of one
/// table sequentially, one thread per feature. Others use atomic additions, so that the last bits
/// of a sum vary between runs.
const MAX_TABLES: usize = 64;

impl SiteGradient {
    /// Computes the norm of each example's gradient, `[examples]`.
    ///
    /// # Guarantee
    /// For finite gradients, no norm is too small beyond f32 rounding. The norm is not finite if a
    /// gradient value of non-zero weight is not.
    pub(super) fn norms_device(&self, norm_weights: &NormWeights) -> Tensor<1> {
        let norms = match self {
            Self::Instantiated(instance) => {
                kernels::row_norms(instance.clone(), norm_weights.relative_sqrt())
            }
            // f32 products, here and in the sum: Burn's products may round their factors on a GPU,
            // and the norm would not be that of the gradient that is added.
            Self::OuterProduct { input, gradient } => match norm_weights.relative() {
                Some(_) => outer_norms(input, gradient, norm_weights, |a, b| {
                    let shape = [a.dims()[0], b.dims()[1]];
                    kernels::matmul(a, b).reshape(shape)
                }),
                None => {
                    kernels::row_norms(input.clone(), None)
                        * kernels::row_norms(gradient.clone(), None)
                }
            },
            Self::EmbeddingTable { tokens, rows, count, .. } => {
                kernels::row_norms(table_as_rows(tokens, rows, count, norm_weights), None)
            }
        };
        match norm_weights.scale as f32 {
            1.0 => norms,
            scale => norms * scale,
        }
    }

    /// Computes Σ factor · gradient, flattened. Excluded examples have factors of exactly 0.
    ///
    /// # Guarantee
    /// An example with factor 0 adds exactly zero, even if its gradient is not finite. Coordinates
    /// of weight 0 are exactly zero.
    pub(super) fn sum_device(self, factors: &Tensor<1>, norm_weights: &NormWeights) -> Tensor<1> {
        let sum = match self {
            Self::Instantiated(instance) => kernels::weighted_row_sum(instance, factors),
            Self::OuterProduct { input, gradient } => {
                kernels::weighted_outer_sum(input, gradient, factors)
            }
            Self::EmbeddingTable { tokens, rows, vocabulary, .. } => {
                let [n, positions, features] = rows.dims();
                let rows = kernels::scale_rows(rows.flatten(1, 2), factors);
                let rows = rows.reshape([n * positions, features]);
                scatter_add_rows(tokens.reshape([n * positions]), rows, vocabulary)
            }
        };
        match norm_weights.relative_sqrt() {
            Some(root) => sum.mask_fill(root.clone().equal_elem(0.0), 0.0),
            None => sum,
        }
    }
}

/// Adds row i of `rows`, `[positions, features]`, to row `tokens[i]` of a table,
/// `[vocabulary x features]`.
fn scatter_add_rows(tokens: Tensor<1>, rows: Tensor<2>, vocabulary: usize) -> Tensor<1> {
    let [positions, features] = rows.dims();
    // Several partial tables in parallel, as long as they are not larger than the input.
    let fits = |table_count: &usize| {
        positions.is_multiple_of(*table_count) && table_count * vocabulary <= positions
    };
    let table_count = (2..=MAX_TABLES).rev().find(fits).unwrap_or(1);
    let shape = [table_count, positions / table_count, features];
    let index = tokens.int().reshape([table_count, positions / table_count, 1]).expand(shape);
    let tables = Tensor::<3>::zeros([table_count, vocabulary, features], &rows.device());
    let tables = tables.scatter(1, index, rows.reshape(shape), IndexingUpdateOp::Add);
    tables.sum_dim(0).reshape([vocabulary * features])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::tensor_to_vec;

    #[test]
    fn row_sums_do_not_depend_on_the_number_of_tables() {
        let device = Device::flex();
        for (positions, vocabulary) in [(12, 3), (7, 5), (256, 2), (1, 1)] {
            let tokens: Vec<f32> = (0..positions).map(|i| (i * i % vocabulary) as f32).collect();
            let rows: Vec<f32> = (0..positions * 2).map(|i| (i % 11) as f32 - 5.0).collect();
            let mut want = vec![0.0; vocabulary * 2];
            for (i, row) in rows.chunks(2).enumerate() {
                let offset = 2 * tokens[i] as usize;
                want[offset] += row[0];
                want[offset + 1] += row[1];
            }
            let rows = Tensor::from_data(TensorData::new(rows, [positions, 2]), &device);
            let tokens = Tensor::from_data(tokens.as_slice(), &device);
            assert_eq!(
                tensor_to_vec(scatter_add_rows(tokens, rows, vocabulary)),
                want,
                "{positions} {vocabulary}"
            );
        }
    }

    #[test]
    fn a_factor_of_zero_removes_non_finite_gradients_in_every_form() {
        let device = Device::flex();
        let bad = [f32::NAN, f32::INFINITY, 1.0];
        let two = |good: [f32; 3]| Tensor::<2>::from_data([good, bad], &device);
        let factors = Tensor::from_data([0.5, 0.0], &device);
        let all = NormWeights::per_parameter(None, 1, &device, true).remove(0);
        let sum =
            |site_gradient: SiteGradient| tensor_to_vec(site_gradient.sum_device(&factors, &all));
        assert_eq!(sum(SiteGradient::Instantiated(two([1.0, 2.0, 4.0]))), [0.5, 1.0, 2.0]);
        let outer = SiteGradient::OuterProduct {
            input: two([1.0, 2.0, 4.0]),
            gradient: two([2.0, 0.0, 0.0]),
        };
        assert!(!tensor_to_vec(outer.norms_device(&all))[1].is_finite());
        assert_eq!(sum(outer), [1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
        let tokens = Tensor::<2>::from_data([[0.0, 1.0, 1.0], [2.0, 2.0, 0.0]], &device);
        let gradient = two([1.0, 2.0, 4.0]).reshape([2, 3, 1]);
        let table = SiteGradient::table(tokens, gradient, 3);
        let norms = tensor_to_vec(table.norms_device(&all));
        assert!((norms[0] - 37f32.sqrt()).abs() < 1e-5 && !norms[1].is_finite());
        assert_eq!(sum(table), [0.5, 3.0, 0.0]);
    }
}
