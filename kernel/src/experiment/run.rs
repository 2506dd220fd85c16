//! Training of the cases of an experiment, here or on a cluster.

use std::ops::ControlFlow;
use std::process::ExitCode;

use epsilab::data::Dataset;
use epsilab::grid::{self, GridResult};
use epsilab::nn::Model;
use epsilab::{Error, ErrorKind, Result};

use super::case::Case;
use super::file::Experiment;
use super::progress::ToStderr;
use super::slurm::{Engine, SlurmArgs};
use crate::options;
use crate::train::{DataArgs, TrainArgs, check_freezing};

/// Options of the executor that trains the runs.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ExecutorArgs {
    /// Train up to N runs at once, each with its share of the threads, or on its own GPU; fewer
    /// where that is faster
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    jobs: Option<i64>,
    #[command(flatten)]
    pub cluster: SlurmArgs,
}

impl ExecutorArgs {
    /// Checks the options.
    ///
    /// # Errors
    /// Kind `Setting` for options of another executor than the one that is asked for.
    pub fn check(&self) -> Result<()> {
        self.cluster.check()?;
        if let (Engine::Slurm, Some(jobs)) = (self.cluster.engine, self.jobs) {
            let why = "--jobs applies to runs on this machine, but Slurm trains these runs";
            return Err(Error::setting("--jobs", jobs, why)
                .fix("use --at-most to limit the tasks that run at once"));
        }
        match self.jobs()? {
            Some(0) => Err(Error::setting("--jobs", 0, "no run would be trained")
                .fix("use 1 for one run after the other, or the number of cores")),
            _ => Ok(()),
        }
    }

    /// Returns whether the runs are trained by other processes.
    pub fn is_cluster(&self) -> bool {
        self.cluster.engine != Engine::Local
    }

    fn jobs(&self) -> Result<Option<usize>> {
        options::non_negative_count("--jobs", self.jobs)
    }
}

/// Group of cases of an experiment that share data and model, so that they are trained together.
pub struct Group {
    /// Indices of the cases in the experiment.
    pub places: Vec<usize>,
    pub data: Dataset,
    /// The options of the first case.
    first: TrainArgs,
    cases: grid::Experiment,
}

/// How the training of a group ended.
pub enum Outcome {
    /// All runs that can be trained have ended.
    Finished,
    /// The training was asked to stop.
    Interrupted,
    /// One part of the work on a cluster is done, and there is no result yet.
    Part(ExitCode),
}

/// Returns the cases of an experiment in groups, in the order of their first cases, each with its
/// data. A group whose data can't be read, or whose model does not fit them, is an error.
///
/// # Errors
/// As [`Case::train_args`].
pub fn groups(experiment: &Experiment, executor: &ExecutorArgs) -> Result<Vec<GroupOrError>> {
    let mut shared: Vec<(TrainArgs, Vec<usize>)> = Vec::new();
    for (index, case) in experiment.cases.iter().enumerate() {
        let args = case.train_args()?;
        match shared.iter_mut().find(|(first, _)| first.has_start_of(&args)) {
            Some((_, places)) => places.push(index),
            None => shared.push((args, vec![index])),
        }
    }
    let mut read: Option<(DataArgs, Dataset)> = None;
    let labels = experiment.labels();
    let group = |(first, places): (TrainArgs, Vec<usize>)| {
        let data = match &read {
            Some((args, data)) if *args == first.data => Ok(data.clone()),
            _ => first.data.read(),
        };
        let made = data.and_then(|data| {
            read = Some((first.data.clone(), data.clone()));
            first.untrained(&data, Some(0))?;
            first.note_small_batch(&data);
            let case = |&index: &usize| labelled(&experiment.cases[index], &labels, &data);
            let cases = places.iter().map(case).collect::<Result<Vec<_>>>()?;
            let cases = grid::Experiment::new(cases).seeds(experiment.seeds);
            let cases = match executor.jobs()? {
                Some(jobs) => cases.jobs(jobs),
                None => cases,
            };
            cases.check()?;
            Ok(Group { places: places.clone(), data, first: first.clone(), cases })
        });
        made.map_err(|error| (places, error))
    };
    Ok(shared.into_iter().map(group).collect())
}

/// Group of cases, or the indices of its cases and the error that prevents it.
pub type GroupOrError = std::result::Result<Group, (Vec<usize>, Error)>;

/// Returns the case with the labels that tables show.
fn labelled(case: &Case, labels: &[String], data: &Dataset) -> Result<grid::Case> {
    let made = case.train_args()?.case(Some(data.train().len()))?;
    Ok(labels.iter().fold(made, |made, name| match case.get(name) {
        Some(value) => made.label(name.clone(), value),
        None => made,
    }))
}

impl Group {
    /// Trains the runs that are not stored, and returns their result, if there is one, and the
    /// outcome.
    ///
    /// # Errors
    /// As [`grid::Experiment::run_with_observer`] and as the parts of a cluster.
    pub fn run(&self, executor: &ExecutorArgs) -> Result<(Option<GridResult>, Outcome)> {
        if self.first.trains_first() {
            if executor.is_cluster() {
                return Err(self.needs_start("--engine slurm or processes"));
            }
            // What the runs can't do is found before anything is trained.
            let untrained = self.first.untrained(&self.data, Some(0))?;
            for plan in self.cases.plan_cells(&untrained, &self.data)?.iter().flatten() {
                check_freezing(plan, &untrained)?;
                plan.resolve_device()?;
            }
            if let ControlFlow::Break(_) = self.first.model(&self.data, Some(0))? {
                return Ok((None, Outcome::Interrupted));
            }
        }
        let build = |seed| self.build(seed);
        if executor.is_cluster() {
            let checkpoints = self.first.checkpoint_interval()?;
            let jobs = executor.jobs()?.unwrap_or(1);
            let grid = executor.cluster.on(&self.cases, checkpoints, jobs)?;
            let ended = executor.cluster.run(&grid, &self.data, &build)?;
            return Ok(match ended {
                Ok(result) => Self::with_outcome(result),
                Err(code) => (None, Outcome::Part(code)),
            });
        }
        let model = self.first.untrained(&self.data, Some(0))?;
        let heading = format!("{}: {} on {}", self.cases, model.name(), self.data.name());
        let mut progress = ToStderr::new(heading);
        let result = self.cases.run_with_observer(&build, &self.data, &mut progress)?;
        Ok(Self::with_outcome(result))
    }

    fn with_outcome(result: GridResult) -> (Option<GridResult>, Outcome) {
        let outcome =
            if result.is_interrupted() { Outcome::Interrupted } else { Outcome::Finished };
        (Some(result), outcome)
    }

    /// Returns the result of the runs that are stored.
    ///
    /// # Errors
    /// As [`grid::Experiment::stored`].
    pub fn stored(&self) -> Result<GridResult> {
        if self.first.trains_first() {
            return Err(self.needs_start("a report"));
        }
        self.cases.stored(&|seed| self.build(seed), &self.data)
    }

    /// Returns the error that prevents the training of the case at index `index`; `error` if none
    /// is found.
    pub fn error(&self, index: usize, error: &Error) -> Error {
        let found = self.cases.cases().get(index).map(|case| case.validate_for(&self.data));
        found.and_then(Result::err).unwrap_or_else(|| error.clone())
    }

    /// Returns an error for what every run of a case would refuse, and for a private method that
    /// has no guarantee whatever its noise is, where it aims at an epsilon.
    ///
    /// # Errors
    /// Kind `Setting` for the first such case.
    pub fn check(&self) -> Result<()> {
        self.cases.cases().iter().try_for_each(|case| case.validate_for(&self.data))
    }

    /// Returns the error of an `executor` that trains nothing here, for a start that must be
    /// trained first.
    fn needs_start(&self, executor: &str) -> Error {
        let what = format!("{executor} with a model that is first trained on public data");
        Error::new(ErrorKind::Setting, what, "nothing is trained on the submitting machine").fix(
            "train the initial model with `train --out DIR` and name its file with --pretrained",
        )
    }

    fn build(&self, seed: u64) -> Result<Model> {
        match self.first.model(&self.data, Some(seed))? {
            ControlFlow::Continue(model) => Ok(model),
            ControlFlow::Break(_) => Err(Error::new(
                ErrorKind::Model,
                "the model",
                "the training on public data was stopped",
            )),
        }
    }
}
