//! Chernoff bounds on a composition: looser than its loss distribution, but cheap.

use super::loss_distribution::LossDistribution;

/// Margin for rounding errors, in ln delta.
const MARGIN: f64 = 1e-3;

/// Chernoff bounds on the sum of many losses, for a grid of tilts.
pub(super) struct ChernoffBound {
    /// (theta, ln factor): delta at epsilon is at most factor e^(-theta epsilon) plus the mass at
    /// infinity.
    lines: Vec<(f64, f64)>,
    infinity: f64,
}

impl ChernoffBound {
    /// For losses given as (count, distribution). Upper bounds on the losses give an upper bound on
    /// delta.
    pub fn new(losses: &[(f64, LossDistribution)]) -> Self {
        let line = |theta: f64| {
            let ln_moment: f64 =
                losses.iter().map(|(count, losses)| count * losses.ln_moment(theta)).sum();
            // 1 - e^-x <= c e^(theta x), where c is the maximum of (1 - e^-x) e^(-theta x).
            let ln_c = theta * theta.ln() - (theta + 1.0) * theta.ln_1p();
            (theta, ln_moment + ln_c + MARGIN)
        };
        let infinity: f64 = losses.iter().map(|(count, losses)| count * losses.infinity).sum();
        let lines = (-30..60).map(|i| line(1.4f64.powi(i))).filter(|line| line.1.is_finite());
        Self { lines: lines.collect(), infinity: infinity * (1.0 + MARGIN) }
    }

    /// Upper bound on delta at `epsilon`.
    pub fn delta(&self, epsilon: f64) -> f64 {
        let least = |least: f64, line: &(f64, f64)| least.min((line.1 - line.0 * epsilon).exp());
        (self.lines.iter().fold(1.0, least) + self.infinity).min(1.0)
    }

    /// An epsilon >= 0 at which delta is at most `delta`; infinite if no tilt proves one.
    pub fn epsilon(&self, delta: f64) -> f64 {
        if delta <= self.infinity {
            return f64::INFINITY;
        }
        let ln_delta = (delta - self.infinity).ln();
        let least = |least: f64, line: &(f64, f64)| least.min((line.1 - ln_delta) / line.0);
        self.lines.iter().fold(f64::INFINITY, least).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chernoff_bound_is_above_the_exact_delta() {
        // Losses of 1 and -1, four times: a binomial distribution.
        let one = LossDistribution {
            step: 1.0,
            offset: 0.0,
            first: -1,
            mass: vec![0.25, 0.0, 0.75 - 1e-9],
            infinity: 1e-9,
        };
        let bound = ChernoffBound::new(&[(4.0, one)]);
        let exact = |epsilon: f64| -> f64 {
            let sums = [(4.0, 0.3164), (2.0, 0.4218), (0.0, 0.2109)];
            sums.iter().map(|(l, p)| p * (-(epsilon - l).exp_m1()).max(0.0)).sum()
        };
        for i in 0..40 {
            let epsilon = 0.1 * f64::from(i);
            assert!(bound.delta(epsilon) >= exact(epsilon), "{epsilon}");
            assert!(exact(bound.epsilon(bound.delta(epsilon))) <= bound.delta(epsilon));
        }
        assert!(bound.delta(6.0) < 1e-6 && bound.epsilon(3e-9) == f64::INFINITY);
    }
}
