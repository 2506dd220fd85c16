//! Scheduler of the runs of a grid: those in the store are read, the others are trained.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::allocation::{self, JobAllocation};
use super::footer::{GridPrivacyCost, PrivateRun};
use super::queue::{QueueItem, RunQueue, RunRequest};
use super::result::{CellResult, CellRun, GridResult, Inner};
use super::table::describe_cell;
use super::{Experiment, GridObserver, GridProgress, NoopGridObserver, jobs};
use crate::data::Dataset;
use crate::device::with_rehearsal_mark;
use crate::methods::Plan;
use crate::nn::{Model, ModelFactory};
use crate::privacy::Delta;
use crate::store::{LedgerCache, RunStore};
use crate::train::{InterruptGuard, Run};
use crate::{Error, ErrorKind, Result};

/// Trains every run that is not in the store, and returns the result of all runs.
///
/// # Errors
///
/// As [`Experiment::run`].
pub(crate) fn run_grid(
    experiment: &Experiment,
    build: &dyn ModelFactory,
    data: &Dataset,
    store: &RunStore,
    observer: &mut dyn GridObserver,
) -> Result<GridResult> {
    run_with_allocation(experiment, build, data, store, observer, allocation::choose_allocation)
}

/// Trains the grid like [`run_grid`], with as many runs at once as `choose_allocation` finds for
/// the grid, its plans, the first model and the data.
pub(super) fn run_with_allocation(
    experiment: &Experiment,
    build: &dyn ModelFactory,
    data: &Dataset,
    store: &RunStore,
    observer: &mut dyn GridObserver,
    choose_allocation: impl FnOnce(
        &Experiment,
        &[Result<Plan>],
        &Model,
        &Dataset,
    ) -> Result<JobAllocation>,
) -> Result<GridResult> {
    let interrupt_guard = InterruptGuard::start();
    let first = build.model(0)?;
    let plans = experiment.plan_cells(&first, data)?;
    let queue = RunQueue::new(experiment, build, data, &plans);
    let mut scheduler = GridScheduler::new(queue, store, observer, &interrupt_guard)?;
    scheduler.note(&format!("ledger {}", scheduler.ledgers.describe_ledger()));
    let interrupted =
        jobs::run(&mut scheduler, store, || choose_allocation(experiment, &plans, &first, data))?;
    scheduler.into_result(store, first.name(), interrupted)
}

/// Returns the result of the runs that are stored. The others are errors, in the words of
/// `missing` for their ids.
///
/// # Errors
/// As [`run_grid`].
pub(crate) fn from_store(
    experiment: &Experiment,
    build: &dyn ModelFactory,
    data: &Dataset,
    store: &RunStore,
    missing: &dyn Fn(&str) -> Error,
) -> Result<GridResult> {
    let interrupt_guard = InterruptGuard::start();
    let first = build.model(0)?;
    let plans = experiment.plan_cells(&first, data)?;
    let mut observer = NoopGridObserver;
    let queue = RunQueue::new(experiment, build, data, &plans);
    let mut scheduler = GridScheduler::new(queue, store, &mut observer, &interrupt_guard)?;
    let interrupted = loop {
        match scheduler.next_action()? {
            SchedulerAction::Train(request) => {
                scheduler.running.remove(&request.id);
                scheduler.record_failure(
                    request.index,
                    request.cell_index,
                    request.seed,
                    &missing(&request.id),
                );
            }
            SchedulerAction::Wait | SchedulerAction::Finish => break false,
            SchedulerAction::Stop => break true,
        }
    };
    scheduler.into_result(store, first.name(), interrupted)
}

/// Returns the delta of the total cost: that of the first private case.
pub(super) fn delta(cells: &[CellResult]) -> Option<Delta> {
    cells.iter().find_map(|cell| cell.delta).map(Delta)
}

/// Returns a finished run of a case.
pub(super) fn to_cell_run(seed: u64, run: &Run, test_examples: usize) -> CellRun {
    let record = run.record();
    // Accuracies are multiples of 1 / n; reading one from a file may change its last bit.
    let (seconds, epochs) =
        (record.publishable_seconds(), record.steps as f64 * run.plan().sampling_rate());
    let exact = |share: f64| (share * test_examples as f64).round() / test_examples as f64;
    CellRun {
        seed,
        id: record.id.clone(),
        label: record.label().to_owned(),
        accuracy: record.test_accuracy.map(exact),
        epsilon: record.epsilon,
        badge: run.badge().clone(),
        claimed_epsilon: record.published_claim().map(|claim| claim.epsilon),
        mean_threshold: record.mean_threshold,
        seconds_per_epoch: seconds.map(|seconds| seconds / epochs),
        seconds,
        restored: run.is_restored(),
        charged: record.charged.clone(),
    }
}

/// Scheduler of a grid, with its state.
pub(super) struct GridScheduler<'a> {
    queue: RunQueue<'a>,
    pub(super) ledgers: LedgerCache<'a>,
    pub(super) data: &'a Dataset,
    observer: &'a mut dyn GridObserver,
    interrupt: &'a InterruptGuard,
    cells: Vec<CellResult>,
    /// Index of the case and text of each error, by the order of the runs.
    errors: BTreeMap<usize, (usize, String)>,
    completed: usize,
    total: usize,
    /// Number of runs that are trained at once.
    pub(super) jobs: usize,
    /// Ids of the runs that are being trained.
    running: HashSet<String>,
    began: Instant,
    /// Number of runs trained by this call, and the sum of their seconds.
    trained_runs_and_seconds: (usize, f64),
    /// Private runs that were begun or found in the store, by the order of the runs.
    private_runs: BTreeMap<usize, PrivateRun>,
    /// Order of each of these runs, by its id.
    order_by_id: HashMap<String, usize>,
    /// Warnings about stored runs that have been shown.
    shown_warnings: HashSet<String>,
    /// Whether times are withheld: those of a private selection reveal the number of its trials.
    is_timeless: bool,
}

/// Next action of the loop that trains the runs.
pub(super) enum SchedulerAction {
    /// Training of this run.
    Train(Box<RunRequest>),
    /// Waiting until a run has ended.
    Wait,
    /// End, after all runs have been begun.
    Finish,
    /// Stop after an interrupt.
    Stop,
}

/// Event of a run that is being trained.
pub(super) enum RunEvent {
    /// Remark on the run.
    Note(String),
    /// Number of steps taken, and number of steps of the plan.
    Step(u64, u64),
    /// Error that does not lose the run.
    Warning(Error),
}

impl<'a> GridScheduler<'a> {
    fn new(
        queue: RunQueue<'a>,
        store: &'a RunStore,
        observer: &'a mut dyn GridObserver,
        interrupt: &'a InterruptGuard,
    ) -> Result<Self> {
        let RunQueue { experiment, data, plans, .. } = queue;
        let possible = plans.iter().filter(|plan| plan.is_ok()).count();
        let cells = experiment.cases.iter().zip(plans).map(|(case, plan)| case.cell(plan));
        Ok(Self {
            cells: cells.collect(),
            ledgers: LedgerCache::open(store, data)?,
            queue,
            data,
            observer,
            interrupt,
            errors: BTreeMap::new(),
            completed: 0,
            total: possible * experiment.seeds as usize,
            jobs: 1,
            running: HashSet::new(),
            began: Instant::now(),
            trained_runs_and_seconds: (0, 0.0),
            private_runs: BTreeMap::new(),
            order_by_id: HashMap::new(),
            shown_warnings: HashSet::new(),
            is_timeless: experiment.has_selections(),
        })
    }

    /// Returns the result, when all runs have ended that are to be trained.
    fn into_result(self, store: &RunStore, model: &str, interrupted: bool) -> Result<GridResult> {
        let Self { queue, mut cells, errors, private_runs, data, .. } = self;
        let experiment = queue.experiment;
        errors.into_values().for_each(|(at, error)| cells[at].errors.push(error));
        let private_runs: Vec<PrivateRun> = private_runs.into_values().collect();
        let privacy_cost = GridPrivacyCost::from_ledger(store, data, &private_runs, delta(&cells))?;
        Ok(GridResult(Arc::new(Inner {
            data: with_rehearsal_mark(data.name()),
            model: model.to_owned(),
            test_examples: data.test().len(),
            public_data: data.public().is_some(),
            cells,
            seeds: experiment.seeds,
            planned_runs: experiment.len(),
            interrupted,
            privacy_cost,
            baseline: None,
            columns: Vec::new(),
        })))
    }

    /// Returns the next action, such as the training of the next run. Runs that are stored or
    /// can't be planned end here.
    ///
    /// # Errors
    /// As building the model of a seed.
    pub(super) fn next_action(&mut self) -> Result<SchedulerAction> {
        loop {
            if self.interrupt.should_stop() {
                return Ok(SchedulerAction::Stop);
            }
            let request = match self.queue.next(&self.running)? {
                QueueItem::Run(request) => request,
                QueueItem::Failed(order, at, seed, error) => {
                    self.record_failure(order, at, seed, &error);
                    continue;
                }
                QueueItem::Wait => return Ok(SchedulerAction::Wait),
                QueueItem::Exhausted => return Ok(SchedulerAction::Finish),
            };
            self.register_private_run(&request);
            match self.ledgers.load_charged_run(&request.id, &request.model) {
                Ok(None) => {
                    self.running.insert(request.id.clone());
                    return Ok(SchedulerAction::Train(request));
                }
                Ok(Some(run)) => {
                    // Hundreds of runs may have the same warning: it is shown once.
                    for warning in run.warnings() {
                        if self.shown_warnings.insert(warning.clone()) {
                            self.handle_event(&request, RunEvent::Note(warning.clone()));
                        }
                    }
                    self.record_success(&request, &run);
                }
                Err(error) => {
                    self.record_failure(request.index, request.cell_index, request.seed, &error)
                }
            }
        }
    }

    /// Handles a report of a run that is being trained.
    pub(super) fn handle_event(&mut self, request: &RunRequest, event: RunEvent) {
        match event {
            RunEvent::Note(note) => {
                let cell = describe_cell(&self.cells[request.cell_index]);
                self.observer.on_note(&format!("{cell}, seed {}: {note}", request.seed));
            }
            RunEvent::Step(step, steps) => {
                let (progress, observer) =
                    self.progress(request.cell_index, request.seed, step, steps);
                observer.on_progress(&progress);
            }
            RunEvent::Warning(error) => self.observer.on_warning(&error),
        }
    }

    /// Passes a remark about the grid as a whole to the observer.
    pub(super) fn note(&mut self, text: &str) {
        self.observer.on_note(text);
    }

    /// Handles the end of a training. Returns whether the grid continues: not after an interrupt.
    ///
    /// # Errors
    /// The error of a run whose device does not work any more: every other run would fail as well.
    pub(super) fn complete(
        &mut self,
        request: &RunRequest,
        run: Result<Run>,
        seconds: f64,
    ) -> Result<bool> {
        self.running.remove(&request.id);
        match run {
            Ok(run) if run.is_interrupted() => return Ok(false),
            Ok(run) => {
                self.trained_runs_and_seconds = (
                    self.trained_runs_and_seconds.0 + 1,
                    self.trained_runs_and_seconds.1 + seconds,
                );
                self.record_success(request, &run);
            }
            Err(error) => {
                if error.kind() == ErrorKind::Device && request.plan.resolve_device().is_err() {
                    return Err(error.append_advice(
                        "finished runs are kept; run the grid again to train the others",
                    ));
                }
                self.record_failure(request.index, request.cell_index, request.seed, &error);
            }
        }
        Ok(true)
    }

    fn record_success(&mut self, request: &RunRequest, run: &Run) {
        let record = run.record();
        let order = self.order_by_id.get(&record.id);
        if let Some(private_run) = order.and_then(|order| self.private_runs.get_mut(order)) {
            private_run.finished = Some(record.charged.clone());
        }
        self.completed += 1;
        let summary = to_cell_run(request.seed, run, self.data.test().len());
        let runs = &mut self.cells[request.cell_index].runs;
        let position = runs.partition_point(|other| other.seed < request.seed);
        runs.insert(position, summary.clone());
        let (progress, observer) = self.progress(request.cell_index, request.seed, 0, 0);
        observer.on_run_end(&progress, Ok(&summary));
    }

    fn record_failure(&mut self, order: usize, at: usize, seed: u64, error: &Error) {
        self.completed += 1;
        self.errors.insert(order, (at, format!("seed {seed}: {error}")));
        let (progress, observer) = self.progress(at, seed, 0, 0);
        observer.on_run_end(&progress, Err(error));
    }

    fn progress(
        &mut self,
        at: usize,
        seed: u64,
        step: u64,
        steps: u64,
    ) -> (GridProgress<'_>, &mut dyn GridObserver) {
        let (runs, seconds) = self.trained_runs_and_seconds;
        let each = seconds / (runs * self.jobs) as f64;
        let progress = GridProgress {
            completed: self.completed,
            total: self.total,
            running: self.running.len(),
            failed: self.errors.len(),
            cell: &self.cells[at],
            seed,
            step,
            steps,
            seconds: (!self.is_timeless).then(|| self.began.elapsed().as_secs_f64()),
            seconds_left: (runs > 0 && !self.is_timeless)
                .then(|| each * (self.total - self.completed) as f64),
            cells: &self.cells,
        };
        (progress, &mut *self.observer)
    }

    /// Registers a private run, unless another case has it.
    fn register_private_run(&mut self, request: &RunRequest) {
        if request.plan.has_guarantee() && !self.order_by_id.contains_key(&request.id) {
            let plan = request.plan.event();
            self.order_by_id.insert(request.id.clone(), request.index);
            self.private_runs
                .insert(request.index, PrivateRun { id: request.id.clone(), plan, finished: None });
        }
    }
}
