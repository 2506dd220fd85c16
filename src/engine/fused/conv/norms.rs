//! One example's gradient of the convolution weights, and its norm with and without forming it.

use super::Conv;
use crate::engine::fused::op::{Context, Scratch, resize_buffer};
use crate::engine::fused::outer;
use crate::nn::kernels::product::{Matrix, Store, product};

/// Gradient values that are computed at a time: as many as fit into the L2 cache with their
/// weights.
const TILE_ELEMENTS: usize = 1 << 16;

/// Gradient values that are post-processed and measured at a time, while they are in the L1 cache.
const BLOCK_ELEMENTS: usize = 1 << 12;

impl Conv {
    /// Squared norm of one example's gradient from Gram matrices; `None` if it could be mostly
    /// rounding error.
    pub(super) fn ghost_squared_norm(&self, ctx: Context, scratch: &mut Scratch) -> Option<f64> {
        let outputs = self.out / self.im2col.len();
        let positions = ctx.rows.copies * self.positions();
        let (mut columns, mut column_bounds) = (vec![0.0; outputs], vec![0.0; outputs]);
        let (mut square, mut bound) = (0.0, 0.0);
        for group in 0..self.im2col.len() {
            let Scratch { patches, second, third, fourth, fifth, .. } = &mut *scratch;
            if let Some(pixel_gram) = &self.pixel_gram {
                pixel_gram.gram(ctx.x, second, third, (patches, fourth));
            } else {
                let patches = self.patches(group, ctx.x, patches);
                outer::gram(patches, positions, second);
                self.im2col[group].patch_sums(ctx.x, resize_buffer(third, positions));
            }
            let g = self.group_outputs(group, ctx.g, fourth);
            let gram = (&second[..positions * positions], self.patch_len());
            outer::column_squared_norms(gram, g, &mut columns, &mut column_bounds, fifth);
            if let Some(standardise) = &self.standardise {
                square += standardise.ghost_squared_norm(
                    &third[..positions],
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

    /// Computes one example's gradient and its weighted squared norm, tile by tile, so that values
    /// are measured before they leave the cache.
    pub(super) fn instance_gradient_tiled(
        &self,
        ctx: Context,
        weights: Option<&[f32]>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> f64 {
        let positions = ctx.rows.copies * self.positions();
        let (outputs, patch) = (self.out / self.im2col.len(), self.patch_len());
        let (weight, gain) = out.split_at_mut(self.weight_len);
        let (mut square, mut projection) = (0.0, None);
        let filtering = self.filtered_gradient(ctx.rows.copies);
        if let Some(forward) = filtering {
            let patches = &mut scratch.patches;
            forward.weight_gradient(ctx.x, ctx.g, weight, Store::Replace, patches);
        }
        for (group, out) in weight.chunks_exact_mut(self.group_len()).enumerate() {
            let patches = match filtering {
                Some(_) => &[],
                None => self.patches(group, ctx.x, &mut scratch.patches),
            };
            let g = self.group_outputs(group, ctx.g, &mut scratch.second);
            // The projection of the standardisation can be computed from the output, before the
            // gradient.
            let output_known =
                self.is_linear_output() && outer::is_mid_range(ctx.x) && outer::is_mid_range(ctx.g);
            if let Some(rule) = self.standardise.as_ref().filter(|_| output_known) {
                let sums = resize_buffer(&mut scratch.third, positions);
                self.im2col[group].patch_sums(ctx.x, sums);
                projection = rule.projection_from_output(sums, g, ctx.y);
            }
            let weights = weights.map(|all| &all[group * self.group_len()..][..out.len()]);
            let g = Matrix::new(g, positions, outputs);
            let (tile_rows, block_rows) =
                ((TILE_ELEMENTS / outputs).max(1), (BLOCK_ELEMENTS / outputs).max(1));
            for (tile, out) in out.chunks_mut(tile_rows * outputs).enumerate() {
                if filtering.is_none() {
                    let columns = &patches[tile * tile_rows..];
                    let columns = Matrix::strided(columns, positions, out.len() / outputs, patch);
                    product(out, Store::Replace, columns.transposed(), g);
                }
                for (block, out) in out.chunks_mut(block_rows * outputs).enumerate() {
                    let offset = (tile * tile_rows + block * block_rows) * outputs;
                    match (&self.standardise, &projection) {
                        (Some(rule), Some(projection)) => {
                            rule.backward_rows(projection, offset, out)
                        }
                        // Measured below, once the whole gradient has been computed.
                        (Some(_), None) => continue,
                        (None, _) => {}
                    }
                    let weights = weights.map(|all| &all[offset..offset + out.len()]);
                    square += outer::weighted_squared_norm(out, weights);
                }
            }
        }
        let Some(rule) = &self.standardise else { return square };
        let (weights, gain_weights) = weights.map(|all| all.split_at(weight.len())).unzip();
        match projection {
            Some(projection) => rule.write_gain_gradient(&projection, gain),
            None => {
                rule.backward(weight, gain);
                square = outer::weighted_squared_norm(weight, weights);
            }
        }
        square + outer::weighted_squared_norm(gain, gain_weights)
    }
}
