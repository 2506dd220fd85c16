//! Trains the cases of an experiment, here or on a cluster.

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
use crate::train::{DataArgs, TrainArgs, fits};

/// Options of the executor that trains the runs.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ExecutorArgs {
    /// Train up to N runs at once, each with its share of the threads, or on a GPU of its own;
    /// fewer where that is faster
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
            let why = "it is for runs on this machine, and the runs are trained by Slurm";
            return Err(Error::setting("--jobs", jobs, why).fix("use --at-most for tasks at once"));
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
        options::count("--jobs", self.jobs)
    }
}

/// Cases of an experiment that share data and model, so that they are trained together.
pub struct Group {
    /// The places of the cases in the experiment.
    pub places: Vec<usize>,
    pub data: Dataset,
    /// The options of the first case.
    first: TrainArgs,
    cases: grid::Experiment,
}

/// The end of the training of a group.
pub enum Outcome {
    /// All runs have ended that can be trained.
    Finished,
    /// It was asked to stop.
    Interrupted,
    /// A part of what is done on a cluster has been done, and there is no result.
    Part(ExitCode),
}

/// Returns the cases of an experiment in groups, in the order of their first cases, each with its
/// data. A group whose data can't be read, or whose model does not fit them, is an error.
///
/// # Errors
/// As [`Case::train_args`].
pub fn groups(experiment: &Experiment, executor: &ExecutorArgs) -> Result<Vec<GroupOrError>> {
    let mut shared: Vec<(TrainArgs, Vec<usize>)> = Vec::new();
    for (place, case) in experiment.cases.iter().enumerate() {
        let args = case.train_args()?;
        match shared.iter_mut().find(|(first, _)| first.has_start_of(&args)) {
            Some((_, places)) => places.push(place),
            None => shared.push((args, vec![place])),
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
            let case = |&place: &usize| labelled(&experiment.cases[place], &labels);
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

/// A group, or the places of its cases and why there is none.
pub type GroupOrError = std::result::Result<Group, (Vec<usize>, Error)>;

/// Returns the case with the labels that tables show.
fn labelled(case: &Case, labels: &[String]) -> Result<grid::Case> {
    let made = case.train_args()?.case()?;
    Ok(labels.iter().fold(made, |made, name| match case.get(name) {
        Some(value) => made.label(name.clone(), value),
        None => made,
    }))
}

impl Group {
    /// Trains the runs that are not stored. Returns their result, if there is one, and how it
    /// ended.
    ///
    /// # Errors
    /// As [`grid::Experiment::run_watched`] and as the parts of a cluster.
    pub fn run(&self, executor: &ExecutorArgs) -> Result<(Option<GridResult>, Outcome)> {
        if self.first.trains_first() {
            if executor.is_cluster() {
                return Err(self.needs_start("--engine slurm or processes"));
            }
            // What the runs can't do is found before anything is trained.
            let untrained = self.first.untrained(&self.data, Some(0))?;
            for plan in self.cases.plans(&untrained, &self.data)?.iter().flatten() {
                fits(plan, &untrained)?;
                plan.place()?;
            }
            if let ControlFlow::Break(_) = self.first.model(&self.data, Some(0))? {
                return Ok((None, Outcome::Interrupted));
            }
        }
        let build = |seed| self.build(seed);
        if executor.is_cluster() {
            let checkpoints = self.first.checkpoints()?;
            let jobs = executor.jobs()?.unwrap_or(1);
            let grid = executor.cluster.on(&self.cases, checkpoints, jobs)?;
            let ended = executor.cluster.run(&grid, &self.data, &build)?;
            return Ok(match ended {
                Ok(result) => Self::ended(result),
                Err(code) => (None, Outcome::Part(code)),
            });
        }
        let model = self.first.untrained(&self.data, Some(0))?;
        let heading = format!("{}: {} on {}", self.cases, model.name(), self.data.name());
        let mut progress = ToStderr::new(heading);
        let result = self.cases.run_watched(&build, &self.data, &mut progress)?;
        Ok(Self::ended(result))
    }

    fn ended(result: GridResult) -> (Option<GridResult>, Outcome) {
        let ended = if result.is_interrupted() { Outcome::Interrupted } else { Outcome::Finished };
        (Some(result), ended)
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

    /// Returns why the case at this place of the group can't be trained; `error` if it is not
    /// known.
    pub fn error(&self, place: usize, error: &Error) -> Error {
        let found = self.cases.cases().get(place).map(|case| case.check_for(&self.data));
        found.and_then(Result::err).unwrap_or_else(|| error.clone())
    }

    /// Refuses what every run of a case would refuse, and a private method that has no guarantee
    /// whatever its noise is, where it aims at an epsilon.
    ///
    /// # Errors
    /// Kind `Setting` for the first such case.
    pub fn check(&self) -> Result<()> {
        self.cases.cases().iter().try_for_each(|case| case.check_for(&self.data))
    }

    /// Returns why a start that is trained first can't be used by what trains nothing here.
    fn needs_start(&self, by: &str) -> Error {
        let what = format!("{by} with a model that is trained on public data first");
        Error::new(ErrorKind::Setting, what, "nothing may be trained here")
            .fix("train the start by `train --out DIR` and name its file with --pretrained")
    }

    fn build(&self, seed: u64) -> Result<Model> {
        match self.first.model(&self.data, Some(seed))? {
            ControlFlow::Continue(model) => Ok(model),
            ControlFlow::Break(_) => Err(Error::new(
                ErrorKind::Model,
                "the model",
                "its training on public data was stopped",
            )),
        }
    }
}
