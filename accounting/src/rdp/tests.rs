use std::slice::from_ref;

use super::*;
use crate::{ErrorKind, Pld, Trials};

fn training(q: f64, sigma: f64, steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: q, noise_multiplier: sigma, steps }
}

#[test]
fn divergences_add_up_over_steps_and_events() {
    let rdp = Rdp::default();
    let one = rdp.divergence_at(&training(0.01, 1.1, 1), 8.0).unwrap();
    let many = rdp.divergence_at(&training(0.01, 1.1, 500), 8.0).unwrap();
    assert!((many - 500.0 * one).abs() < 1e-12);
    let gaussian = Event::Gaussian { noise_multiplier: 8.0, count: 2 };
    let both = Event::Composed { events: vec![training(0.01, 1.1, 500), gaussian] };
    let sum = rdp.divergence_at(&both, 8.0).unwrap();
    assert!((sum - many - 2.0 * 8.0 / 128.0).abs() < 1e-12);
    assert_eq!(rdp.divergences(&both).unwrap().len(), rdp.orders().as_slice().len());
}

#[test]
fn epsilon_is_the_minimum_over_all_orders() {
    for event in [training(0.01, 1.1, 10_000), training(0.5, 0.5, 9), training(1e-4, 50.0, 99)] {
        let rdp = Rdp::default();
        let delta = 1e-5;
        let all = rdp.divergences(&event).unwrap();
        let orders = rdp.orders().as_slice();
        let smallest = orders
            .iter()
            .zip(all)
            .map(|(&order, r)| r + (1.0 - 1.0 / order).ln() - (delta * order).ln() / (order - 1.0))
            .fold(f64::INFINITY, f64::min)
            .max(0.0);
        let spent = rdp.epsilon(&[event], Delta(delta)).unwrap();
        assert!((spent.epsilon - smallest).abs() <= 1e-9 * smallest, "{spent} {smallest}");
    }
}

#[test]
fn the_classic_conversion_is_never_below_the_improved_one() {
    let event = [training(0.01, 1.1, 10_000)];
    let improved = Rdp::default().epsilon(&event, Delta(1e-5)).unwrap();
    let classic =
        Rdp::default().with_conversion(Conversion::Classic).epsilon(&event, Delta(1e-5)).unwrap();
    assert!(classic.epsilon > improved.epsilon + 0.1, "{classic} {improved}");
    // One Gaussian, sigma = 1: min over alpha of alpha / 2 + ln(1/delta) / (alpha - 1) is
    // 1/2 + sqrt(2 ln(1/delta)) at alpha = 1 + sqrt(2 ln(1/delta)), here 5.7985.
    let gaussian = [Event::Gaussian { noise_multiplier: 1.0, count: 1 }];
    let rdp =
        Rdp::default().with_orders("5.7985".parse().unwrap()).with_conversion(Conversion::Classic);
    let expected = 0.5 + (2.0 * 1e5f64.ln()).sqrt();
    assert!((rdp.epsilon(&gaussian, Delta(1e-5)).unwrap().epsilon - expected).abs() < 1e-6);
}

#[test]
fn a_release_without_a_guarantee_is_rejected_by_name() {
    let bad = Event::Unaccountable { why: "the threshold leaks".into() };
    let list = [training(0.01, 1.0, 1), Event::Composed { events: vec![bad] }];
    let error = Rdp::default().epsilon(&list, Delta(1e-5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Accounting);
    assert!(error.to_string().contains("the threshold leaks"), "{error}");
}

#[test]
fn out_of_range_parameters_and_overflow_are_typed_errors() {
    let rdp = Rdp::default();
    assert!(rdp.epsilon(&[training(1.5, 1.0, 1)], Delta(1e-5)).is_err());
    assert!(rdp.epsilon(&[training(0.5, 1.0, 1)], Delta(1.0)).is_err());
    assert!(rdp.divergence_at(&training(0.5, 1.0, 1), 1.0).is_err());
    let hopeless = rdp.epsilon(&[training(0.5, 1e-200, 1)], Delta(1e-5)).unwrap_err();
    assert_eq!(hopeless.kind(), ErrorKind::Accounting);
}

#[test]
fn nothing_released_costs_nothing() {
    let rdp = Rdp::default();
    assert_eq!(rdp.epsilon(&[], Delta(1e-15)).unwrap().epsilon, 0.0);
    let spent = rdp.epsilon(&[training(0.5, 1.0, 0)], Delta(1e-15)).unwrap();
    assert_eq!((spent.epsilon, spent.at_end_of_orders), (0.0, false));
}

#[test]
fn a_best_order_at_an_end_of_the_list_is_flagged() {
    let event = [training(0.01, 1.0, 1000)];
    let inside = Rdp::default().epsilon(&event, Delta(1e-5)).unwrap();
    assert_eq!((inside.order, inside.at_end_of_orders), (7.8, false));
    for list in ["2,3,4", "16,32"] {
        let rdp = Rdp::default().with_orders(list.parse().unwrap());
        assert!(rdp.epsilon(&event, Delta(1e-5)).unwrap().at_end_of_orders, "{list}");
    }
}

#[test]
fn a_short_list_has_a_floor_and_the_production_list_almost_none() {
    let floor = |list: &str, delta| {
        Rdp::default().with_orders(list.parse().unwrap()).epsilon_floor(Delta(delta)).unwrap()
    };
    assert!((floor("opacus_default", 1e-5) - 0.103).abs() < 1e-3);
    assert!((floor("opacus_default", 1e-10) - 0.289).abs() < 1e-3);
    assert_eq!(floor("production", 1e-5), 0.0);
    assert!(floor("production", 1e-10) < 2e-4);
}

/// 1,000 multipliers are bounded by mixtures; 200 of them are not, also in a list of their own.
#[test]
fn mixtures_of_nodes_are_an_upper_bound_that_costs_under_one_in_a_thousand() {
    for (q, from, to) in [(0.01, 1.2, 0.6), (0.004, 2.0, 0.5), (0.3, 30.0, 10.0)] {
        let step = |i: u32| training(q, from * f64::powf(to / from, f64::from(i) / 1e3), 1);
        let some: Vec<Event> = (0..1000).step_by(5).map(step).collect();
        let all: Vec<Event> = (0..1000).map(step).collect();
        let rdp = Rdp::default();
        let exact = rdp.epsilon(&some, Delta(1e-5)).unwrap();
        let merged = rdp.epsilons_for_prefixes(&[&some, &all], Delta(1e-5)).unwrap();
        let bound = merged[0].as_ref().unwrap();
        let ratio = bound.epsilon / exact.epsilon;
        assert!((1.0..1.001).contains(&ratio), "{exact} {bound} {ratio}");
        assert_eq!(merged[1], Some(rdp.epsilon(&all, Delta(1e-5)).unwrap()));
        // At every order, not only at the best.
        for (order, bound) in [(1.5, 1e-3), (8.0, 0.03)] {
            let one = |lists: &[&[Event]]| {
                RenyiReleases::from_lists(
                    lists,
                    NeighbouringRelation::AddOrRemoveOne,
                    &OrderList::production().shared(),
                )
                .unwrap()
                .divergence(0, order)
            };
            let ratio = one(&[&some, &all]) / one(&[&some]);
            assert!(ratio >= 1.0 && ratio < 1.0 + bound, "{order}: {ratio}");
        }
    }
}

/// Epsilons at delta 1e-6 of dp-accounting 0.6.0 (`RepeatAndSelectDpEvent`, its default orders):
/// law, mean, epsilon for 1,000 steps at rate 0.01 with noise multiplier 2, and for one Gaussian
/// release with noise multiplier 5.
const SELECTIONS: [(Option<f64>, f64, f64, f64); 15] = [
    (Some(0.0), 1.5, 0.994_427_836_7, 1.144_581_706_0),
    (Some(0.0), 10.0, 1.318_995_308_5, 1.513_252_361_2),
    (Some(0.0), 100.0, 1.561_737_421_8, 1.782_164_830_0),
    (Some(0.5), 1.5, 1.039_101_700_5, 1.196_153_948_1),
    (Some(0.5), 10.0, 1.455_369_667_9, 1.671_752_841_7),
    (Some(0.5), 100.0, 1.768_885_737_0, 2.022_554_316_3),
    (Some(1.0), 1.5, 1.075_404_246_9, 1.237_774_136_6),
    (Some(1.0), 10.0, 1.576_984_053_2, 1.813_568_988_4),
    (Some(1.0), 100.0, 1.970_609_983_4, 2.256_487_500_4),
    (Some(2.0), 1.5, 1.133_581_236_3, 1.303_893_334_0),
    (Some(2.0), 10.0, 1.790_879_435_3, 2.063_160_934_3),
    (Some(2.0), 100.0, 2.357_445_760_9, 2.704_918_026_4),
    (None, 1.5, 0.922_084_986_5, 1.065_525_888_3),
    (None, 10.0, 1.690_133_563_4, 1.980_403_781_7),
    (None, 100.0, 5.919_805_751_0, 7.099_341_218_6),
];

#[test]
fn private_selection_costs_the_value_of_dp_accounting() {
    let rdp = Rdp::default().with_orders(OrderList::dp_accounting_default());
    for (shape, mean, of_training, of_gaussian) in SELECTIONS {
        let trials = match shape {
            Some(shape) => Trials::NegativeBinomial { mean, shape },
            None => Trials::poisson(mean),
        };
        for (event, expected) in
            [(training(0.01, 2.0, 1000), of_training), (Event::gaussian(5.0), of_gaussian)]
        {
            let spent = rdp.epsilon(&[event.best_of(trials)], Delta(1e-6)).unwrap();
            let ratio = spent.epsilon / expected;
            assert!((ratio - 1.0).abs() < 1e-6, "{trials}, {event}: {spent}, not {expected}");
        }
    }
}

#[test]
fn selections_compose_and_are_dearer_than_one_trial_and_cheaper_than_all() {
    let (one, delta) = (training(0.01, 2.0, 1000), Delta(1e-6));
    let epsilon = |events: &[Event]| Rdp::default().epsilon(events, delta).unwrap().epsilon;
    let best = one.best_of(Trials::geometric(100.0));
    let (single, selected) = (epsilon(from_ref(&one)), epsilon(from_ref(&best)));
    assert!(selected > single && selected < epsilon(&[one.repeated(100)]), "{selected} {single}");
    // The steps of a selection are not those of one trial.
    let two = epsilon(&[best.clone(), best.clone()]);
    assert!(two > 1.2 * selected, "{two} {selected}");
    assert!((epsilon(&[best.repeated(2)]) / two - 1.0).abs() < 1e-12);
    let mixed = Event::Composed { events: vec![one.clone(), best.clone()] };
    let both = epsilon(&[mixed]);
    assert!(both > selected && both < selected + single, "{both}");
    // Nothing but Rényi divergences gives a bound, so the headline is that of RDP.
    let events = [best];
    assert!(Pld::default().epsilon(&events, delta).is_err_and(|e| e.advice().contains("RDP")));
    let headline = crate::epsilon(&events, delta).unwrap();
    assert!((headline.epsilon / selected - 1.0).abs() < 1e-12 && headline.accountant == "rdp");
    let raw = Event::Unaccountable { why: "raw".into() }.best_of(Trials::geometric(2.0));
    assert!(Rdp::default().epsilon(&[raw], delta).is_err());
    assert!(Rdp::default().epsilon(&[one.best_of(Trials::geometric(0.5))], delta).is_err());
}
