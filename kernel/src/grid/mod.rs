//! The command `grid`: accuracies over pruning rates, dropping rates, epsilons and seeds.
//!
//! The library trains the runs and stores them in the project's run store, so the same command
//! trains nothing the second time.

mod out;
pub mod plan;
mod progress;
mod slurm;
pub mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use epsilab::data::Dataset;
use epsilab::grid::{Grid, GridResult, Row};
use epsilab::train::interrupt;
use epsilab::{Error, ErrorKind, Result, file};

use crate::{options, stdout};
pub use out::file_name;
use plan::Plan;
use progress::ToStderr;
use slurm::{Engine, SlurmArgs};

/// Train over pruning rates, dropping rates, epsilons and seeds, and tabulate the accuracies.
#[derive(clap::Args, Clone, Debug)]
pub struct GridArgs {
    #[command(flatten)]
    pub plan: Plan,
    /// Read the plan from a JSON file; options on the command line replace its keys
    #[arg(long = "plan", value_name = "FILE", id = "plan_file")]
    pub file: Option<PathBuf>,
    /// Train up to N runs at once, each with its share of the threads, or on a GPU of its own;
    /// fewer where that is faster
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub jobs: Option<i64>,
    /// Write grid.json, grid.csv, grid.md, plan.json and the figures to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print a JSON list with one object per cell on stdout and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub cluster: SlurmArgs,
}

/// The file of `--out` from which `report` knows the grid.
pub const PLAN: &str = "plan.json";

/// The stored runs of the grid of a plan file, for each data set and model. Nothing is trained.
///
/// # Errors
/// Kind `Setting` for a plan that can't be run; errors of reading data and store; `MissingData` if
/// nothing is stored.
pub fn stored(file: &Path) -> Result<(Plan, Vec<GridResult>)> {
    let plan = Plan::read(file)?;
    let grid = plan.grid_elsewhere()?;
    let activation = plan.activation()?;
    let models = options::choose_all("--model", &plan.models(), &options::MODELS)?;
    let data = options::choose_all("--data", &plan.data(), &options::DATA)?;
    let mut results = Vec::new();
    for (_, read) in &data {
        let data = plan.cut(&read()?)?;
        plan.check_for(&data)?;
        for &named in &models {
            let build = |seed| options::model(named, &data, (activation, Some(seed)));
            results.push(grid.stored_with(&build, &data)?);
        }
    }
    Ok((plan, results))
}

/// Runs `grid`. Exit codes: 0, 1 if no run succeeded, 128 and the signal after a request to
/// stop.
///
/// # Errors
/// Kind `Setting` for a plan that can't be run, before anything is trained; errors of reading data
/// and writing results.
pub fn grid(args: &GridArgs) -> Result<ExitCode> {
    let plan = match &args.file {
        Some(file) => args.plan.clone().over(Plan::read(file)?),
        None => args.plan.clone(),
    };
    args.cluster.check()?;
    let on_cluster = args.cluster.engine == Engine::Slurm;
    if let (true, Some(jobs)) = (on_cluster, args.jobs) {
        let why = "it is for runs on this machine, and the runs are trained by Slurm";
        return Err(Error::setting("--jobs", jobs, why).fix("use --at-most for tasks at once"));
    }
    // The device of the nodes need not be here.
    let grid = if on_cluster { plan.grid_elsewhere()? } else { plan.grid()? };
    let grid = match options::count("--jobs", args.jobs)? {
        Some(jobs) => grid.jobs(jobs),
        None => grid,
    };
    grid.check()?;
    let activation = plan.activation()?;
    let models = options::choose_all("--model", &plan.models(), &options::MODELS)?;
    let data = options::choose_all("--data", &plan.data(), &options::DATA)?;
    if let Some(out) = &args.out {
        options::check_out(out)?;
    }
    let data: Vec<Dataset> =
        data.iter().map(|(_, read)| plan.cut(&read()?)).collect::<Result<_>>()?;
    data.iter().try_for_each(|data| plan.check_for(data))?;
    // Before anything is trained: a model that does not fit its data ends the command.
    for data in &data {
        models
            .iter()
            .try_for_each(|&named| options::model(named, data, (activation, Some(0))).map(drop))?;
    }
    let (mut results, mut ended) = (Vec::new(), None);
    'all: for data in &data {
        for &named in &models {
            let build = |seed| options::model(named, data, (activation, Some(seed)));
            let result = if on_cluster {
                match args.cluster.run(&grid, data, &build)? {
                    Ok(result) => result,
                    Err(code) => {
                        ended = Some(code);
                        continue;
                    }
                }
            } else {
                one(&grid, named.0, data, &build)?
            };
            let interrupted = result.is_interrupted();
            results.push(result);
            if interrupted {
                break 'all;
            }
        }
    }
    match ended {
        Some(code) => Ok(code),
        None => finish(args, &plan, &results),
    }
}

/// Runs the grid for one data set and model.
fn one(
    grid: &Grid,
    name: &str,
    data: &Dataset,
    build: &dyn Fn(u64) -> Result<epsilab::nn::Model>,
) -> Result<GridResult> {
    let heading = format!("{grid}: {name} on {}", data.name());
    grid.run_watched(build, data, &mut ToStderr::new(heading))
}

/// Prints and writes the results.
fn finish(args: &GridArgs, plan: &Plan, results: &[GridResult]) -> Result<ExitCode> {
    let interrupted = results.iter().any(GridResult::is_interrupted);
    let rows: Vec<Row> = epsilab::grid::rows(results);
    let json = serde_json::to_string(&rows)
        .map_err(|e| Error::new(ErrorKind::Io, "the results as JSON", e.to_string()))?;
    let out = args.out.as_ref().filter(|_| !interrupted);
    if interrupted {
        let done: usize = results.iter().map(GridResult::runs).sum();
        eprintln!(
            "stopped after {done} finished runs, which are kept; the same command continues from \
             there"
        );
    } else if let Some(out) = out {
        out::write(out, &json, results)?;
        file::write(out.join(PLAN), plan.to_file()?)?;
    }
    // A script must not take an incomplete list for the whole.
    if args.json && !interrupted {
        stdout::print(&json)?;
    }
    // Last, because the total privacy cost takes a while to compute.
    if let Some(out) = out {
        out::write_notes(out, results)?;
    }
    if !args.json {
        let words: Vec<String> = results.iter().map(ToString::to_string).collect();
        stdout::print(&words.join("\n\n"))?;
    }
    if !args.json || out.is_some() {
        // On stderr, because it changes with other runs; stdout stays the same.
        results.iter().filter_map(GridResult::on_record).for_each(|line| eprintln!("{line}"));
    }
    let any = rows.iter().any(|row| row.runs > 0);
    // In full, since stderr is read by the owner of the data.
    let cells = results.iter().flat_map(GridResult::cells);
    for error in cells.flat_map(|cell| &cell.errors) {
        eprintln!("not trained: {}", error.replace('\n', " "));
    }
    Ok(match (interrupted, any) {
        (true, _) => ExitCode::from(interrupt::exit_code()),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}
