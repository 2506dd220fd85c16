//! Child processes of this one as a batch system.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::commands::{BatchSystem, Queue, Task};
use super::grid_folder::JobArray;
use crate::show::CELL_ENV_VARS;
use crate::{Error, Result};

/// Batch system that runs the scripts of arrays in child processes, each with its share of the
/// threads. On drop, it asks the running processes to stop and waits for them.
#[derive(Debug)]
pub(super) struct Processes {
    at_once: usize,
    jobs: RefCell<Vec<Job>>,
}

/// Array of jobs, whose number is its position in the list.
#[derive(Debug)]
struct Job {
    name: String,
    script: PathBuf,
    waiting: VecDeque<usize>,
    /// Tasks that run.
    running: Vec<(usize, Child)>,
}

impl Processes {
    /// Returns a batch system that runs up to `at_once` tasks at a time.
    pub(super) fn new(at_once: usize) -> Self {
        Self { at_once: at_once.max(1), jobs: RefCell::default() }
    }

    fn start(&self, script: &Path, task: usize) -> Result<Child> {
        let starting = |e: std::io::Error| {
            Error::io(format!("starting a process for {}", script.display()), &e)
                .fix("train in this process with --jobs N, or in a notebook with .jobs(n)")
        };
        let logs = script.with_file_name("logs");
        fs::create_dir_all(&logs).map_err(starting)?;
        let name = script.file_stem().unwrap_or_default().to_string_lossy();
        let log = logs.join(format!("{name}_{task}.txt"));
        let log = OpenOptions::new().create(true).append(true).open(log).map_err(starting)?;
        let threads = (rayon::current_num_threads() / self.at_once).max(1);
        let mut command = Command::new("bash");
        // A worker is no cell of a notebook.
        for name in CELL_ENV_VARS {
            command.env_remove(name);
        }
        command
            .arg(script)
            .env("SLURM_ARRAY_TASK_ID", task.to_string())
            .env("RAYON_NUM_THREADS", threads.to_string())
            .stdin(Stdio::null())
            .stderr(log.try_clone().map_err(starting)?)
            .stdout(log);
        end_with_parent(&mut command);
        command.spawn().map_err(starting)
    }

    /// Forgets the tasks that have ended, and starts others in their place.
    fn advance(&self) -> Result<()> {
        let mut jobs = self.jobs.borrow_mut();
        for job in jobs.iter_mut() {
            job.running.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
        }
        let mut free = self.at_once.saturating_sub(jobs.iter().map(|job| job.running.len()).sum());
        for job in jobs.iter_mut() {
            while free > 0
                && let Some(task) = job.waiting.pop_front()
            {
                job.running.push((task, self.start(&job.script, task)?));
                free -= 1;
            }
        }
        Ok(())
    }
}

impl Job {
    /// Asks all tasks of the job to stop, and starts no other.
    fn cancel(&mut self) {
        self.waiting.clear();
        self.running.iter_mut().for_each(|(_, child)| stop(child));
    }
}

/// Sends SIGTERM to a child process that was not waited for.
#[cfg(unix)]
fn stop(child: &mut Child) {
    // SAFETY: a signal to a child that was not waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

#[cfg(not(unix))]
fn stop(child: &mut Child) {
    let _ = child.kill();
}

/// Makes Linux send SIGTERM to the process when the thread that starts it ends, as by a crash.
#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure makes one system call, which is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent(_command: &mut Command) {}

impl BatchSystem for Processes {
    fn largest_array(&self) -> Result<usize> {
        Ok(usize::MAX)
    }

    fn would_take(&self, _script: &Path) -> Result<()> {
        Ok(())
    }

    fn submit(&self, script: &Path, array: &JobArray) -> Result<u64> {
        let mut jobs = self.jobs.borrow_mut();
        jobs.push(Job {
            name: array.name.clone(),
            script: script.to_owned(),
            waiting: (0..array.tasks).collect(),
            running: Vec::new(),
        });
        let number = jobs.len() as u64 - 1;
        drop(jobs);
        self.advance()?;
        Ok(number)
    }

    fn queue(&self, arrays: &[&JobArray]) -> Result<Queue> {
        self.advance()?;
        let mut queue = Queue::new();
        for (number, job) in self.jobs.borrow().iter().enumerate() {
            let is_asked = arrays.iter().any(|array| array.name == job.name);
            let running = job.running.iter().map(|(index, _)| (*index, true));
            let waiting = job.waiting.iter().map(|index| (*index, false));
            let tasks = running.chain(waiting).map(|(index, running)| Task { index, running });
            let tasks: Vec<Task> = tasks.collect();
            if is_asked && !tasks.is_empty() {
                queue.insert(job.name.clone(), (number as u64, tasks));
            }
        }
        Ok(queue)
    }

    fn cancel(&self, job: u64) -> Result<()> {
        self.jobs.borrow_mut().get_mut(job as usize).into_iter().for_each(Job::cancel);
        Ok(())
    }

    fn pace(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn tend(&self) -> Result<()> {
        self.advance()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let jobs = self.jobs.get_mut();
        jobs.iter_mut().for_each(Job::cancel);
        let running = jobs.iter_mut().flat_map(|job| &mut job.running);
        running.for_each(|(_, child)| drop(child.wait()));
    }
}
