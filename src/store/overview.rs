//! All runs of a project: stored ones, and those that can go on from a checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::draft::is_draft;
use super::{Store, if_there, paths_in, record};
use crate::train::checkpoint::{Keeper, is_there, read_header};
use crate::train::{CheckpointHeader, Ending, RunRecord};
use crate::{Error, ErrorKind, Result, program};

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It took all steps of its plan.
    Finished,
    /// It ended before its last step, and is stored.
    EndedEarly,
    /// It was killed or stopped, and goes on from its checkpoint when it is trained again.
    Checkpoint,
    /// Its files can't be read.
    Damaged,
}

/// One line of a project's list of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The name of the run: that of its folder.
    pub id: String,
    /// The random name by which exports know the run; empty until it is stored.
    pub label: String,
    /// How far it has come.
    pub state: RunState,
    /// The method; empty if it can't be read, as all other texts.
    pub method: String,
    /// The data.
    pub data: String,
    /// Steps taken.
    pub steps: u64,
    /// Steps of the plan.
    pub planned_steps: u64,
    /// Epsilon of the steps that were taken, if it is stored and has one.
    pub epsilon: Option<f64>,
    /// Test accuracy in [0, 1], if it is stored and was measured.
    pub accuracy: Option<f64>,
    /// When it ended, or when its checkpoint was written: UTC, ISO 8601.
    pub at: Option<String>,
    /// The arguments of the command that goes on with it; empty for runs of notebooks and programs,
    /// which go on with the same call, and for stored runs.
    pub command: Vec<String>,
    /// Why its files can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl RunSummary {
    fn stored(id: String, record: &RunRecord) -> Self {
        let state = match record.ending {
            Ending::Finished => RunState::Finished,
            Ending::Interrupted => RunState::EndedEarly,
        };
        Self {
            label: record.label().to_owned(),
            method: record.plan.method().to_owned(),
            data: record.data.clone(),
            steps: record.steps,
            planned_steps: record.plan.steps(),
            epsilon: record.epsilon,
            accuracy: record.test_accuracy,
            at: record.trained_at.clone(),
            ..Self::new(id, state)
        }
    }

    fn checkpoint(header: CheckpointHeader) -> Self {
        Self {
            method: header.method,
            data: header.data,
            steps: header.step,
            planned_steps: header.steps,
            at: Some(header.at),
            command: header.command,
            ..Self::new(header.id, RunState::Checkpoint)
        }
    }

    fn damaged(id: String, error: &Error) -> Self {
        Self { why: Some(error.to_string()), ..Self::new(id, RunState::Damaged) }
    }

    /// A run of which nothing else is known.
    fn new(id: String, state: RunState) -> Self {
        Self {
            id,
            label: String::new(),
            state,
            method: String::new(),
            data: String::new(),
            steps: 0,
            planned_steps: 0,
            epsilon: None,
            accuracy: None,
            at: None,
            command: Vec::new(),
            why: None,
        }
    }
}

impl Store {
    /// All runs of the project, the newest first.
    ///
    /// # Errors
    /// `Io` if a folder can't be listed. A run whose files can't be read is in the list.
    pub(crate) fn overview(&self) -> Result<Vec<RunSummary>> {
        let mut all = Vec::new();
        for (id, folder) in folders(&self.runs())? {
            match record::read(&folder) {
                Ok(Some((record, _))) => all.push(RunSummary::stored(id, &record)),
                Ok(None) => {}
                Err(error) => all.push(RunSummary::damaged(id, &error)),
            }
        }
        for (id, folder) in folders(&self.checkpoints())? {
            let path = Keeper::path_in(&folder);
            if !is_there(&path) {
                continue;
            }
            all.push(match read_header(&path) {
                Ok(header) => RunSummary::checkpoint(CheckpointHeader { id, ..header }),
                Err(error) => RunSummary::damaged(id, &error),
            });
        }
        all.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.id.cmp(&b.id)));
        Ok(all)
    }

    /// The record of the stored run whose name begins with `name`.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one; `CorruptData` if it can't be read.
    pub(crate) fn record_named(&self, name: &str) -> Result<RunRecord> {
        let (id, folder) = only(name, "stored run", folders(&self.runs())?)?;
        let stored = record::read(&folder)?.map(|(record, _)| record);
        stored.ok_or_else(|| no_record(&id))
    }

    /// The folder of the checkpoint of the run whose name begins with `name`.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one.
    fn checkpoint_named(&self, name: &str) -> Result<(String, PathBuf)> {
        let mut all = folders(&self.checkpoints())?;
        all.retain(|(_, folder)| is_there(&Keeper::path_in(folder)));
        only(name, "checkpoint", all)
    }

    /// The checkpoint of the run whose name begins with `name`.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one; `CorruptData` if it can't be read.
    pub(crate) fn checkpoint_header(&self, name: &str) -> Result<CheckpointHeader> {
        let (_, folder) = self.checkpoint_named(name)?;
        read_header(&Keeper::path_in(&folder))
    }

    /// Removes the checkpoint of the run whose name begins with `name`, and returns that name. What
    /// its ledger charges for the run stays.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one; `Io` if another process trains the run, or
    /// the file can't be removed.
    pub(crate) fn remove_checkpoint(&self, name: &str) -> Result<String> {
        let (id, folder) = self.checkpoint_named(name)?;
        Keeper::remove_unused(&folder, &id)?;
        Ok(id)
    }

    /// Removes the stored run whose name begins with `name`, and returns that name. What its ledger
    /// charges for the run stays.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one; `Io` if it can't be removed.
    pub(crate) fn remove_run(&self, name: &str) -> Result<String> {
        let (id, folder) = only(name, "stored run", folders(&self.runs())?)?;
        fs::remove_dir_all(&folder)
            .map_err(|e| Error::io(format!("removing {}", folder.display()), &e))?;
        Ok(id)
    }
}

pub(super) fn no_record(id: &str) -> Error {
    let why = "its folder has no record of it";
    Error::new(ErrorKind::MissingData, format!("stored run {id}"), why)
        .fix("train it again: what is charged stays charged")
}

/// The one folder whose name is `name`, or begins with it.
fn only(name: &str, kind: &str, mut found: Vec<(String, PathBuf)>) -> Result<(String, PathBuf)> {
    found.retain(|(id, _)| !name.is_empty() && id.starts_with(name));
    if let Some(exact) = found.iter().position(|(id, _)| id == name) {
        return Ok(found.swap_remove(exact));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        n => {
            let what = format!("{kind} {name}");
            let why = match n {
                0 => format!("there is no {kind} of this name in the project"),
                n => format!("the names of {n} begin like that"),
            };
            Err(Error::new(ErrorKind::MissingData, what, why).fix(format!(
                "`{}` lists all names; EPSILAB_HOME names another project folder",
                program::command("runs")
            )))
        }
    }
}

/// The folders in a folder by name, in order; none if it does not exist. Runs that are being
/// written are left out.
fn folders(path: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for path in paths_in(path)? {
        // It may have been removed meanwhile.
        let Some(about) = if_there(&path, fs::symlink_metadata(&path))? else { continue };
        if about.is_dir() && !is_draft(&path) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, path));
        }
    }
    Ok(found)
}
