//! The entry of a run in the ledger of its data.

#[cfg(test)]
mod tests;

use super::attempt_id;
use super::checkpoint::CheckpointHeader;
use crate::Result;
use crate::data::Dataset;
use crate::device::with_rehearsal_mark;
use crate::methods::Plan;
use crate::privacy::digits::format_count;
use crate::privacy::ledger::LedgerState;
use crate::privacy::{Entry, Ledger, STOPPING_ASSUMPTION};
use crate::{Error, ErrorKind, program};

/// The entry of a run in the ledger of its data.
pub(super) struct RunCharge<'a> {
    ledger: &'a Ledger,
    plan: &'a Plan,
    /// The name of the entry.
    attempt_id: String,
    state: ChargeState,
}

/// State of the ledger entry of a run that resumes from a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChargeState {
    /// It has not been charged yet.
    Uncharged,
    /// It was closed after this many steps, or fewer: those of its checkpoint.
    ClosedEarly(u64),
    /// It was closed after a later step than that of its checkpoint. Steps are taken again, under a
    /// charge that covers all of them.
    Behind,
    /// It was never closed: its process was killed, and may have taken further steps.
    LeftOpen,
    /// It was closed with all its steps.
    ClosedInFull,
    /// Another party charges it and closes its entry: the private selection that it is a trial of,
    /// or the process that handed it out.
    External,
}

impl<'a> RunCharge<'a> {
    /// Creates the charge of a run that has not begun.
    ///
    /// # Errors
    /// `Io` if the operating system gives no randomness for its name.
    pub(super) fn new(ledger: &'a Ledger, plan: &'a Plan, id: &str) -> Result<Self> {
        Ok(Self {
            ledger,
            plan,
            attempt_id: attempt_id::new_attempt_id(id)?,
            state: ChargeState::Uncharged,
        })
    }

    /// Creates the charge of a run that resumes from a checkpoint, under the entry that the
    /// checkpoint names.
    ///
    /// # Errors
    /// `Ledger` if the run has taken steps that this ledger does not know; as
    /// [`Ledger::entries`].
    pub(super) fn from_checkpoint(
        ledger: &'a Ledger,
        plan: &'a Plan,
        checkpoint: &CheckpointHeader,
    ) -> Result<Self> {
        let run = checkpoint.attempt.clone();
        let account = ledger.state()?;
        let standing = match account.charge_of(&run) {
            None if checkpoint.step == 0 => ChargeState::Uncharged,
            None => {
                let what = format!("the checkpoint of the run {}", checkpoint.id);
                let why = format!(
                    "the ledger of its data has no entry {run}, so the cost of its {} steps is not \
                     counted",
                    format_count(checkpoint.step as usize)
                );
                return Err(Error::new(ErrorKind::Ledger, what, why).fix(format!(
                    "restore the ledger's .jsonl and .head from a backup; or, if the run must not \
                     be counted, remove the checkpoint with `{}`",
                    program::command("runs remove ID")
                )));
            }
            Some(charge) if !charge.closed => ChargeState::LeftOpen,
            Some(charge) if charge.stopped_early => {
                let known = plan.event_after(checkpoint.step);
                match known.reduced_to(&charge.event) {
                    Ok(_) => ChargeState::ClosedEarly(checkpoint.step),
                    Err(_) => ChargeState::Behind,
                }
            }
            Some(_) => ChargeState::ClosedInFull,
        };
        Ok(Self { ledger, plan, attempt_id: run, state: standing })
    }

    /// Creates the charge of a run that is charged elsewhere, under the entry `run`.
    pub(super) fn external(ledger: &'a Ledger, plan: &'a Plan, run: &str) -> Self {
        Self { ledger, plan, attempt_id: run.to_owned(), state: ChargeState::External }
    }

    /// Returns the name of the entry.
    pub(super) fn attempt_id(&self) -> &str {
        &self.attempt_id
    }

    /// Returns whether the run was charged for more steps than its checkpoint has: the checkpoint
    /// is an older copy, or the last one could not be written.
    pub(super) fn is_behind(&self) -> bool {
        matches!(self.state, ChargeState::Behind | ChargeState::ClosedInFull)
    }

    /// Charges the whole plan, unless it is charged already.
    ///
    /// # Errors
    /// As [`Ledger::record`].
    pub(super) fn open(&self, data: &Dataset) -> Result<()> {
        let (run, hash, event) = (&self.attempt_id, self.ledger.data_hash(), self.plan.event());
        let entry = match self.state {
            ChargeState::Uncharged => planned(run, hash, self.plan, data),
            ChargeState::ClosedEarly(_) | ChargeState::Behind => Entry::resumed(run, hash, &event),
            ChargeState::LeftOpen | ChargeState::ClosedInFull | ChargeState::External => {
                return Ok(());
            }
        };
        Ok(self.ledger.record(&entry)?)
    }

    /// Returns the number of steps to charge after this process has trained the run up to
    /// `steps`: never fewer than before it resumed, and the whole plan where another process went
    /// further, or may have.
    pub(super) fn chargeable_steps(&self, steps: u64) -> u64 {
        match self.state {
            ChargeState::Uncharged => steps,
            ChargeState::ClosedEarly(before) => steps.max(before),
            ChargeState::LeftOpen
            | ChargeState::Behind
            | ChargeState::ClosedInFull
            | ChargeState::External => self.plan.steps(),
        }
    }

    /// Reduces the charge to the first `steps` steps.
    ///
    /// # Errors
    /// As [`Ledger::record`].
    pub(super) fn close(&self, steps: u64) -> Result<()> {
        if !matches!(self.state, ChargeState::ClosedInFull | ChargeState::External) {
            let hash = self.ledger.data_hash();
            self.ledger.record(&spent_entry(&self.attempt_id, hash, self.plan, steps))?;
        }
        Ok(())
    }
}

/// Returns the entry that charges a whole plan under the name `attempt`, for a run that is trained
/// in another process; `None` if the ledger has it already, open or with all its steps.
pub(crate) fn planned_entry(
    account: &LedgerState,
    attempt: &str,
    plan: &Plan,
    data: &Dataset,
) -> Option<Entry> {
    let event = plan.event();
    match account.charge_of(attempt) {
        None => Some(planned(attempt, data.origin(), plan, data)),
        Some(charge) if charge.closed && charge.stopped_early => {
            Some(Entry::resumed(attempt, data.origin(), &event))
        }
        Some(_) => None,
    }
}

/// Returns the entry that charges a whole plan.
fn planned(run: &str, data_hash: &str, plan: &Plan, data: &Dataset) -> Entry {
    let entry =
        Entry::planned(run, data_hash, &plan.event()).with_neighbouring(plan.neighbouring());
    entry.with_note(note(plan, data))
}

/// Returns the entry that closes an attempt after this many steps; `None` if it is closed or
/// unknown.
pub(crate) fn closing_entry(
    account: &LedgerState,
    attempt: &str,
    plan: &Plan,
    data: &Dataset,
    steps: u64,
) -> Option<Entry> {
    let is_open = account.charge_of(attempt).is_some_and(|charge| !charge.closed);
    is_open.then(|| spent_entry(attempt, data.origin(), plan, steps))
}

/// Returns the correction of a plan's charge. If the run was stopped, its note says on what
/// condition.
fn spent_entry(run: &str, data_hash: &str, plan: &Plan, steps: u64) -> Entry {
    let entry = Entry::spent(run, data_hash, &plan.event_after(steps));
    match steps {
        0 => {
            entry.with_note(format!("0 of {} steps: the run ended before the first", plan.steps()))
        }
        _ if steps < plan.steps() => {
            entry.with_note(format!("{steps} of {} steps, if {STOPPING_ASSUMPTION}", plan.steps()))
        }
        _ => entry,
    }
}

/// Returns the note of a ledger entry: method, data, and the roles of its releases where there are
/// several.
fn note(plan: &Plan, data: &Dataset) -> String {
    let study = if plan.seed().is_some() { ", study mode" } else { "" };
    let best = plan.selection().map(|selection| format!(", best of {}", selection.trials()));
    let best = best.unwrap_or_default();
    let note = format!("{} on {}{best}{study}", plan.method(), with_rehearsal_mark(data.name()));
    let released = plan.releases_by_role_after(plan.steps());
    if released.charged_event() == released.training {
        note
    } else {
        format!("{note}; {}", released.summary())
    }
}
