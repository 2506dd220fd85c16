//! Plans that fit a budget are recorded; others are rejected without writing anything.

use super::*;
use crate::ErrorKind;
use crate::{Accountant, SamplingRate, TightestAccountant, noise_multiplier_for};

const DELTA: Delta = Delta(1e-5);
const ADD_OR_REMOVE: NeighbouringRelation = NeighbouringRelation::AddOrRemoveOne;

fn training(steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.1, steps }
}

fn open() -> Event {
    Event::Unaccountable { why: "raw gradients".into() }
}

fn epsilon(events: &[Event]) -> f64 {
    TightestAccountant::new().epsilon(events, DELTA).unwrap().epsilon
}

#[test]
fn a_plan_that_fits_is_recorded_and_one_that_does_not_is_rejected_with_numbers() {
    let ledger = Ledger::in_memory();
    assert_eq!(ledger.budget().unwrap(), None);
    assert_eq!(ledger.budget_status_after(&training(1), ADD_OR_REMOVE).unwrap(), None);
    ledger.begin_run("before", &training(100)).unwrap();
    let one = epsilon(&[training(100)]);
    let both = epsilon(&[training(100), training(1000)]);
    let limit = both * 1.001;
    let spending = ledger.set_budget(Epsilon(limit), DELTA).unwrap();
    assert_eq!((spending.cost.epsilon, spending.runs), (one, 1), "earlier runs count");
    assert!((spending.remaining() - (limit - one)).abs() < 1e-12 && !spending.is_overspent());

    let after = ledger.budget_status_after(&training(1000), ADD_OR_REMOVE).unwrap().unwrap();
    assert!((after.cost.epsilon - both).abs() < 1e-12);
    assert_eq!(ledger.events().unwrap().len(), 1, "asking charges nothing");
    let error = ledger.begin_run("too much", &training(1100)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger);
    let message = error.to_string();
    for part in
        ["spent by 1 run,", "below the limit", "fewer steps", "raise the budget deliberately"]
    {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(ledger.budget_status_after(&training(1100), ADD_OR_REMOVE).unwrap_err(), error);
    assert_eq!(ledger.entries().unwrap().len(), 2, "nothing is written");

    ledger.begin_run("fits", &training(1000)).unwrap();
    assert!(ledger.begin_run("once more", &training(100)).is_err());
    // The part that a closed run did not use is available again.
    ledger.close_run("fits", &training(10)).unwrap();
    ledger.begin_run("once more", &training(100)).unwrap();
}

#[test]
fn a_target_equal_to_the_budget_fits_and_slightly_more_does_not() {
    let training =
        |sigma| Event::PoissonGaussian { sampling_rate: 0.02, noise_multiplier: sigma, steps: 500 };
    let exact = epsilon(&[training(1.3)]);
    let allowed = |limit: f64, sigma: f64| {
        let ledger = Ledger::in_memory();
        ledger.set_budget(Epsilon(limit), DELTA).unwrap();
        ledger.begin_run("run", &training(sigma)).is_ok()
    };
    assert!(allowed(exact, 1.3) && allowed(exact * (1.0 - 1e-10), 1.3));
    assert!(!allowed(exact * (1.0 - 1e-8), 1.3) && !allowed(exact, 1.2999));
    let found = noise_multiplier_for(
        Epsilon(2.0),
        DELTA,
        SamplingRate(0.02),
        500,
        &TightestAccountant::new(),
    );
    assert!(allowed(2.0, found.unwrap().noise_multiplier.0));
}

#[test]
fn the_newest_budget_applies_and_earlier_ones_stay_on_record() {
    let ledger = Ledger::in_memory();
    let limit = epsilon(&[training(100)]);
    ledger.set_budget(Epsilon(limit), DELTA).unwrap();
    ledger.set_budget(Epsilon(limit), DELTA).unwrap();
    assert_eq!(ledger.entries().unwrap().len(), 1, "the same again is no new entry");
    assert!(ledger.begin_run("run", &training(1000)).is_err());
    ledger.set_budget(Epsilon(100.0), DELTA).unwrap();
    ledger.begin_run("run", &training(1000)).unwrap();

    let low = ledger.set_budget(Epsilon(limit), DELTA).unwrap();
    assert!(low.is_overspent() && low.remaining() == 0.0);
    assert!(low.to_string().contains("refused until the budget is raised"), "{low}");
    let refused = ledger.begin_run("a small one", &training(1)).unwrap_err();
    assert!(refused.advice().starts_with("nothing is left"), "{refused}");
    ledger.close_run("run", &training(999)).unwrap();

    let contents = ledger.entries().unwrap().into_iter().map(|entry| entry.content);
    let limits: Vec<_> = contents
        .filter_map(|content| match content {
            EntryContent::Budget(budget) => Some(budget.epsilon.0),
            _ => None,
        })
        .collect();
    assert_eq!(limits.len(), 3);
    assert!((limits[0] - limit).abs() < 1e-12 && limits[1] == 100.0);
}

#[test]
fn a_plan_without_a_guarantee_is_rejected_only_under_a_budget() {
    let ledger = Ledger::in_memory();
    ledger.set_budget(Epsilon(8.0), DELTA).unwrap();
    let hidden = Event::Composed {
        events: vec![training(1), Event::Repeated { event: Box::new(open()), count: 2 }],
    };
    for plan in [open(), hidden] {
        let error = ledger.begin_run("run", &plan).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ledger);
        assert!(error.to_string().contains("raw gradients"), "{error}");
    }
    assert!(ledger.events().unwrap().is_empty());
    ledger.begin_run("run", &training(1)).unwrap();
    Ledger::in_memory().begin_run("run", &open()).unwrap();
}

#[test]
fn a_budget_that_cannot_be_kept_is_not_set_and_private_runs_go_on() {
    let ledger = Ledger::in_memory();
    ledger.begin_run("baseline", &open()).unwrap();
    let error = ledger.set_budget(Epsilon(8.0), DELTA).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger);
    assert!(error.to_string().contains("1 run without privacy is on record"), "{error}");
    assert_eq!(ledger.budget().unwrap(), None);
    assert_eq!(ledger.entries().unwrap().len(), 1);
    ledger.begin_run("private", &training(100)).unwrap();
    let account = ledger.state().unwrap();
    assert_eq!(account.non_private_runs(), 1);
    assert_eq!(account.private_total(DELTA).unwrap().epsilon, epsilon(&[training(100)]));
}

#[test]
fn budgets_out_of_range_are_rejected() {
    let ledger = Ledger::in_memory();
    for (epsilon, delta) in [(0.0, 1e-5), (f64::NAN, 1e-5), (1.0, 0.0), (1.0, 1.0)] {
        let budget = Budget { epsilon: Epsilon(epsilon), delta: Delta(delta) };
        let set = ledger.set_budget(budget.epsilon, budget.delta).unwrap_err();
        let recorded = ledger.record(&Entry::budget(ledger.data_hash(), budget)).unwrap_err();
        assert_eq!((set.kind(), recorded.kind()), (ErrorKind::Setting, ErrorKind::Setting));
    }
    assert!(ledger.entries().unwrap().is_empty());
}

/// Counted for one example zeroed out, four runs of epsilon 3 for one example replaced would fit a
/// budget of 3, and cost 6.7.
#[test]
fn a_run_whose_guarantee_is_for_one_example_replaced_is_counted_for_that() {
    let ledger = Ledger::in_memory();
    let event = Event::ShuffledEpochs { noise_multiplier: 4.0, epochs: 5 };
    let replaced = TightestAccountant::with_neighbouring(NeighbouringRelation::ReplaceOne);
    let one = replaced.epsilon(std::slice::from_ref(&event), DELTA).unwrap().epsilon;
    ledger.set_budget(Epsilon(one * 1.001), DELTA).unwrap();
    let entry = |run: &str, relation| {
        Entry::planned(run, ledger.data_hash(), &event).with_neighbouring(relation)
    };
    let zeroed =
        ledger.budget_status_after(&event, NeighbouringRelation::ZeroOutOne).unwrap().unwrap();
    assert!(zeroed.cost.epsilon < one / 2.0, "{zeroed}");
    ledger.record(&entry("one", NeighbouringRelation::ReplaceOne)).unwrap();
    let spending = ledger.budget_status().unwrap().unwrap();
    assert!((spending.cost.epsilon / one - 1.0).abs() < 1e-9, "{spending}");
    assert_eq!(spending.neighbouring, NeighbouringRelation::ReplaceOne);
    assert!(spending.to_string().contains("neighbours: replace one"), "{spending}");
    // Whatever is next counts for the same relation, on Poisson samples too.
    for relation in [NeighbouringRelation::ReplaceOne, NeighbouringRelation::ZeroOutOne] {
        let error = ledger.record(&entry("two", relation)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    }
    let error = ledger.begin_run("poisson", &training(1000)).unwrap_err();
    assert!(error.to_string().contains("neighbours: replace one"), "{error}");
    // Another run counts for it if a stopped one is resumed.
    let part = Event::ShuffledEpochs { noise_multiplier: 4.0, epochs: 1 };
    ledger.close_run("one", &part).unwrap();
    ledger.record(&Entry::resumed("one", ledger.data_hash(), &event)).unwrap();
    let spending = ledger.budget_status().unwrap().unwrap();
    assert_eq!(spending.neighbouring, NeighbouringRelation::ReplaceOne);
}

#[test]
fn entries_name_a_relation_only_where_the_event_has_a_weaker_one() {
    let event = training(1);
    for (relation, named) in [
        (NeighbouringRelation::AddOrRemoveOne, None),
        (NeighbouringRelation::ZeroOutOne, None),
        (NeighbouringRelation::ReplaceOne, Some("replace_one")),
    ] {
        let entry = Entry::planned("run", "data", &event).with_neighbouring(relation);
        let json = serde_json::to_value(&entry).unwrap();
        assert_eq!(json.get("neighbouring").and_then(|name| name.as_str()), named);
        assert_eq!(serde_json::from_value::<Entry>(json).unwrap(), entry);
    }
}
