//! The memory of what was released about one data set: append-only, on disk, never reset.
//!
//! A ledger file is JSON lines, one [`Entry`] per line. A run writes its whole plan *before* its
//! first release is used ([`Ledger::begin`]); when it ends it may write what it truly spent
//! ([`Ledger::close`]), which can only lower its own number of steps. A killed process leaves the
//! whole plan charged: the safe side. A budget ([`Ledger::set_budget`]) is an entry too, and
//! `begin` refuses a plan that does not fit into what is left of it.
//!
//! # What the chain shows, and what not
//! Each line ends in a hash over itself and the line before; beside the file `<data-hash>.jsonl`
//! lies its head `<data-hash>.head`, which remembers how many entries there were and the last
//! hash. So a line that was changed, removed, added or moved is found, and so is a file that was
//! cut, lost or replaced by an older copy. This is evidence against accidents and casual edits.
//! It is not a signature: there is no secret in it, so whoever can write both files can forge
//! both, or remove both.
//!
//! Lines of format 1, from before there were links, are still read, above the first line of
//! format 2; from then on its link vouches for them as well.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Delta, Epsilon, Event};
use crate::{Error, Result};

mod account;
mod budget;
mod chain;
mod entry;
pub(crate) mod export;
mod file;
mod head;

pub(crate) use account::{Account, Charge};
pub(crate) use budget::promises_nothing;
pub use budget::{Budget, Spending};
pub(crate) use entry::now as utc_now;
pub use entry::{Entry, EntryKind};
use file::LedgerFile;

/// The ledger of one data set.
///
/// Clones share the same ledger. Any number of processes may use the same file at once: every
/// read and write goes to the file, under the operating system's file lock.
///
/// # Guarantee
/// When [`record`](Ledger::record) (or `begin`) returns, the entry is on the disk: a release made
/// afterwards is covered even if the process is killed. A file that can't be read in full, or is
/// not the one that was written, is an error, never a shorter ledger.
/// [`events`](Ledger::events) is at least what was released.
///
/// What it can't find: both files removed together, which look like a data set never used; both
/// put back from an older copy together; and whatever is forged by someone who can write both,
/// for nothing in them is secret. The lab's own verbs find the first two as long as a run that
/// is missing is still stored in the project, with its settings as they were written; not where
/// its folder was removed as well, where the run was never stored (it failed or was killed) or
/// was stored before runs said where they are charged, and not that a budget is gone, if no run
/// that is stored went with it.
///
/// With a budget, no plan is begun that would bring the epsilon of everything charged, at the
/// budget's delta and by the [`Headline`](super::Headline) accountant (neighbours that differ by
/// one added or removed example), above the limit, however many processes begin at once. It is as
/// good as what is on record: releases that go around the ledger are not counted. Adding up is
/// proved where rates, noise multipliers and steps were settled without looking at results on the
/// same data. Where a later run's settings follow from an earlier one's results, as in tuning, it
/// is proved only for Rényi bounds at one order fixed beforehand (Feldman, Zrnic: Individual
/// Privacy Accounting via a Rényi Filter, 2021) and common practice otherwise.
#[derive(Clone)]
pub struct Ledger {
    store: Store,
    data_hash: String,
}

#[derive(Clone)]
enum Store {
    File(LedgerFile),
    Memory(Arc<Mutex<Vec<Entry>>>),
}

impl Ledger {
    /// The ledger in the file `path`, named after the content hash of its data set:
    /// `<data-hash>.jsonl`. File and folders are made if they are not there.
    ///
    /// # Errors
    /// Kind `Io` if the file can't be made or read, kind `Ledger` if it can't be trusted or is
    /// gone while its head is there.
    pub fn open(path: &Path) -> Result<Self> {
        let data_hash = Self::named_by(path);
        Ok(Self { store: Store::File(LedgerFile::open(path, &data_hash)?), data_hash })
    }

    /// The ledger in a file that is there already. Nothing is made or written before something is
    /// charged, so it can be looked at where nobody may write.
    ///
    /// # Errors
    /// As [`Ledger::open`]; kind `Io` also if there is no such file.
    pub(crate) fn existing(path: &Path) -> Result<Self> {
        let data_hash = Self::named_by(path);
        let file = LedgerFile::at(path, &data_hash);
        file.read()?;
        Ok(Self { store: Store::File(file), data_hash })
    }

    /// The content hash that a ledger's file is named after.
    fn named_by(path: &Path) -> String {
        path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// A ledger that lives as long as the process, for data sets that need no lasting account.
    pub fn in_memory() -> Self {
        Self { store: Store::Memory(Arc::default()), data_hash: "in-memory".to_string() }
    }

    /// The content hash of the data set that this ledger is about.
    pub fn data_hash(&self) -> &str {
        &self.data_hash
    }

    /// The file, if the ledger lives in one.
    pub fn path(&self) -> Option<&Path> {
        match &self.store {
            Store::File(file) => Some(file.path()),
            Store::Memory(_) => None,
        }
    }

    /// Charges everything that `run` may release. To be called before its first release is used.
    ///
    /// # Errors
    /// As [`Ledger::record`].
    pub fn begin(&self, run: &str, planned: &Event) -> Result<()> {
        self.record(&Entry::planned(run, &self.data_hash, planned))
    }

    /// Lowers the charge of `run` to what it truly released. To be called once, after its last
    /// release; a run that is never closed stays charged in full.
    ///
    /// # Errors
    /// As [`Ledger::record`].
    pub fn close(&self, run: &str, spent: &Event) -> Result<()> {
        self.record(&Entry::spent(run, &self.data_hash, spent))
    }

    /// Limits what all runs may cost together, those on record included. The newest budget holds;
    /// earlier ones stay on record, so raising it leaves a trace. The same budget again is no new
    /// entry. One below what is spent is allowed, and [`Spending::is_overspent`] says so.
    ///
    /// # Errors
    /// As [`Ledger::record`]; kind `Ledger` also if the budget can't be kept whatever comes,
    /// because runs without privacy are on record. Nothing is written then, and private runs go
    /// on without a budget.
    pub fn set_budget(&self, epsilon: Epsilon, delta: Delta) -> Result<Spending> {
        let budget = Budget { epsilon, delta }.check()?;
        let known = self.budget()?.is_some_and(|known| known.is_same_as(&budget));
        if !known {
            self.record(&Entry::budget(&self.data_hash, budget))?;
        }
        self.account()?.under(budget)
    }

    /// The budget that holds, if one was ever set.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn budget(&self) -> Result<Option<Budget>> {
        Ok(self.account()?.budget())
    }

    /// What is spent of the budget; `None` without one.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn spending(&self) -> Result<Option<Spending>> {
        let account = self.account()?;
        account.budget().map(|budget| account.under(budget)).transpose()
    }

    /// What would be spent of the budget if `plan` were begun now; `None` without a budget.
    /// Nothing is charged, so somebody else may be faster.
    ///
    /// # Errors
    /// Kind `Ledger` with the words of [`begin`](Ledger::begin) if it would refuse the plan; else
    /// as [`Ledger::entries`].
    pub fn spending_after(&self, plan: &Event) -> Result<Option<Spending>> {
        plan.check()?;
        self.account()?.after(plan)
    }

    /// Appends an entry; returns when it is on the disk.
    ///
    /// # Errors
    /// Kind `Setting` if a number of the event is out of range; kind `Ledger` if the file can't be
    /// trusted, the entry is about another data set, the run was begun before, a correction is
    /// not part of a plan that is still open, or a plan does not fit into the budget: nothing is
    /// written then. Kind `Io` if the system refuses: the entry may be on the disk and count, so
    /// begin anew with another id.
    pub fn record(&self, entry: &Entry) -> Result<()> {
        entry.check(&self.data_hash)?;
        match &self.store {
            Store::File(file) => file.append(entry, |account| account.admit(entry)),
            Store::Memory(entries) => {
                let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                Account::of(entries.iter())?.admit(entry)?;
                entries.push(entry.clone());
                Ok(())
            }
        }
    }

    /// Takes over what is on record in `former`, the ledger of the same people under an earlier
    /// name, and says how many entries were new here. `former` stays as it is; taking it over again
    /// adds what was written to it since. Its budget is taken over if this ledger has none.
    ///
    /// # Errors
    /// As [`Ledger::record`], but that no budget refuses what was charged before.
    pub fn take_over(&self, former: &Ledger) -> Result<usize> {
        let entries = former.entries()?;
        // Of several budgets the last one holds.
        let is_budget = |entry: &Entry| matches!(entry.entry, EntryKind::Budget(_));
        let budget = entries.iter().rposition(is_budget);
        let holds = |(i, entry): &(usize, Entry)| !is_budget(entry) || Some(*i) == budget;
        let entries = entries.into_iter().enumerate().filter(holds);
        let entries: Vec<Entry> =
            entries.map(|(_, entry)| entry.taken_over(&self.data_hash)).collect();
        match &self.store {
            Store::File(file) => file.take_over(entries),
            Store::Memory(known) => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let mut account = Account::of(known.iter())?;
                let before = known.len();
                for entry in entries {
                    if account.lacks(&known, &entry) {
                        account.add(&entry)?;
                        known.push(entry);
                    }
                }
                Ok(known.len() - before)
            }
        }
    }

    /// All entries, oldest first.
    ///
    /// # Errors
    /// Kind `Ledger`, naming file and line, if the file can't be trusted or is gone while its
    /// head is there; kind `Io` if it can't be read.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        match &self.store {
            Store::File(file) => Ok(file.read()?.entries),
            Store::Memory(entries) => {
                Ok(entries.lock().unwrap_or_else(PoisonError::into_inner).clone())
            }
        }
    }

    /// What is truly charged, one event per run in the order of their beginning: the correction
    /// where a run was closed, else its whole plan.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn events(&self) -> Result<Vec<Event>> {
        Ok(self.account()?.events())
    }

    /// As [`Ledger::events`], each with the id of its run.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn runs(&self) -> Result<Vec<(String, Event)>> {
        let account = self.account()?;
        Ok(account.runs().iter().map(|run| (run.run.clone(), run.event.clone())).collect())
    }

    /// The entries, resolved.
    pub(crate) fn account(&self) -> Result<Account> {
        match &self.store {
            Store::File(file) => Ok(file.read()?.account),
            Store::Memory(entries) => {
                Account::of(entries.lock().unwrap_or_else(PoisonError::into_inner).iter())
            }
        }
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.data_hash.chars().take(12).collect();
        match self.runs() {
            Ok(runs) => {
                let s = if runs.len() == 1 { "" } else { "s" };
                write!(f, "ledger of data set {short}: {} run{s} charged", runs.len())
            }
            Err(error) => write!(f, "ledger of data set {short}: {error}"),
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What an error says, without its advice: it goes into another one, which has its own.
fn in_one_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod tamper_tests;
#[cfg(test)]
mod tests;
