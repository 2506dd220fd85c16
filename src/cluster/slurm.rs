//! Slurm: settings of jobs, the script that is submitted, and the commands of Slurm.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::folder::{Array, Folder};
use crate::show::CELL_VARIABLES;
use crate::{Error, ErrorKind, Result, program};

/// How the runs of a grid are submitted to Slurm. Settings that are not made are those of the
/// cluster.
///
/// ```
/// use epsilab::prelude::*;
/// let slurm = Slurm::new().partition("gpu").time("02:00:00").gpus("1").at_most(8);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slurm {
    options: Vec<(&'static str, String)>,
    sbatch: Vec<String>,
    before: Vec<String>,
    at_most: Option<usize>,
    pub(super) cpus: Option<usize>,
    gpus: Option<String>,
    pub(super) runs_per_task: Option<usize>,
    program: Option<PathBuf>,
    pub(super) checkpoint_every: Option<String>,
}

impl Slurm {
    /// Jobs with the settings of the cluster.
    pub fn new() -> Self {
        Self::default()
    }

    fn option(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.options.retain(|(other, _)| *other != name);
        self.options.push((name, value.into()));
        self
    }

    /// The partition (queue), `--partition`.
    pub fn partition(self, name: &str) -> Self {
        self.option("partition", name)
    }

    /// The account that the time is billed to, `--account`.
    pub fn account(self, name: &str) -> Self {
        self.option("account", name)
    }

    /// The time limit of a task, `--time`: `30` (minutes), `02:00:00`. Two minutes before its end,
    /// a task is asked to stop, so a limit of three minutes or less is refused.
    pub fn time(self, limit: &str) -> Self {
        self.option("time", limit)
    }

    /// The memory of a task, `--mem`: `4G`.
    pub fn memory(self, size: &str) -> Self {
        self.option("mem", size)
    }

    /// What nodes must have, `--constraint`.
    pub fn constraint(self, features: &str) -> Self {
        self.option("constraint", features)
    }

    /// The number of CPUs of a task, `--cpus-per-task`, which are the threads of its runs.
    pub fn cpus(self, cpus: usize) -> Self {
        Self { cpus: Some(cpus), ..self }.option("cpus-per-task", cpus.to_string())
    }

    /// The GPUs of a task, `--gres=gpu:…`: `1`, `a100:1`. Runs are then trained on CUDA.
    pub fn gpus(self, which: &str) -> Self {
        Self { gpus: Some(which.to_owned()), ..self }.option("gres", format!("gpu:{which}"))
    }

    /// The largest number of tasks that run at once, `--array=…%limit`.
    pub fn at_most(self, tasks: usize) -> Self {
        Self { at_most: Some(tasks), ..self }
    }

    /// Number of runs that one task trains, one after the other. By default, the time of a step is
    /// measured, and a task takes about five minutes; with GPUs, a task trains one run.
    pub fn runs_per_task(self, runs: usize) -> Self {
        Self { runs_per_task: Some(runs), ..self }
    }

    /// A line of the script before the command, such as `module load cuda`. May be given several
    /// times.
    pub fn before(mut self, line: &str) -> Self {
        self.before.push(line.to_owned());
        self
    }

    /// A further option of `sbatch`, such as `--qos=long`. May be given several times.
    pub fn sbatch(mut self, option: &str) -> Self {
        self.sbatch.push(option.to_owned());
        self
    }

    /// The program `epsilab` on the nodes; by default this program, or the one beside it.
    pub fn program(self, path: impl Into<PathBuf>) -> Self {
        Self { program: Some(path.into()), ..self }
    }

    /// How often runs write checkpoints: `500` (steps), `10min`. By default they write none.
    pub fn checkpoint_every(self, every: &str) -> Self {
        Self { checkpoint_every: Some(every.to_owned()), ..self }
    }

    /// The kind of device that runs are trained on.
    pub(super) fn device(&self) -> &'static str {
        if self.gpus.is_some() { "cuda" } else { "cpu" }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// `Setting` for a number that is zero, and for text of several lines, which would be further
    /// commands.
    pub(super) fn check(&self) -> Result<()> {
        let numbers =
            [("cpus", self.cpus), ("at_most", self.at_most), ("runs_per_task", self.runs_per_task)];
        if let Some((name, _)) = numbers.iter().find(|(_, value)| *value == Some(0)) {
            return Err(Error::setting(name, 0, "no run would be trained").fix("use 1 or more"));
        }
        if let Some(every) = &self.checkpoint_every {
            every.parse::<crate::methods::CheckpointEvery>()?.check()?;
        }
        let values = self.options.iter().map(|(name, value)| (*name, value));
        let extra = self.sbatch.iter().map(|option| ("sbatch", option));
        let lines = self.before.iter().map(|line| ("before", line));
        for (name, value) in values.chain(extra).chain(lines) {
            if value.is_empty() || value.chars().any(char::is_control) {
                return Err(Error::setting(name, format!("{value:?}"), "it is no single line")
                    .fix("give one line of text; lines before the command one by one"));
            }
        }
        self.check_time()?;
        if let Some(option) = self.sbatch.iter().find(|option| !option.starts_with('-')) {
            return Err(Error::setting("sbatch", option, "an option begins with a dash")
                .fix("for example --qos=long"));
        }
        Ok(())
    }

    /// Refuses a time limit at which tasks would be asked to stop before they have trained.
    fn check_time(&self) -> Result<()> {
        let own = self.options.iter().filter(|(name, _)| *name == "time").map(|(_, limit)| limit);
        let own = own.map(String::as_str);
        let further = self.sbatch.iter().filter_map(|option| {
            option.strip_prefix("--time=").or_else(|| option.strip_prefix("-t")).map(str::trim)
        });
        match own.chain(further).find(|limit| seconds(limit).is_some_and(|s| s <= SHORTEST_TIME)) {
            None => Ok(()),
            Some(limit) => {
                let why = format!(
                    "tasks are asked to stop {STOP_BEFORE} seconds before their time limit, and a \
                     task needs some time before its first step"
                );
                Err(Error::setting("time", limit, why).fix("give four minutes or more, such as 10"))
            }
        }
    }

    /// The program on the nodes.
    pub(super) fn worker(&self) -> Result<PathBuf> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None => {
                let this = std::env::current_exe().map_err(|e| {
                    Error::io("finding this program", &e).fix("name the program of the nodes")
                })?;
                worker_beside(&this)
            }
        }
    }

    /// The script of an array.
    ///
    /// `exec` makes signals reach the program. A task is asked to stop two minutes before its time
    /// limit.
    pub(super) fn script(&self, folder: &Folder, tickets: &str, array: &Array) -> Result<String> {
        let limit = self.at_most.map(|n| format!("%{n}")).unwrap_or_default();
        // Slurm replaces what follows a percent sign.
        let logs = folder.path().join("logs").display().to_string().replace('%', "%%");
        let logs = format!("{logs}/%A_%a.txt");
        let mut text = String::from("#!/bin/bash\n");
        let mut line = |words: &str| {
            let _ = writeln!(text, "#SBATCH {words}");
        };
        line(&format!("--job-name={}", array.name));
        line(&format!("--array=0-{}{limit}", array.tasks - 1));
        line(&format!("--output=\"{logs}\""));
        line("--open-mode=append");
        line("--requeue");
        line(&format!("--signal=B:INT@{STOP_BEFORE}"));
        self.options.iter().for_each(|(name, value)| line(&format!("--{name}={value}")));
        self.sbatch.iter().for_each(|option| line(option));
        self.before.iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
        if self.cpus.is_some() {
            text.push_str("export RAYON_NUM_THREADS=\"$SLURM_CPUS_PER_TASK\"\n");
        }
        let _ = writeln!(
            text,
            "exec {} grid-worker --tickets {} --index $(({} + SLURM_ARRAY_TASK_ID))",
            quoted(&self.worker()?),
            quoted(&folder.tickets(tickets)),
            array.first
        );
        Ok(text)
    }
}

/// Seconds before its time limit at which a task is asked to stop.
const STOP_BEFORE: u64 = 120;
/// Time limits up to this many seconds are refused.
const SHORTEST_TIME: u64 = 180;

/// The seconds of a time limit, in one of Slurm's forms: minutes, minutes:seconds,
/// hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds. `None` for
/// other texts, which Slurm itself refuses or knows, such as `UNLIMITED`.
fn seconds(limit: &str) -> Option<u64> {
    let (days, rest) = match limit.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, limit),
    };
    let parts: Vec<u64> = rest.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hours, minutes, seconds] = match (days, &parts[..]) {
        (Some(_), [hours]) => [*hours, 0, 0],
        (Some(_), [hours, minutes]) => [*hours, *minutes, 0],
        (None, [minutes]) => [0, *minutes, 0],
        (None, [minutes, seconds]) => [0, *minutes, *seconds],
        (_, [hours, minutes, seconds]) => [*hours, *minutes, *seconds],
        _ => return None,
    };
    Some(((days.unwrap_or(0) * 24 + hours) * 60 + minutes) * 60 + seconds)
}

/// The program of the nodes, if the submitter is this program: itself, or `epsilab` beside it.
fn worker_beside(this: &Path) -> Result<PathBuf> {
    let program = this.with_file_name(format!("epsilab{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Ok(program);
    }
    let what = format!("{} (missing)", program.display());
    let why = "the nodes run the program epsilab, and this is another program";
    Err(Error::new(ErrorKind::Setting, what, why).fix(format!(
        "name it: .program(\"/shared/me/bundle/epsilab\"); `{}` makes one for nodes",
        program::command("bundle DIR")
    )))
}

/// A path as a word of the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// A task that Slurm knows and that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Its index in the array.
    pub(super) index: usize,
    pub(super) running: bool,
}

/// The tasks that have not ended, by the name of the array, with its number.
pub(super) type Queue = HashMap<String, (u64, Vec<Task>)>;

/// Variables of `sbatch` that would replace what the script says of the array: a task of another
/// name would be taken for one that has ended.
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
    for variable in CELL_VARIABLES.iter().chain(&OVERRIDING) {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).output().map_err(|e| {
        let what = format!("the command {name} of Slurm");
        let why = match e.kind() {
            std::io::ErrorKind::NotFound => "there is no such command: Slurm is not installed here",
            _ => "it can't be started",
        };
        Error::new(ErrorKind::Setting, what, format!("{why} ({e})")).fix(
            "run this on a machine that submits to Slurm (a login node), where sbatch works; or \
             train here, with --jobs N (in a notebook `grid.jobs(N).run(..)`)",
        )
    })
}

/// What to do if Slurm does not take a job.
const OTHER_SETTINGS: &str =
    "change the settings that it names; `sinfo` lists partitions and their limits";
/// What to do if Slurm does not answer a question.
const NO_ANSWER: &str = "is this a machine of the cluster, and does its controller answer? `sinfo` \
                         shows it; or train here, with --jobs N";

/// Its output, or what it says.
fn text(command: &mut Command, doing: &str, fix: &str) -> Result<String> {
    let output = run(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let why = if said.is_empty() { format!("it ended with {}", output.status) } else { said };
    Err(Error::new(ErrorKind::Setting, format!("Slurm refuses {doing}"), why).fix(fix))
}

/// What a batch system does.
pub(super) trait Batch {
    /// The largest number of tasks of an array.
    fn largest_array(&self) -> Result<usize>;
    /// Asks whether it would take the script. Nothing is submitted.
    fn would_take(&self, script: &Path) -> Result<()>;
    /// Submits a script, and returns the number of the job.
    ///
    /// # Errors
    /// `Setting` if the job was refused. After any other error it may have been taken.
    fn submit(&self, script: &Path) -> Result<u64>;
    /// The tasks of these arrays that have not ended.
    fn queue(&self, arrays: &[&Array]) -> Result<Queue>;
    /// Cancels a job and all its tasks.
    fn cancel(&self, job: u64) -> Result<()>;
}

/// The number of a job in the answer of `sbatch --parsable`: the last line of the form `N` or
/// `N;cluster`. Sites print banners before it.
fn number_of_job(said: &str) -> Option<u64> {
    let number = |line: &str| line.trim().split(';').next()?.parse().ok();
    said.lines().rev().find_map(number)
}

/// The commands of Slurm.
pub(super) struct Commands;

impl Batch for Commands {
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
                Err(Error::setting("MaxArraySize", 1, "this cluster allows no job arrays")
                    .fix("train here, with --jobs N; or ask the administrators of the cluster"))
            }
            value => Ok(value.map_or(1000, |n| n - 1)),
        }
    }

    fn would_take(&self, script: &Path) -> Result<()> {
        text(Command::new("sbatch").arg("--test-only").arg(script), "the job", OTHER_SETTINGS)
            .map(drop)
    }

    fn submit(&self, script: &Path) -> Result<u64> {
        let said =
            text(Command::new("sbatch").arg("--parsable").arg(script), "the job", OTHER_SETTINGS)?;
        number_of_job(&said).ok_or_else(|| {
            let why = format!("{:?} is no number of a job", said.trim());
            Error::new(ErrorKind::Io, "the answer of sbatch", why).fix("look with squeue")
        })
    }

    fn queue(&self, arrays: &[&Array]) -> Result<Queue> {
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
        let said = "*** Maintenance on 3 December ***\n2026\nWelcome\n4711;hpc\n\n";
        assert_eq!(number_of_job(said), Some(4711));
        assert_eq!(number_of_job("Welcome to 4711\n"), None);
    }

    #[test]
    fn time_limits_at_which_nothing_would_be_trained_are_refused() {
        for (limit, wanted) in [
            ("10", 600),
            ("2:30", 150),
            ("01:00:05", 3605),
            ("1-0", 86_400),
            ("2-01:30", 178_200),
            ("0-00:03:01", 181),
        ] {
            assert_eq!(seconds(limit), Some(wanted), "{limit}");
        }
        assert_eq!((seconds("UNLIMITED"), seconds("1:2:3:4")), (None, None));
        let refused = |slurm: Slurm| slurm.check().is_err_and(|e| e.to_string().contains("120"));
        for limit in ["1", "2", "3", "3:00", "0-00:02:30"] {
            assert!(refused(Slurm::new().time(limit)), "{limit}");
            assert!(refused(Slurm::new().sbatch(&format!("--time={limit}"))), "{limit}");
            assert!(refused(Slurm::new().sbatch(&format!("-t {limit}"))), "{limit}");
        }
        for limit in ["4", "UNLIMITED", "1-0"] {
            Slurm::new().time(limit).check().unwrap();
        }
    }

    #[test]
    fn the_nodes_run_epsilab_also_if_another_program_submits() {
        let dir = tempfile::tempdir().unwrap();
        let error = worker_beside(&dir.path().join("mine")).unwrap_err();
        assert!(error.to_string().contains(".program("), "{error}");
        let program = dir.path().join(format!("epsilab{}", std::env::consts::EXE_SUFFIX));
        std::fs::write(&program, "").unwrap();
        for name in ["epsilab-stock", "epsilab"] {
            assert_eq!(
                worker_beside(&dir.path().join(name)).unwrap().file_stem(),
                program.file_stem()
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn jobs_do_not_inherit_that_the_submitter_is_a_cell() {
        let mut command = Command::new("env");
        command.env("EVCXR_IS_RUNTIME", "1").env("EPSILAB_DISPLAY", "socket").env("KEPT", "yes");
        let said = text(&mut command, "nothing", "").unwrap();
        assert!(said.contains("KEPT=yes"), "{said}");
        assert!(!said.contains("EVCXR") && !said.contains("EPSILAB_DISPLAY"), "{said}");
    }

    #[test]
    fn the_script_is_short_and_quotes_what_it_runs() {
        let folder = Folder::of(Path::new("/store of mine"), ["00ff"].into_iter());
        let slurm = Slurm::new()
            .partition("gpu")
            .partition("long")
            .time("01:00:00")
            .cpus(4)
            .gpus("a100:1")
            .at_most(3)
            .before("module load cuda")
            .sbatch("--qos=low")
            .program("/it's/epsilab");
        slurm.check().unwrap();
        let array = Array { name: "epsilab-1".into(), first: 20, tasks: 8, job: None };
        let script = slurm.script(&folder, "tickets-1.jsonl", &array).unwrap();
        let lines: Vec<&str> = script.lines().collect();
        assert_eq!(lines[0], "#!/bin/bash");
        for line in [
            "#SBATCH --array=0-7%3",
            "#SBATCH --partition=long",
            "#SBATCH --gres=gpu:a100:1",
            "#SBATCH --requeue",
            "#SBATCH --signal=B:INT@120",
            "#SBATCH --qos=low",
            "module load cuda",
        ] {
            assert!(lines.contains(&line), "{line}: {script}");
        }
        assert!(!script.contains("--partition=gpu"), "{script}");
        let last = lines.last().unwrap();
        assert!(last.starts_with(r"exec '/it'\''s/epsilab' grid-worker --tickets '/store of mine"));
        assert!(last.ends_with("--index $((20 + SLURM_ARRAY_TASK_ID))"), "{last}");
        assert!(lines.len() < 20, "{script}");
    }

    #[test]
    fn settings_that_would_be_further_commands_are_refused() {
        for (slurm, words) in [
            (Slurm::new().partition("a\nrm -rf /"), "partition"),
            (Slurm::new().before(""), "before"),
            (Slurm::new().sbatch("qos"), "dash"),
            (Slurm::new().cpus(0), "cpus"),
            (Slurm::new().runs_per_task(0), "runs_per_task"),
            (Slurm::new().checkpoint_every("often"), "often"),
        ] {
            let error = slurm.check().unwrap_err();
            assert!(error.to_string().contains(words) && !error.advice().is_empty(), "{error}");
        }
    }
}
