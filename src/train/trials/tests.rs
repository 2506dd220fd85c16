use super::*;
use crate::data;
use crate::methods::{DpSgd, PrivateSelection};
use crate::nn::{Model, models};
use crate::privacy::{Badge, Delta, Ledger, Trials};
use crate::train::{NoopObserver, fit};

fn glyphs() -> Dataset {
    data::glyphs_with(240, 60, 51).unwrap()
}

fn linear(data: &Dataset) -> Model {
    models::linear(data).seed(1).build().unwrap()
}

/// Creates the plan of a selection among rates, in study mode.
fn plan(data: &Dataset, trials: Trials, rates: &[f64], seed: u64) -> Plan {
    let method = DpSgd::new().noise_multiplier(0.8).delta(Delta(1e-4)).batch_size(40).steps(4);
    let selection = PrivateSelection::new(method.seed(seed), trials);
    selection.learning_rates(rates.iter().copied()).plan(data).unwrap()
}

fn best_of(plan: &Plan, data: &Dataset, ledger: &Ledger) -> Result<Run> {
    let selection = plan.selection().unwrap();
    let model = linear(data);
    let fit = Fit { id: "it", plan, model: &model, data, claim: Claim::Charge(ledger) };
    fit_private_selection(fit, selection, &mut NoopObserver)
}

/// Returns the number of trials and their candidates, drawn as the selection draws them.
fn expected(plan: &Plan, model: &Model) -> Vec<usize> {
    let selection = plan.selection().unwrap();
    let seeds = Seeds::new(plan.seed(), &format!("{} selection", seed_label("it", model))).unwrap();
    let (trials, mut draws) = draw_trial_count(selection, seeds.sparsity).unwrap();
    (0..trials).map(|_| draws.random_range(0..selection.candidates().len())).collect()
}

#[test]
fn the_best_trial_is_released_and_all_are_charged_once() -> Result<()> {
    let (data, ledger) = (glyphs(), Ledger::in_memory());
    let model = linear(&data);
    let seed = (0..).find(|&seed| {
        let chosen =
            expected(&plan(&data, Trials::geometric(5.0), &[0.01, 1.0, 4.0], seed), &model);
        chosen.len() >= 4 && chosen.contains(&0) && chosen.iter().any(|&at| at > 0)
    });
    let plan = plan(&data, Trials::geometric(5.0), &[0.01, 1.0, 4.0], seed.unwrap());
    let run = best_of(&plan, &data, &ledger)?;
    // Any time would tell something about the number of trials.
    let record = run.record();
    assert_eq!((record.seconds, record.waiting_seconds, &record.trained_at), (0.0, None, &None));

    let trials: Vec<Run> = expected(&plan, &model)
        .iter()
        .enumerate()
        .map(|(trial, &at)| {
            let candidate = &plan.selection().unwrap().candidates()[at];
            let name = format!("it trial {trial}");
            let claim = Claim::Trial("a selection");
            let trial = Fit { id: &name, plan: candidate, model: &model, data: &data, claim };
            trial.run(None, &mut NoopObserver).unwrap()
        })
        .collect();
    assert_eq!(ledger.runs()?.len(), 1, "trials have no entries of their own");
    let best = trials.iter().map(Run::accuracy).fold(0.0, f64::max);
    let first = trials.iter().position(|trial| trial.accuracy() == best).unwrap();
    assert_eq!(run.accuracy(), best);
    assert!(trials.iter().any(|trial| trial.accuracy() < best), "the test can't tell them apart");
    let parameters = |run: &Run| run.model().fingerprint();
    assert_eq!(parameters(&run), parameters(&trials[first]), "the earliest of the best");
    assert_eq!(run.plan().learning_rate(), trials[first].plan().learning_rate());

    let charges = ledger.runs()?;
    assert_eq!(charges.len(), 1, "{charges:?}");
    assert_eq!(charges[0].1, plan.event());
    assert_eq!(run.epsilon(), plan.epsilon_after(4)?.unwrap());
    assert!(run.epsilon() > 1.2 * trials[first].epsilon(), "one trial alone costs less");
    assert_eq!(run.record().released.charged_event(), plan.event());
    let curve = &run.curve().points;
    assert!(!curve.is_empty() && curve.iter().all(|point| point.epsilon == run.record().epsilon));
    let statement = run.statement().to_string();
    assert!(
        statement.contains("best of a random number of trials (geometric, mean 5)"),
        "{statement}"
    );
    assert!(statement.contains("4 steps with Poisson sampling"), "{statement}");
    Ok(())
}

#[test]
fn the_number_of_trials_has_its_law_and_candidates_are_uniform() {
    let (data, draws) = (glyphs(), 4_000);
    // Standardised: mean 0 and variance 1 for a correct implementation.
    let z = |values: Vec<f64>, mean: f64, variance: f64| {
        let sum: f64 = values.iter().map(|value| value - mean).sum();
        sum / (variance * values.len() as f64).sqrt()
    };
    let trials = Trials::geometric(3.0);
    let plan = plan(&data, trials, &[0.1, 0.2, 0.4, 0.8], 1);
    let selection = plan.selection().unwrap();
    let (mut counts, mut firsts) = (Vec::new(), Vec::new());
    for draw in 0..draws {
        let seed = Seeds::new(Some(draw), "law").unwrap().sparsity;
        let (trials, mut rng) = draw_trial_count(selection, seed).unwrap();
        counts.push(trials as f64);
        firsts.push(rng.random_range(0..4) as f64);
    }
    // The geometric law of mean m has the variance m (m - 1).
    assert!(z(counts.clone(), 3.0, 6.0).abs() < 4.0);
    let ones = counts.iter().map(|&count| f64::from(count == 1.0)).collect();
    assert!(z(ones, 1.0 / 3.0, 2.0 / 9.0).abs() < 4.0, "P(K = 1) = 1/3");
    assert!(z(firsts, 1.5, 1.25).abs() < 4.0);
    // A fixed number has the same mean, and another law.
    let fixed = vec![3.0; counts.len()];
    let ones = fixed.iter().map(|&count| f64::from(count == 1.0)).collect();
    assert!(z(ones, 1.0 / 3.0, 2.0 / 9.0).abs() > 4.0);
    assert!(z(counts, 3.2, 6.0).abs() > 4.0, "another mean is told apart");
}

#[test]
fn a_trial_that_diverges_is_the_worst() -> Result<()> {
    let (data, ledger) = (glyphs(), Ledger::in_memory());
    let model = linear(&data);
    let rates = [1e300, 0.5];
    let seed = |wanted: &dyn Fn(&[usize]) -> bool| {
        (0..)
            .find(|&seed| {
                wanted(&expected(&plan(&data, Trials::geometric(2.0), &rates, seed), &model))
            })
            .unwrap()
    };
    let mixed = seed(&|chosen| chosen.first() == Some(&0) && chosen.contains(&1));
    let run = best_of(&plan(&data, Trials::geometric(2.0), &rates, mixed), &data, &ledger)?;
    assert_eq!(run.plan().learning_rate(), 0.5);
    let lost = seed(&|chosen| chosen == [0]);
    let error = best_of(&plan(&data, Trials::geometric(2.0), &rates, lost), &data, &ledger);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("each trial diverged") && error.contains("stays charged"), "{error}");
    assert_eq!(ledger.runs()?.len(), 2, "both are charged");
    Ok(())
}

#[test]
fn trials_that_cost_more_than_is_charged_are_refused() -> Result<()> {
    let (data, ledger) = (glyphs(), Ledger::in_memory());
    let plan = plan(&data, Trials::geometric(2.0), &[0.5, 1.0], 1);
    for (field, value) in [("noise_multiplier", 0.1), ("delta", 1e-3)] {
        let mut edited = serde_json::to_value(&plan).unwrap();
        for candidate in edited["selection"]["candidates"].as_array_mut().unwrap() {
            assert!(candidate["privacy"][field].is_number(), "{candidate}");
            candidate["privacy"][field] = value.into();
        }
        let edited: Plan = serde_json::from_value(edited).unwrap();
        let error = best_of(&edited, &data, &ledger).unwrap_err();
        assert!(error.to_string().contains("trials with equal releases"), "{error}");
    }
    assert!(ledger.runs()?.is_empty());
    best_of(&plan, &data, &ledger)?;
    Ok(())
}

#[test]
fn a_poisson_law_may_release_nothing_and_is_charged() -> Result<()> {
    let (data, ledger) = (glyphs(), Ledger::in_memory());
    let model = linear(&data);
    let none =
        |seed: &u64| expected(&plan(&data, Trials::poisson(1.0), &[0.5], *seed), &model).is_empty();
    let seed = (0..).find(none).unwrap();
    let plan = plan(&data, Trials::poisson(1.0), &[0.5], seed);
    let error = best_of(&plan, &data, &ledger).unwrap_err().to_string();
    assert!(error.contains("or there were none"), "{error}");
    assert_eq!(ledger.runs()?, [(ledger.runs()?[0].0.clone(), plan.event())]);
    Ok(())
}

#[test]
fn invalid_selections_are_refused_before_a_charge() -> Result<()> {
    let ledger = Ledger::in_memory();
    let untested = data::glyphs_with(240, 0, 51)?;
    let plan = plan(&untested, Trials::geometric(2.0), &[0.5], 1);
    let error = best_of(&plan, &untested, &ledger).unwrap_err().to_string();
    assert!(error.contains("test part"), "{error}");
    let (data, model) = (glyphs(), linear(&glyphs()));
    let error =
        fit("it", &plan, &model, &data, &ledger, &mut NoopObserver).unwrap_err().to_string();
    assert!(error.contains("not one run"), "{error}");
    assert!(ledger.runs()?.is_empty());
    Ok(())
}

#[test]
fn trials_compared_on_private_examples_are_an_assumption() -> Result<()> {
    let method = DpSgd::new().noise_multiplier(0.8).delta(Delta(1e-4)).batch_size(40).steps(2);
    let badge = |data: &Dataset| -> Result<Badge> {
        let selection = PrivateSelection::new(method.clone(), Trials::geometric(1.5));
        Ok(best_of(&selection.plan(data)?, data, &Ledger::in_memory())?.badge())
    };
    let Badge::Conditional(assumption) = badge(&glyphs())? else {
        panic!("the time is not secret")
    };
    assert!(
        assumption.contains("how many trials") && !assumption.contains("was chosen"),
        "{assumption}"
    );
    let Badge::Conditional(assumption) = badge(&glyphs().split(0.8, 7)?)? else {
        panic!("it is proved")
    };
    assert!(assumption.contains("best trial was chosen"), "{assumption}");
    Ok(())
}

#[test]
fn only_a_selection_itself_can_charge_it() {
    let data = glyphs();
    let plan = plan(&data, Trials::geometric(1.5), &[0.5], 3);
    let (selection, model) = (plan.selection().unwrap(), linear(&data));
    for claim in [Claim::Granted("elsewhere"), Claim::Trial("of another")] {
        let fit = Fit { id: "it", plan: &plan, model: &model, data: &data, claim };
        let refused = fit_private_selection(fit, selection, &mut NoopObserver).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Ledger, "{refused}");
    }
}
