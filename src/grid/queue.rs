//! The runs of a grid in the order in which they are begun.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::Experiment;
use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::{Model, ModelFactory};
use crate::store::run_id;
use crate::{Error, Result};

/// One run that is to be trained or found in the store.
#[derive(Clone)]
pub(crate) struct Work {
    /// Its place among all runs: seed by seed, and in the order of the cells.
    pub(crate) order: usize,
    /// Index of the cell.
    pub(crate) at: usize,
    pub(crate) seed: u64,
    /// Its id in the run store. Cells may share a run.
    pub(crate) id: String,
    pub(crate) plan: Plan,
    pub(crate) model: Arc<Model>,
}

/// What is to be done next.
pub(crate) enum Next {
    /// This run.
    Work(Box<Work>),
    /// A run that can't be planned: its order, cell, seed and why.
    Failed(usize, usize, u64, Error),
    /// Nothing until one of the runs has ended that are being trained: the rest are the same runs
    /// in other cells.
    Wait,
    /// All runs were begun.
    Done,
}

/// The runs of an experiment, seed by seed, so that all cells have a first result early and the
/// models of one seed are in memory at a time.
pub(crate) struct Queue<'a> {
    pub(super) experiment: &'a Experiment,
    build: &'a dyn ModelFactory,
    pub(super) data: &'a Dataset,
    pub(super) plans: &'a [Result<Plan>],
    seed: u64,
    ready: VecDeque<Result<Work, (usize, usize, u64, Error)>>,
}

impl<'a> Queue<'a> {
    /// The runs of the cells that have a plan.
    pub(crate) fn new(
        experiment: &'a Experiment,
        build: &'a dyn ModelFactory,
        data: &'a Dataset,
        plans: &'a [Result<Plan>],
    ) -> Self {
        Self { experiment, build, data, plans, seed: 0, ready: VecDeque::new() }
    }

    /// The next run that is not one of those with the ids `running`.
    ///
    /// # Errors
    /// As building the model of a seed.
    pub(crate) fn next(&mut self, running: &HashSet<String>) -> Result<Next> {
        loop {
            let is_free = |work: &Result<Work, _>| match work {
                Ok(work) => !running.contains(&work.id),
                Err(_) => true,
            };
            if let Some(at) = self.ready.iter().position(is_free) {
                return Ok(match self.ready.remove(at) {
                    Some(Ok(work)) => Next::Work(Box::new(work)),
                    Some(Err((order, at, seed, error))) => Next::Failed(order, at, seed, error),
                    None => Next::Wait,
                });
            }
            if self.seed == self.experiment.seeds {
                return Ok(if self.ready.is_empty() { Next::Done } else { Next::Wait });
            }
            self.load()?;
        }
    }

    /// Adds the runs of the next seed.
    fn load(&mut self) -> Result<()> {
        let seed = self.seed;
        self.seed += 1;
        let model = Arc::new(self.build.model(seed)?);
        let cases = &self.experiment.cases;
        for (at, (case, planned)) in cases.iter().zip(self.plans).enumerate() {
            let Ok(planned) = planned else { continue };
            let order = seed as usize * cases.len() + at;
            let plan = if case.is_made_before() && seed > 0 {
                case.plan(&model, self.data, None)
            } else {
                Ok(planned.clone())
            };
            let work = plan.and_then(|plan| {
                let plan = match self.experiment.randomness.seed(seed) {
                    Some(seed) => plan.with_seed(seed),
                    None => plan,
                };
                let id = run_id(&plan, &model, self.data)?;
                Ok(Work { order, at, seed, id, plan, model: model.clone() })
            });
            self.ready.push_back(work.map_err(|error| (order, at, seed, error)));
        }
        Ok(())
    }
}
