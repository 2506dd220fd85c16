//! Rényi divergence of Poisson sampling with a maximum batch size. From a sample larger than the
//! cap, a uniformly random subset of that size is used.
//!
//! Let M be the number of *other* examples that are drawn. M does not depend on the example. M ~
//! Binomial(others, q), where `others` is the number of examples if one is added and one less if
//! one is removed. The bound below increases with `others`, because a step at the cap is charged at
//! the full rate q and never costs less than a step below it. So the larger number is used.
//!
//! - If M is below the cap, nothing is truncated, and the step is an ordinary Poisson-sampled one.
//! - Otherwise the example, if it is used, takes the place of another one.
//!
//! Revealing M, and which other examples are used, can only increase the divergence. M has the same
//! distribution for both neighbours, and the Rényi divergence is a monotone function of an
//! f-divergence with f(t) = t^alpha, which is jointly convex. Hence
//!
//! ```text
//! e^{(alpha-1) R}  <=  P[M < cap] e^{(alpha-1) R(q, sigma)}  +  P[M >= cap] (moment at the cap)
//! ```
//!
//! The moment at the cap depends on the neighbouring relation.
//!
//! **Add or remove one.** With probability at most q the example takes the place of another, which
//! moves the sum by at most twice the bound C on one contribution. Otherwise the sum stays the
//! same. This is a Poisson-sampled step with twice the sensitivity: e^{(alpha-1) R(q, sigma/2)}.
//!
//! **Zero out one.** The set of used examples has the same distribution for both neighbours, and
//! the example's contribution changes by at most C. The ordinary step (q, sigma) is nevertheless
//! *not* a bound. In an ordinary step, batches with the example differ from those without it only
//! by the example, so they hide it. At the cap, a batch with the example also lacks another one.
//! Such a batch may be up to 2C away from the batches without the example and can be recognised;
//! what remains is a Gaussian mechanism without amplification. The bound therefore reveals whether
//! the example is used, which has probability at most q: 1 - q + q e^{alpha (alpha-1) / (2
//! sigma²)}. A test shows that the ordinary step would be too small.

use super::sampled_gaussian::renyi_divergence;
use crate::NeighbouringRelation;

/// Computes an upper bound on the Rényi divergence of order `order` of one truncated step, in
/// nats.
///
/// `p_cap` is an upper bound on the probability that the other examples alone reach the cap, from
/// [`binomial_tail_upper`]. The result is infinite under replace-one, for which no bound is known.
///
/// # Guarantee
/// Neighbours under `neighbouring`. The noise has standard deviation `noise_multiplier` on a sum of
/// contributions of norm at most 1. Every example is drawn independently with probability
/// `sampling_rate`. The subset of a sample above the cap is uniform and does not depend on the
/// data.
pub(crate) fn renyi_divergence_truncated(
    neighbouring: NeighbouringRelation,
    p_cap: f64,
    sampling_rate: f64,
    noise_multiplier: f64,
    order: f64,
) -> f64 {
    let (q, sigma, m) = (sampling_rate, noise_multiplier, order - 1.0);
    let below_cap = m * renyi_divergence(q, sigma, order);
    let at_cap = match neighbouring {
        NeighbouringRelation::AddOrRemoveOne => m * renyi_divergence(q, sigma / 2.0, order),
        NeighbouringRelation::ZeroOutOne => ln_mixture_exp(q, 0.0, order * m / sigma / sigma / 2.0),
        NeighbouringRelation::ReplaceOne => return f64::INFINITY,
    };
    ln_mixture_exp(p_cap, below_cap, at_cap) / m
}

/// Computes ln((1 - p) e^a + p e^b) for a, b >= 0, precise also for tiny a and b.
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

/// Maximum number of summed terms of a tail. A geometric series bounds the rest.
const MAX_TERMS: u64 = 1_000_000;

/// Bound on the relative error of the tail, up to a million examples.
const SLACK: f64 = 1e-9;

/// Computes an upper bound on `P[Binomial(examples, rate) >= cap]`, rounded up.
///
/// Up to 1e9 examples the relative error is a few 1e-9, down to the smallest normal number. The
/// result is at most 1, and 0 only if `cap` exceeds `examples`.
pub(crate) fn binomial_tail_upper(examples: u64, rate: f64, cap: u64) -> f64 {
    if cap == 0 || (rate >= 1.0 && cap <= examples) {
        return 1.0;
    }
    if cap > examples {
        return 0.0;
    }
    let (n, k) = (examples as f64, cap as f64);
    let odds = rate / (1.0 - rate);
    // Rounding the numbers of examples changes a term in proportion to the logarithm of the ratio.
    let slack = |ratio: f64| SLACK + f64::EPSILON * (n * rate + k) * ratio.max(1e-300).ln().abs();
    if k > n * rate {
        // The ratio of each term to the previous one: decreasing, and below 1 from the cap on.
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

/// Computes 1 + r(0) + r(0) r(1) + … and a bound on the omitted rest, for decreasing ratios r that
/// reach 0.
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

/// Computes ln P[Binomial(n, p) = k] for 0 < p < 1, without the cancellation of large
/// log-factorials (Loader: Fast and Accurate Computation of Binomial Probabilities, 2000).
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

/// Computes x ln(x / mean) - (x - mean) for x = mean + offset.
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

/// Computes ln n! - ln(sqrt(2 pi n) (n/e)^n).
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
