//! Status of the runs of a submitted grid.

use std::collections::HashMap;
use std::fmt;

use super::submit::{ClusterSession, active_runs, refresh_queue};
use crate::Result;
use crate::privacy::digits::{format_count, pluralise};
use crate::show::Table;

/// Status of a run of a submitted grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// Run that is in the store.
    Finished,
    /// Run whose task is running.
    Running,
    /// Run whose task waits.
    Waiting,
    /// Run that a worker could not finish, with the worker's error. It is submitted again by the
    /// same command.
    Failed(String),
    /// Run whose task has ended without a result or an error: killed, cancelled, or out of time.
    EndedWithoutResult,
    /// Run that was never submitted.
    NotSubmitted,
}

/// Status of a submitted grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridStatus {
    /// The runs, each with its id and status.
    pub runs: Vec<(String, RunStatus)>,
    /// Folder of the logs of the tasks.
    pub logs: String,
}

impl GridStatus {
    fn number(&self, predicate: impl Fn(&RunStatus) -> bool) -> usize {
        self.runs.iter().filter(|(_, status)| predicate(status)).count()
    }

    /// Returns the number of finished runs.
    pub fn finished(&self) -> usize {
        self.number(|status| *status == RunStatus::Finished)
    }

    /// Returns the number of runs whose tasks are running.
    pub fn running(&self) -> usize {
        self.number(|status| *status == RunStatus::Running)
    }

    /// Returns the number of runs whose tasks wait.
    pub fn waiting(&self) -> usize {
        self.number(|status| *status == RunStatus::Waiting)
    }

    /// Returns the number of runs that failed.
    pub fn failed(&self) -> usize {
        self.number(|status| matches!(status, RunStatus::Failed(_)))
    }

    /// Returns whether no task is running or waits.
    pub fn is_over(&self) -> bool {
        self.running() + self.waiting() == 0
    }

    /// Returns the different errors, each with the number of runs that it ended.
    pub fn errors(&self) -> Vec<(String, usize)> {
        let mut errors: Vec<(String, usize)> = Vec::new();
        for (_, status) in &self.runs {
            let RunStatus::Failed(why) = status else { continue };
            match errors.iter_mut().find(|(known, _)| known == why) {
                Some((_, runs)) => *runs += 1,
                None => errors.push((why.clone(), 1)),
            }
        }
        errors
    }

    /// Returns the numbers as a table.
    pub fn table(&self) -> Table {
        let ended = self.number(|status| *status == RunStatus::EndedWithoutResult);
        let new = self.number(|status| *status == RunStatus::NotSubmitted);
        let all = [
            ("finished", self.finished()),
            ("running", self.running()),
            ("waiting", self.waiting()),
            ("failed", self.failed()),
            ("ended without a result", ended),
            ("not submitted", new),
        ];
        let known = all.into_iter().filter(|(_, runs)| *runs > 0);
        known.fold(Table::new(["runs", "number"]), |table, (what, runs)| {
            table.row([what.to_owned(), format_count(runs)])
        })
    }
}

/// Formats the status as `12 of 24 runs finished, 4 running, 8 waiting`.
impl fmt::Display for GridStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = pluralise(self.runs.len(), "run");
        write!(f, "{} of {all} finished", format_count(self.finished()))?;
        let ended = self.number(|status| *status == RunStatus::EndedWithoutResult);
        for (runs, what) in [
            (self.running(), "running"),
            (self.waiting(), "waiting"),
            (self.failed(), "failed"),
            (ended, "ended without a result"),
        ] {
            if runs > 0 {
                write!(f, ", {} {what}", format_count(runs))?;
            }
        }
        Ok(())
    }
}

impl ClusterSession<'_> {
    /// Returns the status of the runs.
    ///
    /// # Errors
    /// `Setting` if Slurm does not answer.
    pub(super) fn status(&self) -> Result<GridStatus> {
        let runs = self.distinct_runs()?;
        let folder = &runs.folder;
        let mut state = folder.state()?;
        let queue = if state.rounds.is_empty() {
            HashMap::new()
        } else {
            refresh_queue(self.batch_system, folder, &mut state)?
        };
        let tickets = folder.all_tickets(&state)?;
        let live = active_runs(&state, &queue, &tickets);
        let attempts: HashMap<&str, &str> = tickets
            .iter()
            .flat_map(|(_, tickets)| tickets)
            .map(|ticket| (ticket.id.as_str(), ticket.attempt.as_str()))
            .collect();
        let failures = folder.failures();
        let status = |id: &str| -> Result<RunStatus> {
            if self.store.has_finished(id)? {
                return Ok(RunStatus::Finished);
            }
            let failure = attempts.get(id).and_then(|attempt| failures.get(*attempt));
            Ok(match (live.get(id), failure, attempts.get(id)) {
                (_, Some(failure), _) => {
                    RunStatus::Failed(format!("on {}: {}", failure.host, failure.error))
                }
                (Some(true), ..) => RunStatus::Running,
                (Some(false), ..) => RunStatus::Waiting,
                (None, None, Some(_)) => RunStatus::EndedWithoutResult,
                (None, None, None) => RunStatus::NotSubmitted,
            })
        };
        let all = runs.wanted.iter().map(|run| Ok((run.id.clone(), status(&run.id)?)));
        let logs = folder.path().join("logs").display().to_string();
        Ok(GridStatus { runs: all.collect::<Result<_>>()?, logs })
    }
}
