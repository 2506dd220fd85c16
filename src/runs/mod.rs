//! Runs of a project: trained, charged to the ledger of the data, and stored.
//!
//! [`train`](crate::train) knows no store and [`store`](crate::store) trains nothing; this module
//! is above both.

mod earlier;
#[cfg(all(test, unix))]
mod tests;

use crate::Result;
use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::Model;
use crate::show;
use crate::store::Store;
use crate::train::{self, Listening, Observer, Run};

/// Trains a run, charged to the ledger of its data, and stores it with its figures, also if it was
/// interrupted. The observer is told the cost of earlier attempts first. An error of storing is
/// reported to the observer only: a full disk must not lose a run that was trained and charged.
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
    // An interrupt while the finished run is stored must not lose what was paid for.
    let _listening = Listening::start();
    let ledger = store.ledger(data)?;
    if let Some(words) = earlier::attempts(&ledger, id, plan)? {
        observer.noted(&words);
    }
    let run = train::fit(id, plan, model, data, &ledger, observer)?;
    if let Err(error) = store.save(&run, &show::run_files(&run)) {
        observer.trouble(&error);
    }
    Ok(run)
}
