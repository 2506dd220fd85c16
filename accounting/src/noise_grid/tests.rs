use super::*;

const RELATION: NeighbouringRelation = NeighbouringRelation::AddOrRemoveOne;

fn poisson(noise_multiplier: f64) -> SingleRelease {
    SingleRelease::Poisson { sampling_rate: 0.01, noise_multiplier }
}

fn releases(noises: impl IntoIterator<Item = f64>) -> Vec<(SingleRelease, u64)> {
    noises.into_iter().map(|sigma| (poisson(sigma), 2)).collect()
}

/// The hockey-stick divergence at g of a Poisson-sampled step when an example is removed
/// (`remove`) or added, in terms of the threshold t where P = g Q.
fn divergence(q: f64, sigma: f64, g: f64, remove: bool) -> f64 {
    let mu = 1.0 / sigma;
    if !remove {
        // H_g(Q, P) = 1 - g + g H_(1/g)(P, Q).
        return 1.0 - g + g * divergence(q, sigma, 1.0 / g, true);
    }
    let likelihood = (g - 1.0 + q) / q;
    if likelihood <= 0.0 {
        return 1.0 - g;
    }
    let t = likelihood.ln() / mu + 0.5 * mu;
    let p = (1.0 - q) * upper_tail(t) + q * upper_tail(t - mu);
    p - g * upper_tail(t)
}

/// Computes the largest excess of the divergence of a step over that of the mixture of its nodes.
fn excess(q: f64, (below, sigma, above): (f64, f64, f64), share: f64) -> f64 {
    let mut worst = f64::NEG_INFINITY;
    for i in -400..=400 {
        let g = (f64::from(i) / 40.0).exp();
        for remove in [true, false] {
            let at = |sigma| divergence(q, sigma, g, remove);
            worst = worst.max(at(sigma) - share * at(below) - (1.0 - share) * at(above));
        }
    }
    worst
}

#[test]
fn mixtures_dominate_the_steps_between_their_nodes_and_smaller_shares_do_not() {
    for (below, above) in [(0.3, 0.31), (0.6, 0.61), (1.0, 1.5), (2.0, 2.02), (0.5, 9.0)] {
        for part in [0.1, 0.5, 0.8] {
            let sigma = below + part * (above - below);
            let noises = (below, sigma, above);
            let dominating = mixture_weight(below, sigma, above);
            assert!(dominating > 0.0 && dominating < 1.0);
            for q in [1e-3, 0.01, 0.3, 0.99] {
                assert!(excess(q, noises, dominating) < 1e-14, "{q} {noises:?}");
                // One percent less is too little, and so is an average of 1 / sigma².
                assert!(excess(q, noises, 0.99 * dominating) > 1e-7 * q, "{q} {noises:?}");
                let square = |sigma: f64| sigma.powi(-2);
                let by_square = (square(sigma) - square(above)) / (square(below) - square(above));
                assert!(by_square < dominating);
                assert!(excess(q, noises, by_square) > 1e-9 * q, "{q} {noises:?}");
            }
        }
    }
}

#[test]
fn shares_of_extreme_noise_are_safe() {
    // Far below the precision of f64 apart, or distances that are all 1 in f64.
    for (below, sigma, above) in
        [(1e6, 1.0005e6, 1.001e6), (0.02, 0.021, 0.022), (1e-3, 2e-3, 3e-3), (1.0, 1.0, 1.001)]
    {
        let share = mixture_weight(below, sigma, above);
        assert!((0.0..=1.0).contains(&share), "{share}");
        // Distances are nearly proportional to 1 / sigma where there is much noise.
        if below > 100.0 {
            let linear = (1.0 / sigma - 1.0 / above) / (1.0 / below - 1.0 / above);
            assert!((share - linear).abs() < 1e-6 && share >= linear, "{share} {linear}");
        }
        assert!(below < sigma || share == 1.0);
    }
}

#[test]
fn every_release_lies_between_its_nodes() {
    let many = |from: f64, to: f64| -> Vec<f64> {
        (0..500).map(|i| from * (to / from).powf(f64::from(i) / 499.0)).collect()
    };
    for (from, to) in [(2.0, 1.0), (1.0, 1.0 + 1e-9), (0.03, 3000.0), (1e6, 0.9e6), (5.0, 0.2)] {
        for relation in [RELATION, NeighbouringRelation::ReplaceOne] {
            let releases = releases(many(from, to));
            let nodes = NoiseGrid::new(&releases, relation, 64);
            assert!(nodes.is_approximated);
            let sigmas: Vec<f64> =
                nodes.node_releases.iter().map(SingleRelease::noise_multiplier).collect();
            assert!(sigmas.is_sorted_by(|a, b| a < b), "{sigmas:?}");
            assert!(sigmas[0] <= from.min(to) && sigmas[sigmas.len() - 1] >= from.max(to));
            for (single, count) in &releases {
                let sigma = single.noise_multiplier();
                let parts = nodes.components(&[(*single, *count)]);
                let [part] = &parts[..] else { panic!("{parts:?}") };
                assert_eq!(part.releases(), 2.0);
                if part.exact > 0.0 {
                    assert_eq!(sigmas[part.node], sigma);
                } else {
                    assert!(sigmas[part.node] < sigma && sigma < sigmas[part.node + 1]);
                }
                // No mixture is known to dominate a step in which an example is replaced.
                let (_, share) = part.mixture_count_and_mean_weight();
                assert!(relation == RELATION || part.exact > 0.0 || share == 1.0, "{part:?}");
            }
            let all = nodes.components(&releases);
            assert_eq!(all.iter().map(Component::releases).sum::<f64>(), 1000.0);
            if relation == RELATION {
                assert!(sigmas.len() <= INTERVALS + 1);
            } else {
                assert!(sigmas.windows(2).all(|pair| pair[1] / pair[0] < 1.002));
            }
        }
    }
}

#[test]
fn few_multipliers_and_unsampled_releases_are_their_own_nodes() {
    let few = releases([1.5, 0.5, 2.5]);
    let mut all = few.clone();
    all.extend(
        (0..300).map(|i| (SingleRelease::Gaussian { noise_multiplier: 1.0 + f64::from(i) }, 1)),
    );
    all.push((SingleRelease::Poisson { sampling_rate: 0.5, noise_multiplier: 1.0 }, 7));
    let nodes = NoiseGrid::new(&all, RELATION, 64);
    assert_eq!(nodes.node_releases.len(), all.len());
    let parts = nodes.components(&all);
    assert!(parts.iter().all(|part| part.mixtures.is_empty()), "{parts:?}");
    let sum: f64 = parts.iter().map(|part| part.exact).sum();
    assert_eq!(sum, 6.0 + 300.0 + 7.0);
    // A part of the releases has a part of the nodes.
    assert_eq!(nodes.components(&few).len(), 3);
}
