//! Submits the runs of a grid that are not stored: tickets, charges, arrays of jobs.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use super::commands::{BatchSystem, Queue};
use super::grid_folder::{GridFolder, JobArray, SubmissionRound, SubmissionState};
use super::slurm::Slurm;
use super::ticket::{self, Header, Ticket};
use crate::data::Dataset;
use crate::device::DeviceSpec;
use crate::grid::Experiment;
use crate::grid::allocation::seconds_per_run;
use crate::grid::queue::{self, QueueItem};
use crate::mask::PrePrune;
use crate::methods::{Plan, is_built_in};
use crate::nn::{Model, ModelFactory};
use crate::privacy::{Entry, Ledger};
use crate::store::{LedgerCache, RunStore};
use crate::train::checkpoint::{CheckpointManager, read_header};
use crate::train::{closing_entry, new_attempt, planned_entry, validate_inputs};
use crate::{Error, ErrorKind, Result, file, program};

/// Approximate training time of a task, in seconds.
const SECONDS_PER_TASK: f64 = 300.0;

/// Summary of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionSummary {
    /// Number of runs that were submitted now.
    pub runs: usize,
    /// Number of runs that are stored.
    pub finished: usize,
    /// Number of runs that were submitted before and wait or run.
    pub waiting: usize,
    /// Numbers of the new jobs.
    pub jobs: Vec<u64>,
    /// Script of the first array; `None` if no run is missing.
    pub script: Option<String>,
}

/// Grid with its data, store and batch system.
pub(super) struct ClusterSession<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) slurm: &'a Slurm,
    pub(super) batch_system: &'a dyn BatchSystem,
    pub(super) build: &'a dyn ModelFactory,
    pub(super) data: &'a Dataset,
    pub(super) store: &'a RunStore,
}

/// A run of the grid, without its model.
pub(super) struct RunSpec {
    pub(super) id: String,
    pub(super) seed: u64,
    pub(super) plan: Plan,
}

/// The different runs of a grid.
pub(super) struct DistinctRuns {
    pub(super) wanted: Vec<RunSpec>,
    /// Initial model of seed 0; those of the other seeds have the same layers.
    first: Model,
    pub(super) folder: GridFolder,
}

impl ClusterSession<'_> {
    /// Returns the different runs of the grid, in their order.
    ///
    /// # Errors
    /// `Setting` for what a worker on another machine can't have: masks that are made from examples
    /// before the run, modules of the user, devices by name, methods of another crate without a
    /// program of the workers; also for a private selection. As checking and planning the
    /// experiment.
    pub(super) fn distinct_runs(&self) -> Result<DistinctRuns> {
        self.experiment.check()?;
        let first = self.build.model(0)?;
        if first.is_user_module() {
            let what = format!("cannot train the model {} on workers", first.name());
            let why = "the model is a user-defined module, whose code the worker program does not \
                       have";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("build the model from layers, or train on this machine with .jobs(n)"));
        }
        let plans = self.experiment.plan_cells(&first, self.data)?;
        let is_given = |plan: &Plan| {
            let mask = plan.sparsity().and_then(|sparsity| sparsity.pre_prune.as_ref());
            matches!(mask, Some(PrePrune::Fixed(_)))
        };
        if plans.iter().flatten().any(is_given) {
            let what = "cannot train with given masks on workers";
            return Err(Error::new(
                ErrorKind::Setting,
                what,
                "tickets do not hold masks made before the run, such as those by snip",
            )
            .fix(
                "use a mask that the run makes itself, such as synflow or dp-snip, or train on \
                 this machine",
            ));
        }
        if plans.iter().flatten().any(Plan::has_explicit_device) {
            let what = "a method with .device(…) in a grid on workers";
            let why = "workers train on CPUs, or on the GPUs that the job requests";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("leave out the device, and request GPUs with .gpus(…) or --gpus"));
        }
        let outside = plans.iter().flatten().find(|plan| !is_built_in(plan.method()));
        if let Some(plan) = outside.filter(|_| self.slurm.program.is_none()) {
            let what = format!("cannot train method {} on workers", plan.method());
            let why = "the worker program does not register it";
            return Err(Error::new(ErrorKind::Setting, what, why).fix(
                "name a program that registers the method and calls epsilab::cluster::run_worker, \
                 with .program(…) or --program",
            ));
        }
        if plans.iter().flatten().any(|plan| plan.selection().is_some()) {
            let what = "cannot train a private selection on workers";
            let why = "a private selection runs in one process, because the number of its trials \
                       and their times must stay secret";
            return Err(Error::new(ErrorKind::Setting, what, why).fix(
                "train on this machine: leave out --engine, or in a notebook .on(…) and \
                 .in_processes(…)",
            ));
        }
        let mut queue = queue::RunQueue::new(self.experiment, self.build, self.data, &plans);
        let (mut wanted, mut seen) = (Vec::new(), HashSet::new());
        loop {
            match queue.next(&HashSet::new())? {
                QueueItem::Run(request) if seen.insert(request.id.clone()) => {
                    wanted.push(RunSpec { id: request.id, seed: request.seed, plan: request.plan });
                }
                QueueItem::Run(_) | QueueItem::Failed(..) => {}
                QueueItem::Wait | QueueItem::Exhausted => break,
            }
        }
        let ids = wanted.iter().map(|run| run.id.as_str());
        let folder = GridFolder::for_runs(self.store.home(), ids);
        Ok(DistinctRuns { wanted, first, folder })
    }

    /// Charges and submits all runs that are neither stored nor waiting.
    ///
    /// # Errors
    /// `Setting` if Slurm is not there or refuses the job: nothing stays charged then. `Ledger` if
    /// the budget does not allow all runs together: nothing is charged or submitted.
    pub(super) fn submit(&self, dry_run: bool) -> Result<SubmissionSummary> {
        self.slurm.check()?;
        let runs = self.distinct_runs()?;
        let DistinctRuns { wanted, folder, .. } = &runs;
        if dry_run {
            return self.dry_run(&runs);
        }
        let largest = self.batch_system.largest_array()?;
        folder.create_dirs()?;
        let _lock = folder.lock()?;
        let mut state = folder.state()?;
        let queue = refresh_queue(self.batch_system, folder, &mut state)?;
        let known = folder.all_tickets(&state)?;
        let live = active_runs(&state, &queue, &known);
        let mut missing = Vec::new();
        let mut summary =
            SubmissionSummary { runs: 0, finished: 0, waiting: 0, jobs: Vec::new(), script: None };
        for run in wanted {
            match () {
                _ if live.contains_key(&run.id) => summary.waiting += 1,
                _ if self.store.has_finished(&run.id)? => summary.finished += 1,
                _ => missing.push(run),
            }
        }
        if missing.is_empty() {
            return Ok(summary);
        }
        summary.runs = missing.len();
        let mut ledgers = LedgerCache::open(self.store, self.data)?;
        let ledger = ledgers.ledger()?;
        self.check_all(&missing, &ledger)?;
        let attempts = self.attempt_ids(&missing, &known, &ledgers)?;
        let tickets = self.write_inputs(&runs, &missing, &attempts)?;
        let per_task = self.per_task(&runs, missing.len());
        let round = plan_round(folder, state.rounds.len() + 1, per_task, missing.len(), largest);
        let data_sha256 = self.data.write_file(&folder.data())?;
        let header = Header {
            lab: program::numerics(),
            data_sha256,
            data_hash: self.data.hash().to_owned(),
            device: self.slurm.device().to_owned(),
            per_task,
            checkpoint_every: self.slurm.checkpoint_every.clone(),
        };
        ticket::write(&folder.tickets(&round.tickets), &header, &tickets)?;
        let scripts = round
            .arrays
            .iter()
            .map(|array| {
                let path = folder.path().join(format!("{}.sh", array.name));
                let text = self.slurm.script(folder, &round.tickets, array)?;
                file::write(&path, text)?;
                Ok(path)
            })
            .collect::<Result<Vec<_>>>()?;
        // Before anything is charged: what Slurm refuses would never run.
        scripts.first().map_or(Ok(()), |script| self.batch_system.would_take(script))?;
        // Noted before it is done: whoever finds this note looks for the arrays by their names, and
        // continues with these tickets instead of charging others.
        state.rounds.push(round);
        folder.write_state(&state)?;
        let new: Vec<Entry> = tickets
            .iter()
            .filter_map(|ticket| {
                planned_entry(ledgers.account(), &ticket.attempt, &ticket.plan, self.data)
            })
            .collect();
        ledger.record_all(&new)?;
        attempts.iter().for_each(|attempt| folder.reset_ticket(attempt));
        self.start(folder, &mut state, &scripts, &tickets, &mut summary)?;
        summary.script = scripts.first().and_then(|script| fs::read_to_string(script).ok());
        Ok(summary)
    }

    /// Starts the arrays of the last round. If one is refused, the tickets of the arrays that were
    /// not started are withdrawn, so that nothing stays charged for them.
    fn start(
        &self,
        folder: &GridFolder,
        state: &mut SubmissionState,
        scripts: &[PathBuf],
        tickets: &[Ticket],
        summary: &mut SubmissionSummary,
    ) -> Result<()> {
        let at = state.rounds.len() - 1;
        for (n, script) in scripts.iter().enumerate() {
            let submitted_as = match self.batch_system.submit(script, &state.rounds[at].arrays[n]) {
                Ok(job) => Ok(job),
                Err(error) => {
                    self.find_submitted_job(&state.rounds[at].arrays[n], &error)?.ok_or(error)
                }
            };
            match submitted_as {
                Ok(job) => {
                    state.rounds[at].arrays[n].job = Some(job);
                    folder.write_state(state)?;
                    summary.jobs.push(job);
                }
                Err(error) => {
                    let first = state.rounds[at].arrays[n].first * state.rounds[at].per_task;
                    let rest: Vec<&Ticket> = tickets.iter().skip(first).collect();
                    self.withdraw(folder, &rest)?;
                    state.rounds[at].arrays.truncate(n);
                    folder.write_state(state)?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the number of an array that the batch system has accepted although its answer was
    /// an error.
    ///
    /// # Errors
    /// `error`, if nobody knows: it was no refusal, and the queue is not shown.
    fn find_submitted_job(&self, array: &JobArray, error: &Error) -> Result<Option<u64>> {
        match self.batch_system.queue(&[array]) {
            Ok(queue) => Ok(queue.get(&array.name).map(|(job, _)| *job)),
            Err(_) if error.kind() == ErrorKind::Setting => Ok(None),
            Err(_) => Err(error.clone().append_advice(
                "the job may have been submitted: its runs stay charged, and the same command \
                 finds it",
            )),
        }
    }

    /// Withdraws tickets, and closes at no cost those that no worker has begun. Returns their
    /// number.
    pub(super) fn withdraw(&self, folder: &GridFolder, tickets: &[&Ticket]) -> Result<usize> {
        let mut ledgers = LedgerCache::open(self.store, self.data)?;
        let ledger = ledgers.ledger()?;
        let is_open = |attempt: &str| {
            ledgers.account().charge_of(attempt).is_some_and(|charge| !charge.closed)
        };
        let mut seen = HashSet::new();
        let open: Vec<&&Ticket> = tickets
            .iter()
            .filter(|ticket| is_open(&ticket.attempt) && seen.insert(ticket.attempt.as_str()))
            .collect();
        let attempts: Vec<String> = open.iter().map(|ticket| ticket.attempt.clone()).collect();
        let unused = folder.withdraw(&attempts)?;
        let closed: Vec<Entry> = open
            .iter()
            .filter(|ticket| unused.contains(&ticket.attempt))
            .filter_map(|ticket| {
                closing_entry(ledgers.account(), &ticket.attempt, &ticket.plan, self.data, 0)
            })
            .collect();
        ledger.record_all(&closed)?;
        Ok(closed.len())
    }

    /// Makes the checks that training makes before it charges a run, because a worker knows no
    /// ledger.
    fn check_all(&self, missing: &[&RunSpec], ledger: &Ledger) -> Result<()> {
        // Runs of one case differ in their seeds, which nothing here depends on.
        let mut seen = HashSet::new();
        let mut model: Option<(u64, Model)> = None;
        for run in missing {
            let plan = run.plan.with_seed(0);
            let Ok(name) = serde_json::to_string(&plan) else { continue };
            if !seen.insert(name) {
                continue;
            }
            let model = match &model {
                Some((seed, model)) if *seed == run.seed => model,
                _ => &model.insert((run.seed, self.build.model(run.seed)?)).1,
            };
            let prepared = run.plan.prepare_model(model)?;
            validate_inputs(&run.plan, &prepared, self.data, ledger)?;
        }
        Ok(())
    }

    /// Returns the ledger entry of each run: the one of its checkpoint or of an earlier ticket if
    /// that is still open or was never charged, otherwise a new one.
    fn attempt_ids(
        &self,
        missing: &[&RunSpec],
        known: &[(usize, Vec<Ticket>)],
        ledgers: &LedgerCache<'_>,
    ) -> Result<Vec<String>> {
        let known: HashMap<&str, &str> = known
            .iter()
            .flat_map(|(_, tickets)| tickets)
            .map(|ticket| (ticket.id.as_str(), ticket.attempt.as_str()))
            .collect();
        let is_open = |attempt: &str| {
            ledgers.account().charge_of(attempt).is_none_or(|charge| !charge.closed)
        };
        let attempt = |run: &&RunSpec| {
            let path = CheckpointManager::checkpoint_path(&self.store.checkpoint_dir(&run.id));
            if let Ok(header) = read_header(&path) {
                return Ok(header.attempt);
            }
            match known.get(run.id.as_str()) {
                Some(attempt) if is_open(attempt) => Ok((*attempt).to_owned()),
                _ => new_attempt(&run.id),
            }
        };
        missing.iter().map(attempt).collect()
    }

    /// Writes the initial models, and makes the tickets.
    fn write_inputs(
        &self,
        runs: &DistinctRuns,
        missing: &[&RunSpec],
        attempts: &[String],
    ) -> Result<Vec<Ticket>> {
        let mut model: Option<(u64, Model)> = None;
        let mut tickets = Vec::with_capacity(missing.len());
        for (run, attempt) in missing.iter().zip(attempts) {
            if model.as_ref().is_none_or(|(seed, _)| *seed != run.seed) {
                let built = self.build.model(run.seed)?;
                built.save(runs.folder.model(run.seed))?;
                model = Some((run.seed, built));
            }
            let provenance = model.as_ref().map(|(_, model)| model.provenance().clone());
            tickets.push(Ticket {
                id: run.id.clone(),
                attempt: attempt.clone(),
                seed: run.seed,
                provenance: provenance.unwrap_or(crate::nn::Provenance::UNKNOWN),
                plan: run.plan.clone(),
            });
        }
        Ok(tickets)
    }

    /// Returns the number of runs per task.
    fn per_task(&self, runs: &DistinctRuns, missing: usize) -> usize {
        if let Some(runs) = self.slurm.runs_per_task {
            return runs;
        }
        let Some(run) = runs.wanted.first().filter(|_| self.slurm.device() == "cpu") else {
            return 1;
        };
        let threads = self.slurm.cpus.unwrap_or(1);
        let plan = run.plan.clone().on_device(DeviceSpec::Cpu);
        match seconds_per_run(&plan, &runs.first, self.data, threads) {
            Ok(seconds) => ((SECONDS_PER_TASK / seconds.max(1e-3)) as usize).clamp(1, missing),
            Err(_) => 1,
        }
    }

    /// Returns the summary of a submission of all runs that are not stored, with its script.
    fn dry_run(&self, runs: &DistinctRuns) -> Result<SubmissionSummary> {
        let mut finished = 0;
        for run in &runs.wanted {
            finished += usize::from(self.store.has_finished(&run.id)?);
        }
        let missing = runs.wanted.len() - finished;
        let mut summary = SubmissionSummary {
            runs: missing,
            finished,
            waiting: 0,
            jobs: Vec::new(),
            script: None,
        };
        if missing > 0 {
            let per_task = self.per_task(runs, missing);
            // Without asking Slurm, which need not be there.
            let largest = self.batch_system.largest_array().unwrap_or(1000);
            let round = plan_round(&runs.folder, 1, per_task, missing, largest);
            let script = self.slurm.script(&runs.folder, &round.tickets, &round.arrays[0])?;
            summary.script = Some(script);
        }
        Ok(summary)
    }
}

/// Plans a round of `runs` runs, in arrays that Slurm allows.
fn plan_round(
    folder: &GridFolder,
    round_number: usize,
    per_task: usize,
    runs: usize,
    largest: usize,
) -> SubmissionRound {
    let tasks = runs.div_ceil(per_task);
    let arrays = (0..tasks).step_by(largest).enumerate().map(|(i, first)| JobArray {
        name: format!("epsilab-{}-{round_number}-{i}", folder.name()),
        first,
        tasks: largest.min(tasks - first),
        job: None,
    });
    SubmissionRound {
        tickets: format!("tickets-{round_number}.jsonl"),
        per_task,
        arrays: arrays.collect(),
    }
}

/// Asks the batch system for the tasks that have not ended, and records the numbers of arrays
/// whose submitter was killed before it could record them.
pub(super) fn refresh_queue(
    batch_system: &dyn BatchSystem,
    folder: &GridFolder,
    state: &mut SubmissionState,
) -> Result<Queue> {
    let arrays: Vec<&JobArray> = state.rounds.iter().flat_map(|round| &round.arrays).collect();
    let queue = batch_system.queue(&arrays)?;
    let mut changed = false;
    for array in state.rounds.iter_mut().flat_map(|round| &mut round.arrays) {
        if let (None, Some((job, _))) = (array.job, queue.get(&array.name)) {
            array.job = Some(*job);
            changed = true;
        }
    }
    if changed {
        folder.write_state(state)?;
    }
    Ok(queue)
}

/// Returns the runs whose tasks have not ended, and whether they are running.
pub(super) fn active_runs(
    state: &SubmissionState,
    queue: &Queue,
    tickets: &[(usize, Vec<Ticket>)],
) -> HashMap<String, bool> {
    let mut live = HashMap::new();
    for (n, tickets) in tickets {
        let round = &state.rounds[*n];
        for array in &round.arrays {
            let Some((_, tasks)) = queue.get(&array.name) else { continue };
            for task in tasks {
                let first = (array.first + task.index) * round.per_task;
                for ticket in tickets.iter().skip(first).take(round.per_task) {
                    live.insert(ticket.id.clone(), task.running);
                }
            }
        }
    }
    live
}
