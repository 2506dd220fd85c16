//! The command `sweep`: the experiments of a file, each a set of runs over lists of options of
//! `train`.
//!
//! Every run is that of `train` with these options, so the same command trains nothing the second
//! time.

mod case;
mod file;
mod out;
mod paper;
mod preview;
mod rows;

use std::path::PathBuf;
use std::process::ExitCode;

use epsilab::data::{Dataset, Population};
use epsilab::train::{Run, interrupt};
use epsilab::{Error, Result};

use crate::train::DataArgs;
use crate::{options, stdout};
use case::Case;
use file::{Experiment, Experiments};
use preview::{Preview, Previewed};
use rows::Row;

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
    /// Options of `train` after `--`, which replace those of the file in every case
    #[arg(last = true, value_name = "TRAIN OPTIONS", allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Runs `sweep`. Exit codes: 0, 1 if no run succeeded, 128 and the signal after a request to stop.
///
/// # Errors
/// `Setting` for a file that holds no experiments and for a case that `train` would refuse before
/// it reads data; errors of writing results. Other errors of a run are reported in its row.
pub fn sweep(args: &SweepArgs) -> Result<ExitCode> {
    let experiments = Experiments::read(&args.file)?
        .only(&args.only)?
        .with_options(&args.options)?
        .with_seeds(options::count("--seeds", args.seeds)?)?;
    experiments.check()?;
    if args.list {
        stdout::print(&experiments.list())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(out) = &args.out {
        options::check_out(out)?;
    }
    let mut trainer = Trainer { data: None, done: 0, all: experiments.runs() };
    if args.preview {
        return preview(args, &experiments, &mut trainer);
    }
    let mut rows = Vec::new();
    for experiment in &experiments.0 {
        for case in &experiment.cases {
            let Some(row) = trainer.case(experiment, case)? else {
                let (done, all) = (trainer.done, trainer.all);
                eprintln!(
                    "stopped after {done} of {all} runs, which are kept; the same command \
                     continues from there"
                );
                return Ok(ExitCode::from(interrupt::exit_code()));
            };
            rows.push(row);
        }
    }
    let json = rows::json(&rows)?;
    if let Some(folder) = &args.out {
        epsilab::file::write(folder.join("sweep.json"), format!("{json}\n"))?;
        let markdown = out::markdown(&experiments, |e| out::results(e, &rows));
        epsilab::file::write(folder.join("sweep.md"), markdown)?;
        eprintln!("wrote {}", folder.display());
    }
    let text = || out::text(&experiments, |e| out::results(e, &rows));
    stdout::print(&if args.json { json } else { text() })?;
    let cases = experiments.0.iter().flat_map(|e| e.cases.iter().map(|case| e.place(case)));
    for (place, row) in cases.zip(&rows) {
        row.errors.iter().for_each(|error| eprintln!("not trained: {place}, {error}"));
    }
    let any = rows.iter().any(|row| row.runs > 0);
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shows what the cases cost.
fn preview(args: &SweepArgs, sweep: &Experiments, trainer: &mut Trainer) -> Result<ExitCode> {
    let costs = Experiments(sweep.0.iter().map(Experiment::costs).collect());
    let mut previews: Vec<(String, Vec<Previewed>)> = Vec::new();
    // Data that the command names are not those of the paper.
    let named = case::options_of(&args.options)?.contains_key("data");
    let mut population = |case: &Case| match case.paper.examples.filter(|_| !named) {
        Some(examples) => Ok(Population::of(examples)),
        None => Ok((&trainer.data(&case.train_args(0)?.data)?).into()),
    };
    for experiment in &costs.0 {
        let of = |case| population(case).and_then(|p| Preview::of(experiment, case, &p));
        let of = experiment.cases.iter().map(of).map(|preview| preview.map_err(|e| in_a_line(&e)));
        previews.push((experiment.name.clone(), of.collect()));
    }
    let cells = |e: &Experiment| {
        let of_it = previews.iter().find(|(name, _)| *name == e.name);
        preview::cells(e, of_it.map_or(&[], |(_, previews)| previews))
    };
    let planned: Vec<&Preview> =
        previews.iter().flat_map(|(_, all)| all.iter().flatten()).collect();
    let json = rows::json(&planned)?;
    if let Some(folder) = &args.out {
        epsilab::file::write(folder.join("preview.json"), format!("{json}\n"))?;
        epsilab::file::write(folder.join("preview.md"), out::markdown(&costs, cells))?;
        eprintln!("wrote {}", folder.display());
    }
    stdout::print(&if args.json { json } else { out::text(&costs, cells) })?;
    for (experiment, (_, all)) in costs.0.iter().zip(&previews) {
        let cases = experiment.cases.iter().zip(all);
        let refused = cases.filter_map(|(case, preview)| Some((case, preview.as_ref().err()?)));
        refused.for_each(|(case, why)| eprintln!("not planned: {}, {why}", experiment.place(case)));
    }
    Ok(if planned.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn in_a_line(error: &Error) -> String {
    error.to_string().replace('\n', " ")
}

/// Trains cases one after the other.
struct Trainer {
    /// The data of the last case, which the next one often has too.
    data: Option<(DataArgs, Dataset)>,
    done: usize,
    all: usize,
}

impl Trainer {
    /// The runs of a case with every seed; `None` after Ctrl-C. Errors of runs are in the row.
    ///
    /// # Errors
    /// As [`Case::train_args`].
    fn case(&mut self, experiment: &Experiment, case: &Case) -> Result<Option<Row>> {
        let mut row = Row::of(experiment, case);
        for seed in 0..experiment.seeds {
            let args = case.train_args(seed)?;
            let place = format!("{}, seed {seed}", experiment.place(case));
            let heading = format!("[{} of {}] {place}", self.done + 1, self.all);
            let data = self.data(&args.data);
            if let Ok(data) = &data {
                row.paper = case.paper.on(data.train().len());
            }
            match data.and_then(|data| args.run(&data, Some(heading))) {
                Ok(run) if run.interrupted() => return Ok(None),
                run => match run.and_then(Run::if_stored) {
                    Ok(run) => {
                        let again = if run.is_restored() { " (trained before)" } else { "" };
                        eprintln!("{run}{again}");
                        row.add(&run);
                    }
                    Err(error) => row.failed(seed, &error),
                },
            }
            self.done += 1;
        }
        Ok(Some(row))
    }

    fn data(&mut self, args: &DataArgs) -> Result<Dataset> {
        if let Some((last, data)) = &self.data
            && last == args
        {
            return Ok(data.clone());
        }
        let data = args.read()?;
        self.data = Some((args.clone(), data.clone()));
        Ok(data)
    }
}
