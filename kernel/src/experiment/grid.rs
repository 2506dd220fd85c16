//! The command `grid`: accuracies over pruning rates, dropping rates, epsilons and other options.
//!
//! The library trains the runs and stores them in the project's run store, so the same command
//! trains nothing the second time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use epsilab::grid::GridResult;
use epsilab::{Error, ErrorKind, Result, program};
use serde_json::Value;

use super::case::Case;
use super::command::{ExperimentArgs, checked};
use super::file::{Experiment, checked_seeds};
use super::options::{self, MASK_OPTIONS, Options};
use super::paper::PaperResults;
use super::results::Source;
use super::run::{ExecutorArgs, Group, groups};

/// Number of seeds of each case if none is given.
const SEEDS: u64 = 3;

/// Train over lists of options, such as pruning rates and epsilons, and tabulate the accuracies.
#[derive(clap::Args, Clone, Debug)]
pub struct GridArgs {
    /// Read the plan from a JSON file; options on the command line replace its keys
    #[arg(long = "plan", value_name = "FILE", id = "plan_file")]
    file: Option<PathBuf>,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

/// Options of a grid, and its number of seeds.
#[derive(Clone, Debug, Default)]
pub struct GridPlan {
    options: Options,
    seeds: Option<u64>,
    /// Options of the file that need not apply, because the command names other methods.
    optional: Vec<String>,
}

impl GridPlan {
    /// Reads a plan from a file.
    ///
    /// # Errors
    /// Kind `Io` if the file can't be read; kind `Setting` if it is not the JSON of a plan. The
    /// text names an unknown key and the key of a wrong value.
    pub fn read(path: &Path) -> Result<Self> {
        let help = program::command("grid --help");
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::io(format!("reading the plan {}", path.display()), &e)
                .fix(format!("name a JSON file with `--plan FILE`; `{help}` has an example"))
        })?;
        Self::parse(&text).map_err(|why| {
            let what = format!("the plan {}", path.display());
            Error::new(ErrorKind::Setting, what, format!("the file is not a plan: {why}"))
                .fix(format!("see the example in `{help}`; keys are the names of the options"))
        })
    }

    /// Parses a plan; the error is the reason why the text is not one.
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut options = options::unique(text)?;
        let seeds = match options.remove("seeds") {
            None => None,
            Some(seeds) => {
                Some(seeds.as_u64().ok_or(format!("`seeds` is {seeds}, not a whole number"))?)
            }
        };
        let options = options::canonicalise(options)?;
        options::combinations(&options)?;
        Ok(Self { options, seeds, optional: Vec::new() })
    }

    /// Replaces options by those of the command line.
    fn replace(&mut self, given: &Options) {
        if given.contains_key("method") {
            self.optional = self.options.keys().cloned().collect();
            self.optional.retain(|name| !given.contains_key(name));
        }
        options::replace(&mut self.options, given);
    }

    /// Returns the plan as a file that [`read`](Self::read) accepts.
    ///
    /// # Errors
    /// As [`experiment`](Self::experiment); kind `Io` if it is no JSON, which does not happen.
    pub fn to_json(&self) -> Result<String> {
        let cases = self.experiment()?.cases;
        let mut all = self.options.clone();
        all.retain(|name, _| cases.iter().any(|case| case.options.contains_key(name)));
        all.extend(self.seeds.map(|seeds| ("seeds".to_owned(), seeds.into())));
        let text = serde_json::to_string_pretty(&all);
        let failed = |e: serde_json::Error| Error::new(ErrorKind::Io, "the plan", e.to_string());
        text.map(|text| text + "\n").map_err(failed)
    }

    /// Returns the cases: all combinations of the options that the method of each has.
    ///
    /// # Errors
    /// Kind `Setting` for lists that make no cases, a value that is named twice, and an option that
    /// no method has.
    fn experiment(&self) -> Result<Experiment> {
        let refused = |why: String| Error::new(ErrorKind::Setting, "a grid", why);
        let mut options = self.options.clone();
        if !options.contains_key("method") {
            let is_sparse = MASK_OPTIONS.iter().any(|name| options.contains_key(*name));
            let usual = if is_sparse { "dp-ssgd" } else { "dp-sgd" };
            options.insert("method".into(), usual.into());
        }
        options.iter().try_for_each(|(name, value)| check_distinct_values(name, value))?;
        let mut cases: Vec<Case> = Vec::new();
        for mut case in options::combinations(&options).map_err(|why| {
            refused(why).fix("give each option one value, or several separated by commas")
        })? {
            options::only_applicable(&mut case)?;
            without_idle(&mut case, &options);
            if !cases.iter().any(|known| known.options == case) {
                cases.push(Case { options: case, paper: PaperResults::default() });
            }
        }
        let has = |name: &str| cases.iter().any(|case| case.options.contains_key(name));
        let mut needed = options.keys().filter(|name| !self.optional.contains(name));
        if let Some(name) = needed.find(|name| !has(name)) {
            let why = format!("none of the methods has the option --{name}");
            return Err(refused(why).fix(if MASK_OPTIONS.contains(&name.as_str()) {
                "use the method dp-ssgd: with both rates at 0 it is dp-sgd".to_owned()
            } else {
                format!("leave out --{name}, or add a --method that has it")
            }));
        }
        // A private selection is one run.
        let usual = if options.contains_key("best-of") { 1 } else { SEEDS };
        let seeds = checked_seeds(self.seeds.unwrap_or(usual))?;
        Ok(Experiment { name: "grid".into(), title: String::new(), seeds, cases })
    }
}

/// Removes the kinds of mask and dropping of a case whose rate is 0, where other cases have a rate:
/// they would be the same runs in several cases.
fn without_idle(case: &mut Options, all: &Options) {
    for (kind, rate) in [("mask", "pre-prune"), ("drop-rule", "drop")] {
        let is_zero = |value: &Value| options::words(value) == ["0"];
        let others = all.get(rate).and_then(Value::as_array);
        let have_rate = others.is_some_and(|values| values.iter().any(|value| !is_zero(value)));
        if have_rate && case.get(rate).is_some_and(is_zero) {
            case.remove(kind);
        }
    }
}

/// Returns an error for a value that is named twice.
fn check_distinct_values(name: &str, value: &Value) -> Result<()> {
    let Value::Array(values) = value else { return Ok(()) };
    match values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
        None => Ok(()),
        Some((_, value)) => {
            let value = options::words(value).join(" ");
            let option = format!("--{name}");
            Err(Error::setting(&option, value, "the value is given twice")
                .fix("give each value once"))
        }
    }
}

/// Returns the plan of a file and the stored runs of its grid, for each data set and model. Nothing
/// is trained.
///
/// # Errors
/// Kind `Setting` for a plan that can't be run; errors of reading data and store; `MissingData` if
/// nothing is stored.
pub fn stored(file: &Path) -> Result<(GridPlan, Vec<GridResult>)> {
    let plan = GridPlan::read(file)?;
    let experiment = plan.experiment()?;
    experiment.cases.iter().try_for_each(|case| case.train_args()?.check())?;
    let groups = checked(groups(&experiment, &ExecutorArgs::default())?)?;
    let results = groups.iter().map(Group::stored).collect::<Result<_>>()?;
    Ok((plan, results))
}

/// Runs `grid`. Exit codes: 0, 1 if no run succeeded, 128 and the signal after a request to
/// stop.
///
/// # Errors
/// Kind `Setting` for a plan that can't be run, before anything is trained; errors of reading data
/// and writing results.
pub fn grid(args: &GridArgs) -> Result<ExitCode> {
    args.experiment.check()?;
    let mut plan = args.file.as_deref().map(GridPlan::read).transpose()?.unwrap_or_default();
    plan.replace(&args.experiment.cases.0);
    plan.seeds = args.experiment.seeds()?.or(plan.seeds);
    let experiment = plan.experiment()?;
    experiment.cases.iter().try_for_each(|case| case.train_args()?.check())?;
    let plan = plan.to_json()?;
    args.experiment.run(&[experiment], Source::Options { plan: &plan })
}
