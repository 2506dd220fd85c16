use proptest::prelude::*;
use statrs::distribution::{ContinuousCDF, Normal};

use super::*;
use crate::PrivacyProfile;

fn normal() -> Normal {
    Normal::new(0.0, 1.0).unwrap()
}

/// Computes the privacy profile of one Gaussian mechanism (Balle, Wang: Improving the Gaussian
/// Mechanism, 2018, Theorem 8), at points `step` apart.
fn gaussian(mu: f64, step: f64) -> PrivacyProfile {
    let phi = |x: f64| normal().cdf(x);
    let delta = |e: f64| phi(mu / 2.0 - e / mu) - e.exp() * phi(-mu / 2.0 - e / mu);
    let points = (0..=(12.0 / step) as usize).map(|i| i as f64 * step).map(|e| (e, delta(e)));
    PrivacyProfile::from_points(points.collect())
}

/// Computes the exact trade-off function of the Gaussian mechanism: Phi(Phi^-1(1 - a) - mu).
fn gaussian_fnr(mu: f64, fpr: f64) -> f64 {
    normal().cdf(normal().inverse_cdf(1.0 - fpr) - mu)
}

#[test]
fn a_gaussian_mechanism_has_its_exact_trade_off_function() {
    for mu in [0.1, 1.0, 2.5] {
        let trade_off = TradeOff::from_profile(&gaussian(mu, 0.01 * mu.min(1.0)));
        for fpr in [1e-4, 0.001, 0.01, 0.05, 0.3, 0.5, 0.9, 0.999] {
            let (found, exact) =
                (trade_off.false_negative_rate(fpr).unwrap(), gaussian_fnr(mu, fpr));
            assert!(found <= exact + 1e-12, "mu {mu}: fnr {found} above the truth {exact}");
            assert!(found >= exact - 2e-5, "mu {mu}: fnr {found}, truth {exact}");
        }
        // The advantage is delta at epsilon 0: 2 Phi(mu/2) - 1.
        let advantage = 2.0 * normal().cdf(mu / 2.0) - 1.0;
        assert!((trade_off.advantage() - advantage).abs() < 1e-12);
        assert!((trade_off.advantage() - gaussian(mu, 0.5).delta(0.0)).abs() < 1e-12);
    }
    // f(0.01) = Phi(2.3263 - 1) = 0.9076: at a false positive rate of 1 % the true positive rate is
    // 9.24 %.
    let tpr = TradeOff::from_profile(&gaussian(1.0, 0.01)).true_positive_rate(0.01).unwrap();
    assert!((tpr - 0.0924).abs() < 1e-4, "{tpr}");
}

#[test]
fn a_coarse_profile_only_loosens_the_bounds() {
    for fpr in [0.001, 0.01, 0.1, 0.4] {
        let rate =
            |step| TradeOff::from_profile(&gaussian(1.0, step)).true_positive_rate(fpr).unwrap();
        assert!(rate(2.0) >= rate(0.5) && rate(0.5) >= rate(0.01));
        assert!(rate(2.0) > rate(0.01) + 1e-4, "the test sees a difference at {fpr}");
    }
}

#[test]
fn points_between_those_of_a_profile_add_nothing() {
    let profile = gaussian(1.0, 0.5);
    let dense = (0..=1200).map(|i| f64::from(i) / 100.0).map(|e| (e, profile.delta(e)));
    let (dense, sparse) = (
        TradeOff::from_profile(&PrivacyProfile::from_points(dense.collect())),
        TradeOff::from_profile(&profile),
    );
    for fpr in [0.0, 1e-3, 0.01, 0.2, 0.6] {
        let (a, b) =
            (sparse.true_positive_rate(fpr).unwrap(), dense.true_positive_rate(fpr).unwrap());
        assert!((a - b).abs() < 1e-12, "{fpr}: {a} {b}");
    }
}

#[test]
fn pure_dp_has_its_known_trade_off_function() {
    let e = 1.0f64;
    let trade_off = TradeOff::from_epsilon_delta(e, 0.0).unwrap();
    let fnr = |a: f64| trade_off.false_negative_rate(a).unwrap();
    let corner = 1.0 / (1.0 + e.exp());
    assert!((fnr(corner) - corner).abs() < 1e-15);
    assert!((fnr(0.1) - (1.0 - 0.1 * e.exp())).abs() < 1e-15);
    assert!((fnr(0.6) - 0.4 * (-e).exp()).abs() < 1e-15);
    assert_eq!((fnr(0.0), fnr(1.0)), (1.0, 0.0));
    // (e - 1) / (e + 1), and right e / (1 + e) = 73.1 % of the time.
    assert!((trade_off.advantage() - (e.exp() - 1.0) / (e.exp() + 1.0)).abs() < 1e-15);
    let with_delta = TradeOff::from_epsilon_delta(1.0, 0.01).unwrap();
    assert!((with_delta.true_positive_rate(0.0).unwrap() - 0.01).abs() < 1e-15);
    let best = (0..=10_000).map(|i| f64::from(i) / 1e4);
    let best = best.map(|a| with_delta.max_tpr(a) - a).fold(0.0, f64::max);
    assert!((with_delta.advantage() - best).abs() < 1e-4 && with_delta.advantage() >= best);
}

#[test]
fn trivial_trade_offs_are_random_guessing_and_certainty() {
    let nothing = TradeOff::from_epsilon_delta(0.0, 0.0).unwrap();
    let open = TradeOff::from_epsilon_delta(0.0, 1.0).unwrap();
    let huge = TradeOff::from_epsilon_delta(1e6, 0.0).unwrap();
    for fpr in [0.0, 0.01, 0.5, 1.0] {
        assert!((nothing.true_positive_rate(fpr).unwrap() - fpr).abs() < 1e-15);
        assert_eq!(open.true_positive_rate(fpr).unwrap(), 1.0);
        assert_eq!(nothing.posterior(0.3, fpr).unwrap(), 0.3);
    }
    assert_eq!(huge.true_positive_rate(1e-9).unwrap(), 1.0);
    assert_eq!((nothing.advantage(), open.advantage(), huge.advantage()), (0.0, 1.0, 1.0));
}

#[test]
fn the_posterior_is_the_positive_predictive_value_with_the_known_bound() {
    let pure = TradeOff::from_epsilon_delta(1.0, 0.0).unwrap();
    for prior in [0.0, 0.001, 0.5, 0.9, 1.0] {
        let classical = prior * 1f64.exp() / (1.0 - prior + prior * 1f64.exp());
        let bound = pure.posterior(prior, 0.0).unwrap();
        assert!((bound - classical).abs() < 1e-15, "{prior}: {bound}");
        for fpr in [1e-6, 0.01, 0.2, 1.0] {
            let tpr = pure.true_positive_rate(fpr).unwrap();
            let right = prior * tpr / (prior * tpr + (1.0 - prior) * fpr);
            let found = pure.posterior(prior, fpr).unwrap();
            assert!((found - right).abs() < 1e-12 && found <= bound + 1e-15);
        }
    }
    // With delta > 0, an attack that reports only on the event of probability delta can be certain.
    let with_delta = TradeOff::from_epsilon_delta(1.0, 1e-5).unwrap();
    assert_eq!(with_delta.posterior(0.5, 0.0).unwrap(), 1.0);
    assert!(with_delta.posterior(0.5, 0.01).unwrap() < 0.74);
}

#[test]
fn values_that_are_no_probabilities_are_rejected() {
    let trade_off = TradeOff::from_epsilon_delta(1.0, 0.0).unwrap();
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(
            trade_off.true_positive_rate(bad).is_err()
                && trade_off.false_negative_rate(bad).is_err()
        );
        assert!(trade_off.posterior(bad, 0.1).is_err() && trade_off.posterior(0.1, bad).is_err());
        assert!(TradeOff::from_epsilon_delta(1.0, bad).is_err());
    }
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(TradeOff::from_epsilon_delta(bad, 0.0).is_err());
    }
    let text = trade_off.true_positive_rate(5.0).unwrap_err().to_string();
    assert!(text.contains("write 1 % as 0.01"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Convex, decreasing, symmetric, never above random guessing (Dong, Roth, Su 2022).
    #[test]
    fn every_trade_off_is_a_valid_trade_off_function(
        pairs in prop::collection::vec((0.0..8.0f64, 0.0..0.3f64), 1..6),
        a in 0.0..1.0f64, b in 0.0..1.0f64, t in 0.0..1.0f64,
    ) {
        let first = TradeOff::from_epsilon_delta(pairs[0].0, pairs[0].1).unwrap();
        let all = pairs[1..].iter().fold(first.clone(), |all, &(e, d)| all.with_pair(e, d));
        let f = |x: f64| all.false_negative_rate(x).unwrap();
        prop_assert!(f(a) >= 0.0 && f(a) <= 1.0 - a + 1e-15);
        prop_assert!(f(a.min(b)) >= f(a.max(b)));
        let middle = (t * a + (1.0 - t) * b).clamp(0.0, 1.0);
        prop_assert!(f(middle) <= t * f(a) + (1.0 - t) * f(b) + 1e-14);
        prop_assert!(f(a) >= first.false_negative_rate(a).unwrap());
        prop_assert!(f(f(a)) <= a + 1e-11, "its own inverse: {} {}", f(f(a)), a);
        prop_assert!(all.max_tpr(a) - a <= all.advantage() + 1e-14);
    }
}

fn meaning_of(
    epsilon: f64,
    neighbouring: NeighbouringRelation,
    trade_off: TradeOff,
) -> AttackBounds {
    AttackBounds { epsilon, delta: Delta(1e-5), accountant: "pld".into(), neighbouring, trade_off }
}

#[test]
fn the_text_of_a_meaning_is_fixed() {
    let gaussian = TradeOff::from_profile(&gaussian(1.0, 0.01));
    assert_eq!(
        meaning_of(4.37663, NeighbouringRelation::AddOrRemoveOne, gaussian).to_string(),
        "Everything released here is (4.377, 1e-5)-differentially private (neighbours: add or \
         remove one; accountant: PLD (privacy loss distribution)).\n\
         Consider an attacker who knows the whole data set except one example, sees everything \
         that is released, and decides whether that example was in the data or not. If both are \
         equally likely, the decision is right at most 69.2 % of the time; a random guess is right \
         50 % of the time.\n\
         With a false positive rate of 1 %, the attacker detects at most 9.3 % of the examples \
         that were in; without the release it would be 1 %.\n\
         With a prior probability of 50 %, such a detection is correct with a probability of at \
         most 90.3 %."
    );
}

#[test]
fn the_text_covers_every_relation_and_a_meaningless_epsilon() {
    let pair = TradeOff::from_epsilon_delta(1.0, 0.0).unwrap();
    let text = |relation| meaning_of(1.0, relation, pair.clone()).to_string();
    assert!(
        text(NeighbouringRelation::AddOrRemoveOne).contains("right at most 73.2 % of the time")
    );
    let replaced = text(NeighbouringRelation::ReplaceOne);
    assert!(replaced.contains("which of two given examples was used"), "{replaced}");
    assert!(text(NeighbouringRelation::ZeroOutOne).contains("replaced by zeros"));
    let huge = TradeOff::from_epsilon_delta(20.0, 0.0).unwrap();
    let meaningless = meaning_of(20.0, NeighbouringRelation::AddOrRemoveOne, huge).to_string();
    assert!(meaningless.ends_with("so large an epsilon gives no protection."), "{meaningless}");
    assert!(!replaced.contains("no protection"));
}

#[test]
fn the_profile_gives_tighter_bounds_than_one_epsilon() {
    let event = Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
    let whole = attack_bounds(std::slice::from_ref(&event), Delta(1e-5)).unwrap();
    let alone = TradeOff::from_epsilon_delta(whole.epsilon(), 1e-5).unwrap();
    for fpr in [0.0, 0.001, 0.01, 0.3] {
        let (many, one) = (whole.trade_off().max_tpr(fpr), alone.max_tpr(fpr));
        assert!(many <= one, "{fpr}: {many} {one}");
    }
    assert!(whole.max_attack_accuracy() < (1.0 + alone.advantage()) / 2.0 - 0.05);
    // A lower bound: the best attack on this run has an accuracy of at least 58.2 % (central limit,
    // mu = 0.415: Phi(mu / 2)).
    assert!(whole.max_attack_accuracy() > 0.58, "{}", whole.max_attack_accuracy());
    let nothing = attack_bounds(&[], Delta(1e-5)).unwrap();
    assert_eq!((nothing.epsilon(), nothing.max_attack_accuracy()), (0.0, 0.5));
    let open = Event::Unaccountable { why: "raw gradients".into() };
    assert!(attack_bounds(&[event, open], Delta(1e-5)).is_err());
}
