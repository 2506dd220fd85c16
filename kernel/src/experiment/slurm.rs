//! `--engine slurm`: the runs of a grid on a cluster.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use epsilab::cluster::{ClusterExperiment, GridStatus, Slurm, SubmissionSummary};
use epsilab::data::Dataset;
use epsilab::grid::{Experiment, GridResult};
use epsilab::methods::CheckpointInterval;
use epsilab::nn::ModelFactory;
use epsilab::{Error, ErrorKind, Result};

use crate::{options, stdout};

/// Executor of the runs.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// This machine.
    #[default]
    Local,
    /// Child processes, --jobs at a time.
    Processes,
    /// Job arrays of Slurm.
    Slurm,
}

/// Action on a cluster.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterAction {
    /// Charge and submit the runs that are neither stored nor waiting.
    Submit,
    /// Say how far the runs are.
    Status,
    /// Close the charges of finished runs and show the table.
    Collect,
    /// Cancel all tasks, and take back the charges of runs that nobody has begun.
    Cancel,
}

/// Setter of one option of a job.
type SlurmSetter<T> = fn(Slurm, T) -> Slurm;

/// Settings of jobs; those that are not given are the cluster's.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "On a cluster (book/src/how-to/cluster.md)")]
pub struct SlurmArgs {
    /// Where the runs are trained
    #[arg(long, value_enum, default_value = "local")]
    pub engine: Engine,
    /// Do only one part [default: submit, watch until all tasks have ended, collect]
    #[arg(long, value_enum, value_name = "PART")]
    pub part: Option<ClusterAction>,
    /// Print the script of the job and do nothing else
    #[arg(long)]
    pub dry_run: bool,
    /// Partition (queue)
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Account that the time is billed to
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Time limit of a task, such as 30 (minutes) or 02:00:00
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Memory of a task, such as 4G
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// CPUs of a task, which are the threads of its runs
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub cpus: Option<i64>,
    /// GPUs of a task (--gres=gpu:…), such as 1 or a100:1; the runs are trained on CUDA
    #[arg(long, value_name = "WHICH")]
    pub gpus: Option<String>,
    /// Features that nodes must have
    #[arg(long, value_name = "FEATURES")]
    pub constraint: Option<String>,
    /// Largest number of tasks that run at once
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub at_most: Option<i64>,
    /// Number of runs that a task trains, one after the other [default: about five minutes' worth]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub runs_per_task: Option<i64>,
    /// A line of the script before the command, such as "module load cuda"; may be given several
    /// times
    #[arg(long, value_name = "LINE")]
    pub before: Vec<String>,
    /// A further option of sbatch, such as --sbatch=--qos=long; may be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
    /// The program on the nodes [default: this program]
    #[arg(long, value_name = "PATH")]
    pub program: Option<std::path::PathBuf>,
}

impl SlurmArgs {
    /// Builds the settings of the jobs from the options.
    fn to_slurm(&self) -> Result<Slurm> {
        let mut slurm = Slurm::new();
        let texts: [(&Option<String>, SlurmSetter<&str>); 6] = [
            (&self.partition, Slurm::partition),
            (&self.account, Slurm::account),
            (&self.time, Slurm::time),
            (&self.memory, Slurm::memory),
            (&self.gpus, Slurm::gpus),
            (&self.constraint, Slurm::constraint),
        ];
        for (value, set) in texts {
            slurm = value.iter().fold(slurm, |slurm, value| set(slurm, value));
        }
        let numbers: [(&str, Option<i64>, SlurmSetter<usize>); 3] = [
            ("--cpus", self.cpus, Slurm::cpus),
            ("--at-most", self.at_most, Slurm::at_most),
            ("--runs-per-task", self.runs_per_task, Slurm::runs_per_task),
        ];
        for (name, value, set) in numbers {
            if let Some(value) = options::non_negative_count(name, value)? {
                slurm = set(slurm, value);
            }
        }
        slurm = self.before.iter().fold(slurm, |slurm, line| slurm.before(line));
        slurm = self.sbatch.iter().fold(slurm, |slurm, option| slurm.sbatch(option));
        Ok(self.program.iter().fold(slurm, |slurm, program| slurm.program(program)))
    }

    /// Returns an error for settings of a cluster without one.
    ///
    /// # Errors
    /// Kind `Setting`.
    pub fn check(&self) -> Result<()> {
        if self.engine == Engine::Slurm {
            return Ok(());
        }
        let (what, why) = match self.part {
            Some(part) => (
                format!("--part {}", format!("{part:?}").to_lowercase()),
                "--part selects a part of a grid on a cluster, but this grid is trained on this \
                 machine",
            ),
            None if self.dry_run || self.to_slurm()? != Slurm::new() => (
                "settings of Slurm without --engine slurm".to_owned(),
                "the settings apply to jobs on a cluster, but the runs are trained on this machine",
            ),
            None => return Ok(()),
        };
        Err(Error::new(ErrorKind::Setting, what, why).fix("add --engine slurm"))
    }

    /// Returns the experiment on the chosen engine; with child processes, `at_once` runs at a
    /// time.
    ///
    /// # Errors
    /// `Setting` for a negative number.
    pub fn on(
        &self,
        experiment: &Experiment,
        checkpoints: Option<CheckpointInterval>,
        at_once: usize,
    ) -> Result<ClusterExperiment> {
        let grid = match self.engine {
            Engine::Processes => experiment.in_processes(at_once),
            Engine::Local | Engine::Slurm => experiment.on(self.to_slurm()?),
        };
        Ok(checkpoints.iter().fold(grid, |grid, every| grid.checkpoint_every(&every.to_string())))
    }

    /// Runs one part, or all, and returns the result to show, or the exit code if there is none.
    ///
    /// # Errors
    /// As the parts.
    pub fn run(
        &self,
        grid: &ClusterExperiment,
        data: &Dataset,
        build: &dyn ModelFactory,
    ) -> Result<Result<GridResult, ExitCode>> {
        if self.dry_run {
            let submitted = grid.dry_run(build, data)?;
            if let Some(script) = &submitted.script {
                stdout::print_line(script.trim_end())?;
            }
            eprintln!("{} would be submitted; nothing was charged", count_runs(submitted.runs));
            return Ok(Err(ExitCode::SUCCESS));
        }
        match self.part {
            None => watch(grid, data, build).map(Ok),
            Some(ClusterAction::Submit) => {
                print_submission(&grid.submit(build, data)?);
                Ok(Err(ExitCode::SUCCESS))
            }
            Some(ClusterAction::Status) => {
                let status = grid.status(build, data)?;
                stdout::print_line(&format!("{status}\n\n{}", status.table().text().trim_end()))?;
                print_failures(&status);
                Ok(Err(ExitCode::SUCCESS))
            }
            Some(ClusterAction::Collect) => grid.collect(build, data).map(Ok),
            Some(ClusterAction::Cancel) => {
                let taken_back = grid.cancel(build, data)?;
                eprintln!(
                    "cancelled; {} that had not started cost nothing",
                    count_runs(taken_back)
                );
                Ok(Err(ExitCode::SUCCESS))
            }
        }
    }
}

fn count_runs(n: usize) -> String {
    format!("{n} run{}", if n == 1 { "" } else { "s" })
}

fn print_submission(submitted: &SubmissionSummary) {
    let SubmissionSummary { runs, finished, waiting, jobs, .. } = submitted;
    let jobs: Vec<String> = jobs.iter().map(u64::to_string).collect();
    let how = if jobs.is_empty() { String::new() } else { format!(" as job {}", jobs.join(", ")) };
    eprintln!(
        "submitted {}{how}; {finished} finished before, {waiting} waiting or running",
        count_runs(*runs)
    );
}

fn print_failures(status: &GridStatus) {
    for (why, n) in status.errors() {
        eprintln!("{} failed {}", count_runs(n), why.replace('\n', " "));
    }
}

/// Submits the runs, shows their progress, and collects the result.
fn watch(grid: &ClusterExperiment, data: &Dataset, build: &dyn ModelFactory) -> Result<GridResult> {
    let mut shown = String::new();
    grid.run_with_observer(build, data, &mut |status| {
        let line = status.to_string();
        if line != shown {
            let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
            let _ = writeln!(std::io::stderr(), "{clear}{line}");
            shown = line;
        }
        if status.is_over() {
            print_failures(status);
        }
    })
}
