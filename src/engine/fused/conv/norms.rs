//! One example's gradient by a convolution's weights: its norm without forming it, and itself.

use super::Conv;
use crate::engine::fused::op::{Scratch, Seen, room};
use crate::engine::fused::outer;
use crate::nn::kernels::product::{Matrix, Store, product};

/// DeviceArray of a gradient that are formed and measured before the next: what the second cache
/// holds beside their weights.
const TILE: usize = 1 << 16;

/// DeviceArray of these that are pulled back and measured while the first cache holds them.
const BLOCK: usize = 1 << 12;

impl Conv {
    /// The square of the norm of one example's gradient from Gram matrices; `None` if it is
    /// mostly rounding.
    pub(super) fn ghost(&self, seen: Seen, scratch: &mut Scratch) -> Option<f64> {
        let outputs = self.out / self.walks.len();
        let positions = seen.rows.copies * self.positions();
        let (mut columns, mut aligned) = (vec![0.0; outputs], vec![0.0; outputs]);
        let (mut found, mut most) = (0.0, 0.0);
        for group in 0..self.walks.len() {
            let Scratch { patches, second, third, fourth, fifth, .. } = &mut *scratch;
            if let Some(pixels) = &self.pixels {
                pixels.gram(seen.x, second, third, (patches, fourth));
            } else {
                let patches = self.patches(group, seen.x, patches);
                outer::gram(patches, positions, second);
                totals(patches, room(third, positions));
            }
            let g = self.share(group, seen.g, fourth);
            let gram = (&second[..positions * positions], self.patch());
            outer::ghost_columns(gram, g, &mut columns, &mut aligned, fifth);
            if let Some(standardise) = &self.standardise {
                found += standardise.ghost(&third[..positions], g, seen.y, &columns, &aligned)?;
            } else {
                found += columns.iter().sum::<f64>();
                most += aligned.iter().sum::<f64>();
            }
        }
        let ordinary = outer::ordinary(seen.x) && outer::ordinary(seen.g);
        (ordinary && outer::clear(found, most)).then_some(found)
    }

    /// One example's gradient, and the square of its weighted norm. Tile by tile, so that what is
    /// formed is measured before it leaves the cache.
    pub(super) fn formed(
        &self,
        seen: Seen,
        weights: Option<&[f32]>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> f64 {
        let positions = seen.rows.copies * self.positions();
        let (outputs, patch) = (self.out / self.walks.len(), self.patch());
        let (weight, gain) = out.split_at_mut(self.weight.len());
        let (mut square, mut back) = (0.0, None);
        for (group, out) in weight.chunks_exact_mut(self.group_len()).enumerate() {
            let patches = self.patches(group, seen.x, &mut scratch.patches);
            let g = self.share(group, seen.g, &mut scratch.second);
            // What is projected away, where it is known before the gradient is.
            let known = self.is_bare() && outer::ordinary(seen.x) && outer::ordinary(seen.g);
            if let Some(rule) = self.standardise.as_ref().filter(|_| known) {
                let sums = room(&mut scratch.third, positions);
                totals(patches, sums);
                back = rule.foreseen(sums, g, seen.y);
            }
            let weights = weights.map(|all| &all[group * self.group_len()..][..out.len()]);
            let g = Matrix::new(g, positions, outputs);
            let (rows, few) = ((TILE / outputs).max(1), (BLOCK / outputs).max(1));
            for (tile, out) in out.chunks_mut(rows * outputs).enumerate() {
                let part = &patches[tile * rows..];
                let part = Matrix::strided(part, positions, out.len() / outputs, patch);
                product(out, Store::Replace, part.transposed(), g);
                for (block, out) in out.chunks_mut(few * outputs).enumerate() {
                    let at = (tile * rows + block * few) * outputs;
                    match (&self.standardise, &back) {
                        (Some(rule), Some(back)) => rule.pull_part(back, at, out),
                        // Measured when all of it is there.
                        (Some(_), None) => continue,
                        (None, _) => {}
                    }
                    let weights = weights.map(|all| &all[at..at + out.len()]);
                    square += outer::weighted_squares(out, weights);
                }
            }
        }
        let Some(rule) = &self.standardise else { return square };
        let (weights, of_gain) = weights.map(|all| all.split_at(weight.len())).unzip();
        match back {
            Some(back) => rule.gains(&back, gain),
            None => {
                rule.pull(weight, gain);
                square = outer::weighted_squares(weight, weights);
            }
        }
        square + outer::weighted_squares(gain, of_gain)
    }
}

/// The sum of each patch.
fn totals(patches: &[f32], sums: &mut [f32]) {
    let each = patches.chunks_exact(patches.len() / sums.len());
    sums.iter_mut().zip(each).for_each(|(sum, patch)| *sum = outer::total(patch));
}
