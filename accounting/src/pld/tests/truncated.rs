//! Truncated batches, compared with the mechanism itself on a grid.

use super::convolution::{Mixture, epsilon_between};
use super::*;
use std::collections::BTreeMap;

/// Computes P[Binomial(n, p) = m] for m from 0 to n, term by term.
fn binomial(n: u64, p: f64) -> Vec<f64> {
    let mut ln = n as f64 * (1.0 - p).ln();
    let mut all = vec![ln.exp()];
    for m in 0..n {
        ln += ((n - m) as f64 / (m + 1) as f64).ln() + (p / (1.0 - p)).ln();
        all.push(ln.exp());
    }
    all
}

/// The sum of a truncated batch, with and without the example. The contributions of the others are
/// -1, that of the example is 1.
fn sum_mixtures(others: u64, q: f64, cap: u64) -> (Mixture, Mixture) {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for (m, p) in binomial(others, q).into_iter().enumerate() {
        let (drawn, used) = (m as f64, (m as u64).min(cap) as f64);
        without.push((p, -used));
        let (kept, beside) = if (m as u64) < cap {
            (q, drawn)
        } else {
            (q * cap as f64 / (drawn + 1.0), cap as f64 - 1.0)
        };
        with.extend([(p * (1.0 - kept), -used), (p * kept, 1.0 - beside)]);
    }
    (without_zero_weights(with), without_zero_weights(without))
}

/// Merges components with equal centres.
fn without_zero_weights(mixture: Mixture) -> Mixture {
    let mut all = BTreeMap::<i64, f64>::new();
    mixture.into_iter().for_each(|(p, at)| *all.entry(at as i64).or_default() += p);
    all.into_iter().filter(|m| m.1 > 1e-25).map(|(at, p)| (p, at as f64)).collect()
}

fn truncated_event(
    examples: u64,
    q: f64,
    batch_cap: u64,
    noise_multiplier: f64,
    steps: u64,
) -> Event {
    Event::TruncatedPoissonGaussian {
        examples,
        sampling_rate: q,
        batch_cap,
        noise_multiplier,
        steps,
    }
}

#[test]
fn add_and_remove_are_both_covered() {
    // Always full: with fewer other examples the example is kept more often, in 10 of 100 batches.
    let found = spent_by(&[truncated_event(100, 0.5, 10, 2.0, 100)], 1e-5);
    let (with, without) = sum_mixtures(99, 0.5, 10);
    let truth = epsilon_between((&with, &without), 2.0, 100, 1e-5, 1e-2);
    assert!((truth - 7.048).abs() < 2e-3, "{truth}");
    assert!(found.epsilon > truth - 3e-3 && found.epsilon < truth + 0.01, "{found:?} {truth}");
    // Rarely full: with more other examples the batch is full more often.
    for (examples, q, cap, sigma, steps) in
        [(40, 0.5, 20, 1.5, 20), (12, 0.3, 9, 0.7, 10), (10, 0.9, 1, 1.0, 8), (9, 0.5, 8, 1.0, 5)]
    {
        let found = spent_by(&[truncated_event(examples, q, cap, sigma, steps)], 1e-5).epsilon;
        for others in [examples - 1, examples] {
            let (with, without) = sum_mixtures(others, q, cap);
            for (p, q) in [(&with, &without), (&without, &with)] {
                let truth = epsilon_between((p, q), sigma, steps as u32, 1e-5, 1e-2);
                assert!(found > truth * 0.999, "{examples} {cap}, {others}: {found} {truth}");
            }
        }
        let rdp =
            Rdp::default().epsilon(&[truncated_event(examples, q, cap, sigma, steps)], Delta(1e-5));
        let (with, without) = sum_mixtures(examples, q, cap);
        let truth = epsilon_between((&with, &without), sigma, steps as u32, 1e-5, 1e-2);
        assert!(rdp.unwrap().epsilon > truth * 0.999);
    }
}

#[test]
fn a_curve_and_a_profile_use_the_worse_case() {
    let events = [truncated_event(100, 0.5, 10, 2.0, 100)];
    let one = spent_by(&events, 1e-5);
    let curve = Pld::default().epsilons_at(&events, &[Delta(1e-4), Delta(1e-5)]).unwrap();
    assert!((curve[1].epsilon / one.epsilon - 1.0).abs() < 2e-3, "{curve:?} {one:?}");
    let profile = Pld::default().privacy_profile(&events).unwrap();
    let near = profile.epsilon(1e-5).unwrap();
    assert!((near / one.epsilon - 1.0).abs() < 2e-3, "{near} {one:?}");
}
