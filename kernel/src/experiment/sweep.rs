//! The command `sweep`: the experiments of a file, each a set of runs over lists of options of
//! `train`.
//!
//! Every run is that of `train` with these options, so the same command trains nothing the second
//! time.

use std::path::PathBuf;
use std::process::ExitCode;

use epsilab::Result;

use super::command::ExperimentArgs;
use super::file::Experiments;
use super::results::Source;
use crate::stdout;

/// Train the experiments of a file: all combinations of lists of `train` options.
#[derive(clap::Args, Clone, Debug)]
pub struct SweepArgs {
    /// The experiments, as JSON
    file: PathBuf,
    /// Train only the experiments with these names
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// List the experiments, check them and train nothing
    #[arg(long, conflicts_with_all = ["json", "preview"])]
    list: bool,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

/// Runs `sweep`. Exit codes: 0, 1 if no run succeeded, 128 and the signal after a request to stop.
///
/// # Errors
/// `Setting` for a file that holds no experiments and for a case that `train` would refuse before
/// it reads data; errors of writing results. Other errors of a run are reported in its row.
pub fn sweep(args: &SweepArgs) -> Result<ExitCode> {
    args.experiment.check()?;
    let experiments = Experiments::read(&args.file)?
        .only(&args.only)?
        .with_options(&args.experiment.cases.0)?
        .with_seeds(args.experiment.seeds()?)?
        .checked()?;
    if args.list {
        stdout::print_line(&experiments.list())?;
        return Ok(ExitCode::SUCCESS);
    }
    args.experiment.run(&experiments.0, Source::File)
}
