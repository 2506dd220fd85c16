//! Embedding layers.

use super::op::{Backward, Context, Forward, Large, Op, SparseRows};
use super::outer_product;
use super::packed_layout::{PackedLayout, ParameterSlot};

pub(super) struct Embedding {
    vocabulary: usize,
    features: usize,
    steps: usize,
    slots: [ParameterSlot; 1],
    table: Vec<f32>,
}

impl Embedding {
    pub(super) fn new(vocabulary: usize, features: usize, steps: usize) -> Self {
        let len = vocabulary * features;
        let slots = [ParameterSlot::large(0, PackedLayout::Plain { len })];
        Self { vocabulary, features, steps, slots, table: vec![0.0; len] }
    }

    /// Returns the table row of a token. Tokens of finite examples are checked beforehand; a token
    /// that is not finite reads row 0, and its example is excluded.
    fn row(&self, token: f32) -> usize {
        (token as usize).min(self.vocabulary - 1)
    }
}

impl Op for Embedding {
    fn describe(&self) -> String {
        format!("embedding, {} of {} features", self.vocabulary, self.features)
    }

    fn len(&self) -> usize {
        self.steps * self.features
    }

    fn parameter_slots(&self) -> &[ParameterSlot] {
        &self.slots
    }

    fn load(&mut self, _: &[f32], large: &[f32]) {
        self.table.copy_from_slice(large);
    }

    fn forward(&self, pass: Forward) {
        for (token, y) in pass.x.iter().zip(pass.y.chunks_exact_mut(self.features)) {
            let offset = self.row(*token) * self.features;
            y.copy_from_slice(&self.table[offset..offset + self.features]);
        }
    }

    /// Computes an input gradient of zero: tokens have no gradient.
    fn backward(&self, pass: Backward) {
        if let Some(gx) = pass.gx {
            gx.zeroed();
        }
    }

    fn large(&self) -> Option<Large<'_>> {
        Some(Large::Table(self))
    }
}

impl Embedding {
    /// Adds the squared norm of each example's gradient of the table.
    pub(super) fn add_squared_norms(&self, ctx: Context, squares: &mut [f64]) {
        for (i, square) in squares.iter_mut().enumerate() {
            self.for_each_token_gradient(ctx.example(i), |row, gradient| {
                let weights = ctx.weights.map(|w| &w.values[row..row + self.features]);
                *square += outer_product::weighted_squared_norm(gradient, weights);
            });
        }
    }

    /// Adds Σ factor · gradient of the table over the examples of the chunk.
    pub(super) fn add_sum(&self, ctx: Context, sum: &mut SparseRows) {
        for i in 0..ctx.rows.examples {
            let factor = ctx.factors.map_or(1.0, |f| f[i]);
            self.for_each_token_gradient(ctx.example(i), |row, gradient| {
                sum.offsets.push(row);
                sum.values.extend(gradient.iter().map(|g| factor * g));
            });
        }
    }

    /// Calls `visit` with the offset and the gradient of every table row that one example uses.
    /// Gradients of equal tokens are added first.
    fn for_each_token_gradient(&self, ctx: Context, mut visit: impl FnMut(usize, &[f32])) {
        let tokens = ctx.x.iter().enumerate().map(|(position, &token)| (self.row(token), position));
        let mut order: Vec<(usize, usize)> = tokens.collect();
        order.sort_unstable();
        let mut gradient = vec![0.0f32; self.features];
        for same in order.chunk_by(|a, b| a.0 == b.0) {
            gradient.fill(0.0);
            for &(_, position) in same {
                outer_product::add(
                    &mut gradient,
                    &ctx.g[position * self.features..(position + 1) * self.features],
                );
            }
            visit(same[0].0 * self.features, &gradient);
        }
    }
}
