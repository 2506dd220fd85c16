use super::*;

/// Computes the divergence of two mixtures of Gaussians of the same width, given as (weight,
/// centre).
fn of_mixtures(p: &[(f64, f64)], q: &[(f64, f64)], sigma: f64, order: f64) -> f64 {
    let density = |mixture: &[(f64, f64)], x: f64| -> f64 {
        mixture.iter().map(|&(w, at)| w * (-0.5 * ((x - at) / sigma).powi(2)).exp()).sum()
    };
    let (h, reach) = (0.002 * sigma, 14.0 * sigma + 2.0 * order);
    let mut moment = 0.0;
    for i in 0..=(2.0 * reach / h) as u64 {
        let x = -reach + i as f64 * h;
        let (p, q) = (density(p, x), density(q, x));
        if p > 0.0 && q > 0.0 {
            moment += (order * (p / q).ln()).exp() * q;
        }
    }
    (moment * h / (sigma * (2.0 * std::f64::consts::PI).sqrt())).ln() / (order - 1.0)
}

/// The probability that the example is used, if the others just fill the batch.
const RATE: f64 = 0.02;

#[test]
fn adding_an_example_to_a_full_batch_has_twice_the_sensitivity() {
    // A cap of 1 and the other example's contribution -1, ours +1.
    for (sigma, order) in [(1.0, 2.0), (1.0, 6.0), (2.0, 8.0)] {
        let attack = of_mixtures(&[(1.0 - RATE, -1.0), (RATE, 1.0)], &[(1.0, -1.0)], sigma, order);
        let bound = renyi_divergence_truncated(
            NeighbouringRelation::AddOrRemoveOne,
            1.0,
            RATE,
            sigma,
            order,
        );
        assert!(attack <= bound * (1.0 + 1e-6), "{attack} {bound}");
        assert!(
            attack > 2.0 * renyi_divergence(RATE, sigma, order),
            "the plain step is too little"
        );
    }
}

#[test]
fn zeroing_out_in_a_full_batch_exceeds_the_ordinary_step() {
    // With the example in the batch another one, of contribution -1, is not: the batches are at
    // 0 without it, at 2 with it, at 1 with zeros in its place.
    for (sigma, order) in [(1.0, 2.0), (1.0, 8.0), (2.0, 4.0), (2.0, 16.0)] {
        let with = [(1.0 - RATE, 0.0), (RATE, 2.0)];
        let zeroed = [(1.0 - RATE, 0.0), (RATE, 1.0)];
        let attack = of_mixtures(&with, &zeroed, sigma, order)
            .max(of_mixtures(&zeroed, &with, sigma, order));
        let bound =
            renyi_divergence_truncated(NeighbouringRelation::ZeroOutOne, 1.0, RATE, sigma, order);
        assert!(attack <= bound * (1.0 + 1e-6), "sigma {sigma} order {order}: {attack} {bound}");
        let plain = renyi_divergence(RATE, sigma, order);
        assert!(attack > 1.3 * plain, "sigma {sigma} order {order}: {attack} {plain}");
    }
}

#[test]
fn the_bound_increases_with_the_probability_of_the_cap() {
    for relation in [NeighbouringRelation::AddOrRemoveOne, NeighbouringRelation::ZeroOutOne] {
        let at = |p_cap: f64| renyi_divergence_truncated(relation, p_cap, 0.01, 1.0, 5.0);
        let plain = renyi_divergence(0.01, 1.0, 5.0);
        assert!((at(0.0) - plain).abs() < 1e-15 && (at(1e-300) - plain).abs() < 1e-15);
        let rising = [0.0, 1e-6, 1e-3, 0.1, 1.0].map(at);
        assert!(rising.windows(2).all(|pair| pair[0] <= pair[1]), "{rising:?}");
        assert!(rising[4] > 2.0 * rising[0]);
    }
    let full =
        renyi_divergence_truncated(NeighbouringRelation::AddOrRemoveOne, 1.0, 0.01, 1.0, 5.0);
    assert_eq!(full, renyi_divergence(0.01, 0.5, 5.0));
}

#[test]
fn a_mixture_of_exponentials_is_precise_for_tiny_and_huge_exponents() {
    assert!((ln_mixture_exp(0.25, 1e-14, 3e-14) - 1.5e-14).abs() < 1e-28);
    let huge = ln_mixture_exp(1e-300, 5.0, 1000.0);
    assert!((huge - (1000.0 + 1e-300f64.ln())).abs() < 1e-9, "{huge}");
    assert_eq!(ln_mixture_exp(0.0, 5.0, f64::INFINITY), 5.0);
    assert_eq!(ln_mixture_exp(1e-9, 5.0, f64::INFINITY), f64::INFINITY);
    assert!((ln_mixture_exp(0.5, 2000.0, 2000.0) - 2000.0).abs() < 1e-9);
}

#[test]
fn binomial_tails_are_precise_upper_bounds_down_to_1e_300() {
    // Fifty and more digits by mpmath.
    for (examples, rate, cap, expected) in [
        (60_000, 256.0 / 60_000.0, 320, 6.191_610_429_896_505e-5),
        (60_000, 256.0 / 60_000.0, 400, 4.708_807_139_807_836e-17),
        (60_000, 256.0 / 60_000.0, 200, 0.999_879_324_605_164_5),
        (1_000_000_000, 1e-6, 1200, 4.684_108_424_588_168e-10),
        (10, 0.3, 10, 5.904_9e-6),
        (10, 0.3, 3, 0.617_217_213_6),
        (10, 0.3, 1, 0.971_752_475_1),
        (1_000_000_000, 0.5, 500_500_000, 8.987_407_567_878_628e-220),
        (1_000_000_000, 0.001, 1_037_000, 1.169_368_300_054_124_5e-296),
        (1_000_000_000, 0.01, 10_117_000, 8.507_478_681_242_843e-302),
        (1000, 0.5, 990, 2.483_338_791_489_635_3e-278),
    ] {
        let tail = binomial_tail_upper(examples, rate, cap);
        assert!(tail >= expected, "{examples} {rate} {cap}: {tail:e} is below {expected:e}");
        assert!(tail <= expected * (1.0 + 5.0 * SLACK), "{examples} {rate} {cap}: {tail:e}");
    }
}

#[test]
fn extreme_binomial_tails() {
    assert_eq!(binomial_tail_upper(9, 0.1, 0), 1.0);
    assert_eq!(binomial_tail_upper(9, 0.1, 10), 0.0);
    assert_eq!(binomial_tail_upper(9, 1.0, 9), 1.0);
    // Beyond the smallest number: still not 0.
    assert_eq!(binomial_tail_upper(1_000_000, 1e-6, 500_000), f64::MIN_POSITIVE);
    for cap in [1, 1 << 20, 1 << 40, u64::MAX / 2, u64::MAX] {
        for rate in [1e-300, 1e-12, 0.5, 1.0 - 1e-16] {
            // Milliseconds; term by term it would take years.
            let tail = binomial_tail_upper(u64::MAX, rate, cap);
            assert!((0.0..=1.0).contains(&tail), "{rate} {cap}: {tail}");
        }
    }
}

#[test]
fn many_examples_are_not_summed_one_by_one() {
    // Around the mean, within some standard deviations of 5e8. This test would take years if the
    // terms were added one by one.
    const MEAN: u64 = 500_000_000_000_000_000;
    let tails = [-2_000_000_000_i64, 0, 10_000, 2_000_000_000].map(|away| {
        let tail = binomial_tail_upper(2 * MEAN, 0.5, MEAN.saturating_add_signed(away));
        assert!((0.0..=1.0).contains(&tail), "{away}: {tail}");
        tail
    });
    assert!(tails[0] > 0.99 && tails[1] >= 0.5 && tails[3] < 0.01, "{tails:?}");
}
