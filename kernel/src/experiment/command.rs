//! Common part of the commands `grid` and `sweep`: options, execution, and output of the results.

use std::path::PathBuf;
use std::process::ExitCode;

use epsilab::device::DeviceSpec;
use epsilab::grid::GridResult;
use epsilab::train::interrupt;
use epsilab::{Error, Result, file};

use super::case::Case;
use super::file::Experiment;
use super::options::CaseArgs;
use super::preview;
use super::results::{Results, Source, json, rows, write};
use super::run::{ExecutorArgs, Group, GroupOrError, Outcome, groups};
use crate::options::{check_out, non_negative_count};
use crate::stdout;

/// Options of commands that run experiments.
#[derive(clap::Args, Clone, Debug)]
pub struct ExperimentArgs {
    #[command(flatten)]
    pub cases: CaseArgs,
    /// Number of seeds per case, 0, 1, … [default: that of the file; 3 without one]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<i64>,
    /// Show the difference in accuracy of each case to this one, over the same seeds; 1 is the
    /// first case
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    baseline: Option<i64>,
    /// Show steps, noise and epsilon of every case and train nothing. Where a file states the
    /// number of examples, no data are read
    #[arg(long)]
    preview: bool,
    /// Write the results to this folder, as JSON, CSV and Markdown, and the figures; with --preview
    /// the costs
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print a JSON list with one object per case on stdout and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    executor: ExecutorArgs,
}

impl ExperimentArgs {
    /// Checks the options of the executor.
    ///
    /// # Errors
    /// Kind `Setting` for those of another one.
    pub fn check(&self) -> Result<()> {
        self.executor.check()
    }

    /// Returns the requested number of seeds.
    ///
    /// # Errors
    /// Kind `Setting` for a negative number.
    pub fn seeds(&self) -> Result<Option<u64>> {
        non_negative_count("--seeds", self.seeds)
    }

    /// Trains the experiments, prints and writes their results. Exit codes: 0, 1 if no run
    /// succeeded, 128 and the signal after a request to stop.
    ///
    /// # Errors
    /// Kind `Setting` for options that exclude each other, and for a case from options that can't
    /// be trained; errors of writing results, and of a cluster. Other errors of a run are among
    /// the results.
    pub fn run(&self, experiments: &[Experiment], source: Source<'_>) -> Result<ExitCode> {
        if let Some(out) = &self.out {
            check_out(out)?;
        }
        let baseline = self.baseline(experiments)?;
        if self.preview {
            let is_named = !source.is_file() || self.cases.0.contains_key("data");
            return preview::show(experiments, is_named, self.json, self.out.as_deref());
        }
        let (mut all, mut part) = (Vec::new(), None);
        for experiment in experiments {
            if source.is_file() {
                eprintln!("{}", experiment.heading());
            }
            let groups = self.groups(experiment, source)?;
            let (results, outcome) = Results::train(experiment, groups, &self.executor, source)?;
            all.push(match baseline {
                Some(index) => results.with_baseline(index)?,
                None => results,
            });
            match outcome {
                Outcome::Finished => {}
                Outcome::Part(code) => part = Some(code),
                Outcome::Interrupted => return self.report_interruption(&all, source),
            }
        }
        match part {
            Some(code) => Ok(code),
            None => self.finish(&all, source),
        }
    }

    /// Returns the index of the case that others are compared with.
    ///
    /// # Errors
    /// Kind `Setting` if an experiment has no such case.
    fn baseline(&self, experiments: &[Experiment]) -> Result<Option<usize>> {
        let Some(number) = self.baseline else { return Ok(None) };
        let cases = experiments.iter().map(|experiment| experiment.cases.len()).min().unwrap_or(0);
        match usize::try_from(number) {
            Ok(number) if (1..=cases).contains(&number) => Ok(Some(number - 1)),
            _ => {
                let why = format!("cases are numbered from 1 to {cases}");
                Err(Error::setting("--baseline", number, why)
                    .fix("give the row of a case in the table of results"))
            }
        }
    }

    /// Returns the groups of an experiment. Those from options can all be trained.
    fn groups(&self, experiment: &Experiment, source: Source<'_>) -> Result<Vec<GroupOrError>> {
        let groups = groups(experiment, &self.executor)?;
        if source.is_file() {
            return Ok(groups);
        }
        let groups = checked(groups)?;
        if !self.executor.is_cluster() {
            // The device of the nodes need not be here.
            experiment.cases.iter().try_for_each(check_device)?;
        }
        Ok(groups.into_iter().map(Ok).collect())
    }

    /// Prints the available results of experiments that were interrupted, and returns the exit
    /// code. A script must not take an incomplete list for the whole.
    fn report_interruption(&self, all: &[Results<'_>], source: Source<'_>) -> Result<ExitCode> {
        let done: usize = all.iter().flat_map(Results::grids).map(GridResult::runs).sum();
        eprintln!(
            "stopped after {done} finished runs, which are kept; the same command continues from \
             there"
        );
        if !self.json {
            print_words(all, source)?;
        }
        Ok(ExitCode::from(interrupt::exit_code()))
    }

    /// Prints and writes the results.
    fn finish(&self, all: &[Results<'_>], source: Source<'_>) -> Result<ExitCode> {
        let rows = rows(all, source);
        let json = json(&rows)?;
        if let Some(out) = &self.out {
            write(out, &json, all, source)?;
        }
        if self.json {
            stdout::print_line(&json)?;
        }
        // Last, because the total privacy cost takes a while to compute.
        if let Some(out) = &self.out {
            let sections: Vec<String> = all.iter().map(|one| one.markdown(source)).collect();
            file::write(out.join(format!("{}.md", source.command())), sections.join("\n"))?;
            eprintln!("wrote {}", out.display());
        }
        if !self.json {
            print_words(all, source)?;
        } else if self.out.is_some() {
            print_costs(all);
        }
        // In full, since stderr is read by the owner of the data.
        for (case, error) in all.iter().flat_map(Results::missing) {
            eprintln!("not trained: {case}, {}", error.replace('\n', " "));
        }
        let any = rows.iter().any(|row| row.cell.runs > 0);
        Ok(if any { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Returns the groups if all of them can be trained.
///
/// # Errors
/// The first error of a group, or of one of its cases.
pub fn checked(groups: Vec<GroupOrError>) -> Result<Vec<Group>> {
    let groups = groups.into_iter().map(|group| group.map_err(|(_, error)| error));
    let groups = groups.collect::<Result<Vec<Group>>>()?;
    groups.iter().try_for_each(Group::check)?;
    Ok(groups)
}

/// Returns an error for a device that can't be used, since every run would fail with the same
/// error.
fn check_device(case: &Case) -> Result<()> {
    match case.train_args()?.device()? {
        Some(device) => device.check(),
        None => DeviceSpec::auto().map(drop),
    }
}

/// Prints tables and notes, and on stderr the cost of other recorded runs, which changes with them.
fn print_words(all: &[Results<'_>], source: Source<'_>) -> Result<()> {
    let tables: Vec<String> = all.iter().map(|one| one.text(source)).collect();
    stdout::print_line(&tables.join("\n\n"))?;
    print_costs(all);
    Ok(())
}

/// Prints the cost of other recorded runs.
fn print_costs(all: &[Results<'_>]) {
    all.iter().flat_map(Results::grids).filter_map(GridResult::on_record).for_each(|line| {
        eprintln!("{line}");
    });
}
