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
pub(crate) struct RunRequest {
    /// Position among all runs: seed by seed, and in the order of the cases.
    pub(crate) index: usize,
    /// Index of the case.
    pub(crate) cell_index: usize,
    pub(crate) seed: u64,
    /// Id of the run in the run store. Cases may share a run.
    pub(crate) id: String,
    pub(crate) plan: Plan,
    pub(crate) model: Arc<Model>,
}

/// Next item of a queue of runs.
pub(crate) enum QueueItem {
    /// Run to train or to find in the store.
    Run(Box<RunRequest>),
    /// Run that can't be planned: its order, case, seed and error.
    Failed(usize, usize, u64, Error),
    /// Nothing before one of the runs in training has ended: the rest are the same runs in other
    /// cases.
    Wait,
    /// End of the queue: all runs were begun.
    Exhausted,
}

/// The runs of an experiment, seed by seed, so that all cases have a first result early and the
/// models of one seed are in memory at a time.
pub(crate) struct RunQueue<'a> {
    pub(super) experiment: &'a Experiment,
    build: &'a dyn ModelFactory,
    pub(super) data: &'a Dataset,
    pub(super) plans: &'a [Result<Plan>],
    seed: u64,
    ready: VecDeque<Result<RunRequest, (usize, usize, u64, Error)>>,
}

impl<'a> RunQueue<'a> {
    /// Creates the queue of the runs of the cases that have a plan.
    pub(crate) fn new(
        experiment: &'a Experiment,
        build: &'a dyn ModelFactory,
        data: &'a Dataset,
        plans: &'a [Result<Plan>],
    ) -> Self {
        Self { experiment, build, data, plans, seed: 0, ready: VecDeque::new() }
    }

    /// Returns the next run that is not one of those with the ids `running`.
    ///
    /// # Errors
    /// As building the model of a seed.
    pub(crate) fn next(&mut self, running: &HashSet<String>) -> Result<QueueItem> {
        loop {
            let is_free = |request: &Result<RunRequest, _>| match request {
                Ok(request) => !running.contains(&request.id),
                Err(_) => true,
            };
            if let Some(at) = self.ready.iter().position(is_free) {
                return Ok(match self.ready.remove(at) {
                    Some(Ok(request)) => QueueItem::Run(Box::new(request)),
                    Some(Err((order, at, seed, error))) => {
                        QueueItem::Failed(order, at, seed, error)
                    }
                    None => QueueItem::Wait,
                });
            }
            if self.seed == self.experiment.seeds {
                return Ok(if self.ready.is_empty() {
                    QueueItem::Exhausted
                } else {
                    QueueItem::Wait
                });
            }
            self.load_next_seed()?;
        }
    }

    /// Adds the runs of the next seed.
    fn load_next_seed(&mut self) -> Result<()> {
        let seed = self.seed;
        self.seed += 1;
        let model = Arc::new(self.build.model(seed)?);
        let cases = &self.experiment.cases;
        for (at, (case, planned)) in cases.iter().zip(self.plans).enumerate() {
            let Ok(planned) = planned else { continue };
            let order = seed as usize * cases.len() + at;
            let plan = if case.mask_needs_model() && seed > 0 {
                case.plan(&model, self.data, None)
            } else {
                Ok(planned.clone())
            };
            let request = plan.and_then(|plan| {
                let plan = match self.experiment.randomness.seed(seed) {
                    Some(seed) => plan.with_seed(seed),
                    None => plan,
                };
                let id = run_id(&plan, &model, self.data)?;
                Ok(RunRequest {
                    index: order,
                    cell_index: at,
                    seed,
                    id,
                    plan,
                    model: model.clone(),
                })
            });
            self.ready.push_back(request.map_err(|error| (order, at, seed, error)));
        }
        Ok(())
    }
}
