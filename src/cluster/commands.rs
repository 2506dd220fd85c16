//! Batch systems, and the commands of Slurm.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::grid_folder::JobArray;
use crate::show::CELL_ENV_VARS;
use crate::{Error, ErrorKind, Result};

/// A task that Slurm knows and that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Index of the task in the array.
    pub(super) index: usize,
    pub(super) running: bool,
}

/// Tasks that have not ended, with the number of their job, by the name of the array.
pub(super) type Queue = HashMap<String, (u64, Vec<Task>)>;

/// Environment variables of `sbatch` that would override the settings of the array in the script:
/// a task of another name would be taken for one that has ended.
const OVERRIDING: [&str; 7] = [
    "SBATCH_JOB_NAME",
    "SBATCH_ARRAY_INX",
    "SBATCH_OUTPUT",
    "SBATCH_OPEN_MODE",
    "SBATCH_SIGNAL",
    "SBATCH_REQUEUE",
    "SBATCH_NO_REQUEUE",
];

fn run(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Slurm hands the environment to the jobs, and a worker is no cell of a notebook.
    for variable in CELL_ENV_VARS.iter().chain(&OVERRIDING) {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).output().map_err(|e| {
        let what = format!("the command {name} of Slurm");
        let why = match e.kind() {
            std::io::ErrorKind::NotFound => {
                "the command does not exist: Slurm is not installed on this machine"
            }
            _ => "the command can't be started",
        };
        Error::new(ErrorKind::Setting, what, format!("{why} ({e})")).fix(
            "run this on a machine that can submit to Slurm, such as a login node; or train on \
             this machine with --jobs N (in a notebook `grid.jobs(N).run(..)`)",
        )
    })
}

/// Advice for the error of a job that Slurm does not accept.
const OTHER_SETTINGS: &str =
    "change the settings that it names; `sinfo` lists partitions and their limits";
/// Advice for the error of a query that Slurm does not answer.
const NO_ANSWER: &str = "check with `sinfo` that this machine belongs to the cluster and that the \
                         controller answers; or train on this machine with --jobs N";

/// Runs a command of Slurm and returns its output, or its message as an error.
fn text(command: &mut Command, action: &str, fix: &str) -> Result<String> {
    let output = run(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let why = if stderr.is_empty() {
        format!("the command ended with {}", output.status)
    } else {
        stderr
    };
    Err(Error::new(ErrorKind::Setting, format!("Slurm refuses {action}"), why).fix(fix))
}

/// Interface to a batch system that runs arrays of tasks.
pub(super) trait BatchSystem: std::fmt::Debug {
    /// Returns the largest number of tasks of an array.
    fn largest_array(&self) -> Result<usize>;
    /// Checks that the batch system would accept the script. Nothing is submitted.
    fn would_take(&self, script: &Path) -> Result<()>;
    /// Submits the script of an array, and returns the number of the job.
    ///
    /// # Errors
    /// `Setting` if the job was refused. After any other error it may have been taken.
    fn submit(&self, script: &Path, array: &JobArray) -> Result<u64>;
    /// Returns the tasks of these arrays that have not ended.
    fn queue(&self, arrays: &[&JobArray]) -> Result<Queue>;
    /// Cancels a job and all its tasks.
    fn cancel(&self, job: u64) -> Result<()>;
    /// Does the work of the batch system that is due between two queries; nothing by default.
    fn tend(&self) -> Result<()> {
        Ok(())
    }
    /// Returns the delay between two queries of the status of the runs.
    fn pace(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Returns the number of a job in the answer of `sbatch --parsable`: the last line of the form `N`
/// or `N;cluster`. Sites print banners before it.
fn number_of_job(stdout: &str) -> Option<u64> {
    let number = |line: &str| line.trim().split(';').next()?.parse().ok();
    stdout.lines().rev().find_map(number)
}

/// The commands of Slurm.
#[derive(Debug)]
pub(super) struct SlurmCommands;

impl BatchSystem for SlurmCommands {
    fn largest_array(&self) -> Result<usize> {
        let config = text(
            Command::new("scontrol").args(["show", "config"]),
            "to show its settings",
            NO_ANSWER,
        )?;
        let value = config.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "MaxArraySize").then(|| value.trim().parse::<usize>().ok())?
        });
        // The setting is one more than the largest index.
        match value {
            Some(0 | 1) => {
                Err(Error::setting("MaxArraySize", 1, "this cluster does not allow job arrays")
                    .fix(
                        "train on this machine with --jobs N, or ask the administrators of the \
                         cluster",
                    ))
            }
            value => Ok(value.map_or(1000, |n| n - 1)),
        }
    }

    fn would_take(&self, script: &Path) -> Result<()> {
        text(Command::new("sbatch").arg("--test-only").arg(script), "the job", OTHER_SETTINGS)
            .map(drop)
    }

    fn submit(&self, script: &Path, _array: &JobArray) -> Result<u64> {
        let stdout =
            text(Command::new("sbatch").arg("--parsable").arg(script), "the job", OTHER_SETTINGS)?;
        number_of_job(&stdout).ok_or_else(|| {
            let why = format!("{:?} is not the number of a job", stdout.trim());
            Error::new(ErrorKind::Io, "the answer of sbatch", why).fix("check with squeue")
        })
    }

    fn queue(&self, arrays: &[&JobArray]) -> Result<Queue> {
        let mut queue = Queue::new();
        if arrays.is_empty() {
            return Ok(queue);
        }
        let names: Vec<&str> = arrays.iter().map(|array| array.name.as_str()).collect();
        let mut squeue = Command::new("squeue");
        squeue
            .args(["--noheader", "--array", "--format=%F|%K|%T|%j", "--name"])
            .arg(names.join(","));
        for line in text(&mut squeue, "to show its queue", NO_ANSWER)?.lines() {
            let mut fields = line.trim().split('|');
            let mut field = || fields.next().unwrap_or_default();
            let (job, index, state, name) = (field(), field(), field(), field());
            let (Ok(job), Ok(index)) = (job.parse(), index.parse()) else { continue };
            let ended =
                ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"];
            if !ended.contains(&state) {
                let running = matches!(state, "RUNNING" | "COMPLETING" | "STOPPED" | "SUSPENDED");
                let tasks = queue.entry(name.to_owned()).or_insert((job, Vec::new()));
                tasks.1.push(Task { index, running });
            }
        }
        Ok(queue)
    }

    fn cancel(&self, job: u64) -> Result<()> {
        text(Command::new("scancel").arg(job.to_string()), "to cancel the job", NO_ANSWER).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_job_is_found_behind_a_banner() {
        assert_eq!(number_of_job("17\n"), Some(17));
        assert_eq!(number_of_job("17;hpc\n"), Some(17));
        let stdout = "*** Maintenance on 3 December ***\n2026\nWelcome\n4711;hpc\n\n";
        assert_eq!(number_of_job(stdout), Some(4711));
        assert_eq!(number_of_job("Welcome to 4711\n"), None);
    }

    #[cfg(unix)]
    #[test]
    fn jobs_do_not_inherit_that_the_submitter_is_a_cell_nor_other_names_of_the_array() {
        let mut command = Command::new("env");
        command.env("EVCXR_IS_RUNTIME", "1").env("EPSILAB_DISPLAY", "socket");
        command.env("SBATCH_JOB_NAME", "mine").env("SBATCH_PARTITION", "gpu");
        let output = text(&mut command, "nothing", "").unwrap();
        assert!(output.contains("SBATCH_PARTITION=gpu"), "{output}");
        assert!(!output.contains("SBATCH_JOB_NAME"), "{output}");
        assert!(!output.contains("EVCXR") && !output.contains("EPSILAB_DISPLAY"), "{output}");
    }
}
