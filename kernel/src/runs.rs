//! The command `runs`: lists the runs of the project, resumes one, removes one.

use std::ffi::OsString;
use std::process::ExitCode;

use epsilab::{Error, ErrorKind, Result, lab};

use crate::stdout;

/// List the runs of this project; resume one that was killed or stopped, or remove it.
#[derive(clap::Args, Clone, Debug)]
pub struct RunsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Action {
    /// Resume a run of `train` from its checkpoint
    Resume {
        /// The name of the run, or its beginning
        #[arg(value_name = "RUN")]
        id: String,
    },
    /// Remove a checkpoint; the charge of its run in the ledger remains
    Remove {
        /// The name of the run, or its beginning
        #[arg(value_name = "RUN")]
        id: String,
        /// Remove the stored run instead, with its model and figures
        #[arg(long)]
        stored: bool,
    },
}

/// Runs `runs`. `resume` runs the command of a checkpoint again, which must resume the run of this
/// name.
///
/// # Errors
/// Kind `MissingData` if there is no run of the name; errors of reading, writing and training.
pub fn runs(
    args: &RunsArgs,
    resume: impl FnOnce(String, Vec<OsString>) -> Result<ExitCode>,
) -> Result<ExitCode> {
    match &args.action {
        None => {
            let runs = lab::runs()?;
            stdout::print_line(&if args.json {
                serde_json::to_string(runs.all())
                    .map_err(|e| Error::new(ErrorKind::Io, "the runs as JSON", e.to_string()))?
            } else {
                runs.to_string()
            })?;
        }
        Some(Action::Resume { id }) => {
            let checkpoint = lab::checkpoint(id)?;
            if checkpoint.command.is_empty() {
                let what = format!("the run {}", checkpoint.id);
                let why = "the run was not started by a command, so the program does not know its \
                           data";
                return Err(Error::new(ErrorKind::Setting, what, why)
                    .fix("run its cell or program again: the run resumes from its checkpoint"));
            }
            // The command may name files relative to the folder that it was given in.
            std::env::set_current_dir(&checkpoint.folder).map_err(|e| {
                let what = format!("entering {}, where the run was started", checkpoint.folder);
                Error::io(what, &e).fix("run the command again in another folder")
            })?;
            eprintln!("in {}: epsilab {}", checkpoint.folder, checkpoint.command.join(" "));
            let command = checkpoint.command.into_iter().map(OsString::from).collect();
            return resume(checkpoint.id, command);
        }
        Some(Action::Remove { id, stored }) => {
            let (what, id) = if *stored {
                ("the stored run", lab::remove_run(id)?)
            } else {
                ("the checkpoint of", lab::remove_checkpoint(id)?)
            };
            eprintln!("removed {what} {id}; its charge in the ledger remains");
        }
    }
    Ok(ExitCode::SUCCESS)
}
