//! A grid on Slurm: the calls of notebooks and of the command line.

use std::time::{Duration, Instant};

use super::commands::Commands;
use super::slurm::Slurm;
use super::status::GridStatus;
use super::submit::{Site, Submitted};
use crate::data::Dataset;
use crate::grid::{Experiment, Grid, GridResult};
use crate::nn::{Family, Model, ModelBuilder};
use crate::show::{Bundle, Coverage, LiveDisplay};
use crate::store::{Store, home, shared};
use crate::train::Listening;
use crate::{Error, ErrorKind, Result};

/// How often Slurm is asked how far the runs are.
const PACE: Duration = Duration::from_secs(5);

/// How long Slurm may be silent while jobs are watched.
const PATIENCE: Duration = Duration::from_secs(300);

/// A grid whose runs are trained by Slurm: [`Grid::on`].
///
/// # Guarantee
/// As [`Grid`]: each run is charged once, with its whole plan, before it is submitted.
#[derive(Clone, Debug)]
pub struct OnSlurm {
    experiment: Result<Experiment>,
    slurm: Slurm,
}

impl Experiment {
    /// This experiment, with its runs trained by Slurm, as [`Grid::on`].
    pub fn on(&self, slurm: Slurm) -> OnSlurm {
        OnSlurm { experiment: Ok(self.clone()), slurm }
    }
}

impl Grid {
    /// This grid, with its runs trained by Slurm. The store (`EPSILAB_HOME`) must be in a folder
    /// that all nodes share.
    ///
    /// ```no_run
    /// # use epsilab::prelude::*;
    /// # let data = data::glyphs()?;
    /// let grid = Grid::new(DpSgd::new().clip(0.1).batch_size(256)).epsilon([1.0, 3.0]).seeds(5);
    /// let slurm = Slurm::new().partition("main").time("01:00:00").cpus(2);
    /// let result = grid.on(slurm).run(&models::papernot_cnn(&data), &data)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn on(&self, slurm: Slurm) -> OnSlurm {
        OnSlurm { experiment: self.experiment(), slurm }
    }
}

impl OnSlurm {
    /// Submits the runs that are not stored, shows how far they are until all tasks have ended, and
    /// collects them. An interrupt stops watching, and the tasks go on: the same call again watches
    /// them, and submits what has failed.
    ///
    /// # Errors
    /// As [`submit`](Self::submit) and [`collect`](Self::collect); `Io` if all tasks have ended and
    /// no run is finished.
    pub fn run<F: Family>(&self, model: &ModelBuilder<F>, data: &Dataset) -> Result<GridResult> {
        let build = |seed| model.clone().seed(seed).build();
        let display = LiveDisplay::default();
        let result = self.run_watched(&build, data, &mut |status| {
            let (line, table) = (status.to_string(), status.table());
            let html = format!("<p>{line}</p>\n{}", table.html());
            display.update(&Bundle::text(format!("{line}\n\n{}", table.text())).with_html(html));
        })?;
        let (done, all) = (result.runs(), result.planned_runs());
        display.finish(
            &Bundle::text(format!("{done} of {all} runs are finished"))
                .with_coverage(Coverage::Public),
        );
        some_finished(result)
    }

    /// As [`run`](Self::run), with a function that builds the model of a seed, and one that is
    /// given the status every few seconds.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watched(
        &self,
        build: &dyn Fn(u64) -> Result<Model>,
        data: &Dataset,
        watch: &mut dyn FnMut(&GridStatus),
    ) -> Result<GridResult> {
        let listening = Listening::start();
        self.submit_with(build, data, false)?;
        let mut outage = Outage::default();
        loop {
            let status = outage.accept(self.status_with(build, data), Instant::now())?;
            let is_over = status.as_ref().is_some_and(GridStatus::is_over);
            status.iter().for_each(&mut *watch);
            if is_over || pause(&listening) {
                break;
            }
        }
        let stopped = listening.stop();
        let result = loop {
            let collected = self.collect_with(build, data);
            // Whoever stops it waits for nothing.
            if stopped {
                break collected?;
            }
            if let Some(result) = outage.accept(collected, Instant::now())? {
                break result;
            }
            pause(&listening);
        };
        drop(listening);
        let is_whole = result.runs() == result.planned_runs();
        Ok(if stopped && !is_whole { result.into_interrupted() } else { result })
    }

    /// Charges and submits the runs that are neither stored nor waiting.
    ///
    /// # Errors
    /// `Setting` if Slurm is not there or refuses the job, or for a grid that can't be trained on
    /// another machine; `Ledger` if a budget does not allow all runs together; `Io` if the store
    /// can't be locked. No run stays charged then.
    pub fn submit<F: Family>(&self, model: &ModelBuilder<F>, data: &Dataset) -> Result<Submitted> {
        self.submit_with(&|seed| model.clone().seed(seed).build(), data, false)
    }

    /// As [`submit`](Self::submit), with a function that builds the model of a seed. With
    /// `dry_run`, nothing is written, charged or submitted: the result has the script.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_with(
        &self,
        build: &dyn Fn(u64) -> Result<Model>,
        data: &Dataset,
        dry_run: bool,
    ) -> Result<Submitted> {
        if !dry_run {
            shared::check(&home())?;
        }
        self.at(build, data, |site| site.submit(dry_run))
    }

    /// How far the runs are.
    ///
    /// # Errors
    /// `Setting` if Slurm does not answer.
    pub fn status<F: Family>(&self, model: &ModelBuilder<F>, data: &Dataset) -> Result<GridStatus> {
        self.status_with(&|seed| model.clone().seed(seed).build(), data)
    }

    /// As [`status`](Self::status), with a function that builds the model of a seed.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn status_with(
        &self,
        build: &dyn Fn(u64) -> Result<Model>,
        data: &Dataset,
    ) -> Result<GridStatus> {
        self.at(build, data, |site| site.status())
    }

    /// Closes the ledger entries of the runs that are stored, and makes the result of these. Runs
    /// that are not finished are among the errors of their cells.
    ///
    /// # Errors
    /// `Ledger` if the ledger can't be trusted or written; `CorruptData` if a stored run is
    /// damaged; `Setting` if Slurm does not answer.
    pub fn collect<F: Family>(
        &self,
        model: &ModelBuilder<F>,
        data: &Dataset,
    ) -> Result<GridResult> {
        self.collect_with(&|seed| model.clone().seed(seed).build(), data)
    }

    /// As [`collect`](Self::collect), with a function that builds the model of a seed.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub fn collect_with(
        &self,
        build: &dyn Fn(u64) -> Result<Model>,
        data: &Dataset,
    ) -> Result<GridResult> {
        self.at(build, data, |site| site.collect())
    }

    /// Cancels all tasks that have not ended, and takes back the charges of runs that nobody has
    /// begun. Returns their number. Runs that were begun stay charged; submitted again, they go on
    /// under the same entries.
    ///
    /// # Errors
    /// `Setting` if Slurm does not cancel; `Io` if the tasks do not end: nothing is taken back
    /// then.
    pub fn cancel<F: Family>(&self, model: &ModelBuilder<F>, data: &Dataset) -> Result<usize> {
        self.cancel_with(&|seed| model.clone().seed(seed).build(), data)
    }

    /// As [`cancel`](Self::cancel), with a function that builds the model of a seed.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    pub fn cancel_with(
        &self,
        build: &dyn Fn(u64) -> Result<Model>,
        data: &Dataset,
    ) -> Result<usize> {
        self.at(build, data, |site| site.cancel())
    }

    fn at<T>(
        &self,
        build: &dyn Fn(u64) -> Result<Model>,
        data: &Dataset,
        what: impl FnOnce(&Site<'_>) -> Result<T>,
    ) -> Result<T> {
        // The scripts name the folder, and are run elsewhere.
        let home = std::path::absolute(home()).unwrap_or_else(|_| home());
        let store = Store::open(home)?;
        let (experiment, slurm) = (self.experiment.as_ref().map_err(Error::clone)?, &self.slurm);
        what(&Site { experiment, slurm, batch: &Commands, build, data, store: &store })
    }
}

/// Waits until Slurm is asked again. Returns whether it was asked to stop.
fn pause(listening: &Listening) -> bool {
    for _ in 0..PACE.as_millis() / 100 {
        if listening.stop() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    listening.stop()
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
    fn accept<T>(&mut self, answer: Result<T>, now: Instant) -> Result<Option<T>> {
        let error = match answer {
            Ok(answer) => {
                *self = Self::default();
                return Ok(Some(answer));
            }
            Err(error) if error.kind() != ErrorKind::Setting => return Err(error),
            Err(error) => error,
        };
        if self.since.is_none() {
            let what = error.to_string();
            let what = what.lines().next().unwrap_or_default();
            eprintln!("{what}; the jobs go on, and Slurm is asked again");
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < PATIENCE {
            Ok(None)
        } else {
            Err(error.fix("the jobs go on: the same command watches them"))
        }
    }
}

/// The result, unless all tasks have ended and nothing was trained.
pub(super) fn some_finished(result: GridResult) -> Result<GridResult> {
    if result.runs() > 0 || result.is_interrupted() {
        return Ok(result);
    }
    let why = result.rows().into_iter().flat_map(|row| row.errors).next();
    let what = format!("a grid on Slurm: 0 of {} runs are finished", result.planned_runs());
    Err(Error::new(ErrorKind::Io, what, why.unwrap_or_default())
        .fix("read the log that it names; the same cell submits the runs again"))
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
        assert!(error.contains("the same command watches them"), "{error}");
        let other = Error::new(ErrorKind::Ledger, "the ledger", "changed");
        assert_eq!(at(Err(other), 701).unwrap_err().kind(), ErrorKind::Ledger);
    }
}
