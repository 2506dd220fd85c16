//! Collects the runs of a submitted grid: closes their entries, and makes the result.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::status::RunStatus;
use super::submit::{ClusterSession, active_runs, refresh_queue};
use super::ticket::Ticket;
use crate::grid::GridResult;
use crate::grid::scheduler::from_store;
use crate::privacy::Entry;
use crate::store::LedgerCache;
use crate::train::closing_entry;
use crate::{Error, ErrorKind, Result};

/// Time limit for tasks to end after `cancel`.
const ENDING: Duration = Duration::from_secs(120);

impl ClusterSession<'_> {
    /// Closes the ledger entries of all runs that are stored, and makes the result of these.
    ///
    /// # Errors
    /// `Ledger` if the ledger can't be trusted or written; `CorruptData` if a stored run is
    /// damaged.
    pub(super) fn collect(&self) -> Result<GridResult> {
        let status = self.status()?;
        self.close()?;
        let status_of_run: HashMap<&str, &RunStatus> =
            status.runs.iter().map(|(id, status)| (id.as_str(), status)).collect();
        let missing = |id: &str| {
            let why = match status_of_run.get(id) {
                Some(RunStatus::Failed(why)) => why.replace('\n', " "),
                Some(RunStatus::Running) => "still running".to_owned(),
                Some(RunStatus::Waiting) => "waiting in the queue".to_owned(),
                Some(RunStatus::NotSubmitted) => "not submitted".to_owned(),
                _ => format!("the task ended without a result; see its log in {}", status.logs),
            };
            Error::new(ErrorKind::Io, format!("the run {id} is not finished"), why)
        };
        from_store(self.experiment, self.build, self.data, self.store, &missing)
    }

    /// Closes the open ledger entries of stored runs, and charges runs that were set aside.
    fn close(&self) -> Result<()> {
        let runs = self.distinct_runs()?;
        let folder = &runs.folder;
        let state = folder.state()?;
        if state.rounds.is_empty() {
            return Ok(());
        }
        let _lock = folder.lock()?;
        let tickets = folder.all_tickets(&state)?;
        let tickets = || tickets.iter().flat_map(|(_, tickets)| tickets);
        let mut books = LedgerCache::open(self.store, self.data)?;
        let ledger = books.ledger()?;
        let (mut done, mut others): (HashSet<&str>, Vec<&Ticket>) = Default::default();
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = HashSet::new();
        for ticket in tickets().filter(|ticket| seen.insert(ticket.attempt.as_str())) {
            let Some(charged) = self.store.finished_entry_ref(&ticket.id)? else { continue };
            done.insert(&ticket.id);
            if charged.run == ticket.attempt {
                entries.extend(closing_entry(
                    books.account(),
                    &ticket.attempt,
                    &ticket.plan,
                    self.data,
                    ticket.plan.steps(),
                ))
            } else {
                // The run was trained under another entry meanwhile.
                others.push(ticket)
            }
        }
        entries.extend(self.set_aside(folder.list_conflicts()?, &books, tickets())?);
        ledger.record_released(&entries)?;
        self.withdraw(folder, &others)?;
        if runs.wanted.iter().all(|wanted| done.contains(wanted.id.as_str())) {
            folder.remove_inputs();
        }
        Ok(())
    }

    /// Returns the ledger entries of second trainings whose results differ in their bits from the
    /// stored run. Each is a release of its own.
    fn set_aside<'a>(
        &self,
        folders: Vec<std::path::PathBuf>,
        ledgers: &LedgerCache<'_>,
        tickets: impl Iterator<Item = &'a Ticket>,
    ) -> Result<Vec<Entry>> {
        let tickets: HashMap<&str, &Ticket> =
            tickets.map(|ticket| (ticket.attempt.as_str(), ticket)).collect();
        let mut entries = Vec::new();
        for folder in folders {
            let Some((attempt, name)) = parse_conflict_path(&folder) else { continue };
            let Some(ticket) = tickets.get(attempt.as_str()) else { continue };
            if ledgers.account().charge_of(&name).is_none() {
                let event = ticket.plan.event();
                let note = "trained a second time with different bits; set aside";
                let origin = self.data.origin();
                let planned = Entry::planned(&name, origin, &event);
                let planned = planned.with_neighbouring(ticket.plan.neighbouring());
                entries.push(planned.with_note(note.to_owned()));
                entries.push(Entry::spent(&name, origin, &event));
            }
        }
        Ok(entries)
    }

    /// Cancels all tasks that have not ended, and closes at no cost the entries of runs that no
    /// worker has begun. Returns their number. Begun runs stay charged: submitted again, they go
    /// on under the same entries.
    ///
    /// # Errors
    /// `Setting` if Slurm does not cancel; `Io` if the tasks do not end within two minutes: nothing
    /// is closed then.
    pub(super) fn cancel(&self) -> Result<usize> {
        let runs = self.distinct_runs()?;
        let folder = &runs.folder;
        let mut state = folder.state()?;
        if state.rounds.is_empty() {
            return Ok(0);
        }
        let _lock = folder.lock()?;
        let mut queue = refresh_queue(self.batch_system, folder, &mut state)?;
        for (job, _) in queue.values() {
            self.batch_system.cancel(*job)?;
        }
        let began = Instant::now();
        while !queue.is_empty() {
            if began.elapsed() > ENDING {
                let what = "the tasks of the grid are still ending";
                let why = "which runs they have started is not known yet, so no charge was closed";
                return Err(Error::new(ErrorKind::Io, what, why).fix("cancel again in a minute"));
            }
            std::thread::sleep(Duration::from_millis(500));
            queue = refresh_queue(self.batch_system, folder, &mut state)?;
        }
        let tickets = folder.all_tickets(&state)?;
        debug_assert!(active_runs(&state, &queue, &tickets).is_empty());
        let mut unfinished = Vec::new();
        for ticket in tickets.iter().flat_map(|(_, tickets)| tickets) {
            if !self.store.has_finished(&ticket.id)? {
                unfinished.push(ticket);
            }
        }
        self.withdraw(folder, &unfinished)
    }
}

/// Returns the attempt of a run that was set aside, and the name of its own entry:
/// `<attempt>.<unique>`.
fn parse_conflict_path(folder: &Path) -> Option<(String, String)> {
    let name = folder.file_name()?.to_str()?;
    let (attempt, unique) = name.split_once('.')?;
    let nonce = unique.rsplit_once('-')?.1;
    Some((attempt.to_owned(), format!("{}-{nonce}", attempt.split_once('-')?.0)))
}
