use super::*;

/// Returns the case of events without a maximum batch size: there is one.
fn only(events: &[Event], neighbouring: NeighbouringRelation) -> NeighbourCase {
    let mut cases = cases(events, neighbouring).unwrap();
    assert_eq!(cases.len(), 1);
    cases.remove(0)
}

fn step(noise_multiplier: f64) -> Event {
    Event::PoissonGaussian { sampling_rate: 0.1, noise_multiplier, steps: 1 }
}

#[test]
fn gaussian_mechanisms_are_merged() {
    let events = [
        Event::Gaussian { noise_multiplier: 2.0, count: 3 },
        Event::Gaussian { noise_multiplier: 4.0, count: 4 },
    ];
    let case = only(&events, NeighbouringRelation::AddOrRemoveOne);
    assert_eq!(case.components.len(), 1);
    assert!((case.pairs().next().unwrap().sigma - 1.0).abs() < 1e-12);
}

#[test]
fn few_multipliers_are_kept_and_many_are_bounded_on_both_sides() {
    let schedule = |length: i32| -> Vec<Event> {
        (0..length).map(|i| step(1.0 + f64::from(i) / f64::from(length))).collect()
    };
    for relation in [NeighbouringRelation::AddOrRemoveOne, NeighbouringRelation::ReplaceOne] {
        let few = only(&schedule(128), relation);
        assert!(!few.is_approximated && few.components.len() == 128);
        assert!(few.components.iter().all(|part| part.exact == 1.0));
        let many = only(&schedule(20_000), relation);
        assert!(many.is_approximated && many.releases() == 20_000.0);
        // For the upper bound the noise is never increased, for the lower bound never
        // decreased. The mean of 1 / sigma in a mixture is no smaller than that of the step.
        let mu = |node: usize| 1.0 / pairs(&many.nodes[node]).next().unwrap().sigma;
        let above = |part: &Component| {
            let (count, share) = part.mixture_count_and_mean_weight();
            let mixtures = if count > 0.0 {
                count * (share * mu(part.node) + (1.0 - share) * mu(part.node + 1))
            } else {
                0.0
            };
            part.exact * mu(part.node) + mixtures
        };
        let most: f64 = many.components.iter().map(above).sum();
        let counts = many.lower_counts();
        let least: f64 = counts.iter().map(|&(node, count)| count * mu(node)).sum();
        let truth: f64 = (0..20_000).map(|i| 1.0 / (1.0 + f64::from(i) / 20_000.0)).sum();
        let close = if relation == NeighbouringRelation::ReplaceOne { 1e-3 } else { 1e-5 };
        assert!(most >= truth && most < truth * (1.0 + close), "{relation}: {most} {truth}");
        assert!(least < truth && least > truth * 0.98, "{relation}: {least} {truth}");
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<f64>(), 20_000.0);
    }
}

/// With N examples, one of which changes, the neighbours have N - 1 examples in common.
#[test]
fn the_probability_of_use_depends_on_the_number_of_other_examples() {
    let (q, cap) = (0.5, 3);
    // Binomial(4, 1/2): at least three of the four others are drawn.
    let used = 4.0 / 16.0 * q * 3.0 / 4.0 + 1.0 / 16.0 * q * 3.0 / 5.0;
    let event = Event::TruncatedPoissonGaussian {
        examples: 5,
        sampling_rate: q,
        batch_cap: cap,
        noise_multiplier: 1.0,
        steps: 1,
    };
    for relation in [NeighbouringRelation::ZeroOutOne, NeighbouringRelation::ReplaceOne] {
        let cases = cases(std::slice::from_ref(&event), relation).unwrap();
        let [case] = &cases[..] else { panic!("{} cases", cases.len()) };
        let revealed = case.nodes[0][1].0;
        assert!((revealed / used - 1.0).abs() < 1e-5, "{relation}: {revealed} {used}");
    }
}

#[test]
fn releases_without_a_dominating_pair_are_rejected() {
    let fixed =
        Event::FixedSizeGaussian { examples: 100, batch_size: 10, noise_multiplier: 1.0, steps: 1 };
    let epoch = Event::ShuffledEpochs { noise_multiplier: 1.0, epochs: 1 };
    let all = NeighbouringRelation::AddOrRemoveOne;
    assert!(cases(std::slice::from_ref(&fixed), all).is_err());
    assert!(cases(&[fixed], NeighbouringRelation::ReplaceOne).is_err());
    assert!(cases(std::slice::from_ref(&epoch), all).is_err());
    assert!(cases(&[epoch], NeighbouringRelation::ZeroOutOne).is_ok());
    assert!(cases(&[step(0.01)], all).is_err(), "too little noise for a grid");
    assert!(cases(&[step(1e300)], all).is_err(), "too much noise for a grid");
    let too_large = Event::Repeated { event: Box::new(step(1.0)), count: u64::MAX };
    assert!(cases(&[too_large], all).is_err(), "too many steps for a grid");
}
