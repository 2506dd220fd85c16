//! The state of a ledger: the charge of each run, and the budget.

use std::collections::HashMap;

use super::{Budget, Entry, EntryContent};
use crate::{Error, ErrorKind, Event, NeighbouringRelation, Result, STOPPING_ASSUMPTION};

/// The charges of all runs and the budget that result from a list of entries.
#[derive(Clone, Debug, Default)]
pub struct LedgerState {
    runs: Vec<ChargeRecord>,
    by_id: HashMap<String, usize>,
    budget: Option<Budget>,
}

/// The charge of one run.
#[derive(Clone, Debug)]
pub struct ChargeRecord {
    /// The id of the run.
    pub run: String,
    /// Time of its start, if the book has a clock.
    pub started_at: String,
    /// The note of the plan.
    pub note: String,
    /// The released event if the run was closed, otherwise the whole plan.
    pub event: Event,
    /// Event that the run had released when it was resumed last, the least that a later correction
    /// charges; `None` if it was never resumed.
    released: Option<Event>,
    /// Whether the run has ended and was closed.
    pub closed: bool,
    /// Whether the correction took steps off the plan. Such a charge holds under the condition
    /// [`STOPPING_ASSUMPTION`](crate::STOPPING_ASSUMPTION).
    pub stopped_early: bool,
    /// The note of the correction.
    pub closing_note: String,
    /// The epsilon claimed by the method's authors: that of the [`Entry`].
    pub epsilon_claimed: Option<f64>,
    /// The relation for which the guarantee is stated: that of the [`Entry`].
    pub neighbouring: Option<NeighbouringRelation>,
}

impl ChargeRecord {
    /// Returns a description of the state of the charge.
    pub fn state(&self) -> &'static str {
        match (self.closed, self.stopped_early) {
            (false, _) => "open: charged for its whole plan",
            (true, true) => "closed, for fewer steps than planned",
            (true, false) => "closed",
        }
    }
}

const NEVER_STARTED: &str = "this run was never started";

impl LedgerState {
    /// Returns the state that results from entries in chronological order.
    ///
    /// # Errors
    /// Kind `Ledger` for the first entry that contradicts those before it.
    pub(crate) fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self> {
        let mut account = Self::default();
        entries.into_iter().try_for_each(|entry| account.add(entry))?;
        Ok(account)
    }

    /// Returns the runs, in the order of their start.
    pub fn charges(&self) -> &[ChargeRecord] {
        &self.runs
    }

    /// Removes all runs except those that `keep` accepts.
    pub(super) fn retain(&mut self, keep: impl FnMut(&ChargeRecord) -> bool) {
        self.runs.retain(keep);
        self.by_id =
            self.runs.iter().enumerate().map(|(at, charge)| (charge.run.clone(), at)).collect();
    }

    /// Returns the newest budget.
    pub fn budget(&self) -> Option<Budget> {
        self.budget
    }

    /// Returns the charged events, one per run.
    pub fn events(&self) -> Vec<Event> {
        self.runs.iter().map(|run| run.event.clone()).collect()
    }

    /// Adds entries if the budget allows all of them together.
    pub(super) fn admit_all(&mut self, entries: &[Entry]) -> Result<()> {
        let (plans, others): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| matches!(entry.content, EntryContent::Planned { .. }));
        if !plans.is_empty() && self.budget.is_some() {
            let events = plans.iter().filter_map(|entry| entry.event().cloned());
            let stated = plans.iter().find_map(|entry| entry.neighbouring);
            self.budget_status_after(&Event::composed(events), stated)?;
        }
        plans.into_iter().try_for_each(|entry| self.add(entry))?;
        // Last, whatever their place: what they spend comes on top of all plans.
        others.into_iter().try_for_each(|entry| self.admit(entry))
    }

    /// Adds an entry that is not a plan, if the budget allows it.
    fn admit(&mut self, entry: &Entry) -> Result<()> {
        match &entry.content {
            // A budget that cannot be kept is rejected.
            EntryContent::Budget(budget) => self.budget_status_under(*budget).map(drop)?,
            EntryContent::Resumed { run, event } => {
                // The whole run takes the place of its first part.
                let mut others = self.clone();
                let mut stated = None;
                if let Some(charge) = others.charge_mut(run) {
                    charge.event = Event::Composed { events: Vec::new() };
                    stated = charge.neighbouring;
                }
                others.budget_status_after(event, stated).map(drop)?;
            }
            EntryContent::Planned { .. } | EntryContent::Spent { .. } => {}
        }
        self.add(entry)
    }

    /// Returns the charge of a run, if it was started.
    pub fn charge_of(&self, run: &str) -> Option<&ChargeRecord> {
        self.by_id.get(run).map(|&at| &self.runs[at])
    }

    fn charge_mut(&mut self, run: &str) -> Option<&mut ChargeRecord> {
        self.by_id.get(run).map(|&at| &mut self.runs[at])
    }

    /// Adds an entry that is on record. The budget is not checked: it was checked when the entry
    /// was written, and a release stays on record in any case.
    ///
    /// # Errors
    /// Kind `Ledger` if it contradicts the entries before it.
    pub fn add(&mut self, entry: &Entry) -> Result<()> {
        let reject = |why: &str, fix: &str| {
            Err(Error::new(ErrorKind::Ledger, entry.subject(), why).fix(fix))
        };
        match &entry.content {
            EntryContent::Budget(budget) => self.budget = Some(*budget),
            EntryContent::Planned { run, .. } if self.by_id.contains_key(run) => {
                return reject("this run was started before", "use a new id for every run");
            }
            EntryContent::Planned { run, event } => {
                self.by_id.insert(run.clone(), self.runs.len());
                self.runs.push(ChargeRecord {
                    run: run.clone(),
                    started_at: entry.recorded_at.clone(),
                    note: entry.note.clone(),
                    event: event.clone(),
                    released: None,
                    closed: false,
                    stopped_early: false,
                    closing_note: String::new(),
                    epsilon_claimed: entry.epsilon_claimed,
                    neighbouring: entry.neighbouring,
                });
            }
            EntryContent::Spent { run, event } => match self.charge_mut(run) {
                None => return reject(NEVER_STARTED, "record a plan before a run's first release"),
                Some(charge) if charge.closed => {
                    return reject("this run is already closed", "close a run only once");
                }
                Some(charge) => {
                    let reported = charge.event.reduced_to(event)?;
                    let spent = match &charge.released {
                        None => reported.clone(),
                        // The whole plan covers both, whatever they are.
                        Some(released) => {
                            let larger = released.larger_part(&reported);
                            larger.unwrap_or(&charge.event).clone()
                        }
                    };
                    charge.closing_note = if spent == reported {
                        entry.note.clone()
                    } else {
                        // The note of the entry is about fewer steps.
                        format!(
                            "not fewer than before the run was resumed, if {STOPPING_ASSUMPTION}"
                        )
                    };
                    charge.stopped_early = spent != charge.event;
                    charge.event = spent;
                    charge.closed = true;
                }
            },
            EntryContent::Resumed { run, event } => match self.charge_mut(run) {
                None => return reject(NEVER_STARTED, "record a plan before a run's first release"),
                Some(charge) if !charge.closed => {
                    return reject(
                        "this run is still open, with its whole plan",
                        "resume a run without an entry unless it was closed",
                    );
                }
                Some(charge) => {
                    // What was released must be a part of what is charged now.
                    event.reduced_to(&charge.event)?;
                    charge.released = Some(std::mem::replace(&mut charge.event, event.clone()));
                    charge.closed = false;
                    charge.stopped_early = false;
                    charge.closing_note = String::new();
                }
            },
        }
        Ok(())
    }
}
