//! The axes of a grid, checked before anything is trained.

use std::fmt;

use super::{GridMethod, GridObserver, GridResult, MaskKind, live::LiveGrid, run};
use crate::data::Dataset;
use crate::mask::{Dropping, DroppingRule};
use crate::nn::{Family, Model, ModelBuilder};
use crate::privacy::digits::counted;
use crate::privacy::{Delta, Epsilon};
use crate::store::{Store, home};
use crate::{Error, ErrorKind, Result};

/// The axes of an accuracy grid: methods, epsilons, pruning rates, dropping rates, seeds.
///
/// ```
/// use epsilab::prelude::*;
/// let grid = Grid::new(DpSsgd::new().clip(0.1).batch_size(1024).epochs(5))
///     .masks(MaskKind::Synflow)
///     .pre_prune([0.0, 0.3, 0.6, 0.9])
///     .drop_gradients(DroppingRule::Random, [0.0, 0.3, 0.6, 0.9])
///     .epsilon([1.0, 3.0])
///     .seeds(3);
/// assert_eq!(grid.len(), 96);
/// ```
///
/// # Guarantee
/// Each run has the guarantee of its method and is charged like any other run. Seeds are 0 to n-1
/// (study mode): they are public, so the noise of these runs gives no privacy against those who
/// know them. Looking at many runs costs their composition, which the result states.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub(super) methods: Vec<GridMethod>,
    pub(crate) masks: MaskKind,
    pub(crate) pre_prune: Vec<f64>,
    pub(super) rule: DroppingRule,
    pub(super) drop: Vec<f64>,
    pub(super) epsilon: Option<Vec<f64>>,
    delta: f64,
    pub(crate) seeds: u64,
    pub(super) jobs: Option<usize>,
}

/// A cell of the grid: settings that are trained with every seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Index of the method.
    pub(super) method: usize,
    /// Target epsilon of its runs; `None` without privacy, or if the method has its own.
    pub(super) epsilon: Option<f64>,
    pub(super) pre_prune: f64,
    pub(super) drop: f64,
}

impl Grid {
    /// A grid of one cell and one seed: a method without further axes.
    pub fn new(method: impl Into<GridMethod>) -> Self {
        Self {
            methods: vec![method.into()],
            masks: MaskKind::default(),
            pre_prune: vec![0.0],
            rule: DroppingRule::Random,
            drop: vec![0.0],
            epsilon: None,
            delta: Delta::DEFAULT.0,
            seeds: 1,
            jobs: None,
        }
    }

    /// Adds a method, which is compared along the axes that apply to it.
    pub fn beside(mut self, method: impl Into<GridMethod>) -> Self {
        self.methods.push(method.into());
        self
    }

    /// How masks are made; Synflow by default.
    pub fn masks(self, masks: MaskKind) -> Self {
        Self { masks, ..self }
    }

    /// The pruning rates: fractions of the weights that are not trained. 0 means no mask.
    pub fn pre_prune(self, rates: impl IntoIterator<Item = f64>) -> Self {
        Self { pre_prune: rates.into_iter().collect(), ..self }
    }

    /// The dropping rates: fractions of each tensor's coordinates that a step drops, chosen by this
    /// rule. 0 means no dropping.
    pub fn drop_gradients(self, rule: DroppingRule, rates: impl IntoIterator<Item = f64>) -> Self {
        Self { rule, drop: rates.into_iter().collect(), ..self }
    }

    /// The target epsilons of the private runs, instead of the method's own target.
    pub fn epsilon(self, epsilons: impl IntoIterator<Item = f64>) -> Self {
        Self { epsilon: Some(epsilons.into_iter().collect()), ..self }
    }

    /// The delta of these epsilons; 1e-5 by default.
    pub fn delta(self, delta: f64) -> Self {
        Self { delta, ..self }
    }

    /// Number of seeds per cell, counted from 0; 1 by default. A seed decides the initial model,
    /// batches, noise and random masks.
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

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.points().len().saturating_mul(usize::try_from(self.seeds).unwrap_or(usize::MAX))
    }

    /// Whether an axis is empty, so that there are no runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks the axes.
    ///
    /// # Errors
    /// Kind `Setting`: an axis that is empty or has a value twice, no seeds or jobs, a rate outside
    /// [0, 1), an epsilon or delta out of range, a method with settings that belong to the grid,
    /// rates for methods that have none.
    pub fn check(&self) -> Result<()> {
        self.methods.iter().try_for_each(GridMethod::check)?;
        let names: Vec<&str> = self.methods.iter().map(GridMethod::name).collect();
        distinct("method", &names)?;
        let none = Vec::new();
        let epsilons = self.epsilon.as_ref();
        for (name, axis) in [
            ("pre_prune", &self.pre_prune),
            ("drop_gradients", &self.drop),
            ("epsilon", epsilons.unwrap_or(&none)),
        ] {
            if axis.is_empty() && !(name == "epsilon" && epsilons.is_none()) {
                return Err(Error::setting(name, "[]", "a grid with an empty axis has no runs")
                    .fix("give at least one value, such as 0 for a rate"));
            }
            if name == "epsilon" {
                axis.iter().try_for_each(|&epsilon| Epsilon(epsilon).check().map(|_| ()))?;
            } else {
                axis.iter()
                    .try_for_each(|&rate| crate::mask::check_rate(name, rate).map(|_| ()))?;
            }
            distinct(name, axis)?;
        }
        Delta(self.delta).check()?;
        if self.seeds == 0 {
            return Err(Error::setting("seeds", 0, "a grid without seeds has no runs")
                .fix("use at least 3 to tell effects from the noise of seeds"));
        }
        if self.seeds > 10_000 {
            return Err(Error::setting("seeds", self.seeds, "a cell has at most 10,000 runs")
                .fix("use 3 to 10"));
        }
        if self.jobs == Some(0) {
            return Err(Error::setting("jobs", 0, "no run would be trained")
                .fix("use 1 for one run after the other, or the number of cores"));
        }
        let rates = self.pre_prune.iter().chain(&self.drop);
        if rates.clone().any(|&rate| rate > 0.0) && !self.methods.iter().any(|m| m.is_sparse()) {
            return Err(Error::new(
                ErrorKind::Setting,
                "pruning or dropping rates in a grid of DP-SGD alone",
                "DP-SGD trains every coordinate in every step",
            )
            .fix("use DpSsgd (dp-ssgd): with both rates at 0 it is DP-SGD"));
        }
        Ok(())
    }

    /// The cells, in the order in which they are shown.
    pub(crate) fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (method, which) in self.methods.iter().enumerate() {
            let epsilons: Vec<Option<f64>> = match &self.epsilon {
                Some(epsilons) if which.is_private() => {
                    epsilons.iter().copied().map(Some).collect()
                }
                _ => vec![None],
            };
            let (pruned, dropped) = if which.is_sparse() {
                (self.pre_prune.as_slice(), self.drop.as_slice())
            } else {
                (&[0.0][..], &[0.0][..])
            };
            for &epsilon in &epsilons {
                for &pre_prune in pruned {
                    for &drop in dropped {
                        points.push(Point { method, epsilon, pre_prune, drop });
                    }
                }
            }
        }
        points
    }

    /// The target of a cell's runs, if the grid sets it.
    pub(super) fn target(&self, point: &Point) -> Option<(Epsilon, Delta)> {
        point.epsilon.map(|epsilon| (Epsilon(epsilon), Delta(self.delta)))
    }

    /// The gradient dropping of a cell's runs.
    pub(super) fn dropping(&self, point: &Point) -> Option<Dropping> {
        let dropping = match self.rule {
            DroppingRule::Random => Dropping::random(point.drop),
            DroppingRule::Magnitude => Dropping::magnitude(point.drop),
        };
        (point.drop > 0.0).then_some(dropping)
    }

    /// Trains every run that is not stored yet, each seed from an initial model of its own, with a
    /// live display of the progress. An interrupt stops after the current step. Finished runs are
    /// kept, and running the grid again continues from there.
    ///
    /// # Errors
    /// As [`check`](Self::check); if the model can't be built for the data, or no cell can be
    /// planned (for example, if the batch is larger than the data): nothing is trained then. Errors
    /// of some cells, such as a target that can't be reached, are in the result.
    pub fn run<F: Family>(&self, model: &ModelBuilder<F>, data: &Dataset) -> Result<GridResult> {
        let mut live = LiveGrid::default();
        let build = |seed| model.clone().seed(seed).build();
        let result = self.run_watched(&build, data, &mut live)?;
        live.finish(&result);
        Ok(result)
    }

    /// As [`run`](Self::run), with a function that builds the model of a seed and an observer
    /// instead of a display. The model of a seed must be the same in every call.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watched(
        &self,
        build: &dyn Fn(u64) -> Result<Model>,
        data: &Dataset,
        observer: &mut dyn GridObserver,
    ) -> Result<GridResult> {
        run::run(self, build, data, &Store::open(home())?, observer)
    }

    /// The result of the runs that are stored; nothing is trained or charged. Missing runs are in
    /// the errors of their cells. `build` is that of [`run_watched`](Self::run_watched).
    ///
    /// # Errors
    /// As [`run`](Self::run); `MissingData` if no run of the grid is stored.
    pub fn stored_with(
        &self,
        build: &dyn Fn(u64) -> Result<Model>,
        data: &Dataset,
    ) -> Result<GridResult> {
        self.check()?;
        let again = "run the grid again: what is stored is not trained again";
        let missing = |id: &str| {
            Error::new(ErrorKind::MissingData, format!("the run {id}"), "it is not stored")
                .fix(again)
        };
        let result = run::from_store(self, build, data, &Store::open(home())?, &missing)?;
        match result.runs() {
            0 => {
                let what = format!("a grid on {}", data.name());
                let why = "none of its runs is stored in this project";
                Err(Error::new(ErrorKind::MissingData, what, why).fix(again))
            }
            _ => Ok(result),
        }
    }
}

fn distinct<T: PartialEq + fmt::Display>(name: &str, values: &[T]) -> Result<()> {
    let again = |(i, value): &(usize, &T)| values[..*i].contains(value);
    match values.iter().enumerate().find(again) {
        None => Ok(()),
        Some((_, value)) => {
            Err(Error::setting(name, value, "the grid names it twice").fix("name each value once"))
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.methods.iter().map(GridMethod::name).collect();
        let cells = counted(self.points().len(), "cell");
        let seeds = counted(usize::try_from(self.seeds).unwrap_or(usize::MAX), "seed");
        let runs = counted(self.len(), "run");
        write!(f, "grid of {}: {cells}, {seeds}, {runs}", names.join(", "))
    }
}
