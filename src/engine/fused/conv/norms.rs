//! One example's gradient of the convolution weights, and its norm with and without forming it.

use super::Conv;
use crate::engine::fused::op::{Context, Scratch, resize_buffer};
use crate::engine::fused::outer;
use crate::engine::fused::standardise::Columns;
use crate::nn::kernels::product::{Matrix, Store, product};

/// Gradient values that are computed at a time: as many as fit into the L2 cache with their
/// weights.
const TILE_ELEMENTS: usize = 1 << 16;

/// Gradient values that are measured at a time, while they are in the L1 cache.
const BLOCK_ELEMENTS: usize = 1 << 12;

impl Conv {
    /// Squared norm of one example's gradient from Gram matrices; `None` if it could be mostly
    /// rounding error.
    pub(super) fn ghost_squared_norm(&self, ctx: Context, scratch: &mut Scratch) -> Option<f64> {
        let (geometries, outputs) = (self.patches.groups(), self.patches.group_out());
        let positions = ctx.rows.copies * self.patches.positions();
        let (mut columns, mut column_bounds) = (vec![0.0; outputs], vec![0.0; outputs]);
        let (mut square, mut bound) = (0.0, 0.0);
        for (group, geometry) in geometries.iter().enumerate() {
            let Scratch { patches, second, third, fourth, fifth, .. } = &mut *scratch;
            if let Some(pixel_gram) = &self.pixel_gram {
                pixel_gram.gram(ctx.x, second, (third, fourth));
            } else {
                outer::gram(self.patches.gather(group, ctx.x, patches), positions, second);
            }
            let g = self.patches.group_outputs(group, ctx.g, fourth);
            let gram = (&second[..positions * positions], geometry.patch_len());
            outer::column_squared_norms(gram, g, &mut columns, &mut column_bounds, fifth);
            if let Some(standardise) = &self.standardise {
                let patch_sums = resize_buffer(third, positions);
                geometry.patch_sums(ctx.x, patch_sums);
                square += standardise.ghost_squared_norm(
                    patch_sums,
                    g,
                    ctx.y,
                    &columns,
                    &column_bounds,
                )?;
            } else {
                square += columns.iter().sum::<f64>();
                bound += column_bounds.iter().sum::<f64>();
            }
        }
        let mid_range = outer::is_mid_range(ctx.x) && outer::is_mid_range(ctx.g);
        (mid_range && outer::is_reliable(square, bound)).then_some(square)
    }

    /// Computes one example's gradient and its weighted squared norm.
    pub(super) fn weighted_instance(
        &self,
        ctx: Context,
        weights: Option<&[f32]>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> f64 {
        let (weight, gain) = out.split_at_mut(self.weight_len);
        let (weights, gain_weights) = weights.map(|all| all.split_at(weight.len())).unzip();
        let mut square = 0.0;
        let measure = |_: usize, offset: usize, block: &[f32]| {
            let weights = weights.map(|all| &all[offset..offset + block.len()]);
            square += outer::weighted_squared_norm(block, weights);
        };
        let Some(rule) = &self.standardise else {
            self.form_gradient(ctx, weight, scratch, measure);
            return square;
        };
        self.form_gradient(ctx, weight, scratch, |_, _, _| ());
        rule.backward(weight, gain);
        outer::weighted_squared_norm(weight, weights)
            + outer::weighted_squared_norm(gain, gain_weights)
    }

    /// Computes one example's gradient with respect to the standardised weights, and from it the
    /// squared norm of that with respect to weights and gain; `None` if the latter could be mostly
    /// rounding error.
    pub(super) fn standardised_instance(
        &self,
        ctx: Context,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Option<f64> {
        let rule = self.standardise.as_ref()?;
        let groups = self.patches.groups().iter();
        let mut columns: Vec<_> = groups.map(|_| Columns::new(self.patches.group_out())).collect();
        self.form_gradient(ctx, out, scratch, |group, offset, block| {
            rule.measure(&mut columns[group], offset, block);
        });
        columns.iter().enumerate().map(|(group, columns)| rule.measured(group, columns)).sum()
    }

    /// Computes one example's gradient with respect to the weights that the convolution multiplies
    /// with. Calls `measure` with group, offset and values of each block of rows, before they leave
    /// the cache.
    fn form_gradient(
        &self,
        ctx: Context,
        out: &mut [f32],
        scratch: &mut Scratch,
        mut measure: impl FnMut(usize, usize, &[f32]),
    ) {
        let (outputs, patch) = (self.patches.group_out(), self.patches.patch_len());
        let positions = ctx.rows.copies * self.patches.positions();
        let formed = self.algorithm.weight_gradient(ctx.rows.total());
        if let Some(formed) = &formed {
            formed.compute(ctx.x, ctx.g, out, Store::Replace, &mut scratch.patches);
        }
        let (tile_rows, block_rows) =
            ((TILE_ELEMENTS / outputs).max(1), (BLOCK_ELEMENTS / outputs).max(1));
        for (group, out) in out.chunks_exact_mut(self.group_len()).enumerate() {
            let mut offset = group * self.group_len();
            let patches = match formed {
                Some(_) => &[],
                None => self.patches.gather(group, ctx.x, &mut scratch.patches),
            };
            let g = self.patches.group_outputs(group, ctx.g, &mut scratch.second);
            let g = Matrix::new(g, positions, outputs);
            for (tile, out) in out.chunks_mut(tile_rows * outputs).enumerate() {
                if formed.is_none() {
                    let columns = &patches[tile * tile_rows..];
                    let columns = Matrix::strided(columns, positions, out.len() / outputs, patch);
                    product(out, Store::Replace, columns.transposed(), g);
                }
                for block in out.chunks(block_rows * outputs) {
                    measure(group, offset, block);
                    offset += block.len();
                }
            }
        }
    }
}
