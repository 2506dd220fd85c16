//! The command `grid-worker`, which jobs on a cluster run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use epsilab::Result;
use epsilab::train::interrupt;

/// Train the runs of one task of a grid. Jobs of `--engine slurm` and processes of `--engine
/// processes` call it.
#[derive(Args, Clone, Debug)]
pub struct WorkerArgs {
    /// File of tickets that the submitter wrote
    #[arg(long, value_name = "FILE")]
    pub tickets: PathBuf,
    /// Number of the task, counted from 0
    #[arg(long, value_name = "N")]
    pub index: usize,
}

/// Runs `grid-worker`. Exit codes: 0, 1 if a run failed, 128 and the signal if it was asked to
/// stop.
///
/// # Errors
/// Those of tickets, data and device, before anything is trained.
pub fn worker(args: &WorkerArgs) -> Result<ExitCode> {
    let worked = epsilab::cluster::run_worker(&args.tickets, args.index)?;
    eprintln!(
        "trained {}, found {} in the store, set aside {}, failed {}{}",
        worked.trained,
        worked.already_stored,
        worked.conflicting,
        worked.errors.len(),
        if worked.interrupted { "; asked to stop" } else { "" }
    );
    for error in &worked.errors {
        eprintln!("error: {error}");
    }
    Ok(match (worked.interrupted, worked.errors.is_empty()) {
        (true, _) => ExitCode::from(interrupt::exit_code()),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}
