use super::*;
use crate::{ErrorKind, Pld};

fn gaussian(noise_multiplier: f64, count: u64) -> Event {
    Event::Gaussian { noise_multiplier, count }
}

#[test]
fn delta_agrees_with_mpmath_and_is_never_below() {
    for (mu, epsilon, expected) in [
        (1.0, 1.0, 0.126_936_737_506_643_95),
        (0.001, 0.01, 7.512_025_722_358_202e-28),
        (1e-6, 1e-5, 7.474_597_627_483_019e-31),
        (0.5, 3.0, 3.400_911_735_673_529e-10),
        (0.51, 3.0, 7.231_335_945_676_331e-10),
        (10.0, 0.0, 0.999_999_426_696_856_3),
        (10.0, 100.0, 1.879_717_002_051_915_7e-7),
        (3.0, 100.0, 9.625_213_469_476_304e-224),
        (44_721.0, 1e9, 0.359_582_938_982_678_98),
        (0.25, 7.0, 2.377_327_216_075_651e-173),
    ] {
        let delta = delta_at_epsilon(mu, epsilon);
        assert!(delta >= expected, "mu {mu} epsilon {epsilon}: {delta:e} {expected:e}");
        assert!(delta <= expected * (1.0 + 1e-10), "mu {mu} epsilon {epsilon}: {delta:e}");
    }
    // The true value, 1.5e-310, is below the normal numbers.
    assert_eq!(delta_at_epsilon(1e-9, 3.7e-8), f64::MIN_POSITIVE);
}

#[test]
fn epsilon_agrees_with_mpmath_and_is_never_below() {
    for (mu, delta, expected) in [
        (1.0, 1e-300, 37.448_847_912_139_11),
        (1e-3, 1e-300, 0.036_762_916_699_487_86),
        (1e-3, 1e-10, 0.004_882_455_278_973_522),
        (0.02, 1e-5, 0.058_632_255_306_096_165),
        (44_720.0, 1e-300, 1_001_595_945.146_921_4),
        (44_720.0, 1e-5, 1_000_129_924.916_351_9),
        (2.0, 0.5, 1.054_264_559_885_392),
        (1e-5, 1e-6, 9.023_488_070_724_966e-6),
        (100.0, 0.999, 4_689.961_028_518_973),
        (0.45, 1e-15, 3.508_663_564_659_672),
        (0.55, 1e-15, 4.329_132_939_391_986),
    ] {
        let (lower, upper) = curve::epsilon_bounds(mu, delta);
        assert_eq!(upper, epsilon_at_delta(mu, delta));
        assert!(lower <= expected && expected <= upper, "{mu} {delta}: {lower} {expected} {upper}");
        assert!(upper - lower <= 1e-9 * expected, "mu {mu} delta {delta}: {lower} {upper}");
        assert!(delta_at_epsilon(mu, upper) <= delta * (1.0 + 1e-10), "mu {mu} delta {delta}");
    }
}

#[test]
fn the_forms_of_delta_agree_where_they_meet() {
    // The integral is used below mu = 1/2, the difference above it; the difference has two forms
    // that meet at a = 2.
    for epsilon in [0.0, 0.1, 1.0, 5.0, 15.0] {
        let (below, above) =
            (delta_at_epsilon(0.5, epsilon), delta_at_epsilon(0.5 + 1e-15, epsilon));
        assert!((above / below - 1.0).abs() < 1e-10, "epsilon {epsilon}: {below:e} {above:e}");
    }
    for mu in [0.3, 1.0, 5.0] {
        let epsilon = mu * (2.0 + mu / 2.0);
        let (below, above) =
            (delta_at_epsilon(mu, epsilon * (1.0 - 1e-13)), delta_at_epsilon(mu, epsilon));
        assert!((above / below - 1.0).abs() < 1e-10, "mu {mu}: {below:e} {above:e}");
    }
}

#[test]
fn zero_mu_costs_nothing_and_invalid_inputs_give_no_privacy() {
    assert_eq!((delta_at_epsilon(0.0, 0.0), epsilon_at_delta(0.0, 1e-5)), (0.0, 0.0));
    // delta alone suffices: 2 Phi(mu/2) - 1 = 4e-6.
    assert_eq!(epsilon_at_delta(1e-5, 4e-6), 0.0);
    for (mu, other) in [(f64::NAN, 0.5), (-1.0, 0.5), (1.0, f64::NAN), (1.0, -1.0)] {
        assert_eq!(delta_at_epsilon(mu, other), 1.0);
        assert_eq!(epsilon_at_delta(mu, other), f64::INFINITY);
    }
    assert_eq!(delta_at_epsilon(f64::INFINITY, 3.0), 1.0);
    for mu in [1e-300, 1e-9, 1.0, 1e9, 1e150] {
        for delta in [1e-300, 1e-15, 0.5, 1.0 - 1e-16] {
            let (lower, upper) = curve::epsilon_bounds(mu, delta);
            assert!(0.0 <= lower && lower <= upper && upper.is_finite(), "{mu} {delta}");
        }
    }
}

#[test]
fn mu_squared_adds_up_and_doubles_under_replace_one() {
    let spent = |relation, events: &[Event]| {
        Gdp::with_neighbouring(relation).epsilon(events, Delta(1e-5)).unwrap()
    };
    let one = spent(NeighbouringRelation::AddOrRemoveOne, &[gaussian(1.0, 1)]);
    assert!((one.epsilon - 4.377_178_095_681_224_5).abs() < 1e-8, "{one}");
    let parts = [gaussian(2.0, 2), gaussian(5f64.sqrt() * 2.0, 10)];
    let many = spent(NeighbouringRelation::AddOrRemoveOne, &parts);
    assert!((many.epsilon - one.epsilon).abs() < 1e-8, "mu² = 2/4 + 10/20 = 1");
    let replaced = spent(NeighbouringRelation::ReplaceOne, &[gaussian(2.0, 1)]);
    assert!((replaced.epsilon - one.epsilon).abs() < 1e-8);
    let epoch = [Event::ShuffledEpochs { noise_multiplier: 1.0, epochs: 1 }];
    assert!((spent(NeighbouringRelation::ZeroOutOne, &epoch).epsilon - one.epsilon).abs() < 1e-8);
    assert!(Gdp::default().epsilon(&epoch, Delta(1e-5)).is_err());
    // Exact: the lower and the upper bound coincide.
    assert!(one.epsilon - one.lower_bound.unwrap() < 1e-9);
}

#[test]
fn the_clt_is_an_estimate_below_or_above_the_true_epsilon_and_labelled() {
    let training =
        [Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 }];
    let estimate = GdpClt::default();
    assert!(estimate.is_approximate() && !Gdp::default().is_approximate());
    let epsilon = estimate.epsilon(&training, Delta(1e-5)).unwrap().epsilon;
    assert!((epsilon - 1.617_711_808_746_7).abs() < 1e-8, "{epsilon}");
    assert!(epsilon < 1.828, "the true value");
    let steep =
        [Event::PoissonGaussian { sampling_rate: 0.125, noise_multiplier: 0.8, steps: 1000 }];
    let above = estimate.epsilon(&steep, Delta(1e-6)).unwrap().epsilon;
    let proved = Pld::default().epsilon(&steep, Delta(1e-6)).unwrap().epsilon;
    assert!((above - 65.17).abs() < 0.01 && (proved - 56.73).abs() < 0.01, "{above} {proved}");
    assert!(Gdp::default().epsilon(&training, Delta(1e-5)).is_err(), "the exact one refuses");
    let little =
        [Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 0.03, steps: 1000 }];
    let error = estimate.epsilon(&little, Delta(1e-5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Accounting);
    assert!(error.to_string().contains("overflows"), "{error}");
}
