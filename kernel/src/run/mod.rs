//! The command `run`: executes notebooks without Jupyter or Python and writes the results. Begin
//! with `run`. A `job` takes one notebook from its file to its results: `notebook` reads and writes
//! the file, `kernel_client` starts a kernel and talks to it, `execute` runs the cells in it, and
//! `outputs` collects what they show.

mod compact;
mod compare;
mod execute;
mod job;
pub mod kernel_client;
pub mod notebook;
pub mod outputs;
mod params;
mod report;
pub mod result_paths;
pub mod stop_signal;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use epsilab::device::{DEVICE_VARIABLE, DeviceSpec};
use epsilab::{Error, Result};

use crate::html::interactive::Libraries;
use crate::{options, prebuilt};
use job::NotebookJob;
use params::Param;
use report::HaltReason;

/// Environment variable that passes the profile to cells.
const PROFILE_ENV_VAR: &str = "EPSILAB_PROFILE";

/// Execute notebooks and write the executed notebooks and HTML pages.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// The notebooks (.ipynb); each runs in its own kernel.
    #[arg(value_name = "NB", required = true)]
    pub notebooks: Vec<PathBuf>,
    /// Value of a variable in the cell with the tag `parameters`: a number, a word, true, false or
    /// JSON.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = params::read)]
    pub params: Vec<Param>,
    /// Write DIR/NB.ipynb and DIR/NB.html [default: NB.executed.ipynb and NB.html beside NB].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How much the notebook computes (default: EPSILAB_PROFILE from the environment).
    #[arg(long)]
    pub profile: Option<Profile>,
    /// Device for training: cpu, cuda, cuda:1, wgpu (default: EPSILAB_DEVICE from the environment,
    /// else a CUDA GPU if one works, else cpu).
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Stop if one cell takes longer than this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Write the outputs into the notebook itself, small: text and one PNG for each figure. The
    /// notebook is unchanged if a cell fails.
    #[arg(long, conflicts_with_all = ["out", "params", "interactive", "compare"])]
    pub inplace: bool,
    /// Compare the outputs with those that are saved in the notebook, and exit with 1 if they
    /// differ. Writes results only with --out.
    #[arg(long, conflicts_with_all = ["params", "interactive"])]
    pub compare: bool,
    /// Write no HTML page.
    #[arg(long)]
    pub no_html: bool,
    /// Make the figures of the HTML page interactive: the page contains Vega, which `npm` fetches
    /// the first time (or the folder EPSILAB_VEGA has it), and loads nothing when it is read.
    #[arg(long, conflicts_with = "no_html")]
    pub interactive: bool,
}

/// Amount of computation of a notebook.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Profile {
    /// Seconds: checks that everything works.
    Tiny,
    /// Minutes on two cores.
    Default,
    /// The settings of the papers.
    Full,
}

impl Profile {
    /// Returns the profile from the option, else from the environment.
    fn choose(profile: Option<Self>) -> Result<Self> {
        if let Some(profile) = profile {
            return Ok(profile);
        }
        match std::env::var_os(PROFILE_ENV_VAR).filter(|value| !value.is_empty()) {
            None => Ok(Profile::Default),
            Some(value) => {
                let value = value.to_string_lossy();
                <Self as clap::ValueEnum>::from_str(&value, false).map_err(|_| {
                    Error::setting(PROFILE_ENV_VAR, format!("{value:?}"), "unknown profile")
                        .fix("set it to tiny, default or full, or name one with `--profile`")
                })
            }
        }
    }
}

/// Runs the notebooks, one after the other. The exit code is 0 if every cell succeeded. A notebook
/// that fails does not stop the others.
///
/// # Errors
/// A notebook can't be read, its results can't be written, it has no such parameter, or the lab
/// can't be built. Nothing was run then.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let profile = Profile::choose(args.profile)?;
    let jobs = args.notebooks.iter().map(|path| NotebookJob::prepare(path, args));
    let mut jobs = jobs.collect::<Result<Vec<_>>>()?;
    check_distinct(&jobs)?;
    let libraries = args.interactive.then(Libraries::locate_or_fetch).transpose()?;
    let device = match &args.device {
        Some(name) => name.parse::<DeviceSpec>()?.checked()?,
        None => DeviceSpec::auto()?,
    };
    eprintln!("profile: {}, device: {}", options::name_of(&profile), device.describe());
    prebuilt::ensure_built(&mut prebuilt::terminal_progress())?;
    // The kernel ends with the thread that started it, so everything runs on this one.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::io("starting the runner", &e))?;
    let device = device.to_string();
    let name = options::name_of(&profile);
    let variables = [(PROFILE_ENV_VAR, name.as_str()), (DEVICE_VARIABLE, device.as_str())];
    let count = jobs.len();
    let mut failed = Vec::new();
    for (number, job) in jobs.iter_mut().enumerate() {
        if count > 1 {
            eprintln!("\n{} ({} of {count})", job.path.display(), number + 1);
        }
        let halt = job.run(&runtime, &variables, args, profile, libraries.as_ref()).unwrap_or_else(
            |error| {
                eprintln!("error: {error}");
                Some(HaltReason::KernelDied(error))
            },
        );
        if let Some(HaltReason::Interrupted) = halt {
            if number + 1 < count {
                eprintln!("not run: {} more", count - number - 1);
            }
            return Ok(HaltReason::Interrupted.exit_code());
        }
        failed.extend(halt.map(|halt| (job.path.display().to_string(), halt.summary())));
    }
    if count > 1 {
        eprintln!("\n{} of {count} notebooks succeeded", count - failed.len());
        for (path, summary) in &failed {
            eprintln!("  failed: {path} ({summary})");
        }
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns an error for notebooks whose results would be written to the same file.
fn check_distinct(jobs: &[NotebookJob<'_>]) -> Result<()> {
    let mut seen: HashMap<&PathBuf, &PathBuf> = HashMap::new();
    for job in jobs {
        let target = job.result_paths.as_ref().map_or(job.path, |targets| &targets.notebook);
        if let Some(other) = seen.insert(target, job.path) {
            let both = format!("{} and {}", other.display(), job.path.display());
            let why = format!("both would be written to {}", target.display());
            return Err(Error::setting("NB", both, why)
                .fix("name each notebook once, or run them with different folders `--out`"));
        }
    }
    Ok(())
}
