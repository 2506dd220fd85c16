//! Runs all runs of a grid: those in the store are read, the others are trained.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::footer::{Together, Tried};
use super::queue::{Next, Queue, Work};
use super::result::{CellResult, CellRun, GridResult, Inner};
use super::split::{self, Split};
use super::table::point;
use super::{Experiment, GridObserver, GridProgress, Quiet, jobs};
use crate::data::Dataset;
use crate::device::marked;
use crate::methods::Plan;
use crate::nn::{Model, ModelFactory};
use crate::privacy::Delta;
use crate::store::{Books, Store};
use crate::train::{Listening, Run};
use crate::{Error, ErrorKind, Result};

/// Trains every run that is not in the store.
pub(crate) fn run(
    experiment: &Experiment,
    build: &dyn ModelFactory,
    data: &Dataset,
    store: &Store,
    observer: &mut dyn GridObserver,
) -> Result<GridResult> {
    run_split(experiment, build, data, store, observer, split::find)
}

/// As [`run`], with as many runs at once as `split` finds for the grid, its plans, the first model
/// and the data.
pub(super) fn run_split(
    experiment: &Experiment,
    build: &dyn ModelFactory,
    data: &Dataset,
    store: &Store,
    observer: &mut dyn GridObserver,
    split: impl FnOnce(&Experiment, &[Result<Plan>], &Model, &Dataset) -> Result<Split>,
) -> Result<GridResult> {
    let listening = Listening::start();
    let first = build.model(0)?;
    let plans = experiment.plans(&first, data)?;
    let queue = Queue::new(experiment, build, data, &plans);
    let mut going = Going::new(queue, store, observer, &listening)?;
    going.noted(&format!("ledger {}", going.books.in_words()));
    let interrupted = jobs::run(&mut going, store, || split(experiment, &plans, &first, data))?;
    going.result(store, first.name(), interrupted)
}

/// The result of the runs that are stored. The others are errors, in the words of `missing` for
/// their ids.
///
/// # Errors
/// As [`run`].
pub(crate) fn from_store(
    experiment: &Experiment,
    build: &dyn ModelFactory,
    data: &Dataset,
    store: &Store,
    missing: &dyn Fn(&str) -> Error,
) -> Result<GridResult> {
    let listening = Listening::start();
    let first = build.model(0)?;
    let plans = experiment.plans(&first, data)?;
    let mut observer = Quiet;
    let queue = Queue::new(experiment, build, data, &plans);
    let mut going = Going::new(queue, store, &mut observer, &listening)?;
    let interrupted = loop {
        match going.next()? {
            Then::Train(work) => {
                going.running.remove(&work.id);
                going.failed(work.order, work.at, work.seed, &missing(&work.id));
            }
            Then::Wait | Then::Done => break false,
            Then::Stop => break true,
        }
    };
    going.result(store, first.name(), interrupted)
}

/// The delta of the total cost: that of the first private cell.
pub(super) fn delta(cells: &[CellResult]) -> Option<Delta> {
    cells.iter().find_map(|cell| cell.delta).map(Delta)
}

/// A finished run of a cell.
pub(super) fn summary(seed: u64, run: &Run, test_examples: usize) -> CellRun {
    let record = run.record();
    // Accuracies are multiples of 1 / n; reading one from a file may change its last bit.
    let (seconds, epochs) =
        (record.shown_seconds(), record.steps as f64 * run.plan().sampling_rate());
    let exact = |share: f64| (share * test_examples as f64).round() / test_examples as f64;
    CellRun {
        seed,
        id: record.id.clone(),
        label: record.label().to_owned(),
        accuracy: record.test_accuracy.map(exact),
        epsilon: record.epsilon,
        badge: run.badge().clone(),
        claimed_epsilon: record.claim().map(|claim| claim.epsilon),
        mean_threshold: record.mean_threshold,
        seconds_per_epoch: seconds.map(|seconds| seconds / epochs),
        seconds,
        restored: run.is_restored(),
        charged: record.charged.clone(),
    }
}

/// The state of a grid that is running.
pub(super) struct Going<'a> {
    queue: Queue<'a>,
    pub(super) books: Books<'a>,
    pub(super) data: &'a Dataset,
    observer: &'a mut dyn GridObserver,
    listening: &'a Listening,
    cells: Vec<CellResult>,
    /// Index of the cell and text of each error, by the order of the runs.
    errors: BTreeMap<usize, (usize, String)>,
    done: usize,
    all: usize,
    /// Number of runs that are trained at once.
    pub(super) jobs: usize,
    /// Ids of the runs that are being trained.
    running: HashSet<String>,
    began: Instant,
    /// Number of runs trained by this call, and their seconds.
    trained: (usize, f64),
    /// Private runs that were begun or found in the store, by the order of the runs.
    tried: BTreeMap<usize, Tried>,
    /// The order of each of these runs, by its id.
    orders: HashMap<String, usize>,
    /// Warnings about stored runs that were shown already.
    told: HashSet<String>,
    /// Whether times are kept back: those of a private selection tell the number of its trials.
    is_timeless: bool,
}

/// What the loop does next.
pub(super) enum Then {
    /// Trains this run.
    Train(Box<Work>),
    /// Waits until a run has ended.
    Wait,
    /// All runs have been begun.
    Done,
    /// There was an interrupt.
    Stop,
}

/// What a run that is being trained reports.
pub(super) enum Said {
    /// A remark.
    Noted(String),
    /// It has taken this many steps, of so many.
    Step(u64, u64),
    /// An error that keeps the run.
    Trouble(Error),
}

impl<'a> Going<'a> {
    fn new(
        queue: Queue<'a>,
        store: &'a Store,
        observer: &'a mut dyn GridObserver,
        listening: &'a Listening,
    ) -> Result<Self> {
        let Queue { experiment, data, plans, .. } = queue;
        let possible = plans.iter().filter(|plan| plan.is_ok()).count();
        let cells = experiment.cases.iter().zip(plans).map(|(case, plan)| case.cell(plan));
        Ok(Self {
            cells: cells.collect(),
            books: Books::open(store, data)?,
            queue,
            data,
            observer,
            listening,
            errors: BTreeMap::new(),
            done: 0,
            all: possible * experiment.seeds as usize,
            jobs: 1,
            running: HashSet::new(),
            began: Instant::now(),
            trained: (0, 0.0),
            tried: BTreeMap::new(),
            orders: HashMap::new(),
            told: HashSet::new(),
            is_timeless: experiment.has_selections(),
        })
    }

    /// The result, when all runs have ended that are to be trained.
    fn result(self, store: &Store, model: &str, interrupted: bool) -> Result<GridResult> {
        let Self { queue, mut cells, errors, tried, data, .. } = self;
        let experiment = queue.experiment;
        errors.into_values().for_each(|(at, error)| cells[at].errors.push(error));
        let tried: Vec<Tried> = tried.into_values().collect();
        let together = Together::of(store, data, &tried, delta(&cells))?;
        Ok(GridResult(Arc::new(Inner {
            data: marked(data.name()),
            model: model.to_owned(),
            test_examples: data.test().len(),
            public_data: data.public().is_some(),
            cells,
            seeds: experiment.seeds,
            all: experiment.len(),
            interrupted,
            together,
            baseline: None,
            columns: Vec::new(),
        })))
    }

    /// The next run that has to be trained. Runs that are stored or can't be planned end here.
    ///
    /// # Errors
    /// As building a model and as [`ended`](Self::ended).
    pub(super) fn next(&mut self) -> Result<Then> {
        loop {
            if self.listening.stop() {
                return Ok(Then::Stop);
            }
            let work = match self.queue.next(&self.running)? {
                Next::Work(work) => work,
                Next::Failed(order, at, seed, error) => {
                    self.failed(order, at, seed, &error);
                    continue;
                }
                Next::Wait => return Ok(Then::Wait),
                Next::Done => return Ok(Then::Done),
            };
            self.tries(&work);
            match self.books.known_run(&work.id, &work.model) {
                Ok(None) => {
                    self.running.insert(work.id.clone());
                    return Ok(Then::Train(work));
                }
                Ok(Some(run)) => {
                    // Hundreds of runs may have the same warning: it is shown once.
                    for words in run.warnings() {
                        if self.told.insert(words.clone()) {
                            self.hear(&work, Said::Noted(words.clone()));
                        }
                    }
                    self.finished(&work, &run);
                }
                Err(error) => self.failed(work.order, work.at, work.seed, &error),
            }
        }
    }

    /// A report of a run that is being trained.
    pub(super) fn hear(&mut self, work: &Work, said: Said) {
        match said {
            Said::Noted(words) => {
                let cell = point(&self.cells[work.at]);
                self.observer.noted(&format!("{cell}, seed {}: {words}", work.seed));
            }
            Said::Step(step, steps) => {
                let (progress, observer) = self.progress(work.at, work.seed, step, steps);
                observer.progressed(&progress);
            }
            Said::Trouble(error) => self.observer.trouble(&error),
        }
    }

    /// A remark about the grid as a whole.
    pub(super) fn noted(&mut self, words: &str) {
        self.observer.noted(words);
    }

    /// The end of a training. Returns whether the grid goes on: not after an interrupt.
    ///
    /// # Errors
    /// The error of a run whose device does not work any more: every other run would fail as well.
    pub(super) fn ended(&mut self, work: &Work, run: Result<Run>, seconds: f64) -> Result<bool> {
        self.running.remove(&work.id);
        match run {
            Ok(run) if run.interrupted() => return Ok(false),
            Ok(run) => {
                self.trained = (self.trained.0 + 1, self.trained.1 + seconds);
                self.finished(work, &run);
            }
            Err(error) => {
                if error.kind() == ErrorKind::Device && work.plan.place().is_err() {
                    return Err(error.also("finished runs are kept: run the grid again"));
                }
                self.failed(work.order, work.at, work.seed, &error);
            }
        }
        Ok(true)
    }

    fn finished(&mut self, work: &Work, run: &Run) {
        let record = run.record();
        let order = self.orders.get(&record.id);
        if let Some(tried) = order.and_then(|order| self.tried.get_mut(order)) {
            tried.finished = Some(record.charged.clone());
        }
        self.done += 1;
        let summary = summary(work.seed, run, self.data.test().len());
        let runs = &mut self.cells[work.at].runs;
        let place = runs.partition_point(|other| other.seed < work.seed);
        runs.insert(place, summary.clone());
        let (progress, observer) = self.progress(work.at, work.seed, 0, 0);
        observer.ended(&progress, Ok(&summary));
    }

    fn failed(&mut self, order: usize, at: usize, seed: u64, error: &Error) {
        self.done += 1;
        self.errors.insert(order, (at, format!("seed {seed}: {error}")));
        let (progress, observer) = self.progress(at, seed, 0, 0);
        observer.ended(&progress, Err(error));
    }

    fn progress(
        &mut self,
        at: usize,
        seed: u64,
        step: u64,
        steps: u64,
    ) -> (GridProgress<'_>, &mut dyn GridObserver) {
        let (runs, seconds) = self.trained;
        let each = seconds / (runs * self.jobs) as f64;
        let progress = GridProgress {
            done: self.done,
            all: self.all,
            running: self.running.len(),
            failed: self.errors.len(),
            cell: &self.cells[at],
            seed,
            step,
            steps,
            seconds: (!self.is_timeless).then(|| self.began.elapsed().as_secs_f64()),
            seconds_left: (runs > 0 && !self.is_timeless)
                .then(|| each * (self.all - self.done) as f64),
            cells: &self.cells,
        };
        (progress, &mut *self.observer)
    }

    /// Adds a private run, unless another cell has it.
    fn tries(&mut self, work: &Work) {
        if work.plan.is_private() && !self.orders.contains_key(&work.id) {
            let plan = work.plan.event();
            self.orders.insert(work.id.clone(), work.order);
            self.tried.insert(work.order, Tried { id: work.id.clone(), plan, finished: None });
        }
    }
}
