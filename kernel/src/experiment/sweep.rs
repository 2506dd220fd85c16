//! The command `sweep`: the experiments of a file, each a set of runs over lists of options of
//! `train`.
//!
//! Every run is that of `train` with these options, so the same command trains nothing the second
//! time.

use std::path::PathBuf;
use std::process::ExitCode;

use epsilab::Result;
use epsilab::train::interrupt;

use super::file::{Experiment, Experiments};
use super::options::CaseArgs;
use super::rows::{Row, in_a_line};
use super::run::{ExecutorArgs, Outcome, groups};
use super::{out, preview, rows, stop_words};
use crate::options::{check_out, count};
use crate::stdout;

/// Train the experiments of a file: all combinations of lists of `train` options.
#[derive(clap::Args, Clone, Debug)]
pub struct SweepArgs {
    /// The experiments, as JSON
    file: PathBuf,
    /// Train only the experiments with these names
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of seeds per case, 0, 1, …, instead of that of the file
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<i64>,
    /// List the experiments, check them and train nothing
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// Show steps, noise and epsilon of every case and train nothing. Where the file says the
    /// number of examples, no data are read
    #[arg(long, conflicts_with = "list")]
    preview: bool,
    /// Write sweep.json and sweep.md to this folder, or preview.json and preview.md
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print a JSON list with one object per case on stdout and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cases: CaseArgs,
    #[command(flatten)]
    executor: ExecutorArgs,
}

/// Runs `sweep`. Exit codes: 0, 1 if no run succeeded, 128 and the signal after a request to stop.
///
/// # Errors
/// `Setting` for a file that holds no experiments and for a case that `train` would refuse before
/// it reads data; errors of writing results. Other errors of a run are reported in its row.
pub fn sweep(args: &SweepArgs) -> Result<ExitCode> {
    let Experiments(experiments) = Experiments::read(&args.file)?
        .only(&args.only)?
        .with_options(&args.cases.0)?
        .with_seeds(count("--seeds", args.seeds)?)?
        .checked()?;
    args.executor.check()?;
    if args.list {
        stdout::print(&out::list(&experiments))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(out) = &args.out {
        check_out(out)?;
    }
    if args.preview {
        let named = args.cases.0.contains_key("data");
        return preview::show(&experiments, named, args.json, args.out.as_deref());
    }
    let (mut rows, mut part) = (Vec::new(), None);
    for experiment in &experiments {
        let (of_it, ended) = train(experiment, &args.executor)?;
        rows.extend(of_it);
        match ended {
            Outcome::Finished => {}
            Outcome::Part(code) => part = Some(code),
            Outcome::Interrupted => {
                eprintln!("{}", stop_words(rows.iter().map(|row: &Row| row.runs).sum()));
                return Ok(ExitCode::from(interrupt::exit_code()));
            }
        }
    }
    match part {
        Some(code) => Ok(code),
        None => finish(args, &experiments, &rows),
    }
}

/// Prints and writes the results.
fn finish(args: &SweepArgs, experiments: &[Experiment], rows: &[Row]) -> Result<ExitCode> {
    let json = rows::json(rows)?;
    if let Some(folder) = &args.out {
        epsilab::file::write(folder.join("sweep.json"), format!("{json}\n"))?;
        let markdown = out::markdown(experiments, |e| out::results(e, rows));
        epsilab::file::write(folder.join("sweep.md"), markdown)?;
        eprintln!("wrote {}", folder.display());
    }
    let text = || out::text(experiments, |e| out::results(e, rows));
    stdout::print(&if args.json { json } else { text() })?;
    let cases = experiments.iter().flat_map(|e| e.cases.iter().map(|case| e.place(case)));
    for (place, row) in cases.zip(rows) {
        row.errors.iter().for_each(|error| eprintln!("not trained: {place}, {error}"));
    }
    let any = rows.iter().any(|row| row.runs > 0);
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Trains the cases of an experiment. What can't be trained is said in its row.
///
/// # Errors
/// As [`groups`], and as a cluster.
fn train(experiment: &Experiment, executor: &ExecutorArgs) -> Result<(Vec<Row>, Outcome)> {
    eprintln!("{}", experiment.heading());
    let mut rows: Vec<Row> = experiment.cases.iter().map(|c| Row::new(experiment, c)).collect();
    let mut ended = Outcome::Finished;
    for group in groups(experiment, executor)? {
        let group = match group {
            Ok(group) => group,
            Err((places, error)) => {
                places.iter().for_each(|&place| rows[place].failed(&error));
                continue;
            }
        };
        match group.run(executor) {
            Ok((result, how)) => {
                for (&place, cell) in group.places.iter().zip(result.iter().flat_map(|r| r.cells()))
                {
                    let paper = experiment.cases[place].paper.on(group.data.train().len());
                    rows[place].fill(cell, paper);
                }
                ended = how;
            }
            Err(error) if executor.is_cluster() => return Err(error),
            Err(error) => {
                // Runs that were finished before the error are kept.
                let stored = group.stored().ok();
                for (at, &place) in group.places.iter().enumerate() {
                    let paper = experiment.cases[place].paper.on(group.data.train().len());
                    let cell = stored.as_ref().and_then(|result| result.cells().get(at));
                    cell.iter().for_each(|cell| rows[place].fill(cell, paper.clone()));
                    if cell.is_none_or(|cell| cell.runs.is_empty()) {
                        rows[place].errors = vec![in_a_line(&group.error(at, &error))];
                    }
                }
            }
        }
        if let Outcome::Interrupted = ended {
            break;
        }
    }
    Ok((rows, ended))
}
