//! Private selection: a random number of trials, of which only the best is released.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::data::Dataset;
use crate::methods::{Plan, TrialSelection};
use crate::privacy::digits::{RoundedNearest, RoundedUp, format_count};
use crate::train::charge::RunCharge;
use crate::train::fit::{Claim, Fit, seed_label};
use crate::train::interrupt::InterruptGuard;
use crate::train::{LedgerEntryRef, NoopObserver, Observer, Run, RunRecord, Seeds, validation};
use crate::{Error, ErrorKind, Result, program};

/// Runs the trials of a plan of [private selection](Plan::best_of) and returns the best one: that
/// of the highest accuracy on the test part, the earlier of two that are equal.
///
/// Trials whose parameters diverge count as the worst ones. The number of trials, their progress
/// and the results of the others are not disclosed.
///
/// # Guarantee
/// The whole selection is charged to the ledger before the first trial, and stays charged however
/// it ends. The number of trials is drawn from the plan's law, and the candidate of each trial
/// uniformly, by randomness of its own; all trials have sampling and noise of their own. The
/// result is released, and nothing else. The time it takes depends on the number of trials, so it
/// must stay as secret as the noise. The record has no time at all: that of the released trial
/// would tell whether it was the first, which also compiles kernels and finds files not yet in
/// memory.
///
/// # Errors
/// As [`fit`](crate::train::fit), of which everything but diverging trials ends the selection;
/// `Setting` without a test part, or if it was interrupted: nothing is released then; `Model` if no
/// trial is left, because all diverged or because a Poisson law has drawn 0.
pub(crate) fn fit_private_selection(
    fit: Fit<'_>,
    selection: &TrialSelection,
    observer: &mut dyn Observer,
) -> Result<Run> {
    let Fit { id, plan, model, data, claim } = fit;
    let Some(ledger) = claim.ledger() else {
        let why = "the trials share one charge, which the selection makes before the first trial";
        return Err(Error::new(ErrorKind::Ledger, format!("the private selection {id}"), why));
    };
    if data.test().is_empty() {
        let what = format!("private selection on {}", data.name());
        return Err(Error::new(
            ErrorKind::Setting,
            what,
            "the selection compares trials on the test part",
        )
        .fix("read the data with their test part, or split one off: data.split(0.9, 7)"));
    }
    let candidates: Vec<Plan> =
        selection.candidates().iter().map(|candidate| candidate.with_device_of(plan)).collect();
    for candidate in &candidates {
        candidate.resolve_device()?;
        validation::validate_inputs(candidate, &candidate.prepare_model(model)?, data, ledger)?;
    }
    selection.check_same_cost(plan)?;
    let interrupt_guard = InterruptGuard::start();
    if interrupt_guard.should_stop() {
        return Err(stopped(data, "nothing was charged".to_owned()));
    }
    let charge = RunCharge::new(ledger, plan, id)?;
    charge.open(data)?;
    // All of it is spent, however it ends, and a later time would tell how many trials there were.
    charge.close(plan.steps())?;
    let seeds = Seeds::new(plan.seed(), &format!("{} selection", seed_label(id, model)))?;
    let (trials, mut draws) = draw_trial_count(selection, seeds.sparsity)?;
    observer.on_note(&opening_note(selection));
    let mut best: Option<(usize, Run)> = None;
    for trial in 0..trials {
        let chosen = draws.random_range(0..candidates.len());
        let trial = Fit {
            id: &format!("{id} trial {trial}"),
            plan: &candidates[chosen],
            model,
            data,
            claim: Claim::Trial(charge.attempt_id()),
        };
        let run = trial.run(None, &mut NoopObserver);
        if interrupt_guard.should_stop() {
            let epsilon = RoundedUp(plan.epsilon_after(plan.steps())?.unwrap_or(f64::INFINITY));
            return Err(stopped(data, format!("epsilon {epsilon} stays charged in the ledger")));
        }
        match run {
            Ok(run) if best.as_ref().is_none_or(|(_, known)| is_better(&run, known)) => {
                best = Some((chosen, run));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Model => {}
            Err(error) => return Err(error.append_advice("the whole selection stays charged")),
        }
    }
    drop(interrupt_guard);
    let Some((chosen, run)) = best else { return Err(no_model_error(selection)) };
    let run = release_best(id, plan, chosen, &run, data, charge.attempt_id())?;
    observer.on_finish(&run);
    Ok(run)
}

/// Returns the number of trials, and the generator that draws the candidate of each.
///
/// # Guarantee
/// The number has the law of the selection, the candidates are uniform, and all are independent of
/// each other and of the data.
fn draw_trial_count(selection: &TrialSelection, seed: [u8; 32]) -> Result<(u64, ChaCha20Rng)> {
    let mut rng = ChaCha20Rng::from_seed(seed);
    let trials = selection.trials().quantile(rng.random::<f64>())?;
    Ok((trials, rng))
}

/// Returns whether the trial `run` is better than `known`; one without an accuracy is the worst.
fn is_better(run: &Run, known: &Run) -> bool {
    let accuracy = |run: &Run| run.record().test_accuracy.unwrap_or(f64::NEG_INFINITY);
    accuracy(run) > accuracy(known)
}

/// Returns the best trial as the result of the whole selection.
fn release_best(
    id: &str,
    plan: &Plan,
    chosen: usize,
    best: &Run,
    data: &Dataset,
    entry: &str,
) -> Result<Run> {
    let epsilon = plan.epsilon_after(plan.steps())?;
    let mut record = RunRecord {
        id: id.to_owned(),
        plan: plan.with_candidate(chosen),
        charged: LedgerEntryRef::new(entry, data),
        released: plan.releases_by_role_after(plan.steps()),
        epsilon,
        planned_epsilon: epsilon,
        // Times would tell when the last trial had begun, or which one is released.
        trained_at: None,
        software: program::software_versions(),
        seconds: 0.0,
        waiting_seconds: None,
        ..best.record().clone()
    };
    for point in &mut record.curve.points {
        point.epsilon = epsilon;
    }
    Ok(Run::new(record, best.model(), best.mask(), best.selection_log()))
}

fn opening_note(selection: &TrialSelection) -> String {
    let candidates = format_count(selection.candidates().len());
    format!(
        "Private selection: the number of trials ({}) and their results stay secret, except the \
         best. Each trains one of {candidates} candidates, drawn at random. All of them together \
         are already charged. They take as long as {} runs on average, and may take several times \
         that; their progress is not shown.",
        selection.trials(),
        RoundedNearest(selection.trials().mean())
    )
}

fn stopped(data: &Dataset, charged: String) -> Error {
    let what = format!("private selection on {}", data.name());
    let why = "the selection was stopped before its last trial, and the best of the earlier trials \
               must not be shown";
    Error::new(ErrorKind::Setting, what, why)
        .fix("run it again, at the cost of the whole epsilon, and let it finish")
        .append_advice(charged)
}

fn no_model_error(selection: &TrialSelection) -> Error {
    let what = format!("private selection ({})", selection.trials());
    let why = "no trial has a model to release: each trial diverged, or there were none";
    Error::new(ErrorKind::Model, what, why)
        .fix("try smaller learning rates; a distribution other than Poisson always has a trial")
        .append_advice("the selection stays charged in the ledger")
}

#[cfg(test)]
mod tests;
