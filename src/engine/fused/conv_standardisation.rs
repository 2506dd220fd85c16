//! Scaled weight standardisation (Brock, De and Smith, 2021) and its backward pass.
//!
//! Per output channel with `n` weights, the convolution multiplies with `gain · ŵ`, where
//! `ŵ = (w - mean) r` and `r = 1 / √guarded(n var)`. Let `γ` be the gradient with respect to
//! `gain · ŵ`. The gradient with respect to `w` is `gain r (γ - mean(γ) - ŵ (γ·ŵ))`, which is
//! linear in `γ`; the last term is absent where the variance is clamped to a floor. The gradient
//! with respect to the gain is `γ·ŵ`. A standardisation without the fan-in is one with a constant
//! factor in the gain (`VarianceGuard::scaled`).

#[cfg(test)]
mod tests;

use super::outer_product;
use crate::nn::VarianceGuard;
use crate::nn::kernels::vectorised;

/// Statistics of each column of one `γ`: the sum, the product with that of `ŵ`, and the squared
/// norm. In f64, because the projected part can be far larger than the rest.
pub(super) struct ColumnStats {
    sums: Vec<f64>,
    dots: Vec<f64>,
    squares: Vec<f64>,
}

impl ColumnStats {
    pub(super) fn new(outputs: usize) -> Self {
        let [sums, dots, squares] = [(); 3].map(|()| vec![0.0; outputs]);
        Self { sums, dots, squares }
    }
}

/// Weight standardisation of a convolution: columns are output channels; matrices are
/// `[patch] x [outputs of the group]`, one per group.
pub(super) struct ConvStandardisation {
    guard: VarianceGuard,
    groups: usize,
    patch: usize,
    /// Whether the gain is a trainable parameter.
    trainable_gain: bool,
    /// The gain times the constant factor, and that factor.
    gain: Vec<f32>,
    factor: f32,
    /// `r`, and `‖ŵ‖²` (0 where the variance is clamped: no projection then).
    inverse: Vec<f32>,
    unit_squared_norm: Vec<f32>,
    /// `ŵ`, without the gain.
    unit: Vec<f32>,
}

impl ConvStandardisation {
    pub(super) fn new(
        guard: VarianceGuard,
        gain: bool,
        groups: usize,
        patch: usize,
        out: usize,
    ) -> Self {
        let (guard, factor) = guard.scaled(patch);
        Self {
            guard,
            groups,
            patch,
            trainable_gain: gain,
            gain: vec![factor as f32; out],
            factor: factor as f32,
            inverse: vec![0.0; out],
            unit_squared_norm: vec![0.0; out],
            unit: vec![0.0; patch * out],
        }
    }

    /// Returns the number of parameters of the gain.
    pub(super) fn gain_len(&self) -> usize {
        if self.trainable_gain { self.gain.len() } else { 0 }
    }

    fn outputs(&self) -> usize {
        self.gain.len() / self.groups
    }

    /// Replaces the raw weights by the standardised ones times the gain.
    pub(super) fn load(&mut self, weight: &mut [f32], gain: &[f32]) {
        if self.trainable_gain {
            let each = self.gain.iter_mut().zip(gain);
            each.for_each(|(scale, gain)| *scale = gain * self.factor);
        }
        let (n, outputs) = (self.patch as f64, self.outputs());
        let each = weight.chunks_exact_mut(self.patch * outputs);
        for (group, weight) in each.enumerate() {
            let first = group * outputs;
            let mut mean = vec![0.0f64; outputs];
            for row in weight.chunks_exact(outputs) {
                mean.iter_mut().zip(row).for_each(|(m, &w)| *m += f64::from(w) / n);
            }
            let mut sum_of_squares = vec![0.0f64; outputs];
            for row in weight.chunks_exact(outputs) {
                for ((s, &w), m) in sum_of_squares.iter_mut().zip(row).zip(&mean) {
                    *s += (f64::from(w) - m).powi(2);
                }
            }
            for (o, &s) in sum_of_squares.iter().enumerate() {
                let (guarded_variance, floor) = match self.guard {
                    VarianceGuard::Add(e) | VarianceGuard::Unscaled(e) => (s + e, false),
                    VarianceGuard::AtLeast(e) => (s.max(e), s < e),
                };
                self.inverse[first + o] = (1.0 / guarded_variance.sqrt()) as f32;
                self.unit_squared_norm[first + o] =
                    if floor { 0.0 } else { (s / guarded_variance) as f32 };
            }
            let unit = &mut self.unit[first * self.patch..(first + outputs) * self.patch];
            for (row, unit) in weight.chunks_exact_mut(outputs).zip(unit.chunks_exact_mut(outputs))
            {
                for (o, (w, u)) in row.iter_mut().zip(unit).enumerate() {
                    *u = ((f64::from(*w) - mean[o]) * f64::from(self.inverse[first + o])) as f32;
                    *w = *u * self.gain[first + o];
                }
            }
        }
    }

    /// Computes the squared norm of one example's gradient from the squared norms of the columns
    /// of `γ`, without forming `γ`, for a convolution of one group. The column sums of `γ` follow
    /// from `patch_sums`, and its products with `ŵ` from the convolution's output `y`, which must
    /// have no bias and no activation. `bounds` are the squared norms of the columns if no terms
    /// cancelled. `None` if the result could be mostly rounding error, and if a gain is nearly
    /// zero: the products follow from the output divided by the gain.
    pub(super) fn ghost_squared_norm(
        &self,
        patch_sums: &[f32],
        g: &[f32],
        y: &[f32],
        squares: &[f64],
        bounds: &[f64],
    ) -> Option<f64> {
        let outputs = self.outputs();
        let (mut sums, mut dots) = (vec![0.0; outputs], vec![0.0; outputs]);
        let rows = patch_sums.iter().zip(g.chunks_exact(outputs));
        for ((patch_sum, g), y) in rows.zip(y.chunks_exact(outputs)) {
            add_products(*patch_sum, g, y, &mut sums, &mut dots);
        }
        if self.gain.iter().any(|gain| gain.abs() < 1e-6) {
            return None;
        }
        dots.iter_mut().zip(&self.gain).for_each(|(dot, &gain)| *dot /= f64::from(gain));
        self.squared_norm(0, [&sums, &dots, squares], bounds)
    }

    /// Computes the squared norm of the gradient of one group from its columns of `γ`, of which
    /// the first is channel `first`: their sums, products with `ŵ` and squared norms. `None` if it
    /// could be mostly rounding error, where `bounds` are the squared norms without cancellation.
    fn squared_norm(
        &self,
        first: usize,
        [sums, dots, squares]: [&[f64]; 3],
        bounds: &[f64],
    ) -> Option<f64> {
        let (mut square, mut bound) = (0.0, 0.0);
        for o in 0..sums.len() {
            let dot = dots[o];
            let unit_norm = f64::from(self.unit_squared_norm[first + o]);
            let projected = if unit_norm > 0.0 { dot * dot * (2.0 - unit_norm) } else { 0.0 };
            let mean = sums[o].powi(2) / self.patch as f64;
            let scale =
                (f64::from(self.gain[first + o]) * f64::from(self.inverse[first + o])).powi(2);
            let gain =
                if self.trainable_gain { (dot * f64::from(self.factor)).powi(2) } else { 0.0 };
            square += scale * (squares[o] - mean - projected) + gain;
            bound += scale * bounds[o] + gain;
        }
        outer_product::is_reliable(square, bound).then_some(square)
    }

    /// Adds whole rows of `γ` to the columns of their group. `offset` is the position of the first
    /// element among the weights of all groups.
    pub(super) fn accumulate_stats(&self, columns: &mut ColumnStats, offset: usize, rows: &[f32]) {
        let unit = &self.unit[offset..offset + rows.len()];
        let ColumnStats { sums, dots, squares } = columns;
        add_columns(rows, unit, sums, dots, squares);
    }

    /// Computes the squared norm of the gradient of one group from all rows of its `γ`; `None` if
    /// it could be mostly rounding error.
    pub(super) fn squared_norm_from_stats(
        &self,
        group: usize,
        columns: &ColumnStats,
    ) -> Option<f64> {
        let ColumnStats { sums, dots, squares } = columns;
        let underflow = self.patch as f64 * outer_product::UNDERFLOW_ERROR;
        let bounds: Vec<f64> = squares.iter().map(|square| square + underflow).collect();
        let square = self.squared_norm(group * self.outputs(), [sums, dots, squares], &bounds)?;
        // A square of f32 that overflows need not be that of an infinite norm.
        square.is_finite().then_some(square)
    }

    /// Converts `γ` into gradients of weights and gain, in place.
    pub(super) fn backward(&self, weight: &mut [f32], gain: &mut [f32]) {
        let outputs = self.outputs();
        let len = self.patch * outputs;
        for (group, weight) in weight.chunks_exact_mut(len).enumerate() {
            let unit = &self.unit[group * len..(group + 1) * len];
            let mut columns = ColumnStats::new(outputs);
            self.accumulate_stats(&mut columns, group * len, weight);
            let first = group * outputs;
            // What is subtracted from the columns, and the scales that they are multiplied with.
            let means = columns.sums.iter().map(|sum| (sum / self.patch as f64) as f32);
            let each = columns.dots.iter().zip(&self.unit_squared_norm[first..]);
            let projected = each.map(|(&dot, &l)| if l > 0.0 { dot as f32 } else { 0.0 });
            let each = self.gain[first..].iter().zip(&self.inverse[first..]).take(outputs);
            let scales = each.map(|(gain, inverse)| gain * inverse);
            let [means, projected, scales]: [Vec<f32>; 3] =
                [means.collect(), projected.collect(), scales.collect()];
            if self.trainable_gain {
                let each = gain[first..].iter_mut().zip(&columns.dots);
                each.for_each(|(gain, dot)| *gain = *dot as f32 * self.factor);
            }
            project(weight, unit, &means, &projected, &scales);
        }
    }
}

vectorised! {
    fn add_products(factor: f32, g: &[f32], y: &[f32], sums: &mut [f64], dots: &mut [f64]) {
        for (((s, d), g), y) in sums.iter_mut().zip(dots).zip(g).zip(y) {
            *s += f64::from(factor) * f64::from(*g);
            *d += f64::from(*g) * f64::from(*y);
        }
    }
}

vectorised! {
    /// Adds rows to the statistics of the columns; see [`ColumnStats`]. In f32 for 64 rows at a
    /// time.
    fn add_columns(
        matrix: &[f32],
        unit: &[f32],
        sums: &mut [f64],
        dots: &mut [f64],
        squares: &mut [f64],
    ) {
        let n = sums.len();
        let mut block = vec![0.0f32; 3 * n];
        for (matrix, unit) in matrix.chunks(64 * n).zip(unit.chunks(64 * n)) {
            block.fill(0.0);
            let (block_sums, rest) = block.split_at_mut(n);
            let (block_dots, block_squares) = rest.split_at_mut(n);
            for (row, unit) in matrix.chunks_exact(n).zip(unit.chunks_exact(n)) {
                for o in 0..n {
                    block_sums[o] += row[o];
                    block_dots[o] += row[o] * unit[o];
                    block_squares[o] += row[o] * row[o];
                }
            }
            for o in 0..n {
                sums[o] += f64::from(block_sums[o]);
                dots[o] += f64::from(block_dots[o]);
                squares[o] += f64::from(block_squares[o]);
            }
        }
    }
}

vectorised! {
    fn project(matrix: &mut [f32], unit: &[f32], means: &[f32], projected: &[f32], scales: &[f32]) {
        let n = means.len();
        for (row, unit) in matrix.chunks_exact_mut(n).zip(unit.chunks_exact(n)) {
            for o in 0..n {
                row[o] = scales[o] * (row[o] - means[o] - unit[o] * projected[o]);
            }
        }
    }
}
