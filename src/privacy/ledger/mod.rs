//! The privacy ledger of a data set: an append-only record on disk of everything released.
//!
//! A ledger file is in JSON lines, one [`Entry`] per line. A run records its whole plan *before*
//! its first release is used ([`Ledger::begin`]). When it ends it may record what it released
//! ([`Ledger::close`]), which can only lower its own number of steps. If the process is killed, the
//! whole plan stays charged, which is the safe side. A budget ([`Ledger::set_budget`]) is an entry
//! as well, and `begin` rejects a plan that exceeds what is left of it.
//!
//! # What the hash chain detects
//! Each line ends in a hash of itself and the line before. Beside the file `<data-hash>.jsonl` is
//! its head `<data-hash>.head`, which records the number of entries and the last hash. Changed,
//! removed, added and moved lines are detected, and so is a file that was truncated, lost or
//! replaced by an older copy. This is evidence against accidents and casual edits. It is not a
//! signature: no secret key is involved, so anyone who can write both files can forge or remove
//! both.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Delta, Epsilon, Event, Neighbouring};
use crate::{Error, Result};

mod account;
mod budget;
mod chain;
mod entry;
pub(crate) mod export;
mod file;
mod further;
mod head;

pub(crate) use account::{Account, Charge};
pub(crate) use budget::has_no_guarantee;
pub use budget::{Budget, Spending};
pub(crate) use entry::now as utc_now;
pub use entry::{Entry, EntryKind};
use file::LedgerFile;
pub(crate) use further::Further;

/// The privacy ledger of one data set.
///
/// Clones share the same ledger. Several processes may use the same file at once: every read and
/// write accesses the file under the operating system's file lock.
///
/// # Guarantee
/// When [`record`](Ledger::record) or [`begin`](Ledger::begin) returns, the entry is on disk: a
/// later release is covered even if the process is killed. A file that cannot be read completely,
/// or that fails verification, is an error, never a shorter ledger. [`events`](Ledger::events)
/// covers at least what was released.
///
/// Three changes are not detected from the files alone: both files removed together, which looks
/// like an unused data set; both replaced by an older copy together; and a forgery by someone who
/// can write both files. The functions of [`lab`](crate::lab) detect the first two if a missing run
/// is still stored in the project with its settings unchanged. They do not detect a missing run
/// whose folder was removed too, or that was never stored because it failed or was killed. They do
/// not detect a missing budget if no stored run is missing with it.
///
/// With a budget, no plan is started that would raise the epsilon of everything charged above the
/// limit, however many processes start at once. The epsilon is that of the
/// [`Headline`](super::Headline) accountant at the budget's delta, for neighbours that differ by
/// one added or removed example. Releases that bypass the ledger are not counted. Composition is
/// proved where sampling rates, noise multipliers and steps are fixed without looking at results on
/// the same data. Where the settings of a later run depend on earlier results, as in hyperparameter
/// tuning, it is proved only for Rényi bounds at one order fixed beforehand (Feldman, Zrnic:
/// Individual Privacy Accounting via a Rényi Filter, 2021), and it is common practice otherwise.
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
    /// Opens the ledger in the file `path`, whose name is the content hash of its data set:
    /// `<data-hash>.jsonl`. Creates the file and its folders if they do not exist.
    ///
    /// # Errors
    /// Kind `Io` if the file cannot be created or read. Kind `Ledger` if it fails verification, or
    /// if it is missing while its head exists.
    pub fn open(path: &Path) -> Result<Self> {
        let data_hash = Self::data_hash_of(path);
        Ok(Self { store: Store::File(LedgerFile::open(path, &data_hash)?), data_hash })
    }

    /// Opens the ledger in an existing file. Nothing is written before something is charged, so
    /// read permission suffices for looking at it.
    ///
    /// # Errors
    /// As [`Ledger::open`]. Kind `Io` also if the file does not exist.
    pub(crate) fn open_existing(path: &Path) -> Result<Self> {
        let data_hash = Self::data_hash_of(path);
        let file = LedgerFile::at(path, &data_hash);
        file.read()?;
        Ok(Self { store: Store::File(file), data_hash })
    }

    /// The content hash in the name of a ledger file.
    fn data_hash_of(path: &Path) -> String {
        path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// A ledger in memory, which is lost when the process ends.
    pub fn in_memory() -> Self {
        Self { store: Store::Memory(Arc::default()), data_hash: "in-memory".to_string() }
    }

    /// The content hash of the data set.
    pub fn data_hash(&self) -> &str {
        &self.data_hash
    }

    /// The path of the file; `None` for a ledger in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.store {
            Store::File(file) => Some(file.path()),
            Store::Memory(_) => None,
        }
    }

    /// Charges everything that `run` may release. Call it before the first release is used.
    ///
    /// # Errors
    /// As [`Ledger::record`].
    pub fn begin(&self, run: &str, planned: &Event) -> Result<()> {
        self.record(&Entry::planned(run, &self.data_hash, planned))
    }

    /// Lowers the charge of `run` to what it released. Call it once, after the last release. A run
    /// that is never closed stays charged in full.
    ///
    /// # Errors
    /// As [`Ledger::record`].
    pub fn close(&self, run: &str, spent: &Event) -> Result<()> {
        self.record(&Entry::spent(run, &self.data_hash, spent))
    }

    /// Limits the total epsilon of all runs, including those on record.
    ///
    /// The newest budget applies. Earlier ones stay on record, so raising a budget leaves a trace.
    /// Setting an equal budget writes no entry. A budget below what is already spent is allowed;
    /// [`Spending::is_overspent`] reports it.
    ///
    /// # Errors
    /// As [`Ledger::record`]. Kind `Ledger` also if runs without a guarantee are on record, because
    /// no budget can then be kept. Nothing is written in that case, and private runs can go on
    /// without a budget.
    pub fn set_budget(&self, epsilon: Epsilon, delta: Delta) -> Result<Spending> {
        let budget = Budget { epsilon, delta }.check()?;
        let known = self.budget()?.is_some_and(|known| known.is_same_as(&budget));
        if !known {
            self.record(&Entry::budget(&self.data_hash, budget))?;
        }
        self.account()?.spending_under(budget)
    }

    /// The current budget, if one was ever set.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn budget(&self) -> Result<Option<Budget>> {
        Ok(self.account()?.budget())
    }

    /// The spending under the current budget; `None` without a budget.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn spending(&self) -> Result<Option<Spending>> {
        let account = self.account()?;
        account.budget().map(|budget| account.spending_under(budget)).transpose()
    }

    /// The spending if `plan`, whose guarantee is stated for a relation, were started now; `None`
    /// without a budget. Nothing is charged, so another process may use up the budget in the
    /// meantime.
    ///
    /// # Errors
    /// Kind `Ledger`, with the message of [`begin`](Ledger::begin), if the budget does not allow
    /// the plan. Otherwise as [`Ledger::entries`].
    pub fn spending_after(&self, plan: &Event, relation: Neighbouring) -> Result<Option<Spending>> {
        plan.check()?;
        self.account()?.spending_after(plan, entry::stated(relation))
    }

    /// Appends an entry. Returns when it is on disk.
    ///
    /// # Errors
    /// Kind `Setting` if a number is out of range. Kind `Ledger` if the file fails verification,
    /// the entry is about another data set, the run was started before, a correction is not part of
    /// a plan that is still open, or a plan exceeds the budget; nothing is written in these cases.
    /// Kind `Io` if the operating system reports an error. The entry may then be on disk and count,
    /// so start again with another id.
    pub fn record(&self, entry: &Entry) -> Result<()> {
        entry.check(&self.data_hash)?;
        match &self.store {
            Store::File(file) => file.append(entry, |account| account.admit(entry)),
            Store::Memory(entries) => {
                let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                Account::from_entries(entries.iter())?.admit(entry)?;
                entries.push(entry.clone());
                Ok(())
            }
        }
    }

    /// Appends entries together: one check of the file and of the budget for all of them. Returns
    /// when they are on disk.
    ///
    /// # Errors
    /// As [`Ledger::record`]; an entry that is refused refuses all. After kind `Io`, the first
    /// entries of them may be on record and count.
    pub fn record_all(&self, new: &[Entry]) -> Result<()> {
        self.append_all(new, |account| account.admit_all(new))
    }

    /// As [`Ledger::record_all`], for releases that have happened: they count, whatever the budget
    /// allows.
    ///
    /// # Errors
    /// As [`Ledger::record_all`], except that the budget is not checked.
    pub(crate) fn record_released(&self, new: &[Entry]) -> Result<()> {
        self.append_all(new, |account| new.iter().try_for_each(|entry| account.add(entry)))
    }

    fn append_all(
        &self,
        new: &[Entry],
        admit: impl FnOnce(&mut Account) -> Result<()>,
    ) -> Result<()> {
        new.iter().try_for_each(|entry| entry.check(&self.data_hash))?;
        match &self.store {
            Store::File(file) => file.append_all(new, admit),
            Store::Memory(entries) => {
                let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                admit(&mut Account::from_entries(entries.iter())?)?;
                entries.extend_from_slice(new);
                Ok(())
            }
        }
    }

    /// All entries, oldest first.
    ///
    /// # Errors
    /// Kind `Ledger`, naming file and line, if the file fails verification or is missing while its
    /// head exists. Kind `Io` if it cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        match &self.store {
            Store::File(file) => Ok(file.read()?.entries),
            Store::Memory(entries) => {
                Ok(entries.lock().unwrap_or_else(PoisonError::into_inner).clone())
            }
        }
    }

    /// The charged events, one per run in the order of their start: what was released where a run
    /// was closed, otherwise its whole plan.
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

    /// The account that results from the entries.
    pub(crate) fn account(&self) -> Result<Account> {
        match &self.store {
            Store::File(file) => Ok(file.read()?.account),
            Store::Memory(entries) => {
                Account::from_entries(entries.lock().unwrap_or_else(PoisonError::into_inner).iter())
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

/// The first line of an error message, without its advice, for use in another error.
fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod tamper_tests;
#[cfg(test)]
mod tests;
