//! The way to a run: read it back, or train and keep it.

use super::{Store, earlier};
use crate::Result;
use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::Model;
use crate::train::{self, Observer, Run};

/// The figures of a run as files: name and bytes.
pub(crate) type Figures = fn(&Run) -> Vec<(&'static str, Vec<u8>)>;

impl Store {
    /// A finished run, to be shown again instead of trained.
    ///
    /// # Errors
    /// As [`finished`](Self::finished); as [`known_ledger`](Self::known_ledger): what is shown
    /// must be charged somewhere, without its ledger the data looks untouched.
    pub(crate) fn known_run(&self, id: &str, model: &Model, data: &Dataset) -> Result<Option<Run>> {
        let run = self.finished(id, model)?;
        if run.is_some() {
            self.known_ledger(data)?;
        }
        Ok(run)
    }

    /// Trains a run, charged to the ledger of its data, and keeps it. What earlier attempts at it
    /// have cost is told first. That it can't be stored is told to the observer only: it is trained
    /// and paid for, and a full disk must not take it away.
    ///
    /// # Errors
    /// As [`train::fit`].
    pub(crate) fn train(
        &self,
        id: &str,
        plan: &Plan,
        model: &Model,
        data: &Dataset,
        figures: Figures,
        observer: &mut dyn Observer,
    ) -> Result<Run> {
        let ledger = self.ledger(data)?;
        if let Some(words) = earlier::attempts(&ledger, id, plan)? {
            observer.noted(&words);
        }
        let run = train::fit(id, plan, model, data, &ledger, observer)?;
        if let Err(error) = self.save(&run, &figures(&run)) {
            observer.trouble(&error);
        }
        Ok(run)
    }
}
