//! Chernoff bounds on a composition: looser than its loss distribution, but cheap.

use super::loss_distribution::LossDistribution;
use crate::noise_grid::Component;
use rayon::prelude::*;

/// Margin for rounding errors, in ln delta.
const MARGIN: f64 = 1e-3;

/// The moments of the losses of every node, for a grid of tilts.
pub(super) struct LossMoments {
    /// (theta, ln moment of each node).
    lines: Vec<(f64, Vec<f64>)>,
    infinity: Vec<f64>,
}

impl LossMoments {
    /// Creates the moments from the loss distribution of each node; that of nodes that are not
    /// needed may be empty.
    pub fn new(nodes: &[LossDistribution]) -> Self {
        let line = |i: i32| {
            let theta = 1.4f64.powi(i);
            (theta, nodes.iter().map(|losses| losses.ln_moment(theta)).collect())
        };
        Self {
            lines: (-30..60).into_par_iter().map(line).collect(),
            infinity: nodes.iter().map(|losses| losses.infinity).collect(),
        }
    }
}

/// Chernoff bounds on the sum of many losses, for a grid of tilts.
pub(super) struct ChernoffBound {
    /// (theta, ln factor): delta at epsilon is at most factor e^(-theta epsilon) plus the mass at
    /// infinity.
    lines: Vec<(f64, f64)>,
    infinity: f64,
}

impl ChernoffBound {
    /// Creates the bounds for components of nodes with these moments. Upper bounds on the losses
    /// give an upper bound on delta.
    pub fn new(moments: &LossMoments, components: &[Component]) -> Self {
        let line = |(theta, nodes): &(f64, Vec<f64>)| {
            let ln_moment: f64 = components.iter().map(|part| ln_moment(part, nodes)).sum();
            // 1 - e^-x <= c e^(theta x), where c is the maximum of (1 - e^-x) e^(-theta x).
            let ln_c = theta * theta.ln() - (theta + 1.0) * theta.ln_1p();
            (*theta, ln_moment + ln_c + MARGIN)
        };
        let infinity: f64 = components.iter().map(|part| infinity(part, &moments.infinity)).sum();
        let lines = moments.lines.iter().map(line).filter(|line| line.1.is_finite());
        Self { lines: lines.collect(), infinity: infinity * (1.0 + MARGIN) }
    }

    /// Computes an upper bound on delta at `epsilon`.
    pub fn delta(&self, epsilon: f64) -> f64 {
        let least = |least: f64, line: &(f64, f64)| least.min((line.1 - line.0 * epsilon).exp());
        (self.lines.iter().fold(1.0, least) + self.infinity).min(1.0)
    }

    /// Computes an epsilon >= 0 at which delta is at most `delta`; infinite if no tilt proves one.
    pub fn epsilon(&self, delta: f64) -> f64 {
        if delta <= self.infinity {
            return f64::INFINITY;
        }
        let ln_delta = (delta - self.infinity).ln();
        let least = |least: f64, line: &(f64, f64)| least.min((line.1 - ln_delta) / line.0);
        self.lines.iter().fold(f64::INFINITY, least).max(0.0)
    }
}

/// Computes ln of the moment of a component. That of a mixture is concave in its share, so
/// mixtures have at most the moment of as many with their mean share.
fn ln_moment(component: &Component, nodes: &[f64]) -> f64 {
    let (between, share) = component.mixture_count_and_mean_weight();
    let below = nodes[component.node];
    let mut total = component.exact * below;
    if between > 0.0 {
        let above = nodes[component.node + 1];
        let most = below.max(above);
        let sum = share * (below - most).exp() + (1.0 - share) * (above - most).exp();
        total += between * (most + sum.ln());
    }
    total
}

/// Computes the mass of a component at infinity.
fn infinity(component: &Component, nodes: &[f64]) -> f64 {
    let (between, share) = component.mixture_count_and_mean_weight();
    let mut total = (component.exact + between * share) * nodes[component.node];
    if between > 0.0 {
        total += between * (1.0 - share) * nodes[component.node + 1];
    }
    total
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
            dropped: 0.0,
        };
        let four = Component { exact: 4.0, ..Component::default() };
        let bound = ChernoffBound::new(&LossMoments::new(&[one]), &[four]);
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
