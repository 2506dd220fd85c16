//! Scaled weight standardisation (Brock, De and Smith, 2021), and the way back through it.
//!
//! The convolution multiplies with `gain · ŵ`, `ŵ = (w - mean) r`, `r = 1 / √guarded(n var)`, per
//! output channel over its `n` weights. With `γ` the gradient by what is multiplied, that by `w` is
//! `gain r (γ - mean(γ) - ŵ (γ·ŵ))`, linear in `γ`; without the last term where a floor under the
//! variance is active. The gradient by the gain is `γ·ŵ`.

use crate::nn::Guard;
use crate::nn::kernels::vectorised;

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

/// What ghost norms come to.
pub(super) struct Ghost {
    pub(super) square: f64,
    /// Whether it is what is left of much larger numbers: then it is mostly rounding.
    pub(super) clear: bool,
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
                let (guarded, floor) = match self.guard {
                    Guard::Add(e) => (s + e, false),
                    Guard::AtLeast(e) => (s.max(e), s < e),
                };
                self.inverse[first + o] = (1.0 / guarded.sqrt()) as f32;
                self.length[first + o] = if floor { 0.0 } else { (s / guarded) as f32 };
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
    /// without `γ`: its column sums come from those of the patches, and its products with `ŵ`
    /// from the convolution's own output `y`, for which no bias and no activation may follow.
    pub(super) fn ghost(&self, patches: &[f32], g: &[f32], y: &[f32], columns: &[f64]) -> Ghost {
        let outputs = columns.len();
        let (mut sums, mut dots) = (vec![0.0f32; outputs], vec![0.0f32; outputs]);
        let rows = patches.chunks_exact(self.patch).zip(g.chunks_exact(outputs));
        for ((patch, g), y) in rows.zip(y.chunks_exact(outputs)) {
            add_products(total(patch), g, y, &mut sums, &mut dots);
        }
        let (mut square, mut clear) = (0.0, true);
        for o in 0..outputs {
            let dot = f64::from(dots[o]) / f64::from(self.gain[o]);
            let (left, sure) = self.left(o, columns[o], sums[o].into(), dot);
            square += left;
            clear &= sure && self.gain[o].abs() > 1e-6;
        }
        Ghost { square, clear }
    }

    /// One column's share of the square of the norm, and whether rounding leaves it meaning.
    fn left(&self, o: usize, square: f64, sum: f64, dot: f64) -> (f64, bool) {
        let length = f64::from(self.length[o]);
        let projected = if length > 0.0 { dot * dot * (2.0 - length) } else { 0.0 };
        let rest = square - sum * sum / self.patch as f64 - projected;
        let sure = rest >= 1e-3 * square;
        let scale = f64::from(self.gain[o]) * f64::from(self.inverse[o]);
        let gain = if self.learns { dot * dot } else { 0.0 };
        (scale * scale * rest.max(0.0) + gain, sure)
    }

    /// The square of the norm of the gradient by the parameters, from an instance of `γ`.
    pub(super) fn square(&self, instance: &[f32], weights: Option<&[f32]>) -> f64 {
        let outputs = self.outputs();
        let len = self.patch * outputs;
        let mut all = 0.0;
        for (group, instance) in instance.chunks_exact(len).enumerate() {
            let first = group * outputs;
            let unit = &self.unit[first * self.patch..first * self.patch + len];
            let mut stats = vec![0.0f32; 3 * outputs];
            columns(instance, unit, &mut stats);
            let (squares, rest) = stats.split_at(outputs);
            let (sums, dots) = rest.split_at(outputs);
            let found = (0..outputs)
                .map(|o| self.left(first + o, squares[o].into(), sums[o].into(), dots[o].into()));
            let (mut square, mut sure) = (0.0, weights.is_none());
            for (left, clear) in found {
                square += left;
                sure &= clear;
            }
            if sure {
                all += square;
                continue;
            }
            // Formed: with weights, or where the differences above cancel.
            let weight = |at: usize| weights.map_or(1.0, |w| f64::from(w[at]));
            for (row, (g, u)) in
                instance.chunks_exact(outputs).zip(unit.chunks_exact(outputs)).enumerate()
            {
                for o in 0..outputs {
                    let place = first * self.patch + row * outputs + o;
                    let g = self.pulled(first + o, g[o], u[o], sums[o].into(), dots[o].into());
                    all += weight(place) * g.powi(2);
                }
            }
            if self.learns {
                for (o, dot) in dots.iter().enumerate() {
                    all += weight(self.unit.len() + first + o) * f64::from(*dot).powi(2);
                }
            }
        }
        all
    }

    fn pulled(&self, o: usize, g: f32, unit: f32, sum: f64, dot: f64) -> f64 {
        let projected = if self.length[o] > 0.0 { f64::from(unit) * dot } else { 0.0 };
        let scale = f64::from(self.gain[o]) * f64::from(self.inverse[o]);
        scale * (f64::from(g) - sum / self.patch as f64 - projected)
    }

    /// Turns a sum of `γ` into gradients by weights and gain, in place.
    pub(super) fn finish(&self, weight: &mut [f32], gain: &mut [f32]) {
        let outputs = self.outputs();
        let len = self.patch * outputs;
        for (group, weight) in weight.chunks_exact_mut(len).enumerate() {
            let first = group * outputs;
            let unit = &self.unit[first * self.patch..first * self.patch + len];
            let (mut sums, mut dots) = (vec![0.0; outputs], vec![0.0; outputs]);
            for (row, unit) in weight.chunks_exact(outputs).zip(unit.chunks_exact(outputs)) {
                for (o, (&g, &u)) in row.iter().zip(unit).enumerate() {
                    sums[o] += f64::from(g);
                    dots[o] += f64::from(g) * f64::from(u);
                }
            }
            let rows = weight.chunks_exact_mut(outputs).zip(unit.chunks_exact(outputs));
            for (row, unit) in rows {
                for (o, (g, u)) in row.iter_mut().zip(unit).enumerate() {
                    *g = self.pulled(first + o, *g, *u, sums[o], dots[o]) as f32;
                }
            }
            if self.learns {
                gain[first..].iter_mut().zip(dots).for_each(|(gain, dot)| *gain = dot as f32);
            }
        }
    }
}

vectorised! {
    fn total(values: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 16];
        let blocks = values.chunks_exact(16);
        let tail: f32 = blocks.remainder().iter().sum();
        for block in blocks {
            for (lane, v) in lanes.iter_mut().zip(block) {
                *lane += v;
            }
        }
        lanes.iter().sum::<f32>() + tail
    }
}

vectorised! {
    fn add_products(factor: f32, g: &[f32], y: &[f32], sums: &mut [f32], dots: &mut [f32]) {
        for (((s, d), g), y) in sums.iter_mut().zip(dots).zip(g).zip(y) {
            *s += factor * g;
            *d += g * y;
        }
    }
}

vectorised! {
    /// Per column: sum of squares, sum, product with `unit`; `stats` holds the three in turn.
    fn columns(matrix: &[f32], unit: &[f32], stats: &mut [f32]) {
        let outputs = stats.len() / 3;
        let (squares, rest) = stats.split_at_mut(outputs);
        let (sums, dots) = rest.split_at_mut(outputs);
        for (row, unit) in matrix.chunks_exact(outputs).zip(unit.chunks_exact(outputs)) {
            for o in 0..outputs {
                squares[o] += row[o] * row[o];
                sums[o] += row[o];
                dots[o] += row[o] * unit[o];
            }
        }
    }
}
