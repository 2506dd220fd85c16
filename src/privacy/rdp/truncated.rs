//! Poisson samples cut to a largest batch: of a sample larger than the cap a uniformly random
//! part of that size is used.
//!
//! The cap changes what one example can do. Let M be the number of *other* examples that are
//! drawn; it does not depend on the example, M ~ Binomial(others, q). An example that joins has
//! all others beside it, one that leaves has one less; what follows is the larger the more others
//! there are, since a full batch is charged at the full rate q and never costs less than another.
//!
//! - While M is below the cap nothing is cut, and the step is the plain Poisson-sampled one.
//! - Otherwise the example, if it is used, takes the place of another one.
//!
//! Telling M (and which others are used) as well can only reveal more, and M has the same
//! distribution for both neighbours, so the divergence's exponential averages over it (it is an
//! f-divergence with f(t) = t^alpha, and those are jointly convex):
//!
//! ```text
//! e^{(alpha-1) R}  <=  P[M < cap] e^{(alpha-1) R(q, sigma)}  +  P[M >= cap] (what a full batch costs)
//! ```
//!
//! What a full batch costs depends on the neighbouring relation.
//!
//! **Add or remove one.** With probability at most q the example takes another's place, which
//! moves the sum by at most twice the bound; else nothing moves. That is the Poisson-sampled step
//! at twice the sensitivity: e^{(alpha-1) R(q, sigma/2)}.
//!
//! **Zero out one.** Which examples are used has the same distribution for both neighbours, and
//! the contribution moves by the bound. But this is *not* the plain step (q, sigma): there,
//! batches without the example hide the batches with it, all being the same but for it. Here a
//! batch with it also lacks somebody, may lie two bounds away from the batches without it and be
//! recognised, and what remains to tell is a Gaussian with no sampling at all. So whether the
//! example is used is taken as told, which happens with probability at most q:
//! 1 - q + q e^{alpha (alpha-1) / (2 sigma²)}. A test shows that the plain value is too small.

use super::sampled_gaussian::renyi_divergence;
use crate::privacy::Neighbouring;

/// Rényi divergence of order `order` of one truncated step, in nats, as an upper bound.
///
/// `full` is (a bound on) the probability that the others alone reach the cap, from
/// [`binomial_tail_upper`]. Infinite under replace-one, where no bound is known to us.
///
/// # Guarantee
/// Neighbours in the sense of `neighbouring`; noise `noise_multiplier` on a sum of contributions
/// of norm at most 1; every example is drawn independently with probability `sampling_rate`; which
/// of too many are kept is uniform and does not depend on their data.
pub(crate) fn renyi_divergence_truncated(
    neighbouring: Neighbouring,
    p_cap: f64,
    sampling_rate: f64,
    noise_multiplier: f64,
    order: f64,
) -> f64 {
    let (q, sigma, m) = (sampling_rate, noise_multiplier, order - 1.0);
    let below_cap = m * renyi_divergence(q, sigma, order);
    let at_cap = match neighbouring {
        Neighbouring::AddOrRemoveOne => m * renyi_divergence(q, sigma / 2.0, order),
        Neighbouring::ZeroOutOne => ln_mixture_exp(q, 0.0, order * m / sigma / sigma / 2.0),
        Neighbouring::ReplaceOne => return f64::INFINITY,
    };
    ln_mixture_exp(p_cap, below_cap, at_cap) / m
}

/// ln((1 - p) e^a + p e^b) for a, b >= 0, keeping the digits of tiny ones.
fn ln_mixture_exp(p: f64, a: f64, b: f64) -> f64 {
    if p <= 0.0 {
        return a;
    }
    if p >= 1.0 {
        return b;
    }
    if a.max(b) < 600.0 {
        return ((1.0 - p) * a.exp_m1() + p * b.exp_m1()).ln_1p();
    }
    let (a, b) = ((-p).ln_1p() + a, p.ln() + b);
    let (large, small) = (a.max(b), a.min(b));
    if large == f64::INFINITY { large } else { large + (small - large).exp().ln_1p() }
}

/// At most this many terms of a tail are summed; the rest is bounded by a geometric series.
const MAX_TERMS: u64 = 1_000_000;

/// What the computed tail may be off by, relatively, up to a million examples.
const SLACK: f64 = 1e-9;

/// `P[Binomial(examples, rate) >= cap]`, rounded up: never below the truth, and up to 1e9
/// examples at most a few billionths of it above, down to the smallest normal number. At most 1;
/// 0 only if the cap is beyond all examples.
pub(crate) fn binomial_tail_upper(examples: u64, rate: f64, cap: u64) -> f64 {
    if cap == 0 || (rate >= 1.0 && cap <= examples) {
        return 1.0;
    }
    if cap > examples {
        return 0.0;
    }
    let (n, k) = (examples as f64, cap as f64);
    let odds = rate / (1.0 - rate);
    // The numbers of examples are rounded; the ratio says how much a term changes with them.
    let slack = |ratio: f64| SLACK + f64::EPSILON * (n * rate + k) * ratio.max(1e-300).ln().abs();
    if k > n * rate {
        // Each term over the one before it: falling, and below 1 from the cap on.
        let ratio = |i: f64| (n - k - i) / (k + i + 1.0) * odds;
        let (sum, rest) = decreasing_ratio_sum(ratio);
        let tail = ln_binomial_pmf(n, rate, k).exp() * (sum + rest);
        return (tail * (1.0 + slack(ratio(0.0)))).clamp(f64::MIN_POSITIVE, 1.0);
    }
    let k = k - 1.0;
    let ratio = |i: f64| (k - i) / (n - k + i + 1.0) / odds;
    let (sum, _) = decreasing_ratio_sum(ratio);
    let below = ln_binomial_pmf(n, rate, k).exp() * sum;
    (1.0 - below * (1.0 - slack(ratio(0.0)))).clamp(f64::MIN_POSITIVE, 1.0)
}

/// 1 + r(0) + r(0) r(1) + …, and a bound on what was left out, for falling ratios r that reach 0.
fn decreasing_ratio_sum(ratio: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut sum, mut term) = (1.0, 1.0);
    for i in 0..MAX_TERMS {
        let r = ratio(i as f64);
        let rest = if r < 1.0 { term * r / (1.0 - r) } else { f64::INFINITY };
        if rest <= 1e-13 * sum {
            return (sum, rest);
        }
        term *= r;
        sum += term;
    }
    let r = ratio(MAX_TERMS as f64);
    (sum, if r < 1.0 { term * r / (1.0 - r) } else { f64::INFINITY })
}

/// ln P[Binomial(n, p) = k] for 0 < p < 1, without the cancellation of large log-factorials
/// (Loader: Fast and Accurate Computation of Binomial Probabilities, 2000).
fn ln_binomial_pmf(n: f64, p: f64, k: f64) -> f64 {
    if k == 0.0 {
        return n * (-p).ln_1p();
    }
    if k == n {
        return n * p.ln();
    }
    let offset = k - n * p;
    let ln_scale = (n / k / (n - k) / (2.0 * std::f64::consts::PI)).ln() / 2.0;
    stirling_error(n) - stirling_error(k) - stirling_error(n - k) + ln_scale
        - deviance(n * p, offset)
        - deviance(n * (1.0 - p), -offset)
}

/// x ln(x / mean) - (x - mean) for x = mean + away.
fn deviance(mean: f64, offset: f64) -> f64 {
    let e = offset / mean;
    if e.abs() > 0.3 {
        return (mean + offset) * e.ln_1p() - offset;
    }
    // (1+e) ln(1+e) - e = e²/2 - e³/6 + e⁴/12 - …
    let (mut sum, mut power, mut j) = (0.0, e * e, 2.0);
    while power.abs() > 1e-18 * sum {
        sum += power / (j * (j - 1.0));
        power *= -e;
        j += 1.0;
    }
    mean * sum
}

/// ln n! - ln(sqrt(2 pi n) (n/e)^n).
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        let ln_factorial: f64 = (2..=n as u64).map(|i| (i as f64).ln()).sum();
        return ln_factorial - (n + 0.5) * n.ln() + n - (2.0 * std::f64::consts::PI).ln() / 2.0;
    }
    let y = 1.0 / (n * n);
    (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / n
}

#[cfg(test)]
mod tests;
