//! The loop over all runs of a grid.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::axes::Point;
use super::footer::{Together, Tried};
use super::result::{CellResult, CellRun, GridResult, Inner};
use super::table::point;
use super::{Grid, GridObserver, GridProgress};
use crate::data::Dataset;
use crate::device::marked;
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::{Delta, Trials};
use crate::store::{Store, run_id};
use crate::train::{Listening, Observer, Progress, Run};
use crate::{Error, ErrorKind, Result, runs};

/// Trains every run that is not in the store.
pub(super) fn run(
    grid: &Grid,
    build: &dyn Fn(u64) -> Result<Model>,
    data: &Dataset,
    store: &Store,
    observer: &mut dyn GridObserver,
) -> Result<GridResult> {
    grid.check()?;
    let listening = Listening::start();
    let first = build(0)?;
    let points = grid.points();
    let plans: Vec<Result<Plan>> =
        points.iter().map(|point| plan(grid, point, &first, data)).collect();
    if plans.iter().all(Result::is_err)
        && let Some(Err(error)) = plans.first()
    {
        return Err(error.clone());
    }
    observer.noted(&format!("ledger {}", store.ledger_in_words(data)?));
    let possible = plans.iter().filter(|plan| plan.is_ok()).count();
    let mut going = Going {
        cells: points.iter().zip(&plans).map(|(point, plan)| cell(grid, point, plan)).collect(),
        done: 0,
        all: possible * grid.seeds as usize,
        began: Instant::now(),
        trained: (0, 0.0),
        tried: Vec::new(),
        told: HashSet::new(),
    };
    let mut interrupted = false;
    // The outer loop is over seeds, so that all cells have a first result early.
    'all: for seed in 0..grid.seeds {
        let model = build(seed)?;
        for (at, (point, planned)) in points.iter().zip(&plans).enumerate() {
            let Ok(planned) = planned else { continue };
            if listening.stop() {
                interrupted = true;
                break 'all;
            }
            let work = Work { seed, at, store, model: &model, data };
            let plan = match grid.masks.is_made_before() && point.pre_prune > 0.0 && seed > 0 {
                true => plan(grid, point, &model, data),
                false => Ok(planned.clone()),
            };
            let outcome =
                plan.and_then(|plan| work.run(&plan.with_seed(seed), &mut going, observer));
            if let Ok(run) = &outcome
                && run.interrupted()
            {
                interrupted = true;
                break 'all;
            }
            going.done += 1;
            match &outcome {
                Ok(run) => {
                    going.finished(run);
                    going.cells[at].runs.push(summary(seed, run, data.test().len()));
                }
                Err(error) => going.cells[at].errors.push(format!("seed {seed}: {error}")),
            }
            // Every other run would fail on a lost device as well.
            if let Err(error) = &outcome
                && error.kind() == ErrorKind::Device
                && planned.place().is_err()
            {
                return Err(error.clone().also("finished runs are kept: run the grid again"));
            }
            let told = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
            going.tell_ended(&work, observer, told.as_ref().err());
        }
    }
    // An interrupt ends the process again: nothing below checks for it.
    drop(listening);
    let together = Together::of(store, data, &going.tried, going.delta())?;
    Ok(GridResult(Arc::new(Inner {
        data: marked(data.name()),
        model: first.name().to_owned(),
        test_examples: data.test().len(),
        cells: going.cells,
        seeds: grid.seeds,
        all: points.len() * grid.seeds as usize,
        interrupted,
        together,
    })))
}

/// The plan of a cell, without its seed.
fn plan(grid: &Grid, point: &Point, model: &Model, data: &Dataset) -> Result<Plan> {
    plan_of(grid, point, model, data, None)
}

/// The plan of a cell; with `best_of`, its target is that of so many trials together.
pub(super) fn plan_of(
    grid: &Grid,
    point: &Point,
    model: &Model,
    data: &Dataset,
    best_of: Option<Trials>,
) -> Result<Plan> {
    let mask = match point.pre_prune > 0.0 {
        true => Some(grid.masks.recipe(point.pre_prune, model, data)?),
        false => None,
    };
    let method = &grid.methods[point.method];
    method.plan(grid.target(point), best_of, mask, grid.dropping(point), data)
}

/// A cell without runs.
fn cell(grid: &Grid, point: &Point, plan: &Result<Plan>) -> CellResult {
    let privacy = plan.as_ref().ok().and_then(Plan::privacy);
    let target = grid.target(point);
    CellResult {
        method: grid.methods[point.method].name(),
        mask: (point.pre_prune > 0.0).then_some(grid.masks),
        drop_rule: (point.drop > 0.0).then_some(grid.rule),
        pre_prune: point.pre_prune,
        drop: point.drop,
        epsilon: point.epsilon.or_else(|| privacy.and_then(|p| p.target).map(|e| e.0)),
        delta: target.map(|(_, delta)| delta.0).or_else(|| privacy.map(|p| p.delta.0)),
        runs: Vec::new(),
        errors: plan.as_ref().err().map(ToString::to_string).into_iter().collect(),
    }
}

fn summary(seed: u64, run: &Run, test_examples: usize) -> CellRun {
    let record = run.record();
    // Accuracies are multiples of 1 / n; reading one from a file may change its last bit.
    let exact = |share: f64| (share * test_examples as f64).round() / test_examples as f64;
    CellRun {
        seed,
        id: record.id.clone(),
        accuracy: record.test_accuracy.map(exact),
        epsilon: record.epsilon,
        seconds: record.seconds,
        restored: run.is_restored(),
        charged: record.charged.clone(),
    }
}

/// The state of a grid that is running.
struct Going {
    cells: Vec<CellResult>,
    done: usize,
    all: usize,
    began: Instant,
    /// Number of runs trained by this call, and their seconds.
    trained: (usize, f64),
    /// Private runs that were begun or found in the store.
    tried: Vec<Tried>,
    /// Warnings about stored runs that were shown already.
    told: HashSet<String>,
}

impl Going {
    fn progress(&self, work: &Work<'_>, step: u64, steps: u64) -> GridProgress<'_> {
        let (runs, seconds) = self.trained;
        let each = seconds / runs as f64;
        GridProgress {
            done: self.done,
            all: self.all,
            cell: &self.cells[work.at],
            seed: work.seed,
            step,
            steps,
            seconds: self.began.elapsed().as_secs_f64(),
            seconds_left: (runs > 0).then(|| each * (self.all - self.done) as f64),
            cells: &self.cells,
        }
    }

    fn tell_ended(&self, work: &Work<'_>, observer: &mut dyn GridObserver, error: Option<&Error>) {
        let outcome = match (error, self.cells[work.at].runs.last()) {
            (Some(error), _) => Err(error),
            (None, Some(run)) => Ok(run),
            (None, None) => return,
        };
        observer.ended(&self.progress(work, 0, 0), outcome);
    }

    /// Adds a private run, unless another cell has it.
    fn tries(&mut self, id: &str, plan: &Plan) {
        if plan.is_private() && self.tried.iter().all(|tried| tried.id != id) {
            self.tried.push(Tried { id: id.to_owned(), plan: plan.event(), finished: None });
        }
    }

    /// Records where a private run is charged.
    fn finished(&mut self, run: &Run) {
        let record = run.record();
        if let Some(tried) = self.tried.iter_mut().find(|tried| tried.id == record.id) {
            tried.finished = Some(record.charged.clone());
        }
    }

    /// The delta of the total cost: that of the first private cell.
    fn delta(&self) -> Option<Delta> {
        self.cells.iter().find_map(|cell| cell.delta).map(Delta)
    }
}

/// One run.
struct Work<'a> {
    seed: u64,
    /// Index of the cell.
    at: usize,
    store: &'a Store,
    model: &'a Model,
    data: &'a Dataset,
}

impl Work<'_> {
    fn run(&self, plan: &Plan, going: &mut Going, observer: &mut dyn GridObserver) -> Result<Run> {
        let Self { store, model, data, .. } = *self;
        let id = run_id(plan, model, data)?;
        going.tries(&id, plan);
        if let Some(run) = store.known_run(&id, model, data)? {
            // Hundreds of runs may have the same warning: it is shown once.
            let told = run.warnings().iter().filter(|words| going.told.insert((*words).clone()));
            let told: Vec<&String> = told.collect();
            let relay = &mut Relay { work: self, going, observer };
            told.into_iter().for_each(|words| relay.noted(words));
            return Ok(run);
        }
        let began = Instant::now();
        let mut relay = Relay { work: self, going, observer };
        let run = runs::train(store, &id, plan, model, data, &mut relay)?;
        going.trained = (going.trained.0 + 1, going.trained.1 + began.elapsed().as_secs_f64());
        // Reading the run back makes its values equal to those of the next call: a file may change
        // the last bit of a float.
        match store.finished(&id, model, data) {
            Ok(Some(stored)) => Ok(stored.as_trained()),
            _ => Ok(run),
        }
    }
}

/// Forwards the notifications of a run.
struct Relay<'a> {
    work: &'a Work<'a>,
    going: &'a Going,
    observer: &'a mut dyn GridObserver,
}

impl Relay<'_> {
    fn pass(&mut self, progress: &Progress<'_>) {
        let (step, steps) = (progress.step, progress.plan.steps());
        self.observer.progressed(&self.going.progress(self.work, step, steps));
    }
}

impl Observer for Relay<'_> {
    fn noted(&mut self, words: &str) {
        let cell = point(&self.going.cells[self.work.at]);
        self.observer.noted(&format!("{cell}, seed {}: {words}", self.work.seed));
    }
    fn started(&mut self, progress: &Progress<'_>) {
        self.pass(progress);
    }
    fn progressed(&mut self, progress: &Progress<'_>) {
        self.pass(progress);
    }
    fn trouble(&mut self, error: &Error) {
        self.observer.trouble(error);
    }
}
