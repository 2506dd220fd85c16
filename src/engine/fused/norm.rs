//! Group and layer normalisation, with gain and offset.

use super::activation::Activation;
use super::layout::Part;
use super::op::{Chunk, Op, Rows, Scratch, room};
use crate::nn::kernels::product::Store;
use crate::nn::kernels::vectorised;

/// Normalises each block of `positions x (channels / groups)` numbers. Group normalisation:
/// positions are the pixels; layer normalisation: one group, and each step is a row of its own.
pub(super) struct Norm {
    /// Blocks of all channels in one row: the steps of a sequence, else 1.
    steps: usize,
    positions: usize,
    channels: usize,
    groups: usize,
    epsilon: f64,
    activation: Activation,
    parts: [Part; 2],
    gamma: Vec<f32>,
    beta: Vec<f32>,
}

impl Norm {
    pub(super) fn new(
        [steps, positions, channels, groups]: [usize; 4],
        epsilon: f64,
        activation: Activation,
    ) -> Self {
        let parts = [Part::small(0, channels), Part::small(channels, channels)];
        let (gamma, beta) = (vec![1.0; channels], vec![0.0; channels]);
        Self { steps, positions, channels, groups, epsilon, activation, parts, gamma, beta }
    }

    fn block(&self) -> usize {
        self.positions * self.channels
    }

    /// Writes the sum of each group's channels over all of them.
    fn spread(&self, values: &mut [f32]) {
        for group in values.chunks_exact_mut(self.channels / self.groups) {
            let sum: f64 = group.iter().map(|&v| f64::from(v)).sum();
            group.fill(sum as f32);
        }
    }
}

impl Op for Norm {
    fn len(&self) -> usize {
        self.steps * self.block()
    }

    /// Per block: each channel's mean and inverse deviation.
    fn kept(&self) -> usize {
        2 * self.steps * self.channels
    }

    fn layout(&self) -> &[Part] {
        &self.parts
    }

    fn load(&mut self, small: &[f32], _: &[f32]) {
        let (gamma, beta) = small.split_at(self.channels);
        self.gamma.copy_from_slice(gamma);
        self.beta.copy_from_slice(beta);
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], kept: &mut [f32], scratch: &mut Scratch) {
        let c = self.channels;
        let n = (self.block() / self.groups) as f32;
        let line = room(&mut scratch.second, 2 * c);
        let blocks = x.chunks_exact(self.block()).zip(y.chunks_exact_mut(self.block()));
        for ((x, y), kept) in blocks.zip(kept.chunks_exact_mut(2 * c)) {
            let (mean, inverse) = kept.split_at_mut(c);
            mean.fill(0.0);
            sums(x, mean);
            self.spread(mean);
            mean.iter_mut().for_each(|m| *m /= n);
            inverse.fill(0.0);
            centred_squares(x, mean, inverse);
            self.spread(inverse);
            let deviation = |s: f32| 1.0 / (f64::from(s / n) + self.epsilon).sqrt();
            inverse.iter_mut().for_each(|i| *i = deviation(*i) as f32);
            let (slope, offset) = line.split_at_mut(c);
            for i in 0..c {
                slope[i] = self.gamma[i] * inverse[i];
                offset[i] = self.beta[i];
            }
            straight(x, mean, slope, offset, y);
        }
        self.activation.apply(y, None);
    }

    fn backward(
        &self,
        seen: Chunk,
        gx: Option<(&mut [f32], Store)>,
        small: &mut [f32],
        scratch: &mut Scratch,
    ) {
        self.activation.back(seen.y, seen.g);
        let (c, n) = (self.channels, (self.block() / self.groups) as f32);
        let blocks = self.steps * seen.rows.copies;
        let buffer = room(&mut scratch.second, 2 * c);
        let (first, second) = buffer.split_at_mut(c);
        let each = seen.x.chunks_exact(self.block()).zip(seen.g.chunks_exact(self.block()));
        let each = each.zip(seen.kept.chunks_exact(2 * c));
        let mut out = gx;
        for (at, ((x, g), kept)) in each.enumerate() {
            let (mean, inverse) = kept.split_at(c);
            first.fill(0.0);
            second.fill(0.0);
            sums_and_products(x, g, mean, inverse, first, second);
            let small = &mut small[at / blocks * 2 * c..(at / blocks + 1) * 2 * c];
            let (gamma, beta) = small.split_at_mut(c);
            for i in 0..c {
                gamma[i] += second[i];
                beta[i] += first[i];
                first[i] *= self.gamma[i];
                second[i] *= self.gamma[i];
            }
            let Some((gx, store)) = &mut out else { continue };
            self.spread(first);
            self.spread(second);
            first.iter_mut().chain(second.iter_mut()).for_each(|v| *v /= n);
            let gx = &mut gx[at * self.block()..(at + 1) * self.block()];
            if *store == Store::Replace {
                gx.fill(0.0);
            }
            back(x, g, mean, inverse, &self.gamma, first, second, gx);
        }
    }
}

vectorised! {
    fn sums(x: &[f32], out: &mut [f32]) {
        for row in x.chunks_exact(out.len()) {
            for (o, x) in out.iter_mut().zip(row) {
                *o += x;
            }
        }
    }
}

vectorised! {
    fn centred_squares(x: &[f32], mean: &[f32], out: &mut [f32]) {
        for row in x.chunks_exact(out.len()) {
            for ((o, x), m) in out.iter_mut().zip(row).zip(mean) {
                *o += (x - m) * (x - m);
            }
        }
    }
}

vectorised! {
    fn straight(x: &[f32], mean: &[f32], slope: &[f32], offset: &[f32], y: &mut [f32]) {
        let c = mean.len();
        for (x, y) in x.chunks_exact(c).zip(y.chunks_exact_mut(c)) {
            for i in 0..c {
                y[i] = (x[i] - mean[i]) * slope[i] + offset[i];
            }
        }
    }
}

vectorised! {
    /// Per channel: the sum of `g`, and of `g` times the normalised `x`.
    fn sums_and_products(x: &[f32], g: &[f32], mean: &[f32], inverse: &[f32], sums: &mut [f32], products: &mut [f32]) {
        let c = mean.len();
        for (x, g) in x.chunks_exact(c).zip(g.chunks_exact(c)) {
            for i in 0..c {
                sums[i] += g[i];
                products[i] += g[i] * ((x[i] - mean[i]) * inverse[i]);
            }
        }
    }
}

vectorised! {
    /// `gx += inverse (gamma g - first - x̂ second)`
    #[allow(clippy::too_many_arguments)]
    fn back(x: &[f32], g: &[f32], mean: &[f32], inverse: &[f32], gamma: &[f32], first: &[f32], second: &[f32], gx: &mut [f32]) {
        let c = mean.len();
        let rows = x.chunks_exact(c).zip(g.chunks_exact(c));
        for ((x, g), gx) in rows.zip(gx.chunks_exact_mut(c)) {
            for i in 0..c {
                let unit = (x[i] - mean[i]) * inverse[i];
                gx[i] += inverse[i] * (gamma[i] * g[i] - first[i] - unit * second[i]);
            }
        }
    }
}
