//! A bound from below without a grid, for releases that hardly ever tell anything.
//!
//! At tiny sampling rates nearly all losses are as good as zero, and epsilon is about the one
//! release that tells much. On a grid the many small losses take as much as they can from the few
//! large ones to be in balance, and nothing is left of these.

use super::components::Component;

/// More sorts of release than this are not worth the time.
const MAX_COMPONENTS: usize = 256;

/// What the arithmetic of a probability may be off by, relatively, and more.
const SLACK: f64 = 1e-9;

/// How many thresholds are tried at a time.
const THRESHOLDS: usize = 48;

/// An epsilon that the composition can't be proved to stay below at `delta`, 0 if none is found;
/// `upper` is one that it does stay below.
///
/// An attacker may look at nothing but whether any release shows a loss above a threshold:
/// `delta >= P[any] - e^epsilon Q[any]` for every threshold, whichever is tried.
pub(super) fn epsilon(components: &[Component], delta: f64, upper: f64) -> f64 {
    if components.len() > MAX_COMPONENTS || !(upper > 0.0 && upper.is_finite()) {
        return 0.0;
    }
    // The best threshold is near epsilon: looked for roughly, then between the neighbours.
    let (mut low, mut high) = ((upper / 64.0).ln(), (4.0 * upper).ln());
    let mut best = 0.0;
    for _ in 0..2 {
        let width = (high - low) / THRESHOLDS as f64;
        let at = |i: usize| low + i as f64 * width;
        let mut found = (0.0, 0);
        for i in 0..=THRESHOLDS {
            let here = epsilon_at_threshold(components, delta, at(i).exp());
            if here > found.0 {
                found = (here, i);
            }
        }
        best = found.0.max(best);
        let middle = at(found.1);
        (low, high) = (middle - width, middle + width);
    }
    best
}

/// What one threshold proves: ln((P\[any\] - delta) / Q\[any\]).
fn epsilon_at_threshold(components: &[Component], delta: f64, threshold: f64) -> f64 {
    let (mut ln_none_p, mut ln_none_q) = (0.0, 0.0);
    for component in components {
        let (mut above_p, mut above_q) = (0.0, 0.0);
        for (weight, pair) in &component.mixture {
            // Nothing that is released shows no loss.
            let Some(pair) = pair else { continue };
            let (p, q) = pair.above(pair.inverse_loss(threshold));
            above_p += weight * p;
            above_q += weight * q;
        }
        ln_none_p += component.count_lower * (-above_p).ln_1p();
        ln_none_q += component.count_lower * (-above_q).ln_1p();
    }
    let p = -f64::exp_m1(ln_none_p) * (1.0 - SLACK);
    let q = -f64::exp_m1(ln_none_q) * (1.0 + SLACK);
    // So rare that its digits are not to be trusted.
    if p.is_nan() || q < 1e-290 { 0.0 } else { ((p - delta) / q).max(1.0).ln() }
}
