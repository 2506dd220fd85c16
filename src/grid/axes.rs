//! The axes of a grid.

use std::fmt;

use super::{Case, Experiment, GridObserver, GridResult, MaskKind};
use crate::data::Dataset;
use crate::mask::{Dropping, DroppingRule};
use crate::methods::Method;
use crate::nn::ModelFactory;
use crate::privacy::{Delta, Epsilon, Trials};
use crate::train::Run;
use crate::{Error, ErrorKind, Result};

/// The axes of an accuracy grid: methods, epsilons, pruning rates, dropping rates, seeds. It makes
/// an [`Experiment`] with a case for each combination that a method can have.
///
/// A private method has one case per epsilon, and a method without privacy one case in all. A
/// method that takes masks has one case per pruning rate and dropping rate.
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
/// That of [`Experiment`].
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    methods: Vec<Case>,
    masks: MaskKind,
    pre_prune: Vec<f64>,
    rule: DroppingRule,
    drop: Vec<f64>,
    epsilon: Option<Vec<Epsilon>>,
    delta: Delta,
    seeds: u64,
    jobs: Option<usize>,
}

impl Grid {
    /// Returns a grid of one case and one seed: a method without further axes.
    pub fn new(method: impl Into<Case>) -> Self {
        Self {
            methods: vec![method.into()],
            masks: MaskKind::default(),
            pre_prune: vec![0.0],
            rule: DroppingRule::Random,
            drop: vec![0.0],
            epsilon: None,
            delta: Delta::DEFAULT,
            seeds: 1,
            jobs: None,
        }
    }

    /// Adds a method, which is compared along the axes that apply to it.
    pub fn with_method(mut self, method: impl Into<Case>) -> Self {
        self.methods.push(method.into());
        self
    }

    /// Sets how masks are made; Synflow by default.
    pub fn masks(self, masks: MaskKind) -> Self {
        Self { masks, ..self }
    }

    /// Sets the pruning rates: fractions of the weights that are not trained. 0 means no mask.
    pub fn pre_prune(self, rates: impl IntoIterator<Item = f64>) -> Self {
        Self { pre_prune: rates.into_iter().collect(), ..self }
    }

    /// Sets the dropping rates: fractions of each tensor's coordinates that a step drops, chosen by
    /// this rule. 0 means no dropping.
    pub fn drop_gradients(self, rule: DroppingRule, rates: impl IntoIterator<Item = f64>) -> Self {
        Self { rule, drop: rates.into_iter().collect(), ..self }
    }

    /// Sets the target epsilons of the private runs, instead of the method's own target.
    pub fn epsilon(self, epsilons: impl IntoIterator<Item = impl Into<Epsilon>>) -> Self {
        Self { epsilon: Some(epsilons.into_iter().map(Into::into).collect()), ..self }
    }

    /// Sets the delta of these epsilons; 1e-5 by default.
    pub fn delta(self, delta: impl Into<Delta>) -> Self {
        Self { delta: delta.into(), ..self }
    }

    /// Sets the number of seeds, as [`Experiment::seeds`].
    pub fn seeds(self, seeds: u64) -> Self {
        Self { seeds, ..self }
    }

    /// Trains up to this many runs at once, as [`Experiment::jobs`].
    pub fn jobs(self, jobs: usize) -> Self {
        Self { jobs: Some(jobs), ..self }
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.combined().len()
    }

    /// Returns whether an axis is empty, so that there are no runs.
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
        self.methods.iter().try_for_each(check_method)?;
        check_distinct("method", &self.methods.iter().map(Case::name).collect::<Vec<_>>())?;
        for (name, rates) in [("pre_prune", &self.pre_prune), ("drop_gradients", &self.drop)] {
            check_distinct(name, rates)?;
            rates.iter().try_for_each(|&rate| crate::mask::check_rate(name, rate).map(drop))?;
        }
        if let Some(epsilons) = &self.epsilon {
            check_distinct("epsilon", epsilons)?;
            epsilons.iter().try_for_each(|epsilon| epsilon.check().map(drop))?;
        }
        self.delta.check()?;
        let rates = self.pre_prune.iter().chain(&self.drop);
        let is_sparse = |case: &Case| case.method.descriptor().supports_sparsity;
        if rates.clone().any(|&rate| rate > 0.0) && !self.methods.iter().any(is_sparse) {
            return Err(Error::new(
                ErrorKind::Setting,
                "pruning or dropping rates in a grid of DP-SGD alone",
                "DP-SGD trains every coordinate in every step",
            )
            .fix("use DpSsgd (dp-ssgd): with both rates at 0 it is DP-SGD"));
        }
        self.combined().check()
    }

    /// Returns the experiment of all combinations, by method, then epsilon, pruning rate and
    /// dropping rate.
    ///
    /// # Errors
    /// `Setting` for an empty axis, a value that is given twice or out of range, and for a method
    /// with settings that belong to the grid.
    pub fn experiment(&self) -> Result<Experiment> {
        self.check()?;
        Ok(self.combined())
    }

    fn combined(&self) -> Experiment {
        let cases = self.methods.iter().flat_map(|method| self.cases(method));
        Experiment { jobs: self.jobs, ..Experiment::new(cases).seeds(self.seeds) }
    }

    /// Returns the cases of one method.
    fn cases(&self, case: &Case) -> Vec<Case> {
        let targets: Vec<Option<Epsilon>> = match &self.epsilon {
            Some(epsilons) if case.adds_noise() => epsilons.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        let (pruned, dropped) = if case.method.descriptor().supports_sparsity {
            (self.pre_prune.as_slice(), self.drop.as_slice())
        } else {
            (&[0.0][..], &[0.0][..])
        };
        let mut cases = Vec::new();
        for &target in &targets {
            for &rate in pruned {
                for &drop in dropped {
                    let mut case = case.clone().mask(self.masks, rate);
                    self.set(&mut *case.method, target, drop);
                    cases.push(case);
                }
            }
        }
        cases
    }

    /// Sets target and gradient dropping of a case.
    fn set(&self, method: &mut dyn Method, target: Option<Epsilon>, drop: f64) {
        if let (Some(epsilon), Some(private)) = (target, method.privacy_settings_mut()) {
            private.target(epsilon, self.delta);
        }
        if drop > 0.0 {
            let dropping = match self.rule {
                DroppingRule::Random => Dropping::random(drop),
                DroppingRule::Magnitude => Dropping::magnitude(drop),
            };
            method.settings_mut().sparsity.get_or_insert_default().dropping = Some(dropping);
        }
    }

    /// Trains every run that is not stored yet, as [`Experiment::run`].
    ///
    /// # Errors
    /// `Setting` for axes or settings that the grid can't have; the error of the model or of the
    /// first case if nothing can be trained.
    pub fn run(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<GridResult> {
        self.experiment()?.run(model, data)
    }

    /// Trains every run that is not stored yet, with an observer, as
    /// [`Experiment::run_with_observer`].
    ///
    /// # Errors
    /// `Setting` for axes or settings that the grid can't have; the error of the model or of the
    /// first case if nothing can be trained.
    pub fn run_with_observer(
        &self,
        model: &dyn ModelFactory,
        data: &Dataset,
        observer: &mut dyn GridObserver,
    ) -> Result<GridResult> {
        self.experiment()?.run_with_observer(model, data, observer)
    }

    /// Chooses one case privately, as [`Experiment::select`].
    ///
    /// # Errors
    /// `Setting` for axes or settings that the grid can't have, several seeds, a method without
    /// privacy, and data without a test part; errors of making the plans and of training.
    pub fn select(&self, trials: Trials, model: &dyn ModelFactory, data: &Dataset) -> Result<Run> {
        self.experiment()?.select(trials, model, data)
    }
}

/// Refuses settings that belong to the grid.
fn check_method(case: &Case) -> Result<()> {
    let sparsity = case.method.settings().sparsity.as_ref();
    let conditions = [
        (".pre_prune(…)", sparsity.is_some_and(|sparsity| sparsity.pre_prune.is_some())),
        (".drop_gradients(…)", sparsity.is_some_and(|sparsity| sparsity.dropping.is_some())),
        ("a mask", case.mask.is_some()),
    ];
    match conditions.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((setting, _)) => Err(Error::new(
            ErrorKind::Setting,
            format!("a grid of a method with {setting}"),
            "masks and dropping are axes of the grid",
        )
        .fix("leave it out; use the grid's pre_prune and drop_gradients")),
    }
}

/// Checks that an axis has values, and none twice.
fn check_distinct<T: PartialEq + fmt::Display>(name: &str, values: &[T]) -> Result<()> {
    if values.is_empty() {
        return Err(Error::setting(name, "[]", "a grid with an empty axis has no runs")
            .fix("give at least one value, such as 0 for a rate"));
    }
    let is_repeated = |(i, value): &(usize, &T)| values[..*i].contains(value);
    match values.iter().enumerate().find(is_repeated) {
        None => Ok(()),
        Some((_, value)) => {
            Err(Error::setting(name, value, "the value is given twice").fix("give each value once"))
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.combined().fmt(f)
    }
}
