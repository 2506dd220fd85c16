//! Ledger and store, read and checked once for many runs.

use super::{RunStore, ledger_check};
use crate::Result;
use crate::data::Dataset;
use crate::nn::Model;
use crate::privacy::Ledger;
use crate::privacy::digits::pluralise;
use crate::privacy::ledger::LedgerState;
use crate::train::{Run, start};

/// The ledger of a data set and its state, for a grid of many runs.
///
/// [`RunStore::load_charged_run`] reads the whole ledger and the record of every stored run, so
/// that asking for each run of a grid would take a time that grows with the square of their
/// number.
///
/// # Guarantee
/// As [`RunStore::load_charged_run`]: a run that is shown is in the ledger, and was charged for
/// what it released. That no *other* stored run is missing in the ledger is checked once, when the
/// ledger is opened.
pub(crate) struct LedgerCache<'a> {
    store: &'a RunStore,
    data: &'a Dataset,
    ledger: Option<Ledger>,
    account: LedgerState,
}

impl<'a> LedgerCache<'a> {
    /// Reads ledger and store.
    ///
    /// # Errors
    /// As [`RunStore::existing_ledger`].
    pub(crate) fn open(store: &'a RunStore, data: &'a Dataset) -> Result<Self> {
        let mut books = Self {
            store,
            data,
            ledger: store.existing_ledger(data)?,
            account: LedgerState::default(),
        };
        books.refresh()?;
        Ok(books)
    }

    /// Returns the state of the ledger as it was read last.
    pub(crate) fn account(&self) -> &LedgerState {
        &self.account
    }

    /// Describes where runs on the data are charged, and how many are, as
    /// [`RunStore::describe_ledger`].
    pub(crate) fn describe_ledger(&self) -> String {
        let runs = match self.account.charges().len() {
            0 => "no run".to_owned(),
            runs => pluralise(runs, "run"),
        };
        format!("{}: {runs} on these data so far", self.store.ledgers_dir().display())
    }

    /// Reads the state of the ledger again.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub(crate) fn refresh(&mut self) -> Result<()> {
        if self.ledger.is_none() {
            self.ledger = self.store.open_ledger_if_exists(self.data.origin())?;
        }
        self.account = self.ledger.as_ref().map(Ledger::state).transpose()?.unwrap_or_default();
        Ok(())
    }

    /// Returns the ledger, created if there is none yet.
    ///
    /// # Errors
    /// As [`RunStore::ledger`].
    pub(crate) fn ledger(&mut self) -> Result<Ledger> {
        let ledger = match &self.ledger {
            Some(ledger) => ledger.clone(),
            None => self.store.ledger(self.data)?,
        };
        Ok(self.ledger.insert(ledger).clone())
    }

    /// Returns the run as [`RunStore::load_charged_run`]. The ledger is read again for a run that
    /// it does not have: another process may have charged and stored it meanwhile.
    ///
    /// # Errors
    /// As [`RunStore::load_charged_run`].
    pub(crate) fn load_charged_run(&mut self, id: &str, model: &Model) -> Result<Option<Run>> {
        let Some(run) = self.store.load_finished(id, model, self.data)? else { return Ok(None) };
        start::check_provenance(run.plan(), model, self.data)?;
        if self.account.charge_of(&run.record().charged.run).is_none() {
            self.refresh()?;
        }
        ledger_check::check_run_charged(
            &self.account,
            &self.store.run_dir(id),
            run.record(),
            self.data,
        )?;
        Ok(Some(run))
    }
}
