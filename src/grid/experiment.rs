//! An experiment: cases, each of which is trained with every seed.

use std::fmt;

use super::case::Case;
use super::live::LiveGrid;
use super::{GridObserver, GridResult, scheduler};
use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::{Model, ModelFactory};
use crate::privacy::digits::pluralise;
use crate::store::{RunStore, home};
use crate::{Error, ErrorKind, Result};

/// Experiment: cases that are each trained with the seeds 0, 1, … on the same data and model.
///
/// [`Grid`](super::Grid) makes one from axes.
///
/// ```
/// use epsilab::grid::{Case, Experiment};
/// use epsilab::prelude::*;
/// let rate = |rate: f64| {
///     let method = DpSgd::new().noise_multiplier(1.0).learning_rate(rate);
///     Case::from(method).label("learning rate", rate.to_string())
/// };
/// let experiment = Experiment::new([0.5, 1.0, 2.0].map(rate)).seeds(3);
/// assert_eq!(experiment.len(), 9);
/// ```
///
/// # Guarantee
/// Each run has the guarantee of its method and is charged like any other run. Seeds are 0 to n-1
/// (study mode): they are public, so the noise of these runs gives no privacy against those who
/// know them. Looking at many runs costs their composition, which the result states.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    pub(crate) cases: Vec<Case>,
    pub(crate) seeds: u64,
    pub(super) jobs: Option<usize>,
    pub(super) randomness: Randomness,
}

/// Source of the batches and the noise of an experiment's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Randomness {
    /// The seed of each run, which is public (study mode).
    #[default]
    Seeds,
    /// The same seed for all runs, or for `None` the operating system.
    Fixed(Option<u64>),
}

impl Randomness {
    /// Returns the seed of the plan of a run with this seed.
    pub(super) fn seed(self, seed: u64) -> Option<u64> {
        match self {
            Self::Seeds => Some(seed),
            Self::Fixed(seed) => seed,
        }
    }
}

impl Experiment {
    /// Returns an experiment with one seed.
    pub fn new(cases: impl IntoIterator<Item = impl Into<Case>>) -> Self {
        let cases = cases.into_iter().map(Into::into).collect();
        Self { cases, seeds: 1, jobs: None, randomness: Randomness::Seeds }
    }

    /// Sets the number of seeds per case, counted from 0; 1 by default. A seed decides the initial
    /// model, batches, noise and random masks.
    pub fn seeds(self, seeds: u64) -> Self {
        Self { seeds, ..self }
    }

    /// Trains up to this many runs at once; one after the other by default. On the CPU, the runs
    /// share its threads equally. Some steps are timed first, on random numbers of the shape of the
    /// data, and as many runs are trained at once as take the most steps per second: fewer than
    /// `jobs`, or one, where that is faster. With GPUs, each run has a GPU of its own.
    ///
    /// The results are those of one run after the other, bit for bit. So are the charges: each run
    /// is charged once, by an entry of its own, before its first step.
    pub fn jobs(self, jobs: usize) -> Self {
        Self { jobs: Some(jobs), ..self }
    }

    /// Sets the source of batches and noise.
    pub(crate) fn with_randomness(self, randomness: Randomness) -> Self {
        Self { randomness, ..self }
    }

    /// Returns the cases.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.cases.len().saturating_mul(usize::try_from(self.seeds).unwrap_or(usize::MAX))
    }

    /// Returns whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks the settings as far as no data is needed.
    ///
    /// # Errors
    /// Kind `Setting` without cases, seeds or jobs, for more than 10,000 seeds, for a case with a
    /// seed, with `.fresh()` or with a mask that its method can't have, and for several seeds of a
    /// private selection.
    pub fn check(&self) -> Result<()> {
        if self.cases.is_empty() {
            let why = "an experiment without cases has no runs";
            return Err(Error::setting("cases", "[]", why).fix("give at least one case"));
        }
        if self.seeds == 0 {
            return Err(Error::setting("seeds", 0, "without seeds there are no runs")
                .fix("use at least 3 to tell effects from the noise of seeds"));
        }
        if self.seeds > 10_000 {
            return Err(Error::setting("seeds", self.seeds, "a case has at most 10,000 runs")
                .fix("use 3 to 10"));
        }
        if self.jobs == Some(0) {
            return Err(Error::setting("jobs", 0, "no run would be trained")
                .fix("use 1 for one run after the other, or the number of cores"));
        }
        self.cases.iter().try_for_each(Case::check)?;
        if self.seeds != 1 && self.has_selections() {
            let why = "a private selection is one run, whose trials draw their own randomness";
            return Err(Error::setting("seeds", self.seeds, why).fix("use one seed"));
        }
        Ok(())
    }

    /// Returns whether a case is a private selection, so that no times may be shown.
    pub(super) fn has_selections(&self) -> bool {
        self.cases.iter().any(Case::is_selection)
    }

    /// Returns the plan of each case, without its seed. Nothing is trained or charged.
    ///
    /// # Errors
    /// `Setting` for an experiment that can't be run, such as one without cases; the error of the
    /// first case if none can be planned.
    pub fn plan_cells(&self, model: &Model, data: &Dataset) -> Result<Vec<Result<Plan>>> {
        self.check()?;
        let plans: Vec<Result<Plan>> =
            self.cases.iter().map(|case| case.plan(model, data, None)).collect();
        match plans.first() {
            Some(Err(error)) if plans.iter().all(Result::is_err) => Err(error.clone()),
            _ => Ok(plans),
        }
    }

    /// Trains every run that is not stored yet, each seed from an initial model of its own, with a
    /// live display of the progress. An interrupt stops after the current step. Finished runs are
    /// kept, and running the experiment again continues from there.
    ///
    /// # Errors
    /// `Setting` for an experiment that can't be run, such as one without cases; the error of the
    /// model or of the first case if the model can't be built for the data, or no case can be
    /// planned (for example, if the batch is larger than the data): nothing is trained then. Errors
    /// of some cases, such as a target that can't be reached, are in the result.
    pub fn run(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<GridResult> {
        let mut live = LiveGrid::default();
        let result = self.run_with_observer(model, data, &mut live)?;
        live.finish(&result);
        Ok(result)
    }

    /// Trains all runs and reports to an observer instead of a display; see [`run`](Self::run).
    ///
    /// # Errors
    /// `Setting` for an experiment that can't be run; the error of the model or of the first case
    /// if nothing can be trained.
    pub fn run_with_observer(
        &self,
        model: &dyn ModelFactory,
        data: &Dataset,
        observer: &mut dyn GridObserver,
    ) -> Result<GridResult> {
        scheduler::run_grid(self, model, data, &RunStore::open(home())?, observer)
    }

    /// Returns the result of the runs that are stored; nothing is trained or charged. Missing runs
    /// are in the errors of their cases.
    ///
    /// # Errors
    /// `Setting` for an experiment that can't be run; the error of the model if it can't be built
    /// for the data; `MissingData` if no run of the experiment is stored.
    pub fn stored(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<GridResult> {
        self.check()?;
        let advice = "run the grid again: stored runs are not trained again";
        let missing = |id: &str| {
            Error::new(ErrorKind::MissingData, format!("the run {id}"), "the run is not stored")
                .fix(advice)
        };
        let result = scheduler::from_store(self, model, data, &RunStore::open(home())?, &missing)?;
        match result.runs() {
            0 => {
                let what = format!("a grid on {}", data.name());
                let why = "none of its runs is stored in this project";
                Err(Error::new(ErrorKind::MissingData, what, why).fix(advice))
            }
            _ => Ok(result),
        }
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = self.cases.iter().map(Case::name).collect();
        names.dedup();
        let cells = pluralise(self.cases.len(), "case");
        let seeds = pluralise(usize::try_from(self.seeds).unwrap_or(usize::MAX), "seed");
        let runs = pluralise(self.len(), "run");
        write!(f, "grid of {}: {cells}, {seeds}, {runs}", names.join(", "))
    }
}
