use super::*;

fn training(q: f64, sigma: f64, steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: q, noise_multiplier: sigma, steps }
}

#[test]
fn divergences_add_up_over_steps_and_events() {
    let rdp = Rdp::default();
    let one = rdp.rdp_at(&training(0.01, 1.1, 1), 8.0).unwrap();
    let many = rdp.rdp_at(&training(0.01, 1.1, 500), 8.0).unwrap();
    assert!((many - 500.0 * one).abs() < 1e-12);
    let gaussian = Event::Gaussian { noise_multiplier: 8.0, count: 2 };
    let both = Event::Composed { events: vec![training(0.01, 1.1, 500), gaussian] };
    let sum = rdp.rdp_at(&both, 8.0).unwrap();
    assert!((sum - many - 2.0 * 8.0 / 128.0).abs() < 1e-12);
    assert_eq!(rdp.rdp(&both).unwrap().len(), rdp.orders().as_slice().len());
}

#[test]
fn epsilon_is_the_minimum_over_all_orders() {
    for event in [training(0.01, 1.1, 10_000), training(0.5, 0.5, 9), training(1e-4, 50.0, 99)] {
        let rdp = Rdp::default();
        let delta = 1e-5;
        let all = rdp.rdp(&event).unwrap();
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
    assert!(rdp.rdp_at(&training(0.5, 1.0, 1), 1.0).is_err());
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
        Rdp::default().with_orders(list.parse().unwrap()).floor(Delta(delta)).unwrap()
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
        let merged = rdp.epsilons(&[&some, &all], Delta(1e-5)).unwrap();
        let bound = merged[0].as_ref().unwrap();
        let ratio = bound.epsilon / exact.epsilon;
        assert!((1.0..1.001).contains(&ratio), "{exact} {bound} {ratio}");
        assert_eq!(merged[1], Some(rdp.epsilon(&all, Delta(1e-5)).unwrap()));
        // At every order, not only at the best.
        for (order, bound) in [(1.5, 1e-3), (8.0, 0.03)] {
            let one = |lists: &[&[Event]]| {
                Releases::from_lists(lists, Neighbouring::AddOrRemoveOne)
                    .unwrap()
                    .divergence(0, order)
            };
            let ratio = one(&[&some, &all]) / one(&[&some]);
            assert!(ratio >= 1.0 && ratio < 1.0 + bound, "{order}: {ratio}");
        }
    }
}
