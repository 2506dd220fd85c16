use super::*;
use crate::data::{self, Dataset};
use crate::mask::{DpSnip, RandomMask};
use crate::methods::{DpSgd, DpSsgd, NonPrivate, PrivateSelection};
use crate::privacy::{Delta, Epsilon};

fn glyphs() -> Dataset {
    data::glyphs_with(300, 30, 41).unwrap()
}

fn method() -> DpSgd {
    DpSgd::new().noise_multiplier(1.0).batch_size(30).steps(3)
}

fn refused(candidates: Vec<Plan>) -> String {
    let error = Plan::best_of(Trials::geometric(3.0), candidates).expect_err("must be refused");
    assert!(!error.advice().is_empty(), "{error}");
    error.to_string()
}

#[test]
fn the_selection_is_charged_as_a_whole() {
    let one = method().plan(&glyphs()).unwrap();
    let trials = Trials::geometric(3.0);
    let plan = Plan::best_of(trials, vec![one.clone()]).unwrap();
    assert_eq!(plan.event(), one.event().best_of(trials));
    assert_eq!(plan.event_after(1), plan.event(), "trials are only charged together");
    assert_eq!(plan.event_after(0), Event::Composed { events: Vec::new() });
    assert!(plan.epsilon_after(3).unwrap() > one.epsilon_after(3).unwrap());
}

#[test]
fn candidates_must_cost_the_same() {
    let data = glyphs();
    let plan = |method: DpSgd| method.plan(&data).unwrap();
    assert!(refused(Vec::new()).contains("no plans to select from"));
    for (other, words) in [
        (method().noise_multiplier(0.9), "releases"),
        (method().batch_size(31), "releases"),
        (method().steps(4), "releases"),
        (method().delta(Delta(1e-6)), "guarantees"),
        (method().seed(1), "seeds"),
    ] {
        let text = refused(vec![plan(method()), plan(other)]);
        assert!(text.contains(words), "{words}: {text}");
    }
    let smaller = method().plan(&data::glyphs_with(299, 0, 41).unwrap()).unwrap();
    assert!(refused(vec![plan(method()), smaller]).contains("training examples"));
    let same = [method().learning_rate(0.1), method().clip(0.1), method().clip(3.0)];
    let same = same.into_iter().map(plan).collect();
    assert!(Plan::best_of(Trials::poisson(4.0), same).is_ok());
}

#[test]
fn trials_without_a_bound_of_their_own_are_refused() {
    let data = glyphs();
    let plain = NonPrivate::new().batch_size(30).steps(3).plan(&data).unwrap();
    assert!(refused(vec![plain]).contains("no guarantee"));
    let plan = method().plan(&data).unwrap();
    let nested = Plan::best_of(Trials::geometric(2.0), vec![plan.clone()]).unwrap();
    assert!(refused(vec![nested]).contains("itself a selection"));
    let sparse = DpSsgd::new().noise_multiplier(1.0).batch_size(30).steps(3);
    let snip = sparse.clone().pre_prune(DpSnip::keep(0.5).noise_multiplier(8.0));
    assert!(refused(vec![snip.plan(&data).unwrap()]).contains("mask"));
    let random = sparse.pre_prune(RandomMask::keep(0.5)).plan(&data).unwrap();
    assert!(Plan::best_of(Trials::geometric(2.0), vec![random]).is_ok());
    let every = method().checkpoint_every(10).plan(&data).unwrap();
    assert!(refused(vec![every]).contains("secret"));
    let selection = Plan::best_of(Trials::geometric(2.0), vec![plan]).unwrap();
    assert!(selection.checkpoint_every(10.into(), Vec::new()).is_err());
    assert!(Plan::best_of(Trials::geometric(1.0), Vec::new()).is_err());
}

#[test]
fn a_target_is_for_all_trials_together() {
    let data = glyphs();
    let target = DpSgd::new().target(Epsilon(2.0), Delta(1e-4)).batch_size(30).steps(3);
    let trials = Trials::geometric(5.0);
    let selection = PrivateSelection::new(target.clone(), trials).learning_rates([0.1, 1.0]);
    let plan = selection.plan(&data).unwrap();
    let epsilon = plan.epsilon_after(3).unwrap().unwrap();
    assert!((1.99..=2.0).contains(&epsilon), "{epsilon}");
    // Calibrated for one run alone, the selection would cost more than was asked for.
    let naive = Plan::best_of(trials, vec![target.plan(&data).unwrap()]).unwrap();
    assert!(naive.epsilon_after(3).unwrap().unwrap() > 2.05);
    let rates: Vec<f64> =
        plan.selection().unwrap().candidates().iter().map(Plan::learning_rate).collect();
    assert_eq!(rates, [0.1, 1.0]);
}

#[test]
fn a_selection_is_read_back_from_its_file() {
    let data = glyphs();
    let selection = PrivateSelection::new(method(), Trials::logarithmic(4.0)).clips([0.1, 1.0]);
    let plan = selection.plan(&data).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    for plan in [plan.with_candidate(1), plan.clone()] {
        plan.save(file.path()).unwrap();
        assert_eq!(Plan::load(file.path()).unwrap(), plan);
    }
    let text = std::fs::read_to_string(file.path()).unwrap();
    for (old, new) in [
        (r#""mean": 4.0"#, r#""mean": 0.5"#),
        (r#""learning_rate": 4.0"#, r#""learning_rate": 5.0"#),
    ] {
        assert!(text.contains(old), "{old}: {text}");
        std::fs::write(file.path(), text.replacen(old, new, 1)).unwrap();
        assert!(Plan::load(file.path()).is_err(), "{new}");
    }
}

#[test]
fn scaling_a_selection_scales_its_candidates() {
    let small = PrivateSelection::new(method(), Trials::geometric(2.0)).clips([0.1, 1.0]);
    let large = small.plan(&glyphs()).unwrap().scaled_by(2.0).unwrap();
    let candidates = large.selection().unwrap().candidates();
    assert_eq!(candidates.len(), 2);
    assert!(candidates.iter().all(|plan| plan.expected_batch_size() == 60));
    assert_eq!(large.event(), candidates[1].event().best_of(Trials::geometric(2.0)));
}
