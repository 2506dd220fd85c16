//! Rényi divergence of the Gaussian mechanism on a fixed number of examples drawn without
//! replacement, under replace-one.
//!
//! Source: Wang, Balle, Kasiviswanathan: Subsampled Rényi Differential Privacy and Analytical
//! Moments Accountant, 2019, Theorem 9, with the tighter terms of Theorem 27 of the long version.
//! With gamma = batch size / examples, the divergence rho(j) = j / (2 sigma²) of the Gaussian
//! mechanism without sampling, and an integer order alpha:
//!
//! ```text
//! e^{(alpha-1) R} <= 1 + gamma² C(alpha, 2) min{4 (e^{rho(2)} - 1), 2 e^{rho(2)}}
//!     + Σ_{j=3..alpha} gamma^j C(alpha, j) min{4 sqrt(B(j-) B(j+)), 2 e^{(j-1) rho(j)}}
//! ```
//!
//! Here B(l) = E[(e^L - 1)^l], with L the privacy loss of the Gaussian mechanism under its second
//! argument, and j-, j+ are the even integers around j (both are j if j is even). Between integer
//! orders (alpha-1) R(alpha) is convex, so linear interpolation is an upper bound (Corollary 10).
//!
//! sigma is relative to the sensitivity under replace-one. It is half an event's noise multiplier,
//! because replacing an example removes one contribution and adds another.

use super::sampled_gaussian::{LogSumExp, QuadratureGrid, ln_exp_m1, softplus};

/// Maximum l for which B(l) is tabulated. Beyond it the other term of the minimum is used.
const MAX_MOMENT: usize = 256;

/// Maximum order for which the sum is computed. Beyond it the divergence without sampling is the
/// bound.
const MAX_SUMMED_ORDER: f64 = 65_536.0;

/// A step on a fixed number of examples, drawn without replacement.
#[derive(Clone, Debug)]
pub(crate) struct FixedSizeStep {
    /// ln(batch size / examples)
    ln_gamma: f64,
    /// Noise standard deviation divided by the sensitivity under replace-one.
    sigma: f64,
    /// ln B(2), ln B(4), …
    ln_moments: Vec<f64>,
}

impl FixedSizeStep {
    /// Creates a step on `batch_size` of `examples` examples. `sigma` is the noise standard
    /// deviation divided by the sensitivity under replace-one.
    pub(crate) fn new(examples: u64, batch_size: u64, sigma: f64) -> Self {
        let ln_gamma = (batch_size as f64 / examples as f64).ln();
        Self { ln_gamma, sigma, ln_moments: ln_even_moments(sigma) }
    }

    /// Computes an upper bound on the Rényi divergence of order `order` of the step, in nats.
    ///
    /// # Guarantee
    /// Neighbours differ by one replaced example. The batch is uniform among all sets of its size
    /// and does not depend on the data. The Gaussian noise is as in [`FixedSizeStep::new`].
    pub(crate) fn renyi_divergence(&self, order: f64) -> f64 {
        // Sampling never increases the divergence (joint quasi-convexity).
        let unsampled = order / self.sigma / self.sigma / 2.0;
        if order > MAX_SUMMED_ORDER {
            return unsampled;
        }
        let (floor, ceil) = (order.floor(), order.ceil());
        let fraction = order - floor;
        let log_moment = if fraction > 0.0 {
            let line =
                [(1.0 - fraction) * self.log_moment(floor), fraction * self.log_moment(ceil)];
            line.into_iter().sum()
        } else {
            self.log_moment(order)
        };
        (log_moment / (order - 1.0)).min(unsampled)
    }

    /// Computes an upper bound on (alpha - 1) R(alpha) for an integer order alpha.
    fn log_moment(&self, order: f64) -> f64 {
        let mut sum = LogSumExp::default();
        let mut ln_choose = order.ln();
        for j in 2..=order as usize {
            let jf = j as f64;
            ln_choose += ((order - jf + 1.0) / jf).ln();
            let growth = jf * (jf - 1.0) / self.sigma / self.sigma / 2.0;
            let (lower, upper) = (j / 2 - 1, j.div_ceil(2) - 1);
            let plain = 2f64.ln() + growth;
            let term = match (self.ln_moments.get(lower), self.ln_moments.get(upper)) {
                (Some(b), Some(c)) => plain.min(4f64.ln() + (b + c) / 2.0),
                // B(2) = e^{1/sigma²} - 1 needs no table.
                _ if j == 2 => plain.min(4f64.ln() + ln_exp_m1(growth)),
                _ => plain,
            };
            sum.add(jf * self.ln_gamma + ln_choose + term);
        }
        softplus(sum.ln())
    }
}

/// Computes ln B(2), ln B(4), …, as far as they can be the smaller term of the minimum.
///
/// The integrand (e^L - 1)^l phi is entire and its modes lie between 0 and l, so the nodes for the
/// sampled Gaussian at order l are suitable. The sum has no negative terms, whereas the equivalent
/// alternating binomial sum cancels.
fn ln_even_moments(sigma: f64) -> Vec<f64> {
    // B(l) is e^{l(l-1)/(2 sigma²)} E[(1 - e^-L)^l], with L about (l - 1/2) / sigma² there. Where
    // that is large, the term with B is about twice the other term.
    let useful = (40.0 * sigma * sigma + 2.0).min(MAX_MOMENT as f64) as usize;
    let Some(grid) = QuadratureGrid::new(sigma, useful as f64) else { return Vec::new() };
    let nodes: Vec<(f64, f64)> = grid
        .points()
        .map(|t| {
            let ln_ratio = (t - 0.5 / sigma) / sigma;
            let ln_distance = if ln_ratio > 36.0 { ln_ratio } else { ln_ratio.exp_m1().abs().ln() };
            (ln_distance, -0.5 * t * t)
        })
        .collect();
    (1..=useful / 2)
        .map(|half| {
            let l = 2.0 * half as f64;
            let mut sum = LogSumExp::default();
            for &(ln_distance, ln_density) in &nodes {
                sum.add(l * ln_distance + ln_density);
            }
            sum.ln() + grid.ln_normaliser()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_close(value: f64, expected: f64, relative: f64) -> bool {
        (value - expected).abs() <= relative * expected.abs()
    }

    #[test]
    fn even_moments_agree_with_the_alternating_sum() {
        for sigma in [0.3, 0.5, 1.0, 2.0] {
            let table = ln_even_moments(sigma);
            for (i, &ln_moment) in table.iter().enumerate().take(3) {
                let l = 2 * (i as i32 + 1);
                let (mut sum, mut choose) = (0.0, 1.0);
                for k in 0..=l {
                    let growth = f64::from(k * (k - 1)) / (2.0 * sigma * sigma);
                    sum += f64::from(1 - 2 * (k % 2)) * choose * growth.exp();
                    choose *= f64::from(l - k) / f64::from(k + 1);
                }
                assert!(is_close(ln_moment.exp(), sum, 1e-8), "sigma {sigma} l {l}");
            }
        }
    }

    #[test]
    fn order_two_is_exact_and_fractional_orders_are_interpolated() {
        let step = FixedSizeStep::new(1000, 10, 2.0);
        let two = (1e-4 * 4.0 * f64::exp_m1(0.25)).ln_1p();
        assert!(is_close(step.renyi_divergence(2.0), two, 1e-9));
        // Linear from 0 at order 1: (alpha - 1) R(alpha) is half of its value at 2.
        assert!(is_close(step.renyi_divergence(1.5), two, 1e-9));
        let line = (2.0 * step.renyi_divergence(3.0) + 3.0 * step.renyi_divergence(4.0)) / 2.0;
        assert!(is_close(step.renyi_divergence(3.5) * 2.5, line, 1e-12));
    }

    #[test]
    fn the_bound_is_below_no_sampling_and_above_a_lower_bound() {
        // All other contributions are 0 and the example's is +1/2 or -1/2, in units of the
        // sensitivity. The divergence of this pair of mixtures is a lower bound.
        let mut caught = 0;
        for (gamma_of_1000, sigma) in [(10, 1.0), (100, 2.0), (500, 0.7), (10, 5.0)] {
            let step = FixedSizeStep::new(1000, gamma_of_1000, sigma);
            let gamma = gamma_of_1000 as f64 / 1000.0;
            for order in [1.5, 2.0, 3.0, 8.0, 20.0] {
                let density = |x: f64, at: f64| (-0.5 * ((x - at) / sigma).powi(2)).exp();
                let (mut moment, h) = (0.0, 0.002 * sigma);
                let reach = 12.0 * sigma + order;
                let steps = (2.0 * reach / h) as u64;
                for i in 0..=steps {
                    let x = -reach + i as f64 * h;
                    let rest = (1.0 - gamma) * density(x, 0.0);
                    let p = rest + gamma * density(x, 0.5);
                    let q = rest + gamma * density(x, -0.5);
                    if p > 0.0 && q > 0.0 {
                        moment += (order * (p / q).ln()).exp() * q;
                    }
                }
                moment *= h / (sigma * (2.0 * std::f64::consts::PI).sqrt());
                let attack = moment.ln() / (order - 1.0);
                let bound = step.renyi_divergence(order);
                assert!(
                    bound >= attack * (1.0 - 1e-6),
                    "{gamma} {sigma} {order}: {bound} {attack}"
                );
                assert!(bound <= order / (2.0 * sigma * sigma));
                // The wrong sensitivity, C instead of 2C, gives values below the lower bound.
                if order == 20.0 {
                    let forgotten = FixedSizeStep::new(1000, gamma_of_1000, 2.0 * sigma);
                    caught += u32::from(forgotten.renyi_divergence(order) < 0.9 * attack);
                }
            }
        }
        assert!(caught >= 1);
    }

    #[test]
    fn extreme_parameters_give_a_value_quickly() {
        for sigma in [1e-200, 1e-3, 0.05, 1.0, 50.0, 1e9, 1e200] {
            for (examples, batch_size) in [(2, 1), (u64::MAX, 1), (u64::MAX, u64::MAX - 1)] {
                let step = FixedSizeStep::new(examples, batch_size, sigma);
                for order in [1.0 + 1e-15, 1.1, 2.0, 63.5, 65_536.0, 1e300] {
                    let value = step.renyi_divergence(order);
                    assert!(value >= 0.0, "sigma {sigma} order {order}: {value}");
                }
            }
        }
    }
}
