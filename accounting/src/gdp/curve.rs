//! delta as a function of epsilon for a Gaussian mechanism, and its inverse.
//!
//! A mu-GDP mechanism is (epsilon, delta)-differentially private if and only if (Balle, Wang:
//! Improving the Gaussian Mechanism for Differential Privacy, 2018, Theorem 8; Dong, Roth, Su 2022,
//! Corollary 2.13)
//!
//! ```text
//! delta >= Phi(-a) - e^epsilon Phi(-b),     a = epsilon/mu - mu/2,   b = epsilon/mu + mu/2
//! ```
//!
//! Evaluated directly, e^epsilon overflows and the difference cancels. Since e^epsilon = phi(a) /
//! phi(b), the right side can be written with the decreasing Mills ratio R(x) = Phi(-x) / phi(x) as
//!
//! ```text
//! phi(a) (R(a) - R(b))  =  phi(a) times the integral from a to b of  -R'(x) = 1 - x R(x)
//! ```
//!
//! The difference is used for large mu and the integral for small mu, so neither form cancels where
//! it is used.

use super::normal::{density, mills_ratio, mills_slope, upper_tail};

/// Bound on the relative error of the computed delta (measured: a few 1e-13).
const DELTA_ERROR: f64 = 1e-11;

/// Bound on the relative error of mu, which is computed from sums over up to 1e5 releases.
const MU_ERROR: f64 = 1e-11;

/// Computes the smallest delta for which `mu`-GDP implies (`epsilon`, delta)-differential privacy,
/// rounded up by a relative error of at most 1e-10.
///
/// `mu` and `epsilon` must be at least 0; otherwise the result is 1. A delta below the smallest
/// normal number is reported as that number.
///
/// # Guarantee
/// Upper bound under the neighbouring relation for which the mechanism is mu-GDP.
pub fn delta_at_epsilon(mu: f64, epsilon: f64) -> f64 {
    if mu == 0.0 && epsilon >= 0.0 {
        return 0.0;
    }
    if !(mu > 0.0 && epsilon >= 0.0) || mu.is_infinite() {
        return 1.0;
    }
    // Rounding epsilon / mu changes a by half a unit in the last place, and delta by about a times
    // that, relatively.
    let t = (epsilon / mu) * (1.0 - f64::EPSILON);
    (delta_at_ratio(mu, t) * (1.0 + DELTA_ERROR)).clamp(f64::MIN_POSITIVE, 1.0)
}

/// Computes the smallest epsilon for which `mu`-GDP implies (epsilon, `delta`)-differential
/// privacy, rounded up by a relative error of less than 1e-9; 0 if delta alone suffices.
///
/// `mu` must be at least 0 and `delta` in (0, 1); otherwise the result is infinity.
///
/// # Guarantee
/// As [`delta_at_epsilon`].
pub fn epsilon_at_delta(mu: f64, delta: f64) -> f64 {
    epsilon_bounds(mu, delta).1
}

/// Computes the lower and the upper bound on the true epsilon, for a `mu` with relative error
/// [`MU_ERROR`].
pub(super) fn epsilon_bounds(mu: f64, delta: f64) -> (f64, f64) {
    if !(mu >= 0.0 && mu.is_finite() && delta > 0.0 && delta < 1.0) {
        return (f64::INFINITY, f64::INFINITY);
    }
    if mu == 0.0 {
        return (0.0, 0.0);
    }
    let (small, large) = (mu * (1.0 - MU_ERROR), mu * (1.0 + MU_ERROR));
    let (lower, _) = bisect(small, delta * (1.0 + DELTA_ERROR));
    let (_, upper) = bisect(large, delta * (1.0 - DELTA_ERROR));
    (lower * small * (1.0 - f64::EPSILON), upper * large * (1.0 + f64::EPSILON))
}

/// Returns adjacent values of t = epsilon / mu between which delta crosses `delta`: at the first
/// it is larger (or t is 0), at the second at most `delta`.
///
/// The bisection is over t because t keeps full relative precision even where epsilon is 1e9 and
/// delta 1e-300.
fn bisect(mu: f64, delta: f64) -> (f64, f64) {
    let (mut low, mut high) = (0.0, mu / 2.0 + 39.0);
    if delta_at_ratio(mu, low) <= delta {
        return (0.0, 0.0);
    }
    // At a = 39 delta is below all normal numbers. 60 bisections reach the last bit unless t is
    // small, and an absolute width of 1e-17 in any case.
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if delta_at_ratio(mu, middle) > delta { low = middle } else { high = middle }
    }
    (low, high)
}

/// Computes the exact delta at epsilon = mu t.
fn delta_at_ratio(mu: f64, t: f64) -> f64 {
    let (a, b) = (t - mu / 2.0, t + mu / 2.0);
    let phi = density(a);
    if mu <= 0.5 {
        phi * integrate_mills_slope(a, mu)
    } else if a < 2.0 {
        upper_tail(a) - phi * mills_ratio(b)
    } else {
        phi * (mills_ratio(a) - mills_ratio(b))
    }
}

/// Computes the integral of 1 - x R(x) over [from, from + width], for `width` at most 1/2 and
/// `from` above -1. Ten Gauss-Legendre nodes are exact there to machine precision.
fn integrate_mills_slope(from: f64, width: f64) -> f64 {
    const NODES: [(f64, f64); 5] = [
        (0.148_874_338_981_631_21, 0.295_524_224_714_752_87),
        (0.433_395_394_129_247_2, 0.269_266_719_309_996_35),
        (0.679_409_568_299_024_4, 0.219_086_362_515_982_04),
        (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
        (0.973_906_528_517_171_7, 0.066_671_344_308_688_14),
    ];
    let middle = from + width / 2.0;
    let half = width / 2.0;
    NODES
        .iter()
        .map(|&(x, weight)| {
            weight * (mills_slope(middle - half * x) + mills_slope(middle + half * x))
        })
        .sum::<f64>()
        * half
}
