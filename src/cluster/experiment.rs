//! Grids in other processes: the API of notebooks and of the command line.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::commands::{BatchSystem, SlurmCommands};
use super::processes::Processes;
use super::slurm::Slurm;
use super::status::GridStatus;
use super::submit::{ClusterSession, SubmissionSummary};
use crate::data::Dataset;
use crate::grid::{Experiment, Grid, GridResult};
use crate::nn::ModelFactory;
use crate::show::{Coverage, LiveDisplay, MimeBundle};
use crate::store::{RunStore, home, shared_folder};
use crate::train::InterruptGuard;
use crate::{Error, ErrorKind, Result};

/// Time for which Slurm may be silent while jobs are watched.
const PATIENCE: Duration = Duration::from_secs(300);

/// Experiment whose runs are trained by Slurm, or by child processes: [`Experiment::on`],
/// [`Experiment::in_processes`].
///
/// # Guarantee
/// As [`Grid`]: each run is charged once, with its whole plan, before it is submitted.
#[derive(Clone, Debug)]
pub struct ClusterExperiment {
    experiment: Result<Experiment>,
    slurm: Slurm,
    batch_system: Rc<dyn BatchSystem>,
}

impl Experiment {
    /// Returns this experiment with its runs trained by Slurm, as [`Grid::on`].
    pub fn on(&self, slurm: Slurm) -> ClusterExperiment {
        ClusterExperiment {
            experiment: Ok(self.clone()),
            slurm,
            batch_system: Rc::new(SlurmCommands),
        }
    }

    /// Returns this experiment with each run trained on the CPU by a process of its own, up to
    /// `at_once` at a time, each with its share of the threads. A run that ends its process, for
    /// want of memory or by a crash, is reported and stops no other. Several runs at once in this
    /// process ([`jobs`](Self::jobs)) are faster, because they share the data.
    ///
    /// The processes end with the value that is returned: an interrupt stops them.
    pub fn in_processes(&self, at_once: usize) -> ClusterExperiment {
        let slurm = Slurm::new().runs_per_task(1);
        let batch_system = Rc::new(Processes::new(at_once));
        ClusterExperiment { experiment: Ok(self.clone()), slurm, batch_system }
    }
}

impl Grid {
    /// Returns this grid with its runs trained by Slurm. The store (`EPSILAB_HOME`) must be in a
    /// folder that all nodes share.
    ///
    /// ```no_run
    /// # use epsilab::prelude::*;
    /// # let data = data::glyphs()?;
    /// let grid = Grid::new(DpSgd::new().clip(0.1).batch_size(256)).epsilon([1.0, 3.0]).seeds(5);
    /// let slurm = Slurm::new().partition("main").time("01:00:00").cpus(2);
    /// let result = grid.on(slurm).run(&models::papernot_cnn(&data), &data)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn on(&self, slurm: Slurm) -> ClusterExperiment {
        ClusterExperiment {
            experiment: self.experiment(),
            slurm,
            batch_system: Rc::new(SlurmCommands),
        }
    }
}

impl ClusterExperiment {
    /// Sets how often runs write checkpoints: `500` (steps), `10min`. By default they write none.
    pub fn checkpoint_every(self, every: &str) -> Self {
        Self { slurm: self.slurm.checkpoint_every(every), ..self }
    }

    /// Submits the runs that are not stored, shows how far they are until all tasks have ended, and
    /// collects them. An interrupt stops watching, and tasks of Slurm continue: the same call again
    /// watches them, and submits what has failed.
    ///
    /// # Errors
    /// `Setting` if Slurm refuses the job or does not answer; `Ledger` if a budget does not allow
    /// all runs, or the ledger can't be trusted; `CorruptData` if a stored run is damaged; `Io` if
    /// the store can't be locked, or all tasks have ended and no run is finished.
    pub fn run(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<GridResult> {
        let display = LiveDisplay::default();
        let result = self.run_with_observer(model, data, &mut |status| {
            let (line, table) = (status.to_string(), status.table());
            let html = format!("<p>{line}</p>\n{}", table.html());
            display
                .update(&MimeBundle::text(format!("{line}\n\n{}", table.text())).with_html(html));
        })?;
        let (done, all) = (result.runs(), result.planned_runs());
        display.finish(
            &MimeBundle::text(format!("{done} of {all} runs are finished"))
                .with_coverage(Coverage::Public),
        );
        require_finished_run(result)
    }

    /// Runs the experiment like [`run`](Self::run), but passes the status to a function every few
    /// seconds in place of a display.
    ///
    /// # Errors
    /// `Setting` if Slurm refuses the job or does not answer; `Ledger` if a budget does not allow
    /// all runs, or the ledger can't be trusted; `CorruptData` if a stored run is damaged; `Io` if
    /// the store can't be locked, or all tasks have ended and no run is finished.
    pub fn run_with_observer(
        &self,
        model: &dyn ModelFactory,
        data: &Dataset,
        watch: &mut dyn FnMut(&GridStatus),
    ) -> Result<GridResult> {
        let interrupt_guard = InterruptGuard::start();
        self.submit(model, data)?;
        let mut outage = Outage::default();
        loop {
            let status = outage.accept(self.status(model, data), Instant::now())?;
            let is_over = status.as_ref().is_some_and(GridStatus::is_over);
            status.iter().for_each(&mut *watch);
            if is_over || self.pause(&interrupt_guard)? {
                break;
            }
        }
        let stopped = interrupt_guard.should_stop();
        let result = loop {
            let collected = self.collect(model, data);
            // Whoever stops it waits for nothing.
            if stopped {
                break collected?;
            }
            if let Some(result) = outage.accept(collected, Instant::now())? {
                break result;
            }
            self.pause(&interrupt_guard)?;
        };
        drop(interrupt_guard);
        let is_whole = result.runs() == result.planned_runs();
        Ok(if stopped && !is_whole { result.into_interrupted() } else { result })
    }

    /// Charges and submits the runs that are neither stored nor waiting.
    ///
    /// # Errors
    /// `Setting` if Slurm is not there or refuses the job, or for a grid that can't be trained on
    /// another machine; `Ledger` if a budget does not allow all runs together; `Io` if the store
    /// can't be locked. No run stays charged then.
    pub fn submit(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<SubmissionSummary> {
        shared_folder::check(&home())?;
        self.at(model, data, |site| site.submit(false))
    }

    /// Returns what [`submit`](Self::submit) would submit, with the script. Nothing is written,
    /// charged or submitted.
    ///
    /// # Errors
    /// `Setting` for a grid that can't be trained on another machine.
    pub fn dry_run(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<SubmissionSummary> {
        self.at(model, data, |site| site.submit(true))
    }

    /// Returns the status of the runs.
    ///
    /// # Errors
    /// `Setting` if Slurm does not answer.
    pub fn status(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<GridStatus> {
        self.at(model, data, |site| site.status())
    }

    /// Closes the ledger entries of the runs that are stored, and makes the result of these. Runs
    /// that are not finished are among the errors of their cases.
    ///
    /// # Errors
    /// `Ledger` if the ledger can't be trusted or written; `CorruptData` if a stored run is
    /// damaged; `Setting` if Slurm does not answer.
    pub fn collect(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<GridResult> {
        self.at(model, data, |site| site.collect())
    }

    /// Cancels all tasks that have not ended, and takes back the charges of runs that no worker has
    /// begun. Returns their number. Runs that were begun stay charged; submitted again, they
    /// continue under the same entries.
    ///
    /// # Errors
    /// `Setting` if Slurm does not cancel; `Io` if the tasks do not end: nothing is taken back
    /// then.
    pub fn cancel(&self, model: &dyn ModelFactory, data: &Dataset) -> Result<usize> {
        self.at(model, data, |site| site.cancel())
    }

    /// Waits until the next query of the batch system. Returns whether this process was asked to
    /// stop.
    fn pause(&self, interrupt_guard: &InterruptGuard) -> Result<bool> {
        for _ in 0..self.batch_system.pace().as_millis() / 100 {
            if interrupt_guard.should_stop() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(100));
            self.batch_system.tend()?;
        }
        Ok(interrupt_guard.should_stop())
    }

    fn at<T>(
        &self,
        build: &dyn ModelFactory,
        data: &Dataset,
        what: impl FnOnce(&ClusterSession<'_>) -> Result<T>,
    ) -> Result<T> {
        // The scripts name the folder, and are run elsewhere.
        let home = std::path::absolute(home()).unwrap_or_else(|_| home());
        let store = RunStore::open(home)?;
        let (experiment, slurm) = (self.experiment.as_ref().map_err(Error::clone)?, &self.slurm);
        let batch_system = &*self.batch_system;
        what(&ClusterSession { experiment, slurm, batch_system, build, data, store: &store })
    }
}

/// An outage of Slurm's controller, which may be restarted, or be busy, while the jobs run.
#[derive(Default)]
struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Returns the answer of Slurm, or `None` for an error that may pass, which is printed once.
    ///
    /// # Errors
    /// Errors that are not Slurm's, and that of Slurm after [`PATIENCE`].
    fn accept<T>(&mut self, result: Result<T>, now: Instant) -> Result<Option<T>> {
        let error = match result {
            Ok(value) => {
                *self = Self::default();
                return Ok(Some(value));
            }
            Err(error) if error.kind() != ErrorKind::Setting => return Err(error),
            Err(error) => error,
        };
        if self.since.is_none() {
            let what = error.to_string();
            let what = what.lines().next().unwrap_or_default();
            eprintln!("{what}; the jobs continue, and Slurm is queried again");
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < PATIENCE {
            Ok(None)
        } else {
            Err(error.fix("the jobs continue; run the same command to watch them"))
        }
    }
}

/// Returns the result, unless all tasks have ended and nothing was trained.
pub(super) fn require_finished_run(result: GridResult) -> Result<GridResult> {
    if result.runs() > 0 || result.is_interrupted() {
        return Ok(result);
    }
    let why = result.rows().into_iter().flat_map(|row| row.errors).next();
    let why = why.unwrap_or_else(|| "no task reported an error".to_owned());
    let all = result.planned_runs();
    let what = format!("a grid in other processes: 0 of {all} runs are finished");
    Err(Error::new(ErrorKind::Io, what, why).fix(
        "read the logs of the tasks, in the folder logs/ of the grid; run the same cell again to \
         submit the runs again",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_does_not_answer_is_waited_for() {
        let silent = || Error::new(ErrorKind::Setting, "Slurm refuses to show its queue", "down");
        let (mut outage, start) = (Outage::default(), Instant::now());
        let mut at = |answer: Result<u8>, seconds: u64| {
            outage.accept(answer, start + Duration::from_secs(seconds))
        };
        assert_eq!(at(Err(silent()), 0).unwrap(), None);
        assert_eq!(at(Err(silent()), 299).unwrap(), None);
        assert_eq!(at(Ok(3), 300).unwrap(), Some(3));
        assert_eq!(at(Err(silent()), 400).unwrap(), None, "it has answered in between");
        let error = at(Err(silent()), 700).unwrap_err().to_string();
        assert!(error.contains("run the same command to watch them"), "{error}");
        let other = Error::new(ErrorKind::Ledger, "the ledger", "changed");
        assert_eq!(at(Err(other), 701).unwrap_err().kind(), ErrorKind::Ledger);
    }
}
