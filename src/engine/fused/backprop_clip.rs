//! Clips of backpropagation clipping: of a layer's input, and of its output gradient.

use super::op::{Backward, Forward, InputGradient, Op};
use super::outer_product::squared_norm;
use crate::nn::UpstreamClip;
use crate::nn::kernels::product::dot;

/// Clip of a layer's input: scales its rows down to an L2 norm. A row that is not finite becomes
/// zero. The saved value of a row is its factor.
pub(super) struct ClipInput {
    pub(super) max_norm: f64,
    pub(super) len: usize,
}

impl Op for ClipInput {
    fn describe(&self) -> String {
        "clip of the input".into()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn saved_len(&self) -> usize {
        1
    }

    fn forward(&self, pass: Forward) {
        let rows = pass.x.chunks_exact(self.len).zip(pass.y.chunks_exact_mut(self.len));
        for ((x, y), saved) in rows.zip(pass.saved) {
            *saved = clip_factor(squared_norm(x).sqrt(), self.max_norm);
            match *saved {
                1.0 => y.copy_from_slice(x),
                0.0 => y.fill(0.0),
                factor => scale(x, factor, y),
            }
        }
    }

    /// Computes the gradient of x C / ‖x‖: (g - ŷ ⟨ŷ, g⟩) C / ‖x‖ with the direction ŷ of x.
    fn backward(&self, pass: Backward) {
        let Some(InputGradient { values, store }) = pass.gx else { return };
        let inputs = pass.y.chunks_exact(self.len).zip(pass.saved.iter());
        let gradients = pass.g.chunks_exact_mut(self.len).zip(values.chunks_exact_mut(self.len));
        for ((y, &factor), (g, gx)) in inputs.zip(gradients) {
            match factor {
                1.0 => {}
                0.0 => g.fill(0.0),
                factor => {
                    let along = f64::from(dot(y, g)) / (self.max_norm * self.max_norm);
                    project(g, factor, along as f32, y);
                }
            }
            store.put(gx, g);
        }
    }
}

/// The clip of a layer's output gradient, on channels-last rows.
#[derive(Clone, Copy)]
pub(super) struct GradientClip {
    pub(super) clip: UpstreamClip,
    /// Number of channels, or of features of an embedding.
    pub(super) channels: usize,
    /// Number of elements of a row.
    pub(super) len: usize,
}

impl GradientClip {
    /// Clips the gradient of each row, for `copies` rows per example.
    pub(super) fn apply(&self, copies: usize, g: &mut [f32]) {
        g.chunks_exact_mut(self.len).for_each(|g| self.apply_to_parts(copies, &mut [g]));
    }

    /// Clips the gradient of one row in parts, each with [`channels`](Self::channels) of its own.
    pub(super) fn apply_to_parts(&self, copies: usize, parts: &mut [&mut [f32]]) {
        let max_norm = self.clip.max_norm() / copies as f64;
        match clip_factor(self.norm(parts), max_norm) {
            1.0 => {}
            0.0 => parts.iter_mut().for_each(|g| g.fill(0.0)),
            factor => parts.iter_mut().for_each(|g| g.iter_mut().for_each(|g| *g *= factor)),
        }
    }

    fn norm(&self, parts: &[&mut [f32]]) -> f64 {
        let UpstreamClip::LinearMap { l15, sqrt_m, .. } = self.clip else {
            let steps = parts.iter().flat_map(|g| g.chunks_exact(self.channels));
            return steps.map(|g| squared_norm(g).sqrt()).sum();
        };
        let l2 = || parts.iter().map(|g| squared_norm(g)).sum::<f64>().sqrt();
        let by_l2 = sqrt_m.map(|factor| factor * l2());
        let by_l15 = l15.then(|| {
            let mut sums = vec![0.0; self.channels];
            let squares = parts.iter().map(|g| {
                sums.fill(0.0);
                g.chunks_exact(self.channels).for_each(|g| add_absolute(&mut sums, g));
                squared_norm(&sums)
            });
            squares.sum::<f64>().sqrt()
        });
        match (by_l15, by_l2) {
            (Some(a), Some(b)) => {
                if a < b {
                    a
                } else {
                    b
                }
            }
            (Some(norm), None) | (None, Some(norm)) => norm,
            (None, None) => l2(),
        }
    }
}

/// Returns the factor that scales a norm down to `max`: 0 if the norm is not finite, and instead
/// of a subnormal factor, which rounding could double.
fn clip_factor(norm: f64, max: f64) -> f32 {
    match (max / norm) as f32 {
        _ if norm <= max => 1.0,
        factor if norm.is_finite() && factor >= f32::MIN_POSITIVE => factor,
        _ => 0.0,
    }
}

crate::nn::kernels::vectorised! {
    fn scale(x: &[f32], factor: f32, y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = x * factor;
        }
    }
}

crate::nn::kernels::vectorised! {
    /// Computes `g = factor (g - along y)`.
    fn project(g: &mut [f32], factor: f32, along: f32, y: &[f32]) {
        for (g, y) in g.iter_mut().zip(y) {
            *g = factor * (*g - along * y);
        }
    }
}

crate::nn::kernels::vectorised! {
    fn add_absolute(sums: &mut [f32], g: &[f32]) {
        for (sum, g) in sums.iter_mut().zip(g) {
            *sum += g.abs();
        }
    }
}
