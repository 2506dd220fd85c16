//! Composition: the distribution of the sum of many privacy losses, by FFT.
//!
//! A transform has an error of about 1e-16 of the *largest* mass, whereas delta depends on the far
//! tail. Every mass is therefore multiplied by e^(theta loss) before and divided by it after the
//! transform (exponential tilting, Esscher transform). With a suitable theta the tail near epsilon
//! becomes the centre of the tilted distribution, so delta = 1e-15 has the same relative precision
//! as delta = 0.1. Mass outside of the window wraps around; a Chernoff bound limits it.

use super::loss_distribution::LossDistribution;
use super::tilted_sum::TiltedSum;
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Logarithm of the value below which frequencies are left out, relative to the largest one, which
/// is 1.
const LN_NEGLIGIBLE: f64 = -100.0;

/// The square of e^[`LN_NEGLIGIBLE`].
const NEGLIGIBLE_SQUARED: f64 = 1.383e-87;

/// Number of terms of the logarithmic series.
const TERMS: usize = 16;

/// Squared radius up to which that number of terms suffices: 0.1^17 / 17 is below rounding.
const RADIUS_SQUARED: f64 = 0.01;

/// Masses up to this grid index from index 0 are near.
const NEAR: i64 = 32;

/// Window of losses in which a composition is computed, the same for all components. Selected from
/// [`CoarseLosses`](super::coarse::CoarseLosses).
#[derive(Clone, Copy, Debug)]
pub(super) struct LossWindow {
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

/// The transforms between losses and spectra of a window.
#[derive(Clone)]
pub(super) struct Transform {
    window: LossWindow,
    forward: Arc<dyn RealToComplex<f64>>,
    inverse: Arc<dyn ComplexToReal<f64>>,
}

/// The losses of one release: the Fourier transform of their tilted distribution.
pub(super) struct Spectrum {
    /// Values of the transform, each less 1.
    excess: Vec<Complex<f64>>,
    error_bound: ErrorBound,
    /// Bound on the relative error of the moments, in units of that of a mass.
    slack: f64,
    /// ln of the moments at theta, theta_up and theta_down.
    ln_moments: [f64; 3],
    infinity: f64,
    /// Loss at grid index 0.
    offset: f64,
}

impl Transform {
    pub fn new(window: LossWindow) -> Self {
        let mut planner = RealFftPlanner::new();
        let forward = planner.plan_fft_forward(window.len);
        Self { window, forward, inverse: planner.plan_fft_inverse(window.len) }
    }

    /// Returns the spectrum of the losses of one release.
    pub fn spectrum(&self, losses: &LossDistribution) -> Spectrum {
        let LossWindow { step, theta, len, theta_up, theta_down, .. } = self.window;
        let ln_moment = losses.ln_moment(theta);
        let bulk = losses.bulk_position();
        let mut tilted = self.forward.make_input_vec();
        let (mut near, mut far) = ([0.0; 2 * NEAR as usize + 1], 0.0);
        // e^(theta loss) as a running product, recomputed every 64 steps to limit its error.
        let ratio = (theta * step).exp();
        let mut at = losses.first.rem_euclid(len as i64) as usize;
        for (block, masses) in losses.mass.chunks(64).enumerate() {
            let index = losses.first + 64 * block as i64;
            let mut factor = (theta * (losses.offset + index as f64 * step) - ln_moment).exp();
            for (index, &mass) in (index..).zip(masses) {
                if bulk.is_some() && index.abs() <= NEAR {
                    near[(index + NEAR) as usize] = mass * factor
                } else {
                    tilted[at] += mass * factor;
                    far += mass * factor;
                }
                factor *= ratio;
                at = if at + 1 == len { 0 } else { at + 1 };
            }
        }
        let mut excess = self.forward.make_output_vec();
        // The lengths come from the planner, so this cannot fail.
        let _ = self.forward.process(&mut tilted, &mut excess);
        // All masses add up to 1. That of index 0 has the same value at every frequency.
        let at_zero = if bulk.is_some() { excess[0].re } else { 1.0 };
        excess.iter_mut().for_each(|value| value.re -= at_zero);
        if bulk.is_some() {
            add_near(&near, &mut excess, len);
        }
        near[NEAR as usize] = 0.0;
        let others = far + near.iter().sum::<f64>();
        let untilted = || losses.mass.iter().sum::<f64>() - losses.mass[bulk.unwrap_or(0)];
        Spectrum {
            excess,
            error_bound: match bulk {
                Some(_) => ErrorBound::new(self.rounding() * (2.0 * far).min(1.0), &near, len),
                None => ErrorBound { constant: self.rounding(), ..ErrorBound::default() },
            },
            slack: if bulk.is_some() { (others + 2.0 * untilted()).min(1.0) } else { 1.0 },
            ln_moments: [theta, theta_up, theta_down].map(|tilt| losses.ln_moment(tilt)),
            infinity: losses.infinity,
            offset: losses.offset,
        }
    }

    /// Returns a bound on the error of a value of a spectrum, whose largest value is 1.
    fn rounding(&self) -> f64 {
        f64::EPSILON * 4.0 * (self.window.len as f64).log2()
    }
}

impl Spectrum {
    /// Returns the rate at which the spectrum decays: -ln of its modulus at the lowest frequency
    /// above 0.
    pub fn decay(&self) -> f64 {
        -ln_1p(self.excess[1]).re
    }
}

/// Bounds on the errors of the values of a spectrum.
///
/// At small sampling rates nearly all mass is at index 0, and most of the rest is near it. The
/// transform covers only the distant indices, so its error is proportional to their mass. The
/// contribution of the near indices is small at low frequencies, and so is its error.
#[derive(Clone, Copy, Debug, Default)]
struct ErrorBound {
    constant: f64,
    /// Growth of the error from one frequency to the next, up to `most`.
    slope: f64,
    most: f64,
}

impl ErrorBound {
    /// Creates the bounds from `constant` and the errors of sums over the `near` masses.
    fn new(constant: f64, near: &Near, len: usize) -> Self {
        /// Operations per near mass, generously.
        const UNIT: f64 = 64.0 * f64::EPSILON;
        let reach: f64 = near.iter().zip(-NEAR..).map(|(m, k)| m * k.abs() as f64).sum();
        let slope = UNIT * reach * std::f64::consts::TAU / len as f64;
        Self { constant, slope, most: UNIT * 2.0 * near.iter().sum::<f64>() }
    }

    /// Computes the bound at frequency `j`.
    fn at(&self, j: usize) -> f64 {
        self.constant + (self.slope * j as f64).min(self.most)
    }

    /// Returns bounds for the values of both spectra.
    fn max(&self, other: &Self) -> Self {
        Self {
            constant: self.constant.max(other.constant),
            slope: self.slope.max(other.slope),
            most: self.most.max(other.most),
        }
    }
}

/// Tilted masses at the grid indices -NEAR to NEAR.
type Near = [f64; 2 * NEAR as usize + 1];

/// Adds m (z^k - 1) of each near mass m at index k to the values, with z = e^(-i omega).
fn add_near(near: &Near, values: &mut [Complex<f64>], len: usize) {
    let (below, above) = (&near[..NEAR as usize], &near[NEAR as usize + 1..]);
    for (j, value) in values.iter_mut().enumerate() {
        let half = std::f64::consts::PI * j as f64 / len as f64;
        let (sin, cos) = half.sin_cos();
        // z - 1, without cancellation.
        let first = Complex::new(-2.0 * sin * sin, -2.0 * sin * cos);
        let mut power = Complex::ZERO;
        for (up, down) in above.iter().zip(below.iter().rev()) {
            // z^(k + 1) - 1 = (z^k - 1) z + (z - 1)
            power += power * first + first;
            *value += power * *up + power.conj() * *down;
        }
    }
}

/// A composition in progress.
pub(super) struct Composition<'a> {
    transform: &'a Transform,
    /// Values of the spectrum; those that became negligible are 0.
    spectrum: Vec<Complex<f64>>,
    /// Bound on the relative error of each value of the spectrum.
    error: Vec<f64>,
    /// ln of the moments at theta, theta_up and theta_down so far.
    ln_moments: [f64; 3],
    infinity: f64,
    /// Loss at grid index 0 of the sum.
    offset: f64,
    /// Bound on the relative error of the moments, in units of that of a mass.
    slack: f64,
}

impl<'a> Composition<'a> {
    pub fn new(transform: &'a Transform) -> Self {
        let bins = transform.window.len / 2 + 1;
        Self {
            transform,
            spectrum: vec![Complex::ONE; bins],
            error: vec![0.0; bins],
            ln_moments: [0.0; 3],
            infinity: 0.0,
            offset: 0.0,
            slack: 0.0,
        }
    }

    /// Adds `count` independent losses.
    pub fn add(&mut self, losses: &Spectrum, count: f64) {
        if count == 0.0 {
            return;
        }
        for (total, ln_moment) in self.ln_moments.iter_mut().zip(losses.ln_moments) {
            *total += count * ln_moment;
        }
        self.infinity += count * losses.infinity;
        self.offset += count * losses.offset;
        self.slack += count * losses.slack;
        let totals = self.spectrum.iter_mut().zip(&mut self.error);
        for (j, ((total, error), excess)) in totals.zip(&losses.excess).enumerate() {
            if zero_if_negligible(total) {
                continue;
            }
            let ln = ln_1p(*excess);
            *total *= power(ln, count);
            *error += count * relative_error(ln, losses.error_bound.at(j));
        }
    }

    /// Adds mixtures of two losses with offset 0, given as (probability of the first, count).
    ///
    /// With m the mean and h half the difference of the spectra, the spectrum of a mixture is
    /// m (1 + u h / m), u from -1 to 1. Its logarithm is a power series in h / m, so that a sum
    /// over many mixtures needs only the sums of the powers of u.
    pub fn add_mixtures(&mut self, first: &Spectrum, second: &Spectrum, parts: &[(f64, f64)]) {
        // After tilting, the probability is that of the first loss times its moment.
        let mut tilted = Vec::with_capacity(parts.len());
        for &(share, count) in parts {
            let ln_moments: [f64; 3] = std::array::from_fn(|i| {
                let (one, other) = (first.ln_moments[i], second.ln_moments[i]);
                let most = one.max(other);
                most + (share * (one - most).exp() + (1.0 - share) * (other - most).exp()).ln()
            });
            for (total, ln_moment) in self.ln_moments.iter_mut().zip(ln_moments) {
                *total += count * ln_moment;
            }
            let tilted_share = share * (first.ln_moments[0] - ln_moments[0]).exp();
            tilted.push((2.0 * tilted_share - 1.0, count));
            self.infinity += count * (share * first.infinity + (1.0 - share) * second.infinity);
        }
        let count: f64 = parts.iter().map(|(_, count)| count).sum();
        self.slack += count * first.slack.max(second.slack);
        // ln(1 + x) = x - x²/2 + x³/3 - …
        let mut coefficients = [0.0; TERMS];
        for &(u, count) in &tilted {
            let mut power = -count;
            for (k, coefficient) in coefficients.iter_mut().enumerate() {
                power *= -u;
                *coefficient += power / (k + 1) as f64;
            }
        }
        let error_bound = first.error_bound.max(&second.error_bound);
        let pairs = first.excess.iter().zip(&second.excess);
        let totals = self.spectrum.iter_mut().zip(&mut self.error);
        for (j, ((total, error), (&one, &other))) in totals.zip(pairs).enumerate() {
            let rounding = error_bound.at(j);
            let (mean, half) = (0.5 * (one + other), 0.5 * (one - other));
            let ln_mean = ln_1p(mean);
            // No mixture has a larger value.
            let ln_most = (ln_mean.re.exp() + half.norm()).ln();
            if zero_if_negligible(total) || count * ln_most <= LN_NEGLIGIBLE {
                *total = Complex::ZERO;
                continue;
            }
            let x = half / (mean + 1.0);
            if x.norm_sqr() <= RADIUS_SQUARED {
                let terms = coefficients.iter().rev();
                *total *=
                    (ln_mean * count + terms.fold(Complex::ZERO, |sum, c| (sum + c) * x)).exp();
                *error += count * relative_error(ln_mean, rounding / 0.9);
            } else {
                for &(u, count) in &tilted {
                    let ln = ln_1p(mean + half * u);
                    *total *= power(ln, count);
                    *error += count * relative_error(ln, rounding);
                }
            }
        }
    }

    /// Returns the distribution of the sum, with its error bounds.
    pub fn finish(self) -> TiltedSum {
        let LossWindow { step, theta, low, len, theta_up, theta_down } = self.transform.window;
        let first = ((low - self.offset) / step).floor();
        let low = self.offset + first * step;
        let mut spectrum = self.spectrum;
        let error = spectrum.iter().zip(&self.error).map(|(f, e)| f.norm() * e);
        let size: f64 = spectrum.iter().map(|f| f.norm()).sum();
        let rounding = self.transform.rounding();
        let error = (error.sum::<f64>() + rounding * size + 1e-30) * 2.0 / len as f64;
        // The spectrum of a real signal is real at both ends.
        let last = spectrum.len() - 1;
        spectrum[0].im = 0.0;
        spectrum[last].im = 0.0;
        let mut wrapped = self.transform.inverse.make_output_vec();
        let _ = self.transform.inverse.process(&mut spectrum, &mut wrapped);
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
            slack: 1.0 + 1e-12 * self.slack,
        }
    }
}

/// Returns whether a value of a spectrum is negligible, and sets it to 0 in that case.
fn zero_if_negligible(value: &mut Complex<f64>) -> bool {
    let negligible = value.norm_sqr() <= NEGLIGIBLE_SQUARED;
    if negligible {
        *value = Complex::ZERO;
    }
    negligible
}

/// Returns a bound on the relative error that one factor brings into a product: `rounding` is the
/// error of its value, and its logarithm is rounded too.
fn relative_error(ln: Complex<f64>, rounding: f64) -> f64 {
    rounding / ln.re.exp().max(rounding) + 4.0 * f64::EPSILON * ln.norm()
}

/// Computes the value with this logarithm to the power `count`; 0 where it is negligible.
fn power(ln: Complex<f64>, count: f64) -> Complex<f64> {
    let ln = ln * count;
    if ln.re > LN_NEGLIGIBLE { ln.exp() } else { Complex::ZERO }
}

/// Computes ln(1 + z), precise for small z.
fn ln_1p(z: Complex<f64>) -> Complex<f64> {
    let (x, y) = (z.re, z.im);
    let squared = x * (2.0 + x) + y * y;
    let re = if squared > -0.5 { 0.5 * squared.ln_1p() } else { (1.0 + x).hypot(y).ln() };
    Complex::new(re, y.atan2(1.0 + x))
}

#[cfg(test)]
mod tests;
