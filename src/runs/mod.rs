//! Runs of a project: trained, charged to the ledger of the data, and stored.
//!
//! [`train`](crate::train) knows no store and [`store`](crate::store) trains nothing; this module
//! is above both.

#[cfg(all(test, unix))]
mod checkpoint_tests;
mod earlier_attempts;
#[cfg(test)]
mod numerics_tests;
#[cfg(all(test, unix))]
mod tests;

use std::path::Path;

use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::digits::{format_count, pluralise};
use crate::show;
use crate::store::{PublishOutcome, RunStore, run_id};
use crate::train::checkpoint::CheckpointManager;
use crate::train::{self, CheckpointHeader, Claim, Fit, InterruptGuard, Observer, Run};
use crate::{Error, ErrorKind, Result};

/// Returns the stored run of a plan, if it was finished and the plan is not
/// [`fresh`](Plan::is_fresh); otherwise trains it.
///
/// # Errors
/// As [`RunStore::load_charged_run`] and [`train_and_store`].
pub(crate) fn load_or_train(
    store: &RunStore,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    observer: &mut dyn Observer,
) -> Result<Run> {
    let id = &run_id(plan, model, data)?;
    let known = if plan.is_fresh() { None } else { store.load_charged_run(id, model, data)? };
    match known {
        Some(run) => Ok(run),
        None => {
            let ledger = store.ledger(data)?;
            let fit = Fit { id, plan, model, data, claim: Claim::Charge(&ledger) };
            train_and_store(store, fit, observer)
        }
    }
}

/// Trains a run, charged to the ledger of its data, and stores it with its figures, also if it was
/// interrupted. The observer is told the cost of earlier attempts first. An error of storing is
/// reported to the observer only: a full disk must not lose a run that was trained and charged.
///
/// If there is a checkpoint of the run, it resumes from there. The checkpoint is removed when the
/// run has been stored.
///
/// # Errors
/// As [`train::fit`]; as the checks of free space, the ledger and the checkpoint.
pub(crate) fn train_and_store(
    store: &RunStore,
    fit: Fit<'_>,
    observer: &mut dyn Observer,
) -> Result<Run> {
    let Fit { id, plan, model, .. } = fit;
    // An interrupt while the finished run is stored must not lose what was paid for.
    let _interrupt_guard = InterruptGuard::start();
    store.check_disk_space(plan, model)?;
    let mut checkpoints = CheckpointManager::open(store.checkpoint_dir(id), id, plan)?;
    if let Some(checkpoint) = checkpoints.as_ref().and_then(CheckpointManager::resume_header) {
        observer.on_note(&resume_note(checkpoint));
    } else if let Some(ledger) = fit.claim.ledger()
        && let Some(note) = earlier_attempts::describe_earlier_attempts(ledger, id, plan)?
    {
        observer.on_note(&note);
    }
    let trained = match plan.selection() {
        Some(selection) => train::fit_private_selection(fit, selection, observer),
        None => fit.run(checkpoints.as_mut(), observer),
    };
    let trained = trained.map(|run| match store.save(&run, &show::run_files(&run)) {
        Ok(_) => run,
        Err(error) => {
            let error = not_stored(error);
            observer.on_warning(&error);
            run.not_stored(error)
        }
    });
    let is_over = match &trained {
        Ok(run) => run.is_finished() && run.storing_error().is_none(),
        // A device or a file system may work again, but parameters that diverged do so again.
        Err(error) => error.kind() == ErrorKind::Model,
    };
    if let Some(checkpoints) = checkpoints.filter(|_| is_over)
        && let Err(error) = checkpoints.remove()
    {
        observer.on_warning(&error);
    }
    trained
}

/// Trains a run under a name, charged to the ledger of its data.
#[cfg(test)]
pub(crate) fn train_as(
    store: &RunStore,
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    observer: &mut dyn Observer,
) -> Result<Run> {
    let ledger = store.ledger(data)?;
    let fit = Fit { id, plan, model, data, claim: Claim::Charge(&ledger) };
    train_and_store(store, fit, observer)
}

/// Adds to an error of storing that the run was trained and charged, and how to make room.
fn not_stored(error: Error) -> Error {
    let fix = "free space in the project's folder, or set EPSILAB_HOME to a folder on another file \
               system";
    error.fix(fix).append_advice(
        "the run is not stored, and its steps stay charged: training it again is another release \
         with the same cost",
    )
}

/// Terms under which a run is stored that another process has charged.
pub(crate) struct PrechargedAttempt<'a> {
    /// Whether another process may have taken steps under the same entry that were rounded
    /// differently.
    pub(crate) inexact_repeat: bool,
    /// Folder of the run if one with other results is stored.
    pub(crate) conflict_path: &'a Path,
}

/// Outcome of a run that another process has charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrechargedOutcome {
    /// Run that was put into the store.
    Stored,
    /// Run whose id and results were already in the store.
    AlreadyStored,
    /// Run that was set aside, because one with other results is in the store.
    Conflicting,
    /// Run that was interrupted after `taken` further steps and is not stored. With checkpoints it
    /// resumes from there.
    Interrupted { taken: u64 },
}

/// Trains a [granted](Claim::Granted) run, and stores it. Nothing is written to a ledger.
///
/// # Errors
/// As [`Fit::run`] and [`RunStore::publish`].
pub(crate) fn train_precharged(
    store: &RunStore,
    grant: &PrechargedAttempt<'_>,
    fit: Fit<'_>,
    observer: &mut dyn Observer,
) -> Result<PrechargedOutcome> {
    let _interrupt_guard = InterruptGuard::start();
    let mut checkpoints = CheckpointManager::open(store.checkpoint_dir(fit.id), fit.id, fit.plan)?;
    let first = checkpoints
        .as_ref()
        .and_then(CheckpointManager::resume_header)
        .map_or(0, |found| found.step);
    let run = fit.run(checkpoints.as_mut(), observer)?;
    if !run.is_finished() {
        return Ok(PrechargedOutcome::Interrupted {
            taken: run.record().steps.saturating_sub(first),
        });
    }
    let run = if grant.inexact_repeat { run.with_inexact_repetition() } else { run };
    let published = store.publish(&run, &show::run_files(&run), grant.conflict_path)?;
    if let Some(checkpoints) = checkpoints
        && let Err(error) = checkpoints.remove()
    {
        observer.on_warning(&error);
    }
    Ok(match published {
        PublishOutcome::New => PrechargedOutcome::Stored,
        PublishOutcome::Identical => PrechargedOutcome::AlreadyStored,
        PublishOutcome::Conflicting => PrechargedOutcome::Conflicting,
    })
}

/// Returns the remark about a run that resumes from a checkpoint.
fn resume_note(checkpoint: &CheckpointHeader) -> String {
    let CheckpointHeader { step, steps, at, stopped, .. } = checkpoint;
    let (step, steps) = (format_count(*step as usize), pluralise(*steps as usize, "step"));
    let charge = if *stopped {
        "It is charged under a separate entry in the ledger."
    } else {
        "It is already charged, and repeated steps have the same noise."
    };
    format!("The run resumes after {step} of {steps}, from its checkpoint of {at}. {charge}")
}
