//! Slurm: settings of jobs, and the script that is submitted.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::grid_folder::{GridFolder, JobArray};
use crate::{Error, ErrorKind, Result, program};

/// Settings of the Slurm jobs that train the runs of a grid. A setting that is left out has the
/// cluster's default.
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
    pub(super) program: Option<PathBuf>,
    pub(super) checkpoint_every: Option<String>,
}

impl Slurm {
    /// Creates jobs with the default settings of the cluster.
    pub fn new() -> Self {
        Self::default()
    }

    fn option(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.options.retain(|(other, _)| *other != name);
        self.options.push((name, value.into()));
        self
    }

    /// Sets the partition (queue), `--partition`.
    pub fn partition(self, name: &str) -> Self {
        self.option("partition", name)
    }

    /// Sets the account that the time is billed to, `--account`.
    pub fn account(self, name: &str) -> Self {
        self.option("account", name)
    }

    /// Sets the time limit of a task, `--time`: `30` (minutes), `02:00:00`. Two minutes before its
    /// end, a task is asked to stop, so a limit of three minutes or less is refused.
    pub fn time(self, limit: &str) -> Self {
        self.option("time", limit)
    }

    /// Sets the memory of a task, `--mem`: `4G`.
    pub fn memory(self, size: &str) -> Self {
        self.option("mem", size)
    }

    /// Sets the features that nodes must have, `--constraint`.
    pub fn constraint(self, features: &str) -> Self {
        self.option("constraint", features)
    }

    /// Sets the number of CPUs of a task, `--cpus-per-task`, which are the threads of its runs.
    pub fn cpus(self, cpus: usize) -> Self {
        Self { cpus: Some(cpus), ..self }.option("cpus-per-task", cpus.to_string())
    }

    /// Sets the GPUs of a task, `--gres=gpu:…`: `1`, `a100:1`. Runs are then trained on CUDA.
    pub fn gpus(self, gpus: &str) -> Self {
        Self { gpus: Some(gpus.to_owned()), ..self }.option("gres", format!("gpu:{gpus}"))
    }

    /// Sets the largest number of tasks that run at once, `--array=…%limit`.
    pub fn at_most(self, tasks: usize) -> Self {
        Self { at_most: Some(tasks), ..self }
    }

    /// Sets the number of runs that one task trains, one after the other. By default, the time of
    /// a step is measured, and a task takes about five minutes; with GPUs, a task trains one run.
    pub fn runs_per_task(self, runs: usize) -> Self {
        Self { runs_per_task: Some(runs), ..self }
    }

    /// Adds a line to the script before the command, such as `module load cuda`. May be given
    /// several times.
    pub fn before(mut self, line: &str) -> Self {
        self.before.push(line.to_owned());
        self
    }

    /// Adds a further option of `sbatch`, such as `--qos=long`. May be given several times.
    pub fn sbatch(mut self, option: &str) -> Self {
        self.sbatch.push(option.to_owned());
        self
    }

    /// Sets the program of the workers; by default the program `epsilab` that runs, or the one
    /// beside it. For a method of another crate, it is a program that registers the method and
    /// calls [`run_worker`](super::run_worker).
    pub fn program(self, path: impl Into<PathBuf>) -> Self {
        Self { program: Some(path.into()), ..self }
    }

    /// Sets the interval at which runs write checkpoints: `500` (steps), `10min`. By default they
    /// write none.
    pub fn checkpoint_every(self, every: &str) -> Self {
        Self { checkpoint_every: Some(every.to_owned()), ..self }
    }

    /// Returns the kind of device that runs are trained on.
    pub(super) fn device(&self) -> &'static str {
        if self.gpus.is_some() { "cuda" } else { "cpu" }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// `Setting` for a number that is zero, an interval of checkpoints that can't be read, empty
    /// text, text of several lines, which would be further commands, options of `sbatch` without a
    /// dash, and time limits of three minutes or less.
    pub(super) fn check(&self) -> Result<()> {
        let numbers =
            [("cpus", self.cpus), ("at_most", self.at_most), ("runs_per_task", self.runs_per_task)];
        if let Some((name, _)) = numbers.iter().find(|(_, value)| *value == Some(0)) {
            return Err(Error::setting(name, 0, "no run would be trained").fix("use 1 or more"));
        }
        if let Some(every) = &self.checkpoint_every {
            every.parse::<crate::methods::CheckpointInterval>()?.check()?;
        }
        let values = self.options.iter().map(|(name, value)| (*name, value));
        let extra = self.sbatch.iter().map(|option| ("sbatch", option));
        let lines = self.before.iter().map(|line| ("before", line));
        for (name, value) in values.chain(extra).chain(lines) {
            check_line(name, value)?;
        }
        self.check_time()?;
        if let Some(option) = self.sbatch.iter().find(|option| !option.starts_with('-')) {
            return Err(Error::setting("sbatch", option, "the option does not begin with a dash")
                .fix("for example --qos=long"));
        }
        Ok(())
    }

    /// Refuses a time limit at which tasks would be asked to stop before they have trained.
    fn check_time(&self) -> Result<()> {
        let given = self.options.iter().filter(|(name, _)| *name == "time").map(|(_, limit)| limit);
        let given = given.map(String::as_str);
        let further = self.sbatch.iter().filter_map(|option| {
            option.strip_prefix("--time=").or_else(|| option.strip_prefix("-t")).map(str::trim)
        });
        match given.chain(further).find(|limit| seconds(limit).is_some_and(|s| s <= SHORTEST_TIME))
        {
            None => Ok(()),
            Some(limit) => {
                let why = format!(
                    "tasks are asked to stop {STOP_BEFORE} seconds before their time limit, and a \
                     task takes some time before its first step"
                );
                Err(Error::setting("time", limit, why).fix("give four minutes or more, such as 10"))
            }
        }
    }

    /// Returns the path of the program on the nodes.
    pub(super) fn worker(&self) -> Result<PathBuf> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None => {
                let executable = std::env::current_exe().map_err(|e| {
                    Error::io("finding this program", &e).fix("name the program of the nodes")
                })?;
                worker_beside(&executable)
            }
        }
    }

    /// Returns the script of an array.
    ///
    /// `exec` makes signals reach the program. A task is asked to stop two minutes before its time
    /// limit.
    pub(super) fn script(
        &self,
        folder: &GridFolder,
        tickets: &str,
        array: &JobArray,
    ) -> Result<String> {
        let limit = self.at_most.map(|n| format!("%{n}")).unwrap_or_default();
        // Slurm replaces what follows a percent sign.
        let logs = folder.path().join("logs").display().to_string().replace('%', "%%");
        let logs = format!("{logs}/%A_%a.txt");
        let mut text = String::from("#!/bin/bash\n");
        let mut line = |directive: &str| {
            let _ = writeln!(text, "#SBATCH {directive}");
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
pub(super) const STOP_BEFORE: u64 = 120;
/// Longest time limit that is refused, in seconds.
const SHORTEST_TIME: u64 = 180;

/// Returns the seconds of a time limit, in one of Slurm's forms: minutes, minutes:seconds,
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

/// Checks that a text is one line of the script.
fn check_line(name: &str, value: &str) -> Result<()> {
    let refuse = |why: &str| Error::setting(name, format!("{value:?}"), why);
    if value.is_empty() {
        return Err(refuse("the text is empty").fix("give one line of text, or leave it out"));
    }
    if value.chars().any(char::is_control) {
        return Err(refuse("the text has a line break or another control character")
            .fix("give one line of text; give several lines before the command one by one"));
    }
    Ok(())
}

/// Returns the path of `epsilab` in the folder of the program `executable`, which may be that
/// program.
fn worker_beside(executable: &Path) -> Result<PathBuf> {
    let program = executable.with_file_name(format!("epsilab{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Ok(program);
    }
    let what = format!("{} is missing", program.display());
    let why = "the nodes run the program epsilab, but this is another program";
    Err(Error::new(ErrorKind::Setting, what, why).fix(format!(
        "name a program with .program(\"/shared/me/bundle/epsilab\"); `{}` builds one for nodes",
        program::command("bundle DIR")
    )))
}

/// Returns a path quoted as a word of the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_script_is_short_and_quotes_what_it_runs() {
        let folder = GridFolder::for_runs(Path::new("/store of mine"), ["00ff"].into_iter());
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
        let array = JobArray { name: "epsilab-1".into(), first: 20, tasks: 8, job: None };
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
