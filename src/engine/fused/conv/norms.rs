//! Gradient of the weights of a convolution: that of one example, its norm with and without
//! forming it, and weighted sums.

use super::Conv;
use crate::engine::fused::conv_standardisation::ColumnStats;
use crate::engine::fused::op::{
    Context, Convolution, LargeParameters, NormMethod, Scratch, resize_buffer,
};
use crate::engine::fused::outer_product;
use crate::nn::kernels::product::{MatrixView, WriteMode, matmul};

/// Gradient values computed at a time: as many as fit into the L2 cache with their weights.
const TILE_ELEMENTS: usize = 1 << 16;

/// Gradient values measured at a time, while they are in the L1 cache.
const BLOCK_ELEMENTS: usize = 1 << 12;

impl LargeParameters for Conv {
    fn multiplications(&self) -> usize {
        self.patches.positions() * self.weight_len
    }

    fn multiplications_done(&self, copies: usize) -> [usize; 3] {
        self.algorithm.multiplications(self.multiplications(), copies)
    }

    fn norm_method(&self, copies: usize, weighted: bool) -> NormMethod {
        if weighted || self.standardise.is_some() && !self.is_linear_output {
            return NormMethod::Instantiated;
        }
        let patches = &self.patches;
        let (inputs, outputs) = (patches.patch_len(), patches.group_out_channels());
        outer_product::choose_norm_method(copies * patches.positions(), inputs, outputs)
    }

    fn squared_norms(&self, ctx: Context, scratch: &mut Scratch) -> Vec<Option<f64>> {
        let examples = 0..ctx.rows.examples;
        examples.map(|i| self.ghost_squared_norm(ctx.example(i), scratch)).collect()
    }

    fn instance_gradient(&self, ctx: Context, out: &mut [f32], scratch: &mut Scratch) -> f64 {
        let (weight, gain) = out.split_at_mut(self.weight_len);
        let (weights, gain_weights) =
            ctx.weights.map(|all| all.values.split_at(weight.len())).unzip();
        let mut square = 0.0;
        let measure = |_: usize, offset: usize, block: &[f32]| {
            let weights = weights.map(|all| &all[offset..offset + block.len()]);
            square += outer_product::weighted_squared_norm(block, weights);
        };
        let Some(rule) = &self.standardise else {
            self.instantiate_blocks(ctx, weight, scratch, measure);
            return square;
        };
        self.instantiate_blocks(ctx, weight, scratch, |_, _, _| ());
        rule.backward(weight, gain);
        outer_product::weighted_squared_norm(weight, weights)
            + outer_product::weighted_squared_norm(gain, gain_weights)
    }

    fn sums_more_rows(&self, rows: usize) -> bool {
        outer_product::is_memory_bound_sum(rows * self.patches.positions(), self.weight_len)
    }

    fn weighted_sum(&self, ctx: Context, sum: &mut [f32], scratch: &mut Scratch) {
        let sum = &mut sum[..self.weight_len];
        let Some(gradient) = self.algorithm.weight_gradient_kernel(ctx.rows.total()) else {
            return self.patches.add_weight_gradients(ctx, sum, scratch);
        };
        let with = outer_product::scale_by_factors(ctx.g, ctx.factors, &mut scratch.weighted);
        let (store, scratch) = (WriteMode::Accumulate, &mut scratch.patches);
        gradient.compute(Convolution { images: ctx.x, with, out: sum, store, scratch });
    }

    /// Returns the number of values of a gradient of the standardised weights, over which sums are
    /// taken with weight standardisation.
    fn transformed_len(&self) -> Option<usize> {
        self.standardise.as_ref().map(|_| self.weight_len)
    }

    fn transformed_instance(
        &self,
        ctx: Context,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Option<f64> {
        let rule = self.standardise.as_ref()?;
        let groups = self.patches.groups().iter();
        let mut columns: Vec<_> =
            groups.map(|_| ColumnStats::new(self.patches.group_out_channels())).collect();
        self.instantiate_blocks(ctx, out, scratch, |group, offset, block| {
            rule.accumulate_stats(&mut columns[group], offset, block);
        });
        columns
            .iter()
            .enumerate()
            .map(|(group, columns)| rule.squared_norm_from_stats(group, columns))
            .sum()
    }

    fn gradient_of_transformed(&self, transformed: &[f32]) -> Vec<f32> {
        let mut gradient = transformed.to_vec();
        if let Some(standardise) = &self.standardise {
            gradient.resize(self.weight_len + standardise.gain_len(), 0.0);
            let (weight, gain) = gradient.split_at_mut(self.weight_len);
            standardise.backward(weight, gain);
        }
        gradient
    }
}

impl Conv {
    /// Computes the squared norm of one example's gradient from Gram matrices; `None` if it could
    /// be mostly rounding error.
    fn ghost_squared_norm(&self, ctx: Context, scratch: &mut Scratch) -> Option<f64> {
        let (geometries, outputs) = (self.patches.groups(), self.patches.group_out_channels());
        let positions = ctx.rows.copies * self.patches.positions();
        let (mut columns, mut column_bounds) = (vec![0.0; outputs], vec![0.0; outputs]);
        let (mut square, mut bound) = (0.0, 0.0);
        for (group, geometry) in geometries.iter().enumerate() {
            let gram = if let Some(pixel_gram) = &self.pixel_gram {
                let pixels = (&mut scratch.pixels, &mut scratch.padded_pixels);
                pixel_gram.gram(ctx.x, &mut scratch.gram, pixels)
            } else {
                let patches = self.patches.gather(group, ctx.x, &mut scratch.patches);
                outer_product::gram_matrix(patches, positions, &mut scratch.gram)
            };
            let g = self.patches.group_outputs(group, ctx.g, &mut scratch.group_outputs);
            let (gram, product) = ((gram, geometry.patch_len()), &mut scratch.gram_product);
            outer_product::column_squared_norms(gram, g, &mut columns, &mut column_bounds, product);
            if let Some(standardise) = &self.standardise {
                let patch_sums = resize_buffer(&mut scratch.patch_sums, positions);
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
        let mid_range = outer_product::is_mid_range(ctx.x) && outer_product::is_mid_range(ctx.g);
        (mid_range && outer_product::is_reliable(square, bound)).then_some(square)
    }

    /// Computes one example's gradient with respect to the weights that the convolution multiplies
    /// with. Calls `measure` with group, offset and values of each block of rows, before they leave
    /// the cache.
    fn instantiate_blocks(
        &self,
        ctx: Context,
        out: &mut [f32],
        scratch: &mut Scratch,
        mut measure: impl FnMut(usize, usize, &[f32]),
    ) {
        let (outputs, patch) = (self.patches.group_out_channels(), self.patches.patch_len());
        let positions = ctx.rows.copies * self.patches.positions();
        let formed = self.algorithm.weight_gradient_kernel(ctx.rows.total());
        if let Some(formed) = &formed {
            let (store, scratch) = (WriteMode::Overwrite, &mut scratch.patches);
            formed.compute(Convolution { images: ctx.x, with: ctx.g, out, store, scratch });
        }
        let (tile_rows, block_rows) =
            ((TILE_ELEMENTS / outputs).max(1), (BLOCK_ELEMENTS / outputs).max(1));
        for (group, out) in out.chunks_exact_mut(self.group_len()).enumerate() {
            let mut offset = group * self.group_len();
            let patches = match formed {
                Some(_) => &[],
                None => self.patches.gather(group, ctx.x, &mut scratch.patches),
            };
            let g = self.patches.group_outputs(group, ctx.g, &mut scratch.group_outputs);
            let g = MatrixView::new(g, positions, outputs);
            for (tile, out) in out.chunks_mut(tile_rows * outputs).enumerate() {
                if formed.is_none() {
                    let columns = &patches[tile * tile_rows..];
                    let columns =
                        MatrixView::strided(columns, positions, out.len() / outputs, patch);
                    matmul(out, WriteMode::Overwrite, columns.transposed(), g);
                }
                for block in out.chunks(block_rows * outputs) {
                    measure(group, offset, block);
                    offset += block.len();
                }
            }
        }
    }
}
