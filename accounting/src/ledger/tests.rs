use super::*;
use crate::{Accountant, ErrorKind, TightestAccountant};

fn training(steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: 0.034_133_333_333_333_3, noise_multiplier: 1.72, steps }
}

#[test]
fn a_plan_is_charged_in_full_until_the_run_is_closed() {
    let ledger = Ledger::in_memory();
    ledger.begin_run("run-1", &training(879)).unwrap();
    ledger.begin_run("run-2", &training(10)).unwrap();
    assert_eq!(ledger.events().unwrap(), [training(879), training(10)]);
    ledger.close_run("run-1", &training(400)).unwrap();
    assert_eq!(ledger.events().unwrap(), [training(400), training(10)]);
    assert_eq!(ledger.entries().unwrap().len(), 3);
}

#[test]
fn a_correction_can_only_lower_the_charge_of_its_own_open_run() {
    let ledger = Ledger::in_memory();
    ledger.begin_run("run", &training(100)).unwrap();
    let refused = |result: Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Ledger);
        assert_eq!(ledger.events().unwrap(), [training(100)], "nothing was written");
    };
    refused(ledger.close_run("run", &training(101)));
    refused(ledger.close_run("another", &training(1)));
    refused(ledger.close_run("run", &Event::Composed { events: vec![] }));
    refused(ledger.begin_run("run", &training(1)));
    ledger.close_run("run", &training(60)).unwrap();
    assert!(ledger.close_run("run", &training(0)).is_err(), "closed once");
    assert_eq!(ledger.events().unwrap(), [training(60)]);
}

#[test]
fn a_run_that_was_stopped_goes_on_under_its_own_charge() {
    let ledger = Ledger::in_memory();
    let resume = |run: &str, steps| {
        ledger.record(&Entry::resumed(run, ledger.data_hash(), &training(steps)))
    };
    ledger.begin_run("other", &training(7)).unwrap();
    ledger.begin_run("run", &training(100)).unwrap();
    let refused = |result: Result<()>, charged| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Ledger);
        assert_eq!(ledger.events().unwrap(), [training(7), training(charged)]);
    };
    refused(resume("run", 100), 100);
    refused(resume("another", 100), 100);
    ledger.close_run("run", &training(60)).unwrap();
    // What was released can't become less, and the run is not another one.
    refused(resume("run", 59), 60);
    let other = Event::PoissonGaussian { sampling_rate: 0.5, noise_multiplier: 9.0, steps: 100 };
    refused(ledger.record(&Entry::resumed("run", ledger.data_hash(), &other)), 60);
    resume("run", 100).unwrap();
    assert_eq!(ledger.events().unwrap(), [training(7), training(100)]);
    refused(ledger.begin_run("run", &training(100)), 100);
    ledger.close_run("run", &training(80)).unwrap();
    assert_eq!(ledger.events().unwrap()[1], training(80));
}

#[test]
fn a_budget_counts_a_resumed_run_once() {
    let delta = Delta(1e-5);
    let cost = |steps: &[u64]| {
        let events: Vec<Event> = steps.iter().map(|&steps| training(steps)).collect();
        TightestAccountant::new().epsilon(&events, delta).unwrap().epsilon
    };
    for (other, fits) in [(10, true), (60, false)] {
        let ledger = Ledger::in_memory();
        // Room for the run and ten steps more, but not for its first part beside the whole.
        ledger.set_budget(Epsilon(cost(&[100, 10])), delta).unwrap();
        assert!(cost(&[100, 50]) > cost(&[100, 10]));
        ledger.begin_run("run", &training(100)).unwrap();
        ledger.close_run("run", &training(50)).unwrap();
        let began = ledger.begin_run("other", &training(other));
        assert!(began.is_ok() || !fits, "{began:?}");
        let resumed = ledger.record(&Entry::resumed("run", "in-memory", &training(100)));
        assert_eq!(resumed.is_ok(), fits, "{resumed:?}");
        let charged = ledger.events().unwrap()[0].clone();
        assert_eq!(charged, training(if fits { 100 } else { 50 }));
    }
}

#[test]
fn an_event_out_of_range_or_about_other_data_is_rejected() {
    let ledger = Ledger::in_memory();
    let bad = Event::PoissonGaussian { sampling_rate: 2.0, noise_multiplier: 1.0, steps: 1 };
    assert_eq!(ledger.begin_run("run", &bad).unwrap_err().kind(), ErrorKind::Setting);
    let foreign = Entry::planned("run", "other", &training(1));
    assert_eq!(ledger.record(&foreign).unwrap_err().kind(), ErrorKind::Ledger);
    assert!(ledger.entries().unwrap().is_empty());
}

#[test]
fn a_budget_is_compared_with_all_plans_of_a_batch_together() {
    let ledger = Ledger::in_memory();
    let event = Event::poisson(0.01, 1.0, 200);
    let two = crate::epsilon(&[event.clone(), event.clone()], Delta(1e-5)).unwrap();
    ledger.set_budget(Epsilon(two.epsilon * 1.01), Delta(1e-5)).unwrap();
    let plan = |n: usize| Entry::planned(&format!("run{n}"), "in-memory", &event);
    let all: Vec<Entry> = (0..3).map(plan).collect();
    let refused = ledger.record_all(&all).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Ledger, "{refused}");
    assert_eq!(ledger.runs().unwrap().len(), 0, "each of them alone would have been allowed");
    ledger.record_all(&all[..2]).unwrap();
}

#[test]
fn a_resumed_run_and_new_plans_of_a_batch_share_the_budget_in_any_order() {
    let event = Event::poisson(0.01, 1.0, 200);
    let one = crate::epsilon(std::slice::from_ref(&event), Delta(1e-5)).unwrap();
    let stopped = Entry::spent("old", "in-memory", &Event::poisson(0.01, 1.0, 1));
    let resumed = Entry::resumed("old", "in-memory", &event);
    let plan = Entry::planned("new", "in-memory", &event);
    for batch in [[resumed.clone(), plan.clone()], [plan.clone(), resumed.clone()]] {
        let ledger = Ledger::in_memory();
        ledger.begin_run("old", &event).unwrap();
        ledger.record(&stopped).unwrap();
        // Enough for one of the two runs beside the first step of the old one.
        ledger.set_budget(Epsilon(one.epsilon * 1.1), Delta(1e-5)).unwrap();
        let refused = ledger.record_all(&batch).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Ledger, "{refused}");
        assert_eq!(ledger.runs().unwrap().len(), 1);
        ledger.record_all(&batch[..1]).expect("one of them alone");
    }
}

#[test]
fn a_release_that_has_happened_is_recorded_beyond_the_budget() {
    let ledger = Ledger::in_memory();
    let event = Event::poisson(0.01, 1.0, 200);
    let one = crate::epsilon(std::slice::from_ref(&event), Delta(1e-5)).unwrap();
    ledger.set_budget(Epsilon(one.epsilon / 2.0), Delta(1e-5)).unwrap();
    let entries =
        [Entry::planned("a", "in-memory", &event), Entry::spent("a", "in-memory", &event)];
    assert!(ledger.record_all(&entries).is_err());
    ledger.record_released(&entries).unwrap();
    assert_eq!(ledger.runs().unwrap().len(), 1);
}
