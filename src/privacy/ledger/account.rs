//! The account of a ledger: the charge of each run, and the budget.

use std::collections::HashMap;

use super::{Budget, Entry, EntryKind};
use crate::privacy::{Event, Neighbouring, STOPPING};
use crate::{Error, ErrorKind, Result};

/// The state that results from a list of entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    runs: Vec<Charge>,
    by_id: HashMap<String, usize>,
    budget: Option<Budget>,
}

/// The charge of one run.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) run: String,
    /// Time of its start.
    pub(crate) at: String,
    pub(crate) note: String,
    /// The released event if the run was closed, otherwise the whole plan.
    pub(crate) event: Event,
    /// What the run had released when it was resumed last, the least that a later correction
    /// charges; `None` if it was never resumed.
    released: Option<Event>,
    pub(crate) closed: bool,
    /// The correction took steps off the plan. Such a charge holds under the condition
    /// [`STOPPING`](crate::privacy::STOPPING).
    pub(crate) stopped_early: bool,
    /// The note of the correction.
    pub(crate) closing_note: String,
    pub(crate) epsilon_claimed: Option<f64>,
    /// The relation for which the guarantee is stated: that of the [`Entry`].
    pub(crate) neighbouring: Option<Neighbouring>,
}

impl Charge {
    /// Returns how the charge stands, in words.
    pub(crate) fn state(&self) -> &'static str {
        match (self.closed, self.stopped_early) {
            (false, _) => "open: charged for its whole plan",
            (true, true) => "closed, for fewer steps than planned",
            (true, false) => "closed",
        }
    }
}

const NEVER_STARTED: &str = "this run was never started";

impl Account {
    /// The account of entries in chronological order.
    pub(super) fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self> {
        let mut account = Self::default();
        entries.into_iter().try_for_each(|entry| account.add(entry))?;
        Ok(account)
    }

    /// The runs, in the order of their start.
    pub(crate) fn runs(&self) -> &[Charge] {
        &self.runs
    }

    /// Leaves out other runs than these.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Charge) -> bool) {
        self.runs.retain(keep);
        self.by_id =
            self.runs.iter().enumerate().map(|(at, charge)| (charge.run.clone(), at)).collect();
    }

    /// The newest budget.
    pub(crate) fn budget(&self) -> Option<Budget> {
        self.budget
    }

    /// The charged events, one per run.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.runs.iter().map(|run| run.event.clone()).collect()
    }

    /// Adds a new entry if the budget allows it.
    pub(super) fn admit(&mut self, entry: &Entry) -> Result<()> {
        match &entry.entry {
            EntryKind::Planned { event, .. } => {
                self.spending_after(event, entry.neighbouring).map(|_| ())?;
            }
            // A budget that cannot be kept is rejected.
            EntryKind::Budget(budget) => self.spending_under(*budget).map(|_| ())?,
            EntryKind::Resumed { run, event } => {
                // The whole run takes the place of its first part.
                let mut others = self.clone();
                let mut stated = None;
                if let Some(charge) = others.charge_mut(run) {
                    charge.event = Event::Composed { events: Vec::new() };
                    stated = charge.neighbouring;
                }
                others.spending_after(event, stated).map(|_| ())?;
            }
            EntryKind::Spent { .. } => {}
        }
        self.add(entry)
    }

    /// Adds entries if the budget allows all of them together.
    pub(super) fn admit_all(&mut self, entries: &[Entry]) -> Result<()> {
        let planned = |entry: &&Entry| matches!(entry.entry, EntryKind::Planned { .. });
        let events: Vec<Event> = entries
            .iter()
            .filter_map(|entry| match &entry.entry {
                EntryKind::Planned { event, .. } => Some(event.clone()),
                _ => None,
            })
            .collect();
        if !events.is_empty() && self.budget.is_some() {
            let stated = entries.iter().filter(planned).find_map(|entry| entry.neighbouring);
            self.spending_after(&Event::Composed { events }, stated)?;
        }
        entries.iter().filter(planned).try_for_each(|entry| self.add(entry))?;
        // The others last, whatever their place: what they spend comes on top of all plans.
        entries.iter().filter(|entry| !planned(entry)).try_for_each(|entry| self.admit(entry))
    }

    /// The charge of a run, if it was started.
    pub(crate) fn charge(&self, run: &str) -> Option<&Charge> {
        self.by_id.get(run).map(|&at| &self.runs[at])
    }

    fn charge_mut(&mut self, run: &str) -> Option<&mut Charge> {
        self.by_id.get(run).map(|&at| &mut self.runs[at])
    }

    /// Adds an entry that is on record. The budget is not checked: it was checked when the entry
    /// was written, and a release stays on record in any case.
    pub(super) fn add(&mut self, entry: &Entry) -> Result<()> {
        let reject = |why: &str, fix: &str| {
            Err(Error::new(ErrorKind::Ledger, entry.subject(), why).fix(fix))
        };
        match &entry.entry {
            EntryKind::Budget(budget) => self.budget = Some(*budget),
            EntryKind::Planned { run, .. } if self.by_id.contains_key(run) => {
                return reject("this run was started before", "use a new id for every run");
            }
            EntryKind::Planned { run, event } => {
                self.by_id.insert(run.clone(), self.runs.len());
                self.runs.push(Charge {
                    run: run.clone(),
                    at: entry.at.clone(),
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
            EntryKind::Spent { run, event } => match self.charge_mut(run) {
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
                    charge.closing_note = match spent == reported {
                        true => entry.note.clone(),
                        // The note of the entry is about fewer steps.
                        false => {
                            format!("no less than before the run was resumed, if {STOPPING}")
                        }
                    };
                    charge.stopped_early = spent != charge.event;
                    charge.event = spent;
                    charge.closed = true;
                }
            },
            EntryKind::Resumed { run, event } => match self.charge_mut(run) {
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
                    (charge.closed, charge.stopped_early) = (false, false);
                    charge.closing_note = String::new();
                }
            },
        }
        Ok(())
    }
}
