//! Scaled weight standardisation (Brock, De and Smith, 2021), and the way back through it.
//!
//! The convolution multiplies with `gain · ŵ`, `ŵ = (w - mean) r`, `r = 1 / √guarded(n var)`, per
//! output channel over its `n` weights. With `γ` the gradient by what is multiplied, that by `w` is
//! `gain r (γ - mean(γ) - ŵ (γ·ŵ))`, linear in `γ`; without the last term where a floor under the
//! variance is active. The gradient by the gain is `γ·ŵ`.

use super::outer;
use crate::nn::Guard;
use crate::nn::kernels::vectorised;

/// What is taken off the columns of one `γ` on the way back, and what they are multiplied with.
pub(super) struct Back {
    dots: Vec<f64>,
    means: Vec<f32>,
    projected: Vec<f32>,
    scales: Vec<f32>,
}

/// Columns below are output channels; matrices are per group `[patch] x [outputs of the group]`.
pub(super) struct Standardise {
    guard: Guard,
    groups: usize,
    patch: usize,
    /// Whether there is a gain that learns.
    learns: bool,
    gain: Vec<f32>,
    /// r, and ‖ŵ‖² (0 where the floor is active: then nothing is projected away).
    inverse: Vec<f32>,
    length: Vec<f32>,
    /// ŵ, without the gain.
    unit: Vec<f32>,
}

impl Standardise {
    pub(super) fn new(guard: Guard, gain: bool, groups: usize, patch: usize, out: usize) -> Self {
        Self {
            guard,
            groups,
            patch,
            learns: gain,
            gain: vec![1.0; out],
            inverse: vec![0.0; out],
            length: vec![0.0; out],
            unit: vec![0.0; patch * out],
        }
    }

    pub(super) fn has_gain(&self) -> bool {
        self.learns
    }

    fn outputs(&self) -> usize {
        self.gain.len() / self.groups
    }

    /// Replaces raw weights by what the convolution multiplies with.
    pub(super) fn load(&mut self, weight: &mut [f32], gain: &[f32]) {
        if self.learns {
            self.gain.copy_from_slice(gain);
        }
        let (n, outputs) = (self.patch as f64, self.outputs());
        let each = weight.chunks_exact_mut(self.patch * outputs);
        for (group, weight) in each.enumerate() {
            let first = group * outputs;
            let mut mean = vec![0.0f64; outputs];
            for row in weight.chunks_exact(outputs) {
                mean.iter_mut().zip(row).for_each(|(m, &w)| *m += f64::from(w) / n);
            }
            let mut spread = vec![0.0f64; outputs];
            for row in weight.chunks_exact(outputs) {
                for ((s, &w), m) in spread.iter_mut().zip(row).zip(&mean) {
                    *s += (f64::from(w) - m).powi(2);
                }
            }
            for (o, &s) in spread.iter().enumerate() {
                let (guarded_variance, floor) = match self.guard {
                    Guard::Add(e) => (s + e, false),
                    Guard::AtLeast(e) => (s.max(e), s < e),
                };
                self.inverse[first + o] = (1.0 / guarded_variance.sqrt()) as f32;
                self.length[first + o] = if floor { 0.0 } else { (s / guarded_variance) as f32 };
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

    /// The square of the norm of one example's gradient from the squares of the columns of `γ`,
    /// without `γ`: its column sums come from the patches' own, `totals`, and its products with
    /// `ŵ` from the convolution's own output `y`, for which no bias and no activation may follow.
    /// `aligned` are the columns' squares if no terms cancelled. `None` if what is left after
    /// the projections is mostly rounding.
    pub(super) fn ghost(
        &self,
        totals: &[f32],
        g: &[f32],
        y: &[f32],
        columns: &[f64],
        aligned: &[f64],
    ) -> Option<f64> {
        let outputs = columns.len();
        let (sums, dots) = self.seen(totals, g, y)?;
        let (mut square, mut most) = (0.0, 0.0);
        for o in 0..outputs {
            let dot = dots[o];
            let length = f64::from(self.length[o]);
            let projected = if length > 0.0 { dot * dot * (2.0 - length) } else { 0.0 };
            let mean = sums[o].powi(2) / self.patch as f64;
            let scale = (f64::from(self.gain[o]) * f64::from(self.inverse[o])).powi(2);
            let gain = if self.learns { dot * dot } else { 0.0 };
            square += scale * (columns[o] - mean - projected) + gain;
            most += scale * aligned[o] + gain;
        }
        outer::clear(square, most).then_some(square)
    }

    /// The sums of the columns of `γ`, and their products with `ŵ`, as [`ghost`](Self::ghost)
    /// finds them; one group. `None` where a gain of nothing hides the products.
    fn seen(&self, totals: &[f32], g: &[f32], y: &[f32]) -> Option<(Vec<f64>, Vec<f64>)> {
        let outputs = self.outputs();
        let (mut sums, mut dots) = (vec![0.0; outputs], vec![0.0; outputs]);
        let rows = totals.iter().zip(g.chunks_exact(outputs));
        for ((total, g), y) in rows.zip(y.chunks_exact(outputs)) {
            add_products(*total, g, y, &mut sums, &mut dots);
        }
        if self.gain.iter().any(|gain| gain.abs() < 1e-6) {
            return None;
        }
        dots.iter_mut().zip(&self.gain).for_each(|(dot, &gain)| *dot /= f64::from(gain));
        Some((sums, dots))
    }

    /// The way back for one example before its `γ` is formed, from what [`ghost`](Self::ghost)
    /// is given.
    pub(super) fn foreseen(&self, totals: &[f32], g: &[f32], y: &[f32]) -> Option<Back> {
        let (sums, dots) = self.seen(totals, g, y)?;
        Some(self.back(0, &sums, dots))
    }

    /// The way back from the columns' sums and products with `ŵ`, from channel `first` on.
    fn back(&self, first: usize, sums: &[f64], dots: Vec<f64>) -> Back {
        let means = sums.iter().map(|sum| (sum / self.patch as f64) as f32).collect();
        let each = dots.iter().zip(&self.length[first..]);
        let projected = each.map(|(&dot, &l)| if l > 0.0 { dot as f32 } else { 0.0 }).collect();
        let each = self.gain[first..].iter().zip(&self.inverse[first..]).take(sums.len());
        let scales = each.map(|(gain, inverse)| gain * inverse).collect();
        Back { dots, means, projected, scales }
    }

    /// The gradients by the gains that learn; one group, or `gain` from its first channel on.
    pub(super) fn gains(&self, back: &Back, gain: &mut [f32]) {
        if self.learns {
            gain.iter_mut().zip(&back.dots).for_each(|(gain, dot)| *gain = *dot as f32);
        }
    }

    /// Turns whole rows of `γ` into gradients by weights, in place: those that begin at number
    /// `at` of all groups.
    pub(super) fn pull_part(&self, back: &Back, at: usize, part: &mut [f32]) {
        let unit = &self.unit[at..at + part.len()];
        project(part, unit, &back.means, &back.projected, &back.scales);
    }

    /// Turns `γ` into gradients by weights and gain, in place. Sums in f64: what they project
    /// away can be far longer than what is left.
    pub(super) fn pull(&self, weight: &mut [f32], gain: &mut [f32]) {
        let outputs = self.outputs();
        let len = self.patch * outputs;
        for (group, weight) in weight.chunks_exact_mut(len).enumerate() {
            let unit = &self.unit[group * len..(group + 1) * len];
            let (mut sums, mut dots) = (vec![0.0; outputs], vec![0.0; outputs]);
            sums_and_dots(weight, unit, &mut sums, &mut dots);
            let back = self.back(group * outputs, &sums, dots);
            if self.learns {
                self.gains(&back, &mut gain[group * outputs..]);
            }
            self.pull_part(&back, group * len, weight);
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
    /// Per column: the sum, and the product with `unit`. In f32 for a few rows at a time.
    fn sums_and_dots(matrix: &[f32], unit: &[f32], sums: &mut [f64], dots: &mut [f64]) {
        let n = sums.len();
        let mut few = vec![0.0f32; 2 * n];
        for (matrix, unit) in matrix.chunks(64 * n).zip(unit.chunks(64 * n)) {
            few.fill(0.0);
            let (few_sums, few_dots) = few.split_at_mut(n);
            for (row, unit) in matrix.chunks_exact(n).zip(unit.chunks_exact(n)) {
                for o in 0..n {
                    few_sums[o] += row[o];
                    few_dots[o] += row[o] * unit[o];
                }
            }
            for o in 0..n {
                sums[o] += f64::from(few_sums[o]);
                dots[o] += f64::from(few_dots[o]);
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
