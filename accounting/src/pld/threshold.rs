//! A lower bound on epsilon without a grid, for very small sampling rates.
//!
//! At tiny sampling rates nearly all losses are close to zero, and epsilon is determined by a
//! single large loss. On a grid the many small losses are merged with the few large ones to reach
//! balance, and the lower bound becomes trivial.

use super::components::NeighbourCase;

/// With more nodes than this the bound is skipped, because it would be slow.
const MAX_NODES: usize = 256;

/// Bound on the relative error of a computed probability.
const SLACK: f64 = 1e-9;

/// Number of thresholds per pass.
const THRESHOLDS: usize = 48;

/// Computes a lower bound on the epsilon of the composition at `delta`; 0 if none is found.
/// `upper` is an upper bound on epsilon.
///
/// The attack tests only whether any release has a loss above a threshold: `delta >= P[any] -
/// e^epsilon Q[any]` holds for every threshold.
pub(super) fn epsilon_lower_bound(case: &NeighbourCase, delta: f64, upper: f64) -> f64 {
    let counts = case.lower_counts();
    if counts.len() > MAX_NODES || !(upper > 0.0 && upper.is_finite()) {
        return 0.0;
    }
    // The best threshold is near epsilon: one coarse pass, then one between its neighbours.
    let (mut low, mut high) = ((upper / 64.0).ln(), (4.0 * upper).ln());
    let mut best = 0.0;
    for _ in 0..2 {
        let width = (high - low) / THRESHOLDS as f64;
        let at = |i: usize| low + i as f64 * width;
        let mut found = (0.0, 0);
        for i in 0..=THRESHOLDS {
            let bound = epsilon_at_threshold(case, &counts, delta, at(i).exp());
            if bound > found.0 {
                found = (bound, i);
            }
        }
        best = found.0.max(best);
        let middle = at(found.1);
        low = middle - width;
        high = middle + width;
    }
    best
}

/// Computes the bound of one threshold: ln((P\[any\] - delta) / Q\[any\]).
fn epsilon_at_threshold(
    case: &NeighbourCase,
    counts: &[(usize, f64)],
    delta: f64,
    threshold: f64,
) -> f64 {
    let (mut ln_none_p, mut ln_none_q) = (0.0, 0.0);
    for &(node, count) in counts {
        let (mut above_p, mut above_q) = (0.0, 0.0);
        for (weight, pair) in &case.nodes[node] {
            // No release, no loss.
            let Some(pair) = pair else { continue };
            let (p, q) = pair.above(pair.inverse_loss(threshold));
            above_p += weight * p;
            above_q += weight * q;
        }
        ln_none_p += count * (-above_p).ln_1p();
        ln_none_q += count * (-above_q).ln_1p();
    }
    let p = -f64::exp_m1(ln_none_p) * (1.0 - SLACK);
    let q = -f64::exp_m1(ln_none_q) * (1.0 + SLACK);
    // Too rare: rounding errors dominate.
    if p.is_nan() || q < 1e-290 { 0.0 } else { ((p - delta) / q).max(1.0).ln() }
}
