//! Composition: the distribution of the sum of many privacy losses, by FFT.
//!
//! A transform has an error of about 1e-16 of the *largest* mass, whereas delta depends on the far
//! tail. Every mass is therefore multiplied by e^(theta loss) before and divided by it after the
//! transform (exponential tilting, Esscher transform). With a suitable theta the tail near epsilon
//! becomes the centre of the tilted distribution, so delta = 1e-15 has the same relative precision
//! as delta = 0.1. Mass outside of the window wraps around; a Chernoff bound limits it.

use super::loss_distribution::LossDistribution;
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Window of losses in which a composition is computed, the same for all components. Selected from
/// [`CoarseLosses`](super::coarse::CoarseLosses).
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Width of the grid of losses.
    pub step: f64,
    /// The tilt theta.
    pub theta: f64,
    /// Loss at the lower end of the window.
    pub low: f64,
    /// Number of grid points.
    pub len: usize,
    /// Tilts above and below theta that bound the mass outside of the window.
    pub theta_up: f64,
    pub theta_down: f64,
}

/// A composition in progress.
#[derive(Clone)]
pub(super) struct Composition {
    window: Window,
    forward: Arc<dyn RealToComplex<f64>>,
    inverse: Arc<dyn ComplexToReal<f64>>,
    spectrum: Vec<Complex<f64>>,
    /// Bound on the relative error of each value of the spectrum.
    error: Vec<f64>,
    /// ln of the moments at theta, theta_up and theta_down so far.
    ln_moments: [f64; 3],
    infinity: f64,
    /// Loss at grid index 0 of the sum.
    offset: f64,
    releases: f64,
}

impl Composition {
    pub fn new(window: Window, planner: &mut RealFftPlanner<f64>) -> Self {
        let bins = window.len / 2 + 1;
        Self {
            window,
            forward: planner.plan_fft_forward(window.len),
            inverse: planner.plan_fft_inverse(window.len),
            spectrum: vec![Complex::new(1.0, 0.0); bins],
            error: vec![0.0; bins],
            ln_moments: [0.0; 3],
            infinity: 0.0,
            offset: 0.0,
            releases: 0.0,
        }
    }

    /// Adds `count` independent losses.
    pub fn add(&mut self, losses: &LossDistribution, count: f64) {
        let Window { step, theta, len, theta_up, theta_down, .. } = self.window;
        let ln_moment = losses.ln_moment(theta);
        for (total, tilt) in self.ln_moments.iter_mut().zip([theta, theta_up, theta_down]) {
            *total += count * losses.ln_moment(tilt);
        }
        self.infinity += count * losses.infinity;
        self.offset += count * losses.offset;
        self.releases += count;

        let mut tilted = self.forward.make_input_vec();
        let start = losses.first.rem_euclid(len as i64) as usize;
        // e^(theta loss) as a running product, recomputed every 64 steps to limit its error.
        let ratio = (theta * step).exp();
        let mut at = start;
        for (block, masses) in losses.mass.chunks(64).enumerate() {
            let index = losses.first + 64 * block as i64;
            let mut factor = (theta * (losses.offset + index as f64 * step) - ln_moment).exp();
            for &mass in masses {
                tilted[at] += mass * factor;
                factor *= ratio;
                at = if at + 1 == len { 0 } else { at + 1 };
            }
        }
        let mut single = self.forward.make_output_vec();
        // The lengths come from the planner, so this cannot fail.
        let _ = self.forward.process(&mut tilted, &mut single);

        let rounding = f64::EPSILON * 4.0 * (len as f64).log2();
        // Most frequencies vanish below rounding and are skipped.
        let negligible = (-200.0 / count).exp();
        for ((total, error), value) in self.spectrum.iter_mut().zip(&mut self.error).zip(single) {
            let size = value.norm_sqr();
            if size <= negligible || size.is_nan() || *total == Complex::ZERO {
                *total = Complex::ZERO;
                continue;
            }
            let size = size.sqrt();
            *total *= Complex::from_polar((count * size.ln()).exp(), count * value.arg());
            *error += count * rounding / size.max(rounding);
        }
    }

    /// Adds all losses of another composition with the same window.
    pub fn merge(&mut self, other: &Self) {
        for (total, value) in self.spectrum.iter_mut().zip(&other.spectrum) {
            *total *= value;
        }
        for (total, value) in self.error.iter_mut().zip(&other.error) {
            *total += value;
        }
        for (total, value) in self.ln_moments.iter_mut().zip(other.ln_moments) {
            *total += value;
        }
        self.infinity += other.infinity;
        self.offset += other.offset;
        self.releases += other.releases;
    }

    /// The distribution of the sum, with its error bounds.
    pub fn finish(mut self) -> TiltedSum {
        let Window { step, theta, low, len, theta_up, theta_down } = self.window;
        let first = ((low - self.offset) / step).floor();
        let low = self.offset + first * step;
        let error = self.spectrum.iter().zip(&self.error).map(|(f, e)| f.norm() * e);
        let rounding = f64::EPSILON * 4.0 * (len as f64).log2();
        let size: f64 = self.spectrum.iter().map(|f| f.norm()).sum();
        let error = (error.sum::<f64>() + rounding * size + 1e-30) * 2.0 / len as f64;
        // The spectrum of a real signal is real at both ends.
        let last = self.spectrum.len() - 1;
        self.spectrum[0].im = 0.0;
        self.spectrum[last].im = 0.0;
        let mut wrapped = self.inverse.make_output_vec();
        let _ = self.inverse.process(&mut self.spectrum, &mut wrapped);
        let start = first.rem_euclid(len as f64) as usize % len;
        wrapped.rotate_left(start);
        for mass in &mut wrapped {
            *mass = (*mass / len as f64).max(0.0);
        }
        // Chernoff bound for the tilted distribution: P[S >= b] <= E[e^(s S)] e^(-s b).
        let [at, up, down] = self.ln_moments;
        let end = low + len as f64 * step;
        let beyond = (up - at - (theta_up - theta) * end).exp()
            + (down - at + (theta - theta_down) * low).exp();
        TiltedSum {
            step,
            theta,
            low,
            mass: wrapped,
            ln_scale: at,
            error,
            outside: beyond.min(1.0),
            infinity: self.infinity.min(1.0),
            slack: 1.0 + 1e-12 * self.releases,
        }
    }
}

/// The tilted distribution of a sum of losses. The mass at `loss` is e^(ln_scale - theta loss)
/// times the stored one.
pub(super) struct TiltedSum {
    step: f64,
    theta: f64,
    /// The loss of the first mass.
    low: f64,
    mass: Vec<f64>,
    ln_scale: f64,
    /// Bound on the rounding error of each stored mass.
    error: f64,
    /// Bound on the tilted mass outside of the window, which wrapped around into it.
    outside: f64,
    infinity: f64,
    /// Factor for the relative error of the computed moments.
    slack: f64,
}

/// The bound to compute: errors are added for `Upper` and subtracted for `Lower`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    Upper,
    Lower,
}

impl TiltedSum {
    /// Number of grid points.
    pub fn points(&self) -> usize {
        self.mass.len()
    }

    /// delta at every grid point of the window, from its upper end downwards, as (loss, delta,
    /// slope). Up to the next grid point delta is `delta - slope (e^(eps - loss) - 1)`.
    pub fn deltas(&self, bound: Bound) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let decay = (-self.theta * self.step).exp();
        let decay_discounted = (-(self.theta + 1.0) * self.step).exp();
        let error = self.total_error();
        let (mut total_mass, mut discounted) = (0.0, 0.0);
        (0..self.mass.len()).rev().map(move |i| {
            // Sums over the losses above: of the masses, and of the masses times e^-(loss - this).
            let loss = self.low + i as f64 * self.step;
            total_mass = total_mass * decay + self.mass[i];
            discounted = discounted * decay_discounted + self.mass[i];
            let scale = (self.ln_scale - self.theta * loss).exp();
            let delta = match bound {
                Bound::Upper => {
                    (scale * (total_mass - discounted + error)) * self.slack + self.infinity
                }
                Bound::Lower => scale * (total_mass - discounted - error) / self.slack,
            };
            (loss, delta, scale * (discounted - self.mass[i]))
        })
    }

    /// Upper bounds on delta at increasing epsilons; 1 outside of the window.
    pub fn deltas_at(&self, epsilons: &[f64]) -> Vec<f64> {
        let mut deltas = vec![1.0; epsilons.len()];
        let mut next = epsilons.len();
        let mut end = f64::INFINITY;
        for (loss, here, slope) in self.deltas(Bound::Upper) {
            while let Some(i) = next.checked_sub(1).filter(|&i| epsilons[i] >= loss) {
                if epsilons[i] <= end {
                    deltas[i] = (here - slope * (epsilons[i] - loss).exp_m1()).clamp(0.0, 1.0);
                }
                next = i;
            }
            end = loss;
        }
        deltas
    }

    /// Error bounds at `epsilon` as fractions of `delta`: from the mass outside of the window, and
    /// from rounding in the transform.
    pub fn error_fractions(&self, epsilon: f64, delta: f64) -> (f64, f64) {
        let scale = (self.ln_scale - self.theta * epsilon).exp() / delta;
        (self.outside * scale, (self.total_error() - self.outside) * scale)
    }

    /// Bound on the error of a delta: `error` in each stored mass, weighted as in delta, and all
    /// mass from outside of the window at the worst place.
    fn total_error(&self) -> f64 {
        let decay = (-self.theta * self.step).exp();
        self.error * (self.mass.len() as f64).min(1.0 / (1.0 - decay).max(1e-300)) + self.outside
    }

    /// The smallest epsilon >= 0 at which delta is at most `delta`, if it is in the window.
    pub fn epsilon(&self, delta: f64, bound: Bound) -> Crossing {
        let mut above: Option<f64> = None;
        for (loss, here, slope) in self.deltas(bound) {
            if here > delta || here.is_nan() {
                // here - slope (e^(eps - loss) - 1) = delta
                let epsilon = loss + ((here - delta) / slope).ln_1p();
                return match above {
                    None => Crossing::AboveWindow,
                    Some(end) if epsilon <= end => Crossing::At(epsilon.max(0.0)),
                    Some(end) => Crossing::At(end.max(0.0)),
                };
            }
            if loss <= 0.0 {
                return Crossing::At(0.0);
            }
            above = Some(loss);
        }
        Crossing::BelowWindow
    }
}

/// Position of an epsilon relative to a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Crossing {
    At(f64),
    /// Below the window.
    BelowWindow,
    /// Above the window, or the values in the window are not precise enough to tell.
    AboveWindow,
}
