//! Group and layer normalisation with gain and offset.

use super::op::{Backward, Forward, InputGradient, Op, resize_buffer};
use super::outer_product::add_rows;
use super::packed_layout::ParameterSlot;
use crate::nn::kernels::product::WriteMode;
use crate::nn::kernels::vectorised;

/// Normalisation of each block of `positions x (channels / groups)` elements. In group
/// normalisation, the positions are the pixels. In layer normalisation there is one group, and
/// each time step is a block.
pub(super) struct NormLayer {
    /// Number of blocks per row: the time steps of a sequence, else 1.
    steps: usize,
    positions: usize,
    channels: usize,
    groups: usize,
    epsilon: f64,
    slots: [ParameterSlot; 2],
    gamma: Vec<f32>,
    beta: Vec<f32>,
}

impl NormLayer {
    pub(super) fn new([steps, positions, channels, groups]: [usize; 4], epsilon: f64) -> Self {
        let slots = [ParameterSlot::small(0, channels), ParameterSlot::small(channels, channels)];
        let (gamma, beta) = (vec![1.0; channels], vec![0.0; channels]);
        Self { steps, positions, channels, groups, epsilon, slots, gamma, beta }
    }

    fn block_len(&self) -> usize {
        self.positions * self.channels
    }

    /// Replaces each channel's value by the sum over the channels of its group.
    fn sum_within_groups(&self, values: &mut [f32]) {
        for group in values.chunks_exact_mut(self.channels / self.groups) {
            let sum: f64 = group.iter().map(|&v| f64::from(v)).sum();
            group.fill(sum as f32);
        }
    }
}

impl Op for NormLayer {
    fn describe(&self) -> String {
        format!("norm, {} channels", self.channels)
    }

    fn len(&self) -> usize {
        self.steps * self.block_len()
    }

    /// Returns the number of saved values: mean and inverse standard deviation of each channel,
    /// per block.
    fn saved_len(&self) -> usize {
        2 * self.steps * self.channels
    }

    fn parameter_slots(&self) -> &[ParameterSlot] {
        &self.slots
    }

    fn load(&mut self, small: &[f32], _: &[f32]) {
        let (gamma, beta) = small.split_at(self.channels);
        self.gamma.copy_from_slice(gamma);
        self.beta.copy_from_slice(beta);
    }

    fn forward(&self, pass: Forward) {
        let (c, block) = (self.channels, self.block_len());
        let n = (block / self.groups) as f32;
        let affine_buffer = resize_buffer(&mut pass.scratch.channels, 2 * c);
        let blocks = pass.x.chunks_exact(block).zip(pass.y.chunks_exact_mut(block));
        for ((x, y), saved) in blocks.zip(pass.saved.chunks_exact_mut(2 * c)) {
            let (mean, inverse) = saved.split_at_mut(c);
            mean.fill(0.0);
            add_rows(x, mean);
            self.sum_within_groups(mean);
            mean.iter_mut().for_each(|m| *m /= n);
            inverse.fill(0.0);
            centred_squares(x, mean, inverse);
            self.sum_within_groups(inverse);
            let deviation = |s: f32| 1.0 / (f64::from(s / n) + self.epsilon).sqrt();
            inverse.iter_mut().for_each(|i| *i = deviation(*i) as f32);
            let (slope, offset) = affine_buffer.split_at_mut(c);
            for i in 0..c {
                slope[i] = self.gamma[i] * inverse[i];
                offset[i] = self.beta[i];
            }
            affine(x, mean, slope, offset, y);
        }
        pass.activation.apply(pass.y, &[]);
    }

    fn backward(&self, pass: Backward) {
        let (c, n) = (self.channels, (self.block_len() / self.groups) as f32);
        let blocks = self.steps * pass.rows.copies;
        let buffer = resize_buffer(&mut pass.scratch.channels, 2 * c);
        let (g_sum, gx_sum) = buffer.split_at_mut(c);
        let each = pass.x.chunks_exact(self.block_len()).zip(pass.g.chunks_exact(self.block_len()));
        let each = each.zip(pass.saved.chunks_exact(2 * c));
        let mut gx = pass.gx;
        for (block, ((x, g), saved)) in each.enumerate() {
            let (mean, inverse) = saved.split_at(c);
            g_sum.fill(0.0);
            gx_sum.fill(0.0);
            sums_and_products(x, g, mean, inverse, g_sum, gx_sum);
            let small = &mut pass.small[block / blocks * 2 * c..(block / blocks + 1) * 2 * c];
            let (gamma, beta) = small.split_at_mut(c);
            for i in 0..c {
                gamma[i] += gx_sum[i];
                beta[i] += g_sum[i];
                g_sum[i] *= self.gamma[i];
                gx_sum[i] *= self.gamma[i];
            }
            let Some(InputGradient { values, store }) = &mut gx else { continue };
            self.sum_within_groups(g_sum);
            self.sum_within_groups(gx_sum);
            g_sum.iter_mut().chain(gx_sum.iter_mut()).for_each(|v| *v /= n);
            let gx = &mut values[block * self.block_len()..(block + 1) * self.block_len()];
            if *store == WriteMode::Overwrite {
                gx.fill(0.0);
            }
            input_gradient(x, g, mean, inverse, &self.gamma, g_sum, gx_sum, gx);
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
    fn affine(x: &[f32], mean: &[f32], slope: &[f32], offset: &[f32], y: &mut [f32]) {
        let c = mean.len();
        for (x, y) in x.chunks_exact(c).zip(y.chunks_exact_mut(c)) {
            for i in 0..c {
                y[i] = (x[i] - mean[i]) * slope[i] + offset[i];
            }
        }
    }
}

vectorised! {
    /// Computes, per channel, the sum of `g` and the sum of `g` times the normalised `x`.
    fn sums_and_products(
        x: &[f32],
        g: &[f32],
        mean: &[f32],
        inverse: &[f32],
        sums: &mut [f32],
        products: &mut [f32],
    ) {
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
    /// Computes `gx += inverse · (gamma · g - g_mean - x̂ · gx_mean)`
    #[allow(clippy::too_many_arguments)]
    fn input_gradient(
        x: &[f32],
        g: &[f32],
        mean: &[f32],
        inverse: &[f32],
        gamma: &[f32],
        g_mean: &[f32],
        gx_mean: &[f32],
        gx: &mut [f32],
    ) {
        let c = mean.len();
        let rows = x.chunks_exact(c).zip(g.chunks_exact(c));
        for ((x, g), gx) in rows.zip(gx.chunks_exact_mut(c)) {
            for i in 0..c {
                let normalised = (x[i] - mean[i]) * inverse[i];
                gx[i] += inverse[i] * (gamma[i] * g[i] - g_mean[i] - normalised * gx_mean[i]);
            }
        }
    }
}
