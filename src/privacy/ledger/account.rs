//! Entries resolved: what each run is charged, and the budget that holds.

use std::collections::HashMap;

use super::{Budget, Entry, EntryKind};
use crate::privacy::Event;
use crate::{Error, ErrorKind, Result};

/// What a list of entries amounts to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    runs: Vec<Charge>,
    by_id: HashMap<String, usize>,
    budget: Option<Budget>,
}

/// What one run is charged.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) run: String,
    /// When it began.
    pub(crate) at: String,
    pub(crate) note: String,
    /// The correction if the run was closed, else its whole plan.
    pub(crate) event: Event,
    pub(crate) closed: bool,
    /// The correction took steps off the plan. Such a charge holds under the condition
    /// [`STOPPING`](crate::privacy::STOPPING).
    pub(crate) stopped_early: bool,
    /// The note of the correction.
    pub(crate) closing_note: String,
    pub(crate) epsilon_claimed: Option<f64>,
    /// The ledger that it was charged to first, if it was taken over from there.
    pub(crate) former: Option<String>,
}

impl Account {
    /// The account of entries in the order in which they were made.
    pub(super) fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self> {
        let mut account = Self::default();
        entries.into_iter().try_for_each(|entry| account.add(entry))?;
        Ok(account)
    }

    /// The runs, in the order of their beginning.
    pub(crate) fn runs(&self) -> &[Charge] {
        &self.runs
    }

    /// The newest budget.
    pub(crate) fn budget(&self) -> Option<Budget> {
        self.budget
    }

    /// What is charged, one event per run.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.runs.iter().map(|run| run.event.clone()).collect()
    }

    /// Whether an entry of another ledger of the same people is missing among `known`, the entries
    /// of this account. A budget is not where there is one already.
    pub(super) fn lacks(&self, known: &[Entry], entry: &Entry) -> bool {
        let settled = matches!(entry.entry, EntryKind::Budget(_)) && self.budget.is_some();
        !settled && !known.contains(entry)
    }

    /// Takes an entry that is about to be made, if the budget allows it.
    pub(super) fn admit(&mut self, entry: &Entry) -> Result<()> {
        match &entry.entry {
            EntryKind::Planned { event, .. } => self.after(event).map(|_| ())?,
            // A promise that is broken already is not given.
            EntryKind::Budget(budget) => self.under(*budget).map(|_| ())?,
            EntryKind::Spent { .. } => {}
        }
        self.add(entry)
    }

    /// Takes an entry that is on record. Whether a budget allowed it was decided when it was
    /// made: what has happened stays on record whatever an accountant would say today.
    pub(super) fn add(&mut self, entry: &Entry) -> Result<()> {
        let refuse = |why: &str, fix: &str| {
            Err(Error::new(ErrorKind::Ledger, entry.subject(), why).fix(fix))
        };
        match &entry.entry {
            EntryKind::Budget(budget) => self.budget = Some(*budget),
            EntryKind::Planned { run, .. } if self.by_id.contains_key(run) => {
                return refuse("this run was begun before", "give every run an id of its own");
            }
            EntryKind::Planned { run, event } => {
                self.by_id.insert(run.clone(), self.runs.len());
                self.runs.push(Charge {
                    run: run.clone(),
                    at: entry.at.clone(),
                    note: entry.note.clone(),
                    event: event.clone(),
                    closed: false,
                    stopped_early: false,
                    closing_note: String::new(),
                    epsilon_claimed: entry.epsilon_claimed,
                    former: entry.former.clone(),
                });
            }
            EntryKind::Spent { run, event } => {
                let at = self.by_id.get(run).copied();
                match at.and_then(|at| self.runs.get_mut(at)) {
                    None => {
                        return refuse(
                            "this run was never begun",
                            "begin a run before its first release",
                        );
                    }
                    Some(charge) if charge.closed => {
                        return refuse("this run was closed before", "close a run once");
                    }
                    Some(charge) => {
                        let spent = charge.event.reduced_to(event)?;
                        charge.stopped_early = spent != charge.event;
                        charge.event = spent;
                        charge.closed = true;
                        charge.closing_note = entry.note.clone();
                    }
                }
            }
        }
        Ok(())
    }
}
