//! Tiny sampling rates, where a single large loss determines epsilon.

use super::convolution::epsilon_between;
use super::*;

#[test]
fn at_tiny_rates_the_bounds_are_close_and_enclose_the_reference() {
    for (q, sigma, steps, delta) in [
        (7.8e-5, 0.971, 54, 5e-12),
        (7.8e-5, 0.971, 54, 1e-10),
        (7.8e-5, 0.971, 54, 1e-13),
        (1e-4, 1.0, 100, 1e-11),
        (6e-5, 0.9, 30, 2e-11),
        (1.2e-4, 1.05, 80, 1e-12),
    ] {
        let found = spent_by(&[step(q, sigma, steps)], delta);
        let lower = found.lower_bound.unwrap_or(0.0);
        let case = format!("q {q} sigma {sigma} steps {steps} delta {delta:e}: {found:?}");
        assert!(lower > 0.98 * found.epsilon, "{case}");
        let (with, without) = (vec![(1.0 - q, 0.0), (q, 1.0)], vec![(1.0, 0.0)]);
        let truth =
            epsilon_between((&with, &without), sigma, steps as u32, delta, 5e-4 * found.epsilon);
        assert!(lower <= truth * 1.001 && truth <= found.epsilon * 1.001, "{case} {truth}");
        // The lower bound is within 3 % of the reference: one too high would fail above.
        assert!(lower * 1.03 > truth, "{case} {truth}");
    }
}

/// The threshold test is a lower bound for every threshold: for one step delta is known exactly.
#[test]
fn the_threshold_test_never_exceeds_the_exact_epsilon() {
    for (q, sigma) in [(1e-6, 0.5), (1e-4, 1.0), (0.1, 2.0), (0.9, 0.7)] {
        for delta in [1e-12, 1e-8, 1e-4] {
            let cases =
                &components::cases(&[step(q, sigma, 1)], NeighbouringRelation::AddOrRemoveOne)
                    .unwrap();
            for upper in [1e-3, 0.1, 1.0, 10.0] {
                let found = threshold::epsilon_lower_bound(&cases[0], delta, upper);
                let exact = sampled_delta(q, sigma, found, true);
                assert!(found == 0.0 || exact >= delta * (1.0 - 1e-6), "{q} {delta:e} {found}");
                // The bound is tight if the threshold is near epsilon.
                let more = sampled_delta(q, sigma, found * 1.01 + 1e-9, true);
                let reached = found > 0.0 && upper <= 2.0 * found && found <= 2.0 * upper;
                assert!(!reached || more < delta, "{q} {delta:e} {found}");
            }
        }
    }
}

/// Sampling rate, noise multiplier, steps, delta, and the true epsilon: one, two or no losses above
/// a threshold, integrated exactly, and a Gaussian for the sum of those below it. The values of two
/// thresholds, three times apart, differ by less than 0.2 %. The last number is the largest allowed
/// ratio of the upper bound: where a grid of two million points is too coarse, it is above 1.03.
const TRUE: [(f64, f64, u64, f64, f64, f64); 20] = [
    (1e-9, 0.2915, 1_000_000_000, 1e-5, 0.35474, 1.03),
    (1e-6, 0.6, 10_000_000, 1e-9, 0.10541, 1.03),
    (1e-7, 0.35, 10_000_000, 1e-6, 1.28360, 1.03),
    (1e-9, 0.2915, 100_000_000_000, 1e-5, 2.49538, 1.03),
    (1e-9, 0.3, 10_000_000_000, 1e-6, 1.75412, 1.03),
    (1e-9, 0.35, 10_000_000_000, 1e-8, 0.67231, 1.03),
    (1e-9, 0.4, 100_000_000_000, 1e-9, 0.23762, 1.05),
    (1e-8, 0.3, 100_000_000, 1e-5, 1.11087, 1.03),
    (1e-8, 0.35, 1_000_000_000, 1e-7, 1.42106, 1.03),
    (1e-8, 0.4, 10_000_000_000, 1e-8, 0.75226, 1.03),
    (1e-8, 0.5, 1_000_000_000, 1e-10, 0.03174, 1.4),
    (1e-7, 0.4, 100_000_000, 1e-8, 1.69670, 1.03),
    (1e-7, 0.5, 1_000_000_000, 1e-6, 0.08384, 1.1),
    (1e-7, 0.6, 100_000_000, 1e-10, 0.02158, 1.2),
    (1e-6, 0.4, 1_000_000, 1e-6, 1.06156, 1.03),
    (1e-6, 0.7, 100_000_000, 1e-7, 0.10736, 1.03),
    (1e-5, 0.5, 100_000, 1e-6, 0.47060, 1.03),
    (1e-5, 0.6, 100_000, 1e-7, 0.14042, 1.03),
    (1e-5, 0.8, 1_000_000, 1e-9, 0.09753, 1.03),
    (1e-4, 0.7, 10_000, 1e-8, 0.44995, 1.03),
];

fn check_true(rows: &[(f64, f64, u64, f64, f64, f64)]) {
    for &(q, sigma, steps, delta, truth, most) in rows {
        let found = spent_by(&[step(q, sigma, steps)], delta);
        let case =
            format!("q {q:e} sigma {sigma} steps {steps} delta {delta:e}: {found:?} {truth}");
        println!("{case}");
        assert!(found.epsilon > truth * 0.998 && found.epsilon < truth * most, "{case}");
        assert!(found.lower_bound.is_some_and(|lower| lower < truth * 1.002), "{case}");
    }
}

/// A billion steps in which nearly nothing happens: rounding must not be counted for each.
#[test]
fn at_the_smallest_rates_the_bound_is_near_the_true_epsilon() {
    check_true(&TRUE[..3]);
}

#[test]
#[ignore = "long: a few seconds for each row"]
fn all_true_epsilons_at_the_smallest_rates() {
    check_true(&TRUE);
}

/// Less noise, more steps or a larger rate never cost less, but for the widths of two grids.
#[test]
#[ignore = "long: a few seconds for each bound"]
fn at_the_smallest_rates_the_bound_is_monotone() {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut between = |low: f64, high: f64| {
        let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (low.ln() + unit * (high / low).ln()).exp()
    };
    for _ in 0..8 {
        let (q, sigma) = (between(1e-9, 1e-5), between(0.28, 0.6));
        let (steps, delta) = (between(0.1, 10.0) / q, between(1e-8, 1e-5));
        let at = |q: f64, sigma: f64, steps: f64| {
            spent_by(&[step(q, sigma, steps as u64)], delta).epsilon
        };
        let base = at(q, sigma, steps);
        for (less, more) in [
            (at(q, sigma * 1.01, steps), base),
            (base, at(q, sigma, steps * 1.02)),
            (base, at(q * 1.02, sigma, steps)),
        ] {
            let case = format!("q {q:e} sigma {sigma} steps {steps:e} delta {delta:e}");
            assert!(less < more * 1.001, "{case}: {less} {more}");
        }
    }
}
