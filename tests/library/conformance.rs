//! Conformance suite for all accountants, with a table of the events each one supports.

use epsilab::privacy::ErrorKind;
use epsilab::privacy::{
    Accountant, Delta, Epsilon, Event, Gdp, GdpClt, NeighbouringRelation, Pld, Rdp, SamplingRate,
    Tcdp, TightestAccountant, Zcdp, noise_multiplier_for,
};
use proptest::prelude::*;

const RELATIONS: [NeighbouringRelation; 3] = [
    NeighbouringRelation::AddOrRemoveOne,
    NeighbouringRelation::ZeroOutOne,
    NeighbouringRelation::ReplaceOne,
];

/// Constructor of an accountant for a neighbouring relation.
type Factory = fn(NeighbouringRelation) -> Box<dyn Accountant>;

/// Support for the events of [`kinds`], in that order: `a` supported, `-` not supported, `?`
/// either. One row for each of [`RELATIONS`].
type Table = [&'static str; 3];

/// One event of every kind with the given noise and count. The noise must be large enough for the
/// conditions of tCDP.
fn kinds(noise_multiplier: f64, count: u64) -> [Event; 5] {
    kinds_at(10_000, 100, noise_multiplier, count)
}

/// The same for expected samples of `batch` out of `examples`.
fn kinds_at(examples: u64, batch: u64, noise_multiplier: f64, count: u64) -> [Event; 5] {
    let sampling_rate = batch as f64 / examples as f64;
    [
        Event::Gaussian { noise_multiplier, count },
        Event::PoissonGaussian { sampling_rate, noise_multiplier, steps: count },
        Event::TruncatedPoissonGaussian {
            examples,
            sampling_rate,
            batch_cap: batch + batch / 3 + 1,
            noise_multiplier,
            steps: count,
        },
        Event::FixedSizeGaussian { examples, batch_size: batch, noise_multiplier, steps: count },
        Event::ShuffledEpochs { noise_multiplier, epochs: count },
    ]
}

/// All supported kinds of events, each with its accountant.
fn supported(make: Factory, table: Table) -> impl Iterator<Item = (Box<dyn Accountant>, usize)> {
    RELATIONS.into_iter().zip(table).flat_map(move |(relation, row)| {
        let columns = row.chars().enumerate().filter(|&(_, answer)| answer == 'a');
        columns.map(move |(kind, _)| (make(relation), kind)).collect::<Vec<_>>()
    })
}

fn epsilon(accountant: &dyn Accountant, events: &[Event], delta: f64) -> f64 {
    let spent = accountant.epsilon(events, Delta(delta));
    spent.unwrap_or_else(|error| panic!("{} {events:?}: {error}", accountant.name())).epsilon
}

fn nothing_released_has_epsilon_zero(make: Factory) {
    for relation in RELATIONS {
        let accountant = make(relation);
        assert_eq!(accountant.neighbouring(), relation);
        assert_eq!(epsilon(&*accountant, &[], 1e-5), 0.0);
        // Also for unsupported kinds of events, because none of them is released.
        for event in kinds(6.0, 0) {
            let repeated = Event::Repeated { event: Box::new(event.clone()), count: 9 };
            assert_eq!(epsilon(&*accountant, &[event, repeated], 1e-15), 0.0);
        }
    }
}

fn rejects_unaccountable_events_by_name(make: Factory) {
    let why = "the threshold was read off the private batch";
    for relation in RELATIONS {
        let accountant = make(relation);
        let bad = Event::Unaccountable { why: why.into() };
        for event in [bad.clone(), Event::Composed { events: vec![kinds(6.0, 1)[0].clone(), bad] }]
        {
            let error = accountant.epsilon(&[event], Delta(1e-5)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Accounting);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}

fn rejects_out_of_range_parameters(make: Factory) {
    let accountant = make(NeighbouringRelation::AddOrRemoveOne);
    let mut bad = Vec::new();
    for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        bad.extend(kinds(sigma, 1));
    }
    for sampling_rate in [0.0, -0.1, 1.1, f64::NAN] {
        bad.push(Event::PoissonGaussian { sampling_rate, noise_multiplier: 1.0, steps: 1 });
    }
    bad.push(kinds_at(10, 11, 1.0, 1)[3].clone());
    bad.push(kinds_at(10, 0, 1.0, 1)[3].clone());
    for event in bad {
        let nested = Event::Repeated { event: Box::new(event.clone()), count: 2 };
        for event in [event, nested] {
            let error = accountant.epsilon(std::slice::from_ref(&event), Delta(1e-5)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting, "{event:?}: {error}");
        }
    }
    for delta in [0.0, 1.0, -1e-5, f64::NAN] {
        for events in [vec![], vec![kinds(6.0, 1)[0].clone()]] {
            let error = accountant.epsilon(&events, Delta(delta)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting, "delta {delta}");
        }
    }
}

fn supports_exactly_the_events_of_the_table(make: Factory, table: Table) {
    for (relation, row) in RELATIONS.into_iter().zip(table) {
        let accountant = make(relation);
        for (event, expected) in kinds(6.0, 10).into_iter().zip(row.chars()) {
            match (accountant.epsilon(std::slice::from_ref(&event), Delta(1e-5)), expected) {
                (Ok(spent), 'a' | '?') => {
                    assert!(spent.epsilon > 0.0 && spent.epsilon.is_finite(), "{event}: {spent}");
                    assert!(
                        spent.lower_bound.is_none_or(|lower| lower <= spent.epsilon),
                        "{spent:?}"
                    );
                }
                (Err(error), '-' | '?') => {
                    assert_eq!(error.kind(), ErrorKind::Accounting, "{error}");
                    assert!(!error.advice().is_empty(), "no advice: {error}");
                }
                (answer, _) => {
                    panic!("{} under {relation}, {event}: {answer:?}", accountant.name());
                }
            }
        }
    }
}

fn epsilon_is_monotone(make: Factory, table: Table, slack: f64) {
    for (accountant, kind) in supported(make, table) {
        let at = |sigma: f64, count: u64, delta: f64| {
            epsilon(&*accountant, &[kinds(sigma, count)[kind].clone()], delta)
        };
        let here = at(6.0, 100, 1e-5) * (1.0 - slack);
        let event = &kinds(6.0, 100)[kind];
        assert!(at(6.0, 150, 1e-5) >= here, "{} {event}: steps", accountant.name());
        assert!(at(5.5, 100, 1e-5) >= here, "{} {event}: noise", accountant.name());
        assert!(at(6.0, 100, 1e-6) >= here, "{} {event}: delta", accountant.name());
        // And it increases strictly over a larger distance.
        assert!(at(4.6, 2000, 1e-9) > 1.2 * here, "{} {event}", accountant.name());
    }
}

fn equivalent_lists_of_events_agree(make: Factory, table: Table, slack: f64) {
    for relation in 0..3 {
        let accountant = make(RELATIONS[relation]);
        let columns = table[relation].chars().enumerate().filter(|&(_, answer)| answer == 'a');
        let mut columns: Vec<usize> = columns.map(|(kind, _)| kind).collect();
        // Only RDP supports fixed sizes and only PLD supports Poisson sampling under replace-one,
        // so no accountant supports both together.
        if accountant.name() == "headline" {
            columns.retain(|&kind| kind != 3);
        }
        let events = |sigma: f64, count: u64| -> Vec<Event> {
            let all = kinds(sigma, count);
            columns.iter().map(|&kind| all[kind].clone()).collect()
        };
        let mut flat = events(6.0, 30);
        flat.extend(events(9.0, 12));
        let expected = epsilon(&*accountant, &flat, 1e-5);

        let mut backwards = flat.clone();
        backwards.reverse();
        let mut split = events(6.0, 10);
        split.extend(events(9.0, 12));
        split.extend(events(6.0, 20));
        let composed = vec![Event::Composed { events: flat.clone() }];
        let repeated: Vec<Event> = events(6.0, 10)
            .into_iter()
            .map(|event| Event::Repeated { event: Box::new(event), count: 3 })
            .chain(events(9.0, 12))
            .collect();
        let both = vec![Event::Repeated {
            event: Box::new(Event::Composed { events: [events(6.0, 15), events(9.0, 6)].concat() }),
            count: 2,
        }];
        for (form, written) in [
            ("backwards", backwards),
            ("split", split),
            ("composed", composed),
            ("repeated", repeated),
            ("both", both),
        ] {
            let other = epsilon(&*accountant, &written, 1e-5);
            assert!(
                (other - expected).abs() <= slack * expected,
                "{} under {}, {form}: {other} {expected}",
                accountant.name(),
                RELATIONS[relation]
            );
        }
    }
}

fn replace_one_doubles_the_sensitivity(make: Factory, slack: f64) {
    for sigma in [0.5, 2.0, 30.0] {
        let event = [Event::Gaussian { noise_multiplier: sigma, count: 7 }];
        let double = [Event::Gaussian { noise_multiplier: sigma / 2.0, count: 7 }];
        let added = epsilon(&*make(NeighbouringRelation::AddOrRemoveOne), &event, 1e-5);
        let replaced = epsilon(&*make(NeighbouringRelation::ReplaceOne), &event, 1e-5);
        assert!(replaced > added, "sigma {sigma}: {replaced} {added}");
        // It equals add-or-remove-one at twice the sensitivity.
        let doubled = epsilon(&*make(NeighbouringRelation::AddOrRemoveOne), &double, 1e-5);
        assert!((replaced - doubled).abs() <= slack * doubled, "sigma {sigma}");
    }
}

/// Parameters from the practical range and slightly beyond.
fn extremes_give_a_value_or_an_error(make: Factory) {
    let cases = ProptestConfig { failure_persistence: None, cases: 12, ..Default::default() };
    let seed = proptest::test_runner::TestRng::from_seed(
        proptest::test_runner::RngAlgorithm::ChaCha,
        &[7; 32],
    );
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(cases, seed);
    let numbers = (
        (0.1f64).ln()..(100f64).ln(),
        (1e-6f64).ln()..=0.0,
        0.0..=(1e6f64).ln(),
        (1e-15f64).ln()..(0.1f64).ln(),
        0..5usize,
    );
    let corners = [
        (0.1f64.ln(), 0.0, 1e6f64.ln(), 1e-15f64.ln(), 0),
        (0.1f64.ln(), 1e-6f64.ln(), 1e6f64.ln(), 1e-15f64.ln(), 1),
        (100f64.ln(), 1e-6f64.ln(), 0.0, 0.1f64.ln(), 1),
        (0.1f64.ln(), 1e-6f64.ln(), 1e6f64.ln(), 1e-15f64.ln(), 3),
    ];
    let check = |(ln_sigma, ln_q, ln_steps, ln_delta, kind): (f64, f64, f64, f64, usize)| {
        let batch = (1e6 * ln_q.exp()).round().max(1.0) as u64;
        let steps = ln_steps.exp().round() as u64;
        let event = kinds_at(1_000_000, batch, ln_sigma.exp(), steps)[kind].clone();
        for relation in RELATIONS {
            let accountant = make(relation);
            let answer = accountant.epsilon(std::slice::from_ref(&event), Delta(ln_delta.exp()));
            let what = format!("{} under {relation}: {event}", accountant.name());
            match answer {
                Ok(spent) => {
                    assert!(spent.epsilon >= 0.0 && spent.epsilon.is_finite(), "{what}: {spent:?}");
                    let ordered = |lower: f64| (0.0..=spent.epsilon).contains(&lower);
                    assert!(spent.lower_bound.is_none_or(ordered), "{what}: {spent:?}");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Accounting, "{what}: {error}"),
            }
        }
    };
    corners.into_iter().for_each(check);
    runner
        .run(&numbers, |case| {
            check(case);
            Ok(())
        })
        .unwrap();
}

/// The whole suite for one accountant.
macro_rules! suite {
    ($name:ident, $make:expr, $slack:expr, $table:expr) => {
        mod $name {
            use super::*;

            const TABLE: Table = $table;

            fn make(neighbouring: NeighbouringRelation) -> Box<dyn Accountant> {
                let make: fn(NeighbouringRelation) -> _ = $make;
                Box::new(make(neighbouring))
            }

            #[test]
            fn nothing_released_costs_nothing() {
                nothing_released_has_epsilon_zero(make);
            }

            #[test]
            fn a_release_without_a_guarantee_is_rejected_by_name() {
                rejects_unaccountable_events_by_name(make);
            }

            #[test]
            fn out_of_range_parameters_are_rejected() {
                rejects_out_of_range_parameters(make);
            }

            #[test]
            fn exactly_the_events_of_the_table_are_supported() {
                supports_exactly_the_events_of_the_table(make, TABLE);
            }

            #[test]
            fn epsilon_never_falls_with_more_steps_less_noise_or_a_smaller_delta() {
                epsilon_is_monotone(make, TABLE, $slack);
            }

            #[test]
            fn equivalent_lists_of_events_have_the_same_epsilon() {
                equivalent_lists_of_events_agree(make, TABLE, $slack);
            }

            #[test]
            fn replace_one_costs_at_least_as_much_as_add_or_remove_one() {
                replace_one_doubles_the_sensitivity(make, $slack);
            }

            #[test]
            fn extremes_give_a_number_or_a_typed_error() {
                extremes_give_a_value_or_an_error(make);
            }
        }
    };
}

// Columns: Gaussian, Poisson, truncated Poisson, fixed size, shuffled epochs.
// Rows: add or remove one, zero out one, replace one.
suite!(pld, Pld::with_neighbouring, 1e-3, ["aaa?-", "aa??a", "aa??a"]);
suite!(rdp, Rdp::with_neighbouring, 1e-6, ["aaa--", "aaa-a", "a--aa"]);
suite!(gdp, Gdp::with_neighbouring, 1e-6, ["a----", "a---a", "a---a"]);
suite!(gdp_clt, GdpClt::with_neighbouring, 1e-6, ["aa---", "aa--a", "a--aa"]);
suite!(zcdp, Zcdp::with_neighbouring, 1e-6, ["a----", "a---a", "a---a"]);
suite!(tcdp, Tcdp::with_neighbouring, 1e-6, ["a----", "a---a", "a--aa"]);
suite!(headline, TightestAccountant::with_neighbouring, 1e-3, ["aaa?-", "aaa?a", "aa?aa"]);

/// Upper bounds on Gaussian mechanisms, compared with the exact accountant.
#[test]
fn no_accountant_is_below_the_exact_value_for_gaussians() {
    for relation in RELATIONS {
        for (sigma, count, delta) in
            [(0.3, 1, 1e-5), (1.0, 5, 1e-12), (50.0, 10, 1e-5), (9.0, 900, 0.1)]
        {
            let events = [Event::Gaussian { noise_multiplier: sigma, count }];
            let exact = Gdp::with_neighbouring(relation).epsilon(&events, Delta(delta)).unwrap();
            let lower = exact.lower_bound.expect("the exact accountant has a lower bound");
            assert!(lower <= exact.epsilon && exact.epsilon - lower <= 1e-8 * exact.epsilon);
            let bounds: [Box<dyn Accountant>; 5] = [
                Box::new(Pld::with_neighbouring(relation)),
                Box::new(Rdp::with_neighbouring(relation)),
                Box::new(Zcdp::with_neighbouring(relation)),
                Box::new(Tcdp::with_neighbouring(relation)),
                Box::new(TightestAccountant::with_neighbouring(relation)),
            ];
            for bound in bounds {
                let claimed = epsilon(&*bound, &events, delta);
                assert!(claimed >= lower, "{} sigma {sigma}: {claimed} {exact}", bound.name());
            }
        }
    }
}

#[test]
fn pld_is_below_rdp_and_above_its_own_lower_bound() {
    for (q, sigma, steps, delta) in [
        (0.01, 1.0, 1000, 1e-5),
        (0.2, 2.0, 100, 1e-6),
        (1e-3, 0.6, 5000, 1e-7),
        (0.9, 5.0, 9, 1e-5),
    ] {
        let events = [Event::PoissonGaussian { sampling_rate: q, noise_multiplier: sigma, steps }];
        for relation in [NeighbouringRelation::AddOrRemoveOne, NeighbouringRelation::ZeroOutOne] {
            let pld = Pld::with_neighbouring(relation).epsilon(&events, Delta(delta)).unwrap();
            let rdp = epsilon(&Rdp::with_neighbouring(relation), &events, delta);
            assert!(pld.epsilon <= rdp, "q {q} sigma {sigma}: {pld} above {rdp}");
            let lower = pld.lower_bound.expect("a lower bound");
            assert!(lower <= pld.epsilon && lower > 0.5 * pld.epsilon, "{pld:?}");
            let headline = TightestAccountant::with_neighbouring(relation)
                .epsilon(&events, Delta(delta))
                .unwrap();
            assert!(headline.epsilon <= pld.epsilon, "{headline} {pld}");
        }
    }
}

#[test]
fn only_the_clt_is_approximate_and_below_the_true_epsilon() {
    let events =
        [Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 }];
    let true_epsilon = 1.828;
    for relation in [NeighbouringRelation::AddOrRemoveOne, NeighbouringRelation::ZeroOutOne] {
        assert!(GdpClt::with_neighbouring(relation).is_approximate());
        assert!(epsilon(&GdpClt::with_neighbouring(relation), &events, 1e-5) < true_epsilon);
        for bound in [
            &Rdp::with_neighbouring(relation) as &dyn Accountant,
            &TightestAccountant::with_neighbouring(relation),
        ] {
            assert!(!bound.is_approximate());
            assert!(epsilon(bound, &events, 1e-5) >= true_epsilon, "{}", bound.name());
        }
    }
}

#[test]
fn targets_from_0_01_to_1e6_are_met() {
    for accountant in
        [&Rdp::new() as &dyn Accountant, &Gdp::default(), &Zcdp::default(), &Tcdp::default()]
    {
        for (target, delta) in [(0.01, 1e-5), (0.01, 1e-15), (3.0, 1e-5), (1e6, 1e-15)] {
            let found = noise_multiplier_for(
                Epsilon(target),
                Delta(delta),
                SamplingRate(1.0),
                1000,
                accountant,
            );
            let found = found.unwrap_or_else(|error| panic!("{}: {error}", accountant.name()));
            assert!(found.epsilon <= target && found.epsilon > 0.99 * target, "{found}");
        }
    }
}

#[test]
fn sampled_releases_cost_more_than_nothing_and_less_than_no_sampling() {
    // Sampling may gain everything and loses nothing. A cap or a replacement doubles the
    // sensitivity.
    for relation in RELATIONS {
        let rdp = Rdp::with_neighbouring(relation);
        let unsampled = epsilon(&Rdp::default(), &[kinds(3.0, 50)[0].clone()], 1e-5);
        for event in &kinds(6.0, 50)[1..4] {
            if let Ok(spent) = rdp.epsilon(std::slice::from_ref(event), Delta(1e-5)) {
                assert!(spent.epsilon > 0.0 && spent.epsilon < unsampled, "{event}: {spent}");
            }
        }
    }
    // A cap that is rarely reached costs little, one that is often reached costs more.
    let capped = |batch_cap: u64| {
        let event = Event::TruncatedPoissonGaussian {
            examples: 60_000,
            sampling_rate: 256.0 / 60_000.0,
            batch_cap,
            noise_multiplier: 1.0,
            steps: 1000,
        };
        epsilon(&Rdp::default(), &[event], 1e-5)
    };
    let [never, rarely, often] = [400, 320, 256].map(capped);
    let plain = Event::PoissonGaussian {
        sampling_rate: 256.0 / 60_000.0,
        noise_multiplier: 1.0,
        steps: 1000,
    };
    let plain = epsilon(&Rdp::default(), &[plain], 1e-5);
    println!("no cap: {plain}, capped at 400, 320, 256: {never} {rarely} {often}");
    assert!(plain < never && never < 3.0 * plain && 1.1 * never < rarely && 1.1 * rarely < often);
}
