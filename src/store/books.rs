//! Ledger and store, read and checked once for many runs.

use super::{Store, evidence};
use crate::Result;
use crate::data::Dataset;
use crate::nn::Model;
use crate::privacy::Ledger;
use crate::privacy::digits::counted;
use crate::privacy::ledger::Account;
use crate::train::{Run, start};

/// The ledger of a data set and its account, for a grid of many runs.
///
/// [`Store::known_run`] reads the whole ledger and the record of every stored run, so that asking
/// for each run of a grid would take a time that grows with the square of their number.
///
/// # Guarantee
/// As [`Store::known_run`]: a run that is shown is in the ledger, and was charged for what it
/// released. That no *other* stored run is missing in the ledger is checked once, when the books
/// are opened.
pub(crate) struct Books<'a> {
    store: &'a Store,
    data: &'a Dataset,
    ledger: Option<Ledger>,
    account: Account,
}

impl<'a> Books<'a> {
    /// Reads ledger and store.
    ///
    /// # Errors
    /// As [`Store::known_ledger`].
    pub(crate) fn open(store: &'a Store, data: &'a Dataset) -> Result<Self> {
        let mut books =
            Self { store, data, ledger: store.known_ledger(data)?, account: Account::default() };
        books.read_again()?;
        Ok(books)
    }

    /// The account as it was read last.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Where runs on the data are charged, and how many are, as [`Store::ledger_in_words`].
    pub(crate) fn in_words(&self) -> String {
        let runs = match self.account.runs().len() {
            0 => "no run".to_owned(),
            runs => counted(runs, "run"),
        };
        format!("{}: {runs} on these data so far", self.store.ledgers().display())
    }

    /// Reads the account again.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub(crate) fn read_again(&mut self) -> Result<()> {
        if self.ledger.is_none() {
            self.ledger = self.store.ledger_if_there(self.data.origin())?;
        }
        self.account = self.ledger.as_ref().map(Ledger::account).transpose()?.unwrap_or_default();
        Ok(())
    }

    /// The ledger, created if there is none yet.
    ///
    /// # Errors
    /// As [`Store::ledger`].
    pub(crate) fn ledger(&mut self) -> Result<Ledger> {
        let ledger = match &self.ledger {
            Some(ledger) => ledger.clone(),
            None => self.store.ledger(self.data)?,
        };
        Ok(self.ledger.insert(ledger).clone())
    }

    /// As [`Store::known_run`]. The account is read again for a run that it does not have: another
    /// process may have charged and stored it meanwhile.
    ///
    /// # Errors
    /// As [`Store::known_run`].
    pub(crate) fn known_run(&mut self, id: &str, model: &Model) -> Result<Option<Run>> {
        let Some(run) = self.store.finished(id, model, self.data)? else { return Ok(None) };
        start::check(run.plan(), model, self.data)?;
        if self.account.charge(&run.record().charged.run).is_none() {
            self.read_again()?;
        }
        evidence::is_in(&self.account, &self.store.folder(id), run.record(), self.data)?;
        Ok(Some(run))
    }
}
