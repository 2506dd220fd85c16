//! Obtains a run: reads it from the store, or trains and stores it.

use super::{Store, earlier, evidence};
use crate::Result;
use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::Model;
use crate::train::{self, Observer, Run};

/// The figures of a run as files: name and bytes.
pub(crate) type Figures = fn(&Run) -> Vec<(&'static str, Vec<u8>)>;

impl Store {
    /// A finished run that is stored, to be shown instead of trained.
    ///
    /// # Errors
    /// As [`finished`](Self::finished). As [`known_ledger`](Self::known_ledger): a run that is
    /// shown must be charged, because without its ledger the data looks unused. `CorruptData` if
    /// the record's releases are not those that the ledger charged.
    pub(crate) fn known_run(&self, id: &str, model: &Model, data: &Dataset) -> Result<Option<Run>> {
        let Some(run) = self.finished(id, model)? else { return Ok(None) };
        if let Some(ledger) = self.known_ledger(data)? {
            evidence::released_as_charged(&self.folder(id), run.record(), &ledger)?;
        }
        Ok(Some(run))
    }

    /// Trains a run, charged to the ledger of its data, and stores it, also if it ended early. The
    /// observer is told the cost of earlier attempts first. An error of storing is reported to the
    /// observer only: a full disk must not lose a run that was trained and charged.
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
        let trained = train::fit(id, plan, model, data, &ledger, observer);
        let run = match &trained {
            Ok(run) => Some(run.clone()),
            Err(error) => Run::from_error(error),
        };
        if let Some(run) = run
            && let Err(error) = self.save(&run, &figures(&run))
        {
            observer.trouble(&error);
        }
        trained
    }
}
