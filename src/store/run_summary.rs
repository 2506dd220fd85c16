//! All runs of a project: stored ones, and those that can resume from a checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::draft::is_draft;
use super::{RunStore, if_exists, paths_in, run_files};
use crate::train::checkpoint::{CheckpointManager, checkpoint_exists, read_header};
use crate::train::{CheckpointHeader, Ending, RunRecord};
use crate::{Error, ErrorKind, Result, program};

/// State of a run: finished, ended early, at a checkpoint, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It took all steps of its plan.
    Finished,
    /// It ended before its last step, and is stored.
    EndedEarly,
    /// It was killed or stopped, and resumes from its checkpoint when it is trained again.
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
    /// State of the run.
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
    /// Time at which the run ended, or at which its checkpoint was written: UTC, ISO 8601.
    pub at: Option<String>,
    /// The arguments of the command that resumes the run; empty for runs of notebooks and
    /// programs, which resume with the same call, and for stored runs.
    pub command: Vec<String>,
    /// Reason why the files of the run can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl RunSummary {
    fn from_record(id: String, record: &RunRecord) -> Self {
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

    fn from_checkpoint(header: CheckpointHeader) -> Self {
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

    fn from_error(id: String, error: &Error) -> Self {
        Self { why: Some(error.to_string()), ..Self::new(id, RunState::Damaged) }
    }

    /// Creates the summary of a run about which nothing else is known.
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

impl RunStore {
    /// Returns all runs of the project, the newest first.
    ///
    /// # Errors
    /// `Io` if a folder can't be listed. A run whose files can't be read is in the list.
    pub(crate) fn list_runs(&self) -> Result<Vec<RunSummary>> {
        let mut all = Vec::new();
        for (id, folder) in folders(&self.runs_dir())? {
            match run_files::read(&folder) {
                Ok(Some((record, _))) => all.push(RunSummary::from_record(id, &record)),
                Ok(None) => {}
                Err(error) => all.push(RunSummary::from_error(id, &error)),
            }
        }
        for (id, folder) in folders(&self.checkpoints_dir())? {
            let path = CheckpointManager::checkpoint_path(&folder);
            if !checkpoint_exists(&path) {
                continue;
            }
            all.push(match read_header(&path) {
                Ok(header) => RunSummary::from_checkpoint(CheckpointHeader { id, ..header }),
                Err(error) => RunSummary::from_error(id, &error),
            });
        }
        all.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.id.cmp(&b.id)));
        Ok(all)
    }

    /// Returns the record of the stored run whose name begins with `name`.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one; `CorruptData` if it can't be read.
    pub(crate) fn find_record(&self, name: &str) -> Result<RunRecord> {
        let (id, folder) = resolve_prefix(name, "stored run", folders(&self.runs_dir())?)?;
        let stored = run_files::read(&folder)?.map(|(record, _)| record);
        stored.ok_or_else(|| no_record(&id))
    }

    /// Returns the folder of the checkpoint of the run whose name begins with `name`.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one.
    fn find_checkpoint(&self, name: &str) -> Result<(String, PathBuf)> {
        let mut all = folders(&self.checkpoints_dir())?;
        all.retain(|(_, folder)| checkpoint_exists(&CheckpointManager::checkpoint_path(folder)));
        resolve_prefix(name, "checkpoint", all)
    }

    /// Returns the header of the checkpoint of the run whose name begins with `name`.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one; `CorruptData` if it can't be read.
    pub(crate) fn checkpoint_header(&self, name: &str) -> Result<CheckpointHeader> {
        let (_, folder) = self.find_checkpoint(name)?;
        read_header(&CheckpointManager::checkpoint_path(&folder))
    }

    /// Removes the checkpoint of the run whose name begins with `name`, and returns that name. What
    /// its ledger charges for the run stays.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one; `Io` if another process trains the run, or
    /// the file can't be removed.
    pub(crate) fn remove_checkpoint(&self, name: &str) -> Result<String> {
        let (id, folder) = self.find_checkpoint(name)?;
        CheckpointManager::remove_unused(&folder, &id)?;
        Ok(id)
    }

    /// Removes the stored run whose name begins with `name`, and returns that name. What its ledger
    /// charges for the run stays.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one; `Io` if it can't be removed.
    pub(crate) fn remove_run(&self, name: &str) -> Result<String> {
        let (id, folder) = resolve_prefix(name, "stored run", folders(&self.runs_dir())?)?;
        fs::remove_dir_all(&folder)
            .map_err(|e| Error::io(format!("removing {}", folder.display()), &e))?;
        Ok(id)
    }
}

pub(super) fn no_record(id: &str) -> Error {
    let why = "the folder of the run has no record";
    Error::new(ErrorKind::MissingData, format!("stored run {id}"), why)
        .fix("train it again; its earlier charge remains in the ledger")
}

/// Returns the one folder whose name is `name`, or begins with it.
fn resolve_prefix(
    name: &str,
    kind: &str,
    mut found: Vec<(String, PathBuf)>,
) -> Result<(String, PathBuf)> {
    found.retain(|(id, _)| !name.is_empty() && id.starts_with(name));
    if let Some(exact) = found.iter().position(|(id, _)| id == name) {
        return Ok(found.swap_remove(exact));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        n => {
            let what = format!("{kind} {name}");
            let why = match n {
                0 => format!("the project has no {kind} with this name"),
                n => format!("the names of {n} begin with this text"),
            };
            Err(Error::new(ErrorKind::MissingData, what, why).fix(format!(
                "`{}` lists all names; EPSILAB_HOME names another project folder",
                program::command("runs")
            )))
        }
    }
}

/// Returns the folders in a folder by name, in order; none if it does not exist. Runs that are
/// being written are left out.
fn folders(path: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for path in paths_in(path)? {
        // It may have been removed meanwhile.
        let Some(about) = if_exists(&path, fs::symlink_metadata(&path))? else { continue };
        if about.is_dir() && !is_draft(&path) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, path));
        }
    }
    Ok(found)
}
