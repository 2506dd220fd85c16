//! Runs of a project: trained, charged to the ledger of the data, and stored.
//!
//! [`train`](crate::train) knows no store and [`store`](crate::store) trains nothing; this module
//! is above both.

#[cfg(all(test, unix))]
mod checkpoint_tests;
mod earlier;
#[cfg(test)]
mod numerics_tests;
#[cfg(all(test, unix))]
mod tests;

use std::path::Path;

use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::Ledger;
use crate::privacy::digits::{count, counted};
use crate::show;
use crate::store::{Published, Store, run_id};
use crate::train::checkpoint::Keeper;
use crate::train::{self, CheckpointHeader, Listening, Observer, Run};
use crate::{Error, ErrorKind, Result};

/// The stored run of a plan, if it was finished and the plan is not
/// [`fresh`](Plan::is_fresh); otherwise the run is trained.
///
/// # Errors
/// As [`Store::known_run`] and [`train`].
pub(crate) fn known_or_trained(
    store: &Store,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    observer: &mut dyn Observer,
) -> Result<Run> {
    let id = run_id(plan, model, data)?;
    let known = if plan.is_fresh() { None } else { store.known_run(&id, model, data)? };
    match known {
        Some(run) => Ok(run),
        None => train(store, &id, plan, model, data, observer),
    }
}

/// Trains a run, charged to the ledger of its data, and stores it with its figures, also if it was
/// interrupted. The observer is told the cost of earlier attempts first. An error of storing is
/// reported to the observer only: a full disk must not lose a run that was trained and charged.
///
/// If there is a checkpoint of the run, it goes on from there. The checkpoint is removed when the
/// run has been stored.
///
/// # Errors
/// As [`train::fit`].
pub(crate) fn train(
    store: &Store,
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    observer: &mut dyn Observer,
) -> Result<Run> {
    train_charged(store, &store.ledger(data)?, id, plan, model, data, observer)
}

/// As [`train`], charged to a ledger that the caller took from the store: the runs of a grid share
/// one, because opening it reads the record of every stored run.
///
/// # Errors
/// As [`train::fit`].
pub(crate) fn train_charged(
    store: &Store,
    ledger: &Ledger,
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    observer: &mut dyn Observer,
) -> Result<Run> {
    // An interrupt while the finished run is stored must not lose what was paid for.
    let _listening = Listening::start();
    store.check_room(plan, model)?;
    let mut keeper = Keeper::open(store.checkpoint(id), id, plan)?;
    match keeper.as_ref().and_then(Keeper::found) {
        Some(checkpoint) => observer.noted(&goes_on(checkpoint)),
        None => {
            if let Some(words) = earlier::attempts(ledger, id, plan)? {
                observer.noted(&words);
            }
        }
    }
    let trained = match plan.selection() {
        Some(selection) => train::fit_best_of(id, plan, selection, model, data, ledger, observer),
        None => {
            train::fit_with_checkpoints(id, plan, model, data, ledger, keeper.as_mut(), observer)
        }
    };
    let trained = trained.map(|run| match store.save(&run, &show::run_files(&run)) {
        Ok(_) => run,
        Err(error) => {
            let error = not_stored(error);
            observer.trouble(&error);
            run.not_stored(error)
        }
    });
    let is_over = match &trained {
        Ok(run) => run.is_finished() && run.storing_error().is_none(),
        // A device or a file system may work again, but parameters that diverged do so again.
        Err(error) => error.kind() == ErrorKind::Model,
    };
    if let Some(keeper) = keeper.filter(|_| is_over)
        && let Err(error) = keeper.remove()
    {
        observer.trouble(&error);
    }
    trained
}

/// The error of storing a run that was trained and charged.
fn not_stored(error: Error) -> Error {
    let fix = "free space in the project's folder, or set EPSILAB_HOME to a folder on another file \
               system";
    error.fix(fix).also(
        "the run is not stored, and the steps that it took stay charged: to train it again is \
         another release and costs as much again",
    )
}

/// The charge of a run by another process.
pub(crate) struct Grant<'a> {
    /// The entry in the ledger.
    pub(crate) attempt: &'a str,
    /// Another process may have taken steps under the same entry that were rounded differently.
    pub(crate) other_bits: bool,
    /// Where the run is kept if one with other results is stored.
    pub(crate) aside: &'a Path,
}

/// What became of a run that another process has charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    /// It is in the store.
    Published,
    /// A run with its id and its results was in the store.
    Known,
    /// A run with other results was in the store, and this one was set aside.
    Aside,
    /// It was interrupted after so many further steps and is not stored. With checkpoints it goes
    /// on from there.
    Interrupted { taken: u64 },
}

/// Trains a run that another process has charged, and stores it. Nothing is written to a ledger.
///
/// # Errors
/// As [`train::fit_granted`] and [`Store::publish`].
pub(crate) fn train_granted(
    store: &Store,
    grant: &Grant<'_>,
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    observer: &mut dyn Observer,
) -> Result<Granted> {
    let _listening = Listening::start();
    let mut keeper = Keeper::open(store.checkpoint(id), id, plan)?;
    let first = keeper.as_ref().and_then(Keeper::found).map_or(0, |found| found.step);
    let run = train::fit_granted(id, grant.attempt, plan, model, data, keeper.as_mut(), observer)?;
    if !run.is_finished() {
        return Ok(Granted::Interrupted { taken: run.record().steps.saturating_sub(first) });
    }
    let run = if grant.other_bits { run.repeated_with_other_bits() } else { run };
    let published = store.publish(&run, &show::run_files(&run), grant.aside)?;
    if let Some(keeper) = keeper
        && let Err(error) = keeper.remove()
    {
        observer.trouble(&error);
    }
    Ok(match published {
        Published::First => Granted::Published,
        Published::Equal => Granted::Known,
        Published::Aside => Granted::Aside,
    })
}

/// What is told of a run that goes on.
fn goes_on(checkpoint: &CheckpointHeader) -> String {
    let CheckpointHeader { step, steps, at, stopped, .. } = checkpoint;
    let (step, steps) = (count(*step as usize), counted(*steps as usize, "step"));
    let charge = if *stopped {
        "It is charged under its own entry in the ledger."
    } else {
        "It is charged already, and steps that are taken again have the same noise."
    };
    format!("The run goes on after {step} of {steps}, from its checkpoint of {at}. {charge}")
}
