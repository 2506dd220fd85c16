//! Many noise multipliers, and many lengths of one run.

use super::*;

/// Creates `count` stages of `steps` steps, with noise multipliers that fall from `from` to `to`.
fn schedule(q: f64, (from, to): (f64, f64), count: u32, steps: u64) -> Vec<Event> {
    let sigma = |i: u32| from * (to / from).powf(f64::from(i) / f64::from(count));
    (0..count).map(|i| step(q, sigma(i), steps)).collect()
}

/// The bounds of a composition with few multipliers are compared with those of the same composition
/// in terms of the nodes of a longer one.
#[test]
fn mixtures_of_nodes_are_an_upper_bound_that_costs_under_one_in_a_thousand() {
    for (q, noises, steps, delta) in [
        (0.01, (1.2, 0.6), 20, 1e-5),
        (0.2, (9.0, 4.0), 3, 1e-6),
        (0.004, (2.0, 0.5), 50, 1e-5),
        (0.001, (0.8, 0.4), 10, 1e-3),
        (0.9, (40.0, 20.0), 1, 1e-5),
    ] {
        let few = schedule(q, noises, 80, steps);
        let many = [few.clone(), schedule(q, noises, 997, 1)].concat();
        let merged = Pld::new().upper_bounds(&[&few, &many], Delta(delta)).unwrap()[0].unwrap();
        let case = &cases(&few, NeighbouringRelation::AddOrRemoveOne).unwrap()[0];
        let grid = |fine: f64| CompositionBounds::near_delta(delta, case, fine).unwrap();
        let (lower, upper) = grid(3.0).epsilon(delta).unwrap();
        let cost = merged / upper - 1.0;
        println!("{q} {noises:?}: {lower} {upper}, merged {merged}: {cost:.1e}");
        assert!(merged >= lower && cost < 1e-3, "{q} {noises:?}: {cost}");
        // A bound that is right for another, weaker composition is rejected.
        let weaker = schedule(q, (noises.0 * 1.01, noises.1 * 1.01), 80, steps);
        assert!(spent_by(&weaker, delta).epsilon < lower, "{q} {noises:?}");
    }
}

#[test]
fn a_thousand_multipliers_are_bounded_on_both_sides() {
    let events = schedule(0.01, (1.2, 0.6), 1000, 1);
    let spent = spent_by(&events, 1e-5);
    // 4.2236 by 250 nodes on a finer grid.
    assert!((spent.epsilon / 4.2236 - 1.0).abs() < 1e-3, "{spent:?}");
    let lower = spent.lower_bound.unwrap();
    assert!(lower < spent.epsilon && lower > 0.98 * spent.epsilon, "{spent:?}");
    let rdp = Rdp::default().epsilon(&events, Delta(1e-5)).unwrap().epsilon;
    assert!(spent.epsilon < rdp, "{rdp}");
}

#[test]
fn one_window_serves_many_lengths() {
    let long = |steps: u64| vec![step(0.01, 1.0, steps)];
    let falling = schedule(0.02, (3.0, 1.0), 50, 20);
    let prior = vec![Event::gaussian(8.0), step(0.5, 9.0, 3)];
    let with_prior = |steps: u64| [prior.clone(), long(steps)].concat();
    let rare = |steps: u64| vec![step(1e-4, 0.7, steps)];
    let growing: [Vec<Vec<Event>>; 4] = [
        [1, 10, 300, 800, 900, 1000].map(long).into(),
        [5, 6, 30, 50].map(|stages| falling[..stages].to_vec()).into(),
        [0, 1, 100, 150].map(with_prior).into(),
        [1, 700].map(rare).into(),
    ];
    for lists in growing {
        let slices: Vec<&[Event]> = lists.iter().map(Vec::as_slice).collect();
        let found = Pld::new().upper_bounds(&slices, Delta(1e-5)).unwrap();
        for (events, found) in lists.iter().zip(found) {
            let (alone, found) = (spent_by(events, 1e-5), found.unwrap());
            assert!(found >= alone.lower_bound.unwrap(), "{events:?}: {found} {alone:?}");
            assert!(found <= alone.epsilon * 1.002, "{events:?}: {found} {alone:?}");
        }
    }
    assert_eq!(Pld::new().upper_bounds(&[&[], &[]], Delta(1e-5)).unwrap(), [Some(0.0); 2]);
    assert!(Pld::new().upper_bounds(&[], Delta(1e-5)).unwrap().is_empty());
    let refused = [Event::ShuffledEpochs { noise_multiplier: 1.0, epochs: 1 }];
    assert!(Pld::new().upper_bounds(&[&refused], Delta(1e-5)).is_err());
}
