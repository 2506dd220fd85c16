use super::*;
use crate::Rdp;
use crate::rdp::sampled_gaussian::renyi_divergence;

mod convolution;
mod many;
mod rare;
mod truncated;

fn step(sampling_rate: f64, noise_multiplier: f64, steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate, noise_multiplier, steps }
}

fn spent_by(events: &[Event], delta: f64) -> PrivacyCost {
    Pld::default().epsilon(events, Delta(delta)).unwrap()
}

/// Computes delta of a Gaussian mechanism (Balle, Wang 2018, Theorem 8).
fn gaussian_delta(mu: f64, epsilon: f64) -> f64 {
    dominating_pair::normal_cdf(mu / 2.0 - epsilon / mu)
        - epsilon.exp() * dominating_pair::normal_cdf(-mu / 2.0 - epsilon / mu)
}

#[test]
fn a_gaussian_is_bounded_on_both_sides() {
    for (sigma, delta) in [(0.5, 1e-5), (1.0, 1e-5), (3.0, 1e-8), (50.0, 1e-5), (1.0, 0.1)] {
        let found = spent_by(&[Event::Gaussian { noise_multiplier: sigma, count: 1 }], delta);
        let mu = 1.0 / sigma;
        assert!(gaussian_delta(mu, found.epsilon) <= delta * (1.0 + 1e-9), "{found:?}");
        assert!(
            gaussian_delta(mu, found.lower_bound.unwrap()) >= delta * (1.0 - 1e-9),
            "{found:?}"
        );
        assert!(found.epsilon - found.lower_bound.unwrap() < 1e-3 * found.epsilon, "{found:?}");
    }
}

/// Computes delta of one sampled step, by the same formula at the loss where P = e^epsilon Q.
fn sampled_delta(q: f64, sigma: f64, epsilon: f64, remove: bool) -> f64 {
    let pair = dominating_pair::DominatingPair { kind: dominating_pair::Kind::OneSided, q, sigma };
    if remove {
        let (p, q) = pair.above(pair.inverse_loss(epsilon));
        p - epsilon.exp() * q
    } else {
        let t = pair.inverse_loss(-epsilon);
        if t == f64::NEG_INFINITY {
            return 0.0;
        }
        let (p, q) = pair.below(t);
        q - epsilon.exp() * p
    }
}

#[test]
fn a_gaussian_on_the_grid_is_bounded_on_both_sides() {
    // As a sampled step at a rate of almost 1, which uses the grid.
    for (sigma, delta) in [(0.5, 1e-5), (3.0, 1e-8)] {
        let grid = spent_by(&[step(1.0 - 1e-12, sigma, 7)], delta);
        let exact = spent_by(&[Event::Gaussian { noise_multiplier: sigma, count: 7 }], delta);
        assert!(
            grid.lower_bound.unwrap() <= exact.epsilon && exact.epsilon <= grid.epsilon * 1.000_001
        );
        assert!(grid.epsilon - grid.lower_bound.unwrap() < 1e-3 * grid.epsilon, "{grid:?}");
    }
}

#[test]
fn one_sampled_step_is_bounded_on_both_sides() {
    for (q, sigma, delta) in [
        (0.5, 1.0, 1e-5),
        (0.01, 0.5, 1e-6),
        (1e-5, 0.3, 1e-6),
        (0.3, 4.0, 1e-10),
        (0.9, 0.7, 0.01),
    ] {
        let found = spent_by(&[step(q, sigma, 1)], delta);
        let worst_delta = |epsilon| {
            f64::max(
                sampled_delta(q, sigma, epsilon, true),
                sampled_delta(q, sigma, epsilon, false),
            )
        };
        assert!(
            worst_delta(found.epsilon) <= delta * (1.0 + 1e-9),
            "q {q} sigma {sigma}: {found:?}"
        );
        let lower = found.lower_bound.unwrap();
        assert!(worst_delta(lower) >= delta * (1.0 - 1e-9), "q {q} sigma {sigma}: {found:?}");
        assert!(found.epsilon - lower < 3e-3 * found.epsilon, "q {q} sigma {sigma}: {found:?}");
    }
}

#[test]
fn many_small_losses_are_not_rounded_up() {
    // Rounding losses up to a grid of 1e-4 gives 5.60 here; the RDP bound is 1.000.
    let found = spent_by(&[step(64.0 / 60_000.0, 1.4929, 93_800)], 1e-5);
    assert!((found.epsilon - 0.914).abs() < 0.002, "{found:?}");
    assert!(found.lower_bound.unwrap() > 0.912, "{found:?}");
}

#[test]
fn tiny_deltas_are_as_precise_as_large_ones() {
    // An FFT without tilting has an error of about 1e-12 here.
    for delta in [1e-15, 1e-30, 1e-100] {
        let found = spent_by(&[step(0.01, 1.0, 1000)], delta);
        let rdp = Rdp::default().epsilon(&[step(0.01, 1.0, 1000)], Delta(delta)).unwrap();
        assert!(found.epsilon < rdp.epsilon, "{found:?} {rdp:?}");
        assert!(found.epsilon - found.lower_bound.unwrap() < 2e-3 * found.epsilon, "{found:?}");
    }
}

#[test]
fn the_moments_of_the_losses_bound_the_renyi_divergences() {
    let (q, sigma, grid) = (0.05, 0.8, 1e-3);
    let pair = dominating_pair::DominatingPair { kind: dominating_pair::Kind::OneSided, q, sigma };
    let cells = cells::LossCells::new(&pair, grid, 0.0, 1e-80);
    let (upper, dual) = loss_distribution::upper_bound(&cells);
    let offset = cells::balanced_offset(&pair, grid, 1e-80);
    let lower = loss_distribution::lower_bound(&cells::LossCells::new(&pair, grid, offset, 1e-80));
    let total = |losses: &loss_distribution::LossDistribution| {
        losses.mass.iter().sum::<f64>() + losses.infinity
    };
    assert!((total(&upper) - 1.0).abs() < 1e-11 && (total(&dual) - 1.0).abs() < 1e-11);
    for theta in [0.5, 1.0, 4.0, 10.0] {
        let exact = theta * renyi_divergence(q, sigma, theta + 1.0);
        let (above, below) = (upper.ln_moment(theta), lower.ln_moment(theta));
        assert!(
            below <= exact * (1.0 + 1e-9) && exact <= above * (1.0 + 1e-9),
            "{theta}: {below} {exact} {above}"
        );
        assert!(above - below < 5e-3 * exact, "{theta}: {below} {exact} {above}");
    }
    // Under Q, e^loss has mean 1: no mass of Q was lost.
    assert!(upper.ln_moment(-1.0).abs() < 1e-9 && dual.ln_moment(-1.0).abs() < 1e-9);
}

#[test]
fn rounding_losses_down_is_no_upper_bound() {
    // The wrong discretisation, with every cell at its lower end, has too small a moment.
    let pair = dominating_pair::DominatingPair {
        kind: dominating_pair::Kind::OneSided,
        q: 0.05,
        sigma: 0.8,
    };
    let cells = cells::LossCells::new(&pair, 0.05, 0.0, 1e-80);
    let (upper, _) = loss_distribution::upper_bound(&cells);
    let mut down = upper.clone();
    down.mass = cells.p.clone();
    let exact = 4.0 * renyi_divergence(0.05, 0.8, 5.0);
    assert!(upper.ln_moment(4.0) > exact && down.ln_moment(4.0) < exact);
}

#[test]
fn both_directions_are_accounted() {
    // At a small sampling rate, `remove` has a far larger epsilon than `add`.
    let (q, sigma) = (0.01, 1.0);
    let found = spent_by(&[step(q, sigma, 1)], 1e-4);
    assert!(sampled_delta(q, sigma, found.epsilon * 0.99, true) > 1e-4);
    assert!(sampled_delta(q, sigma, found.epsilon * 0.5, false) < 1e-4);
}

#[test]
fn many_multipliers_have_bounds_close_to_the_exact_list() {
    let many: Vec<_> = (0..2000).map(|i| step(0.01, 1.0 + 1e-4 * f64::from(i), 1)).collect();
    let found = spent_by(&many, 1e-5);
    // The same list in 200 blocks of one multiplier each, rounded down and up.
    let blocks = |shift: i32| -> Vec<_> {
        let sigma = |b: i32| 1.0 + 1e-3 * f64::from(b) + 1e-3 * f64::from(shift);
        (0..200).map(|b| step(0.01, sigma(b), 10)).collect()
    };
    let (most, least) = (spent_by(&blocks(0), 1e-5), spent_by(&blocks(1), 1e-5));
    assert!(
        found.lower_bound.unwrap() <= most.epsilon && found.epsilon >= least.lower_bound.unwrap()
    );
    assert!((found.epsilon / found.lower_bound.unwrap() - 1.0).abs() < 0.01, "{found:?}");
}

#[test]
fn a_curve_agrees_with_single_epsilons() {
    let events = [step(0.02, 1.3, 500), Event::Gaussian { noise_multiplier: 20.0, count: 1 }];
    let deltas: Vec<_> = (2..=20).map(|i| Delta(10f64.powf(-0.5 * f64::from(i)))).collect();
    let curve = Pld::default().epsilons_at(&events, &deltas).unwrap();
    for (spent, delta) in curve.iter().zip(&deltas) {
        let one = spent_by(&events, delta.0);
        assert!((spent.epsilon / one.epsilon - 1.0).abs() < 2e-3, "{delta}: {spent:?} {one:?}");
        assert!(
            spent.lower_bound.unwrap() <= one.epsilon && spent.epsilon >= one.lower_bound.unwrap()
        );
    }
    assert!(curve.windows(2).all(|w| w[0].epsilon < w[1].epsilon));
}

#[test]
fn a_profile_is_a_tight_upper_bound() {
    let gaussian = [Event::Gaussian { noise_multiplier: 1.0, count: 1 }];
    let profile = Pld::default().privacy_profile(&gaussian).unwrap();
    for epsilon in [0.0, 0.3, 1.0, 2.5, 4.0, 6.0] {
        let (found, exact) = (profile.delta(epsilon), gaussian_delta(1.0, epsilon));
        assert!(found >= exact * (1.0 - 1e-9), "{epsilon}: {found} {exact}");
        assert!(found <= exact * 1.01 + 1e-13, "{epsilon}: {found} {exact}");
    }
    let sampled = [step(0.01, 1.0, 1000)];
    let profile = Pld::default().privacy_profile(&sampled).unwrap();
    let one = spent_by(&sampled, 1e-5);
    let near = profile.epsilon(1e-5).unwrap();
    assert!((near / one.epsilon - 1.0).abs() < 2e-3, "{near} {one:?}");
}

#[test]
fn a_maximum_batch_size_costs_more_than_none() {
    let cut = |batch_cap, relation| {
        let event = Event::TruncatedPoissonGaussian {
            examples: 60_000,
            sampling_rate: 256.0 / 60_000.0,
            batch_cap,
            noise_multiplier: 1.0,
            steps: 1000,
        };
        Pld::with_neighbouring(relation).epsilon(&[event], Delta(1e-5)).unwrap().epsilon
    };
    let whole = spent_by(&[step(256.0 / 60_000.0, 1.0, 1000)], 1e-5).epsilon;
    let all = NeighbouringRelation::AddOrRemoveOne;
    assert!((cut(400, all) - whole).abs() < 1e-3, "a cap that is never reached");
    assert!((cut(320, all) - 0.7684).abs() < 2e-3, "{}", cut(320, all));
    assert!((cut(280, all) - 4.128).abs() < 0.02, "{}", cut(280, all));
    assert!((cut(256, all) - 5.797).abs() < 0.03, "{}", cut(256, all));
    assert!(cut(280, NeighbouringRelation::ZeroOutOne) > whole);
    assert!(
        cut(280, NeighbouringRelation::ReplaceOne) > cut(280, NeighbouringRelation::ZeroOutOne)
    );
}

#[test]
fn a_release_with_much_noise_adds_almost_nothing() {
    // On a grid that suits the release with little noise, one cell covers thousands of standard
    // deviations of the other. Integrating every cell to its end took minutes.
    let (little_noise, much_noise) = (step(0.128, 0.05, 10), step(0.128, 7901.0, 10));
    let (alone, both) = (
        spent_by(std::slice::from_ref(&little_noise), 1e-5),
        spent_by(&[little_noise, much_noise], 1e-5),
    );
    assert!(both.epsilon >= alone.lower_bound.unwrap(), "{both:?} {alone:?}");
    assert!((both.epsilon - alone.epsilon).abs() < 1e-3 * alone.epsilon, "{both:?} {alone:?}");
}
