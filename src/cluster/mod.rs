//! Grids in other processes: tickets for runs, workers that train them, arrays of jobs on Slurm or
//! in child processes.
//!
//! A run of a grid that is not stored yet gets a ticket: its plan, its model, and the name of the
//! ledger entry that it is charged under. The submitter alone writes the ledger: it charges all
//! tickets before the first job is submitted, and closes them when it collects the runs. A worker
//! trains the run of a ticket and puts it into the run store.
//!
//! # Guarantee
//! A ticket is charged before a worker can see it, with its whole plan, and once. All runs of a
//! grid are in study mode: whatever process trains a ticket, on whatever attempt of the batch
//! system, it draws the same batches and the same noise, so that a run that was killed continues
//! under the same entry. An entry is closed for nothing only if no worker has begun the ticket, and
//! none can any more (`GridFolder::withdraw`).
//!
//! Files in the store decide what is finished, not what the batch system says.

mod collect;
mod commands;
mod experiment;
mod grid_folder;
mod processes;
mod slurm;
mod status;
mod submit;
#[cfg(test)]
mod tests;
mod ticket;
mod worker;

pub use experiment::ClusterExperiment;
pub use slurm::Slurm;
pub use status::{GridStatus, RunStatus};
pub use submit::SubmissionSummary;
pub use worker::{WorkerSummary, run_worker};

use crate::Result;

/// Tests whether several machines can use a folder at once, together with another machine that runs
/// the same test at the same time: a lock of one keeps the other away, and a rename replaces no
/// folder with files. Returns the process and the name of the other machine.
///
/// # Errors
/// `Setting` if the other machine does not answer within `patience`, or if a lock or a rename does
/// not do what it must; `Io` if the folder can't be written.
pub fn check_shared_folder(
    folder: &std::path::Path,
    patience: std::time::Duration,
) -> Result<String> {
    crate::store::shared_folder::check_with_peer(folder, patience)
}
