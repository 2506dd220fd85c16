//! Composition: the distribution of the sum of many privacy losses, by the fast Fourier transform.
//!
//! A transform has an error of about 1e-16 of the *largest* mass, while delta lives in the far
//! tail. So every mass is first multiplied by e^(theta loss) and the result divided by it
//! (exponential tilting, Esscher's transform): with the right theta the tail near epsilon
//! becomes the middle, and delta = 1e-15 is as precise as delta = 0.1. Masses outside of the
//! window wrap round; a Chernoff bound says how much that can be.

use super::loss_distribution::LossDistribution;
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Where a composition is looked at: chosen from a sketch of it, the same for all its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Width of the grid of losses.
    pub step: f64,
    /// The tilt.
    pub theta: f64,
    /// The loss at which the window begins.
    pub low: f64,
    /// Number of grid points.
    pub len: usize,
    /// Tilts further up and down at which what lies outside of the window is bounded.
    pub theta_up: f64,
    pub theta_down: f64,
}

/// A composition on its way.
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
    /// The loss from which the grid of the sum counts.
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

    /// Adds `times` independent losses.
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
        // e^(theta loss) as a running product, computed anew often enough to stay exact.
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
        // The lengths are the planner's own.
        let _ = self.forward.process(&mut tilted, &mut single);

        let rounding = f64::EPSILON * 4.0 * (len as f64).log2();
        // Frequencies that vanish below all rounding need no arithmetic: most of them.
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

    /// Adds everything that the other composition holds, seen through the same window.
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

    /// The sum's distribution, with the errors that have to be reckoned with.
    pub fn finish(mut self) -> TiltedSum {
        let Window { step, theta, low, len, theta_up, theta_down } = self.window;
        let first = ((low - self.offset) / step).floor();
        let low = self.offset + first * step;
        let error = self.spectrum.iter().zip(&self.error).map(|(f, e)| f.norm() * e);
        let rounding = f64::EPSILON * 4.0 * (len as f64).log2();
        let size: f64 = self.spectrum.iter().map(|f| f.norm()).sum();
        let error = (error.sum::<f64>() + rounding * size + 1e-30) * 2.0 / len as f64;
        // A real signal has real values at both ends of its spectrum.
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
        // Chernoff, for the tilted distribution: P[S >= b] <= E[e^(s S)] e^(-s b).
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

/// The distribution of a sum of losses, tilted: its mass at `loss` is
/// e^(ln_scale - theta loss) times the stored one.
pub(super) struct TiltedSum {
    step: f64,
    theta: f64,
    /// The loss of the first mass.
    low: f64,
    mass: Vec<f64>,
    ln_scale: f64,
    /// Bound on the rounding error of each stored mass.
    error: f64,
    /// Bound on the tilted mass that lies outside of the window and was wrapped into it.
    outside: f64,
    infinity: f64,
    /// Relative error of the moments' arithmetic.
    slack: f64,
}

/// Whether errors are counted against us or for us.
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

    /// delta at every grid point of the window, from its end downwards: (loss, delta, slope),
    /// where delta is `delta - slope (e^(eps - loss) - 1)` from the loss up to the next.
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

    /// delta from above at each of these rising epsilons; 1 outside of the window.
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

    /// What may add to delta at `epsilon`, as shares of `delta`: all that lies outside of the
    /// window, and the rounding errors of the transform.
    pub fn error_fractions(&self, epsilon: f64, delta: f64) -> (f64, f64) {
        let scale = (self.ln_scale - self.theta * epsilon).exp() / delta;
        (self.outside * scale, (self.total_error() - self.outside) * scale)
    }

    /// All stored masses may be wrong by `error`: together, weighted as in a delta; and all that
    /// lies outside of the window may have come to the worst place.
    fn total_error(&self) -> f64 {
        let decay = (-self.theta * self.step).exp();
        self.error * (self.mass.len() as f64).min(1.0 / (1.0 - decay).max(1e-300)) + self.outside
    }

    /// The smallest epsilon >= 0 at which delta is at most `delta`, as far as the window tells.
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

/// Where an epsilon lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Crossing {
    At(f64),
    /// Below the window.
    BelowWindow,
    /// Above the window, or what is in the window is not precise enough to tell.
    AboveWindow,
}
