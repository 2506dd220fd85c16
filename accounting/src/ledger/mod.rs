//! The privacy ledger of a data set: an append-only record of everything released.
//!
//! A [`Book`] keeps the [`Entry`]s. A run records its whole plan *before* its first release is used
//! ([`Ledger::begin_run`]). When it ends it may record what it released ([`Ledger::close_run`]),
//! which can only lower its own number of steps. If the process is killed, the whole plan stays
//! charged, which is the safe side. A budget ([`Ledger::set_budget`]) is an entry as well, and
//! [`Ledger::begin_run`] rejects a plan that would exceed it.

use std::fmt;
use std::sync::Arc;

use super::{Delta, Epsilon, Event, NeighbouringRelation};
use crate::Result;
use crate::digits::counted_plainly;

mod affordable_run;
mod book;
mod budget;
mod entry;
mod state;

pub use affordable_run::AffordableRun;
pub use book::{Book, MemoryBook};
pub use budget::{Budget, BudgetStatus};
pub use entry::{Entry, EntryContent};
pub use state::{ChargeRecord, LedgerState};

/// The privacy ledger of one data set.
///
/// Clones share the same book.
///
/// # Guarantee
/// When [`record`](Ledger::record) or [`begin_run`](Ledger::begin_run) returns, the [`Book`] has
/// kept the entry: a later release is covered even if the process is killed. Entries that cannot
/// be read completely, or contradict each other, are an error, never a shorter ledger.
/// [`events`](Ledger::events) covers at least what was released.
///
/// With a budget, no plan is started that would raise the epsilon of everything charged above the
/// limit, however many runs start at once. The epsilon is that of the
/// [`TightestAccountant`](super::TightestAccountant) accountant at the budget's delta, for
/// neighbours that differ by one added or removed example; by one zeroed out if a run is on
/// disjoint batches; by one replaced if the guarantee of a run is stated for that. Releases that
/// bypass the ledger are not counted. Composition is proved where sampling rates, noise multipliers
/// and steps are fixed without looking at results on the same data. Where the settings of a later
/// run depend on earlier results, as in hyperparameter tuning, it is proved only for Rényi bounds
/// at one order fixed beforehand (Feldman, Zrnic: Individual Privacy Accounting via a Rényi Filter,
/// 2021), and it is common practice otherwise.
///
/// ```
/// use epsilab_accounting::{Delta, Epsilon, Event, Ledger};
/// let ledger = Ledger::in_memory();
/// ledger.set_budget(Epsilon(3.0), Delta(1e-5))?;
/// ledger.begin_run("first run", &Event::poisson(0.01, 1.0, 1000))?;
/// assert!(ledger.begin_run("one too many", &Event::poisson(0.01, 1.0, 9000)).is_err());
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
#[derive(Clone)]
pub struct Ledger {
    book: Arc<dyn Book>,
}

impl Ledger {
    /// Returns the ledger of a book.
    pub fn new(book: impl Book + 'static) -> Self {
        Self { book: Arc::new(book) }
    }

    /// Returns a ledger in memory, for any data set. It is lost when the process ends.
    pub fn in_memory() -> Self {
        Self::new(MemoryBook::default())
    }

    /// Returns whether runs on any data set may be charged: a ledger [in memory](Self::in_memory).
    pub fn is_for_any_data(&self) -> bool {
        self.book.is_for_any_data()
    }

    /// Returns the content hash of the data set.
    pub fn data_hash(&self) -> &str {
        self.book.data_hash()
    }

    /// Charges everything that `run` may release. Call it before the first release is used.
    ///
    /// # Errors
    /// Kind `Setting` if a number is out of range. Kind `Ledger` if the book can't be trusted, the
    /// run was started before, or the plan exceeds the budget; nothing is written then. Kind `Book`
    /// if it can't be written.
    pub fn begin_run(&self, run: &str, planned: &Event) -> Result<()> {
        self.record(&Entry::planned(run, self.data_hash(), planned))
    }

    /// Lowers the charge of `run` to what it released. Call it once, after the last release. A run
    /// that is never closed stays charged in full.
    ///
    /// # Errors
    /// Kind `Setting` if a number is out of range. Kind `Ledger` if the book can't be trusted, or
    /// the correction is not part of a plan that is still open; nothing is written then. Kind
    /// `Book` if it can't be written.
    pub fn close_run(&self, run: &str, spent: &Event) -> Result<()> {
        self.record(&Entry::spent(run, self.data_hash(), spent))
    }

    /// Limits the total epsilon of all runs, including those on record.
    ///
    /// The newest budget applies. Earlier ones stay on record, so raising a budget leaves a trace.
    /// Setting an equal budget writes no entry. A budget below what is already spent is allowed;
    /// [`BudgetStatus::is_overspent`] reports it.
    ///
    /// # Errors
    /// As [`Ledger::record`]. Kind `Ledger` also if runs without a guarantee are on record, because
    /// no budget can then be kept. Nothing is written in that case, and private runs can continue
    /// without a budget.
    pub fn set_budget(&self, epsilon: Epsilon, delta: Delta) -> Result<BudgetStatus> {
        let budget = Budget { epsilon, delta }.check()?;
        let known = self.budget()?.is_some_and(|known| known.is_same_as(&budget));
        if !known {
            self.record(&Entry::budget(self.data_hash(), budget))?;
        }
        self.state()?.budget_status_under(budget)
    }

    /// Returns the current budget, if one was ever set.
    ///
    /// # Errors
    /// Kind `Ledger` if the book can't be trusted, kind `Book` if it can't be read.
    pub fn budget(&self) -> Result<Option<Budget>> {
        Ok(self.state()?.budget())
    }

    /// Returns the spending under the current budget; `None` without a budget.
    ///
    /// # Errors
    /// Kind `Ledger` if the book can't be trusted, kind `Book` if it can't be read.
    pub fn budget_status(&self) -> Result<Option<BudgetStatus>> {
        let account = self.state()?;
        account.budget().map(|budget| account.budget_status_under(budget)).transpose()
    }

    /// Returns the spending if `plan`, whose guarantee is stated for a relation, were started now;
    /// `None` without a budget. Nothing is charged, so another process may use up the budget in
    /// the meantime.
    ///
    /// # Errors
    /// Kind `Ledger`, with the message of [`begin_run`](Ledger::begin_run), if the budget does not
    /// allow the plan. Otherwise as [`Ledger::entries`].
    pub fn budget_status_after(
        &self,
        plan: &Event,
        relation: NeighbouringRelation,
    ) -> Result<Option<BudgetStatus>> {
        plan.check()?;
        self.state()?.budget_status_after(plan, entry::stated(relation))
    }

    /// Appends an entry. Returns when the book has kept it.
    ///
    /// # Errors
    /// Kind `Setting` if a number is out of range. Kind `Ledger` if the book can't be trusted, the
    /// entry is about another data set, the run was started before, a correction is not part of a
    /// plan that is still open, or a plan exceeds the budget; nothing is written in these cases.
    /// Kind `Book` if it can't be written. The entry may then be on record and count, so start
    /// again with another id.
    pub fn record(&self, entry: &Entry) -> Result<()> {
        self.record_all(std::slice::from_ref(entry))
    }

    /// Appends entries together: one check of the book and of the budget for all of them. Returns
    /// when the book has kept them.
    ///
    /// # Errors
    /// As [`Ledger::record`]; an entry that is refused refuses all. After kind `Book`, the first
    /// entries of them may be on record and count.
    pub fn record_all(&self, new: &[Entry]) -> Result<()> {
        self.append(new, |account| account.admit_all(new))
    }

    /// Appends entries as [`Ledger::record_all`] does, for releases that have happened: they count,
    /// whatever the budget allows.
    ///
    /// # Errors
    /// Kind `Setting` if a number is out of range. Kind `Ledger` if the book can't be trusted, or
    /// an entry is refused, except by the budget, which is not checked: all are refused then. Kind
    /// `Book` if it can't be written; the first entries may be on record and count then.
    pub fn record_released(&self, new: &[Entry]) -> Result<()> {
        self.append(new, |account| new.iter().try_for_each(|entry| account.add(entry)))
    }

    fn append(&self, new: &[Entry], check: impl Fn(&mut LedgerState) -> Result<()>) -> Result<()> {
        new.iter().try_for_each(|entry| entry.check(self.data_hash()))?;
        self.book.append(new, &|known| check(&mut LedgerState::from_entries(known)?))
    }

    /// Returns all entries, oldest first.
    ///
    /// # Errors
    /// Kind `Ledger` if the book can't be trusted, kind `Book` if it can't be read.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        self.book.entries()
    }

    /// Returns the charged events, one per run in the order of their start: what was released
    /// where a run was closed, otherwise its whole plan.
    ///
    /// # Errors
    /// Kind `Ledger` if the book can't be trusted, kind `Book` if it can't be read.
    pub fn events(&self) -> Result<Vec<Event>> {
        Ok(self.state()?.events())
    }

    /// Returns the events of [`Ledger::events`], each with the id of its run.
    ///
    /// # Errors
    /// Kind `Ledger` if the book can't be trusted, kind `Book` if it can't be read.
    pub fn runs(&self) -> Result<Vec<(String, Event)>> {
        let account = self.state()?;
        Ok(account.charges().iter().map(|run| (run.run.clone(), run.event.clone())).collect())
    }

    /// Returns the state that results from the entries.
    ///
    /// # Errors
    /// Kind `Ledger` if the book can't be trusted, kind `Book` if it can't be read.
    pub fn state(&self) -> Result<LedgerState> {
        LedgerState::from_entries(&self.entries()?)
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.data_hash().chars().take(12).collect();
        match self.runs() {
            Ok(runs) => {
                let runs = counted_plainly(runs.len() as u64, "run");
                write!(f, "ledger of data set {short}: {runs} charged")
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

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod tests;
