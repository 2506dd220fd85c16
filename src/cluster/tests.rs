//! Tests of a grid on a simulated batch system: the ledger entries after kills, refusals,
//! repetitions and damage.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::experiment;
use super::grid_folder::JobArray;

use super::commands::{BatchSystem, Queue, Task};
use super::slurm::Slurm;
use super::status::RunStatus;
use super::submit::{ClusterSession, SubmissionSummary};
use super::ticket::{self, Ticket};
use super::{run_worker, worker};
use crate::data::{self, Dataset};
use crate::grid::{Case, Experiment, Grid, GridResult, GridRow, MaskKind};
use crate::mask::{DroppingRule, RandomMask};
use crate::methods::{DpSgd, DpSsgd, PrivateSelection};
use crate::nn::{Model, models};
use crate::privacy::ledger::ChargeRecord;
use crate::privacy::{Event, Trials};
use crate::runs::{PrechargedAttempt, PrechargedOutcome, train_precharged};
use crate::store::RunStore;
use crate::train::{Claim, Fit, NoopObserver};
use crate::{Error, ErrorKind, Result, program};

mod executors;
mod scale;
mod workers;

/// Point at which the simulated batch system fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    Never,
    /// Refusal of every script that is checked.
    Asked,
    /// Refusal of the array with this number.
    Array(usize),
    /// Submitter killed before the array is taken.
    KilledBefore,
    /// Submitter killed after the array was taken.
    KilledAfter,
    /// Arrays taken, with answers other than their numbers.
    Answer,
    /// Answers other than the numbers, and a queue that is not shown either.
    Silent,
}

#[derive(Debug)]
struct Played {
    fails: RefCell<Fails>,
    largest: usize,
    /// Arrays that were taken: name, tickets, first task, number of tasks.
    submissions: RefCell<Vec<(String, PathBuf, usize, usize)>>,
    queue: RefCell<Queue>,
}

impl BatchSystem for Played {
    fn largest_array(&self) -> Result<usize> {
        Ok(self.largest)
    }
    fn would_take(&self, script: &Path) -> Result<()> {
        assert!(script.exists());
        match *self.fails.borrow() {
            Fails::Asked => Err(refusal()),
            _ => Ok(()),
        }
    }
    fn submit(&self, script: &Path, _array: &JobArray) -> Result<u64> {
        let fails = *self.fails.borrow();
        assert!(fails != Fails::KilledBefore, "the submitter is killed");
        let number = self.submissions.borrow().len();
        if fails == Fails::Array(number) {
            return Err(refusal());
        }
        let text = std::fs::read_to_string(script).unwrap();
        let after = |start: &str, end: &str| {
            let rest = &text[text.find(start).unwrap() + start.len()..];
            rest[..rest.find(end).unwrap()].to_owned()
        };
        let name = after("--job-name=", "\n");
        let tasks = after("--array=0-", "\n").parse::<usize>().unwrap() + 1;
        let first = after("$((", " +").parse().unwrap();
        let tickets = PathBuf::from(after("--tickets '", "'"));
        let all = (0..tasks).map(|index| Task { index, running: false }).collect();
        self.queue.borrow_mut().insert(name.clone(), (number as u64, all));
        self.submissions.borrow_mut().push((name, tickets, first, tasks));
        assert!(fails != Fails::KilledAfter, "the submitter is killed");
        match fails {
            Fails::Answer | Fails::Silent => Err(Error::new(
                ErrorKind::Io,
                "the answer of sbatch",
                "\"Welcome\" is not the number",
            )),
            _ => Ok(number as u64),
        }
    }
    fn queue(&self, arrays: &[&JobArray]) -> Result<Queue> {
        if *self.fails.borrow() == Fails::Silent && !self.submissions.borrow().is_empty() {
            return Err(Error::new(ErrorKind::Setting, "Slurm refuses to show its queue", "busy"));
        }
        let known = |name: &String| arrays.iter().any(|array| array.name == *name);
        let mut queue = self.queue.borrow().clone();
        queue.retain(|name, (_, tasks)| known(name) && !tasks.is_empty());
        Ok(queue)
    }
    fn cancel(&self, job: u64) -> Result<()> {
        self.queue.borrow_mut().retain(|_, (number, _)| *number != job);
        Ok(())
    }
}

fn refusal() -> Error {
    Error::new(ErrorKind::Setting, "Slurm refuses the job", "Invalid partition name specified")
}

struct Lab {
    folder: tempfile::TempDir,
    data: Dataset,
    experiment: Experiment,
    slurm: Slurm,
    batch_system: Played,
}

impl Lab {
    fn new(seed: u64) -> Self {
        let method = DpSsgd::new().clip(0.5).batch_size(50).steps(3);
        let experiment = Grid::new(method)
            .with_method(DpSgd::new().clip(0.5).batch_size(50).steps(3))
            .masks(MaskKind::Random)
            .pre_prune([0.0, 0.5])
            .drop_gradients(DroppingRule::Random, [0.0, 0.5])
            .epsilon([2.0])
            .seeds(3)
            .experiment()
            .unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            data: data::glyphs_with(300, 60, seed).unwrap(),
            experiment,
            slurm: Slurm::new().runs_per_task(2).program("/shared/epsilab"),
            batch_system: Played {
                fails: RefCell::new(Fails::Never),
                largest: 4,
                submissions: RefCell::default(),
                queue: RefCell::default(),
            },
        }
    }

    fn store(&self) -> RunStore {
        RunStore::open(self.folder.path().to_owned()).unwrap()
    }

    fn on<T>(&self, what: impl FnOnce(&ClusterSession<'_>) -> Result<T>) -> Result<T> {
        let build = |seed| -> Result<Model> { models::mlp(&self.data, &[8]).seed(seed).build() };
        let (experiment, slurm, store) = (&self.experiment, &self.slurm, self.store());
        what(&ClusterSession {
            experiment,
            slurm,
            batch_system: &self.batch_system,
            build: &build,
            data: &self.data,
            store: &store,
        })
    }

    fn submit(&self) -> Result<SubmissionSummary> {
        self.on(|site| site.submit(false))
    }

    fn collect(&self) -> Result<GridResult> {
        self.on(|site| site.collect())
    }

    fn fails(&self, how: Fails) {
        *self.batch_system.fails.borrow_mut() = how;
    }

    /// Runs at most this many tasks that wait.
    fn run(&self, most: usize) -> Vec<Result<super::WorkerSummary>> {
        let taken = self.batch_system.submissions.borrow().clone();
        let mut worked = Vec::new();
        for (name, tickets, first, _) in taken {
            let tasks = self.batch_system.queue.borrow().get(&name).cloned();
            for task in tasks.map(|(_, tasks)| tasks).unwrap_or_default() {
                if worked.len() < most {
                    worked.push(run_worker(&tickets, first + task.index));
                    let mut queue = self.batch_system.queue.borrow_mut();
                    let (_, tasks) = queue.get_mut(&name).unwrap();
                    tasks.retain(|other| *other != task);
                }
            }
        }
        worked
    }

    fn charges(&self) -> Vec<ChargeRecord> {
        let account = self.store().ledger(&self.data).unwrap().state().unwrap();
        account.charges().to_vec()
    }

    /// Returns the number of charges that cost something.
    fn charged(&self) -> usize {
        let costs = |charge: &ChargeRecord| match &charge.event {
            Event::Composed { events } => !events.is_empty(),
            event => {
                crate::privacy::epsilon(std::slice::from_ref(event), crate::privacy::Delta(1e-5))
                    .is_ok_and(|spent| spent.epsilon > 0.0)
            }
        };
        self.charges().iter().filter(|charge| costs(charge)).count()
    }

    fn tickets(&self) -> Vec<Ticket> {
        let taken = self.batch_system.submissions.borrow();
        let mut files: Vec<&PathBuf> = taken.iter().map(|(_, tickets, ..)| tickets).collect();
        files.dedup();
        files.iter().flat_map(|file| ticket::read(file, 0, usize::MAX).unwrap().1).collect()
    }

    fn grid_folder(&self) -> PathBuf {
        self.batch_system.submissions.borrow()[0].1.parent().unwrap().to_owned()
    }

    /// Checks that everything is finished, charged once and closed, and equals the grid that is
    /// trained here.
    #[track_caller]
    fn is_complete(&self) {
        let result = self.collect().unwrap();
        assert_eq!((result.runs(), self.charged()), (15, 12), "{result}");
        assert!(self.charges().iter().all(|charge| charge.closed));
        let again = self.collect().unwrap();
        assert_eq!(again.to_string(), result.to_string());
        assert_eq!(self.charged(), 12, "collecting spends nothing");
        let alone = tempfile::tempdir().unwrap();
        let build = |seed| models::mlp(&self.data, &[8]).seed(seed).build();
        let local = crate::grid::scheduler::run_grid(
            &self.experiment,
            &build,
            &self.data,
            &RunStore::open(alone.path().to_owned()).unwrap(),
            &mut crate::grid::NoopGridObserver,
        );
        let local = local.unwrap();
        let rows = |result: &GridResult| {
            let rows = result.rows().into_iter();
            // Labels are random.
            rows.map(|row| GridRow { run_labels: Vec::new(), ..row }).collect::<Vec<_>>()
        };
        assert_eq!(rows(&local), rows(&result), "bit for bit");
    }
}

/// Slurm replaces what follows a percent sign in the name of a log.
#[test]
fn a_percent_sign_in_the_name_of_the_folder_is_one_in_that_of_the_logs() {
    let mut lab = Lab::new(107);
    lab.folder = tempfile::Builder::new().prefix("a%job").tempdir().unwrap();
    let script = lab.submit().unwrap().script.unwrap();
    let logs = script.lines().find_map(|line| line.strip_prefix("#SBATCH --output=")).unwrap();
    assert!(logs.contains("a%%job") && logs.ends_with("/%A_%a.txt\""), "{logs}");
}

/// Sites print banners, and controllers stumble. Runs of a job that was taken are not withdrawn.
#[test]
fn an_unreadable_job_number_withdraws_no_running_job() {
    let lab = Lab::new(108);
    lab.fails(Fails::Answer);
    let submitted = lab.submit().unwrap();
    assert_eq!((submitted.runs, submitted.jobs), (12, vec![0, 1]), "found by their names");
    assert_eq!(lab.charged(), 12);
    assert!(lab.run(usize::MAX).iter().all(Result::is_ok));
    lab.is_complete();

    let lab = Lab::new(109);
    lab.fails(Fails::Silent);
    let error = lab.submit().unwrap_err().to_string();
    assert!(error.contains("may have been submitted") && error.contains("same command"), "{error}");
    assert_eq!(lab.charged(), 12, "nothing is taken back of what may run");
    lab.fails(Fails::Never);
    lab.submit().unwrap();
    while !lab.run(usize::MAX).is_empty() {}
    lab.submit().unwrap();
    while !lab.run(usize::MAX).is_empty() {}
    lab.is_complete();
}

#[test]
fn a_grid_of_arrays_equals_the_local_grid_and_is_charged_once() {
    let lab = Lab::new(101);
    let submitted = lab.submit().unwrap();
    // Two arrays, since the batch system allows four tasks each.
    assert_eq!((submitted.runs, submitted.jobs.len()), (12, 2));
    assert_eq!(lab.charges().len(), 12, "charged before a worker runs");
    assert!(lab.charges().iter().all(|charge| !charge.closed));
    let again = lab.submit().unwrap();
    assert_eq!((again.runs, again.waiting), (0, 12), "what waits is not submitted twice");
    lab.run(2);
    let status = lab.on(|site| site.status()).unwrap();
    assert_eq!((status.finished(), status.waiting()), (4, 8), "{status}");
    let part = lab.collect().unwrap();
    assert!(part.runs() >= 4 && part.to_string().contains("waiting in the queue"), "{part}");
    assert_eq!(lab.charges().iter().filter(|charge| charge.closed).count(), 4);
    let worked = lab.run(99);
    assert!(worked.iter().all(|worked| worked.as_ref().unwrap().trained == 2));
    lab.is_complete();
    assert_eq!(lab.submit().unwrap().finished, 12);
    assert!(!lab.grid_folder().join("data.safetensors").exists(), "no copy of the data is left");
}

#[test]
fn a_submitter_that_is_killed_charges_nothing_twice() {
    for fails in [Fails::KilledBefore, Fails::KilledAfter] {
        let lab = Lab::new(102);
        lab.fails(fails);
        assert!(catch_unwind(AssertUnwindSafe(|| lab.submit())).is_err());
        assert_eq!(lab.charges().len(), 12, "charged before the batch system knows");
        lab.fails(Fails::Never);
        let again = lab.submit().unwrap();
        match fails {
            Fails::KilledBefore => assert_eq!((again.runs, again.waiting), (12, 0)),
            // The array that was taken is found by its name.
            _ => assert_eq!((again.runs, again.waiting), (4, 8)),
        }
        assert_eq!(lab.charges().len(), 12, "the same entries");
        lab.run(99);
        lab.is_complete();
    }
}

#[test]
fn jobs_that_the_batch_system_refuses_are_not_charged() {
    let lab = Lab::new(103);
    lab.fails(Fails::Asked);
    assert!(lab.submit().unwrap_err().to_string().contains("Invalid partition"));
    assert_eq!(lab.charges().len(), 0);
    // The second of two arrays is refused: its four runs cost nothing.
    lab.fails(Fails::Array(1));
    assert!(lab.submit().is_err());
    assert_eq!((lab.charges().len(), lab.charged()), (12, 8));
    lab.fails(Fails::Never);
    assert_eq!(lab.submit().unwrap().runs, 4);
    assert_eq!(lab.charged(), 12);
    lab.run(99);
    lab.is_complete();
}

#[test]
fn cancelled_runs_cost_nothing_unless_they_were_begun() {
    let lab = Lab::new(105);
    lab.submit().unwrap();
    lab.run(1);
    // A worker that was killed in its run left its claim and its note, and nothing else.
    let begun = lab.tickets()[5].clone();
    let (claims, notes) = (lab.grid_folder().join("claims"), lab.grid_folder().join("began"));
    std::fs::create_dir(claims.join(&begun.attempt)).unwrap();
    std::fs::write(claims.join(&begun.attempt).join("began"), "").unwrap();
    let note = notes.join(format!("{}.1-other-00", begun.attempt));
    std::fs::write(note, "cpu of an earlier process").unwrap();
    let taken_back = lab.on(|site| site.cancel()).unwrap();
    assert_eq!((taken_back, lab.charged()), (9, 3));
    assert_eq!(lab.on(|site| site.cancel()).unwrap(), 0);
    // A job that survived its node daemon finds its tickets withdrawn.
    let (_, tickets, ..) = lab.batch_system.submissions.borrow()[0].clone();
    let late = run_worker(&tickets, 1).unwrap();
    assert_eq!((late.trained, late.errors.len()), (0, 2));
    assert!(late.errors[0].to_string().contains("withdrawn"), "{}", late.errors[0]);
    let again = lab.submit().unwrap();
    assert_eq!((again.runs, again.finished), (10, 2));
    assert_eq!(lab.charged(), 12);
    let attempts = lab.tickets();
    assert!(attempts.iter().filter(|ticket| ticket.attempt == begun.attempt).count() == 2);
    lab.run(99);
    lab.is_complete();
    // It was begun on another kind of processor, so its steps were rounded twice.
    let model = models::mlp(&lab.data, &[8]).seed(begun.seed).build().unwrap();
    let run = lab.store().load_finished(&begun.id, &model, &lab.data).unwrap().unwrap();
    assert!(run.statement().to_string().contains("rounded differently"), "{}", run.statement());
}

#[test]
fn a_grid_of_which_nothing_is_finished_is_an_error() {
    let lab = Lab::new(110);
    lab.submit().unwrap();
    let error = experiment::require_finished_run(lab.collect().unwrap()).unwrap_err();
    assert!(error.to_string().contains("0 of 15 runs are finished"), "{error}");
    let stopped = lab.collect().unwrap().into_interrupted();
    assert!(
        experiment::require_finished_run(stopped).is_ok(),
        "whoever stops watching has no failure"
    );
    lab.run(1);
    assert!(experiment::require_finished_run(lab.collect().unwrap()).is_ok());
    lab.run(99);
    lab.is_complete();
}

#[test]
fn runs_that_no_worker_can_train_are_refused_before_a_charge() {
    let lab = Lab::new(109);
    let method = || DpSsgd::new().clip(0.5).batch_size(50).steps(3);
    let model = models::mlp(&lab.data, &[8]).seed(0).build().unwrap();
    let given = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
    let private = DpSgd::new().clip(0.5).batch_size(50).steps(3).noise_multiplier(1.0);
    let trials = PrivateSelection::new(private.clone(), Trials::geometric(2.0));
    let selection = Case::from(private).best_of(trials.learning_rates([0.5, 1.0]));
    for (experiment, words) in [
        (Experiment::new([Case::from(method().epsilon(2.0)).mask(MaskKind::Snip, 0.5)]), "snip"),
        (Experiment::new([method().epsilon(2.0).pre_prune(given)]), "before the run"),
        (Experiment::new([selection]), "private selection"),
        (Experiment::new([method().epsilon(2.0).device("cuda")]), ".device"),
        (Experiment::new([method().epsilon(2.0)]).seeds(0), "seeds"),
    ] {
        let lab = Lab { experiment, ..Lab::new(109) };
        let error = lab.submit().unwrap_err();
        assert!(error.to_string().contains(words) && !error.advice().is_empty(), "{error}");
        assert!(lab.charges().is_empty());
    }
    // A budget that allows each run, but not all of them together.
    let ledger = lab.store().ledger(&lab.data).unwrap();
    ledger.set_budget(crate::privacy::Epsilon(3.0), crate::privacy::Delta(1e-5)).unwrap();
    let error = lab.submit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    assert!(lab.charges().is_empty() && lab.batch_system.submissions.borrow().is_empty());
}
