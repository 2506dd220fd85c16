//! Embeddings: one row of a table per token.

use super::layout::{Map, Part};
use super::op::{Chunk, How, Op, Rows, Scratch, Seen, Sparse};
use super::outer;
use crate::nn::kernels::product::Store;

pub(super) struct Embedding {
    vocabulary: usize,
    features: usize,
    steps: usize,
    parts: [Part; 1],
    table: Vec<f32>,
}

impl Embedding {
    pub(super) fn new(vocabulary: usize, features: usize, steps: usize) -> Self {
        let len = vocabulary * features;
        let parts = [Part::large(0, Map::Plain { len })];
        Self { vocabulary, features, steps, parts, table: vec![0.0; len] }
    }

    /// The row of a token. Batches are checked before; what is not a token (a padding of NaN in a
    /// poisoned example, say) reads row 0, and the example is left out for its features' sake.
    fn row(&self, token: f32) -> usize {
        (token as usize).min(self.vocabulary - 1)
    }
}

impl Op for Embedding {
    fn len(&self) -> usize {
        self.steps * self.features
    }

    fn layout(&self) -> &[Part] {
        &self.parts
    }

    fn load(&mut self, _: &[f32], large: &[f32]) {
        self.table.copy_from_slice(large);
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        for (token, y) in x.iter().zip(y.chunks_exact_mut(self.features)) {
            let at = self.row(*token) * self.features;
            y.copy_from_slice(&self.table[at..at + self.features]);
        }
    }

    /// Tokens have no gradient.
    fn backward(&self, _: Chunk, _: Option<(&mut [f32], Store)>, _: &mut [f32], _: &mut Scratch) {}

    fn how(&self, _: usize, _: bool) -> How {
        How::Ghost
    }

    fn is_sparse(&self) -> bool {
        true
    }

    /// Gradients of equal tokens add up before their squares do.
    fn squares(&self, seen: Seen, weights: Option<&[f32]>, squares: &mut [f64], _: &mut Scratch) {
        let mut total = vec![0.0f32; self.features];
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (i, square) in squares.iter_mut().enumerate() {
            let seen = seen.example(i);
            order.clear();
            order.extend(seen.x.iter().enumerate().map(|(at, &token)| (self.row(token), at)));
            order.sort_unstable();
            for same in order.chunk_by(|a, b| a.0 == b.0) {
                total.fill(0.0);
                for &(_, at) in same {
                    outer::add(&mut total, &seen.g[at * self.features..(at + 1) * self.features]);
                }
                let row = same[0].0 * self.features;
                let weights = weights.map(|w| &w[row..row + self.features]);
                *square += outer::weighted_squares(&total, weights);
            }
        }
    }

    fn rows(&self, seen: Seen, factors: Option<&[f32]>, sum: &mut Sparse) {
        let per = seen.rows.copies * self.steps;
        for (at, (token, g)) in seen.x.iter().zip(seen.g.chunks_exact(self.features)).enumerate() {
            let factor = factors.map_or(1.0, |f| f[at / per]);
            sum.at.push(self.row(*token) * self.features);
            sum.values.extend(g.iter().map(|g| factor * g));
        }
    }
}
