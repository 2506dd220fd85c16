//! The list of a project's runs.

use std::fmt;

use crate::Result;
use crate::show::{Bundle, Table, format};
use crate::store::{RunState, RunSummary, Store, home};
use crate::train::CheckpointHeader;

/// The runs of this project, the newest first: stored ones, and those that can go on from a
/// checkpoint.
#[derive(Clone, Debug)]
pub struct Runs(Vec<RunSummary>);

/// Lists the runs of this project.
///
/// # Errors
/// `Io` if its folders can't be listed. A run that can't be read is in the list.
pub fn runs() -> Result<Runs> {
    Store::at(home()).overview().map(Runs)
}

/// What is known of the run with a checkpoint whose name begins with `name`.
///
/// # Errors
/// `MissingData` if there is none, or more than one; `CorruptData` if it can't be read.
pub fn checkpoint(name: &str) -> Result<CheckpointHeader> {
    Store::at(home()).checkpoint_header(name)
}

/// Removes the checkpoint of the run whose name begins with `name`, and returns that name. The run
/// can't go on then; what the ledger charges for it stays.
///
/// # Errors
/// `MissingData` if there is none, or more than one; `Io` if another process trains the run, or the
/// file can't be removed.
pub fn remove_checkpoint(name: &str) -> Result<String> {
    Store::at(home()).remove_checkpoint(name)
}

/// Removes the stored run whose name begins with `name`, with its model and figures, and returns
/// that name. What the ledger charges for it stays, so training it again is charged again.
///
/// # Errors
/// `MissingData` if there is none, or more than one; `Io` if it can't be removed.
pub fn remove_run(name: &str) -> Result<String> {
    Store::at(home()).remove_run(name)
}

impl Runs {
    /// The runs.
    pub fn all(&self) -> &[RunSummary] {
        &self.0
    }

    /// The list as a table.
    pub fn table(&self) -> Table {
        let headers = ["run", "state", "method", "data", "steps", "epsilon", "accuracy", "UTC"];
        self.0.iter().fold(Table::new(headers), |table, run| table.row(cells(run)))
    }

    /// The list for a notebook.
    pub fn bundle(&self) -> Bundle {
        match self.0.is_empty() {
            true => Bundle::prose(NONE),
            false => self.table().bundle(),
        }
    }

    /// Shows the list in a notebook.
    pub fn show(&self) {
        crate::show::display(&self.bundle());
    }
}

const NONE: &str = "This project has no runs yet.";

fn cells(run: &RunSummary) -> [String; 8] {
    let state = match run.state {
        RunState::Finished => "finished",
        RunState::EndedEarly => "ended early",
        RunState::Checkpoint => "checkpoint",
        RunState::Damaged => "can't be read",
    };
    let steps = match run.state {
        RunState::Damaged => run.why.clone().unwrap_or_default(),
        RunState::Finished => format::count(run.steps as usize),
        _ => format!(
            "{} of {}",
            format::count(run.steps as usize),
            format::count(run.planned_steps as usize)
        ),
    };
    let epsilon = run.epsilon.map(format::eps).unwrap_or_default();
    let accuracy = run.accuracy.map(|a| format!("{:.2} %", 100.0 * a)).unwrap_or_default();
    let at = run.at.clone().unwrap_or_default();
    [
        run.id.clone(),
        state.into(),
        run.method.clone(),
        run.data.clone(),
        steps,
        epsilon,
        accuracy,
        at,
    ]
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str(NONE),
            false => f.write_str(&self.table().text()),
        }
    }
}
