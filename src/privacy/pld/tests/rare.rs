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
        let lower = found.lower.unwrap_or(0.0);
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
                &components::cases(&[step(q, sigma, 1)], Neighbouring::AddOrRemoveOne).unwrap();
            for upper in [1e-3, 0.1, 1.0, 10.0] {
                let found = threshold::epsilon(&cases[0], delta, upper);
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
