//! File of experiments.

use std::collections::BTreeMap;
use std::path::Path;

use epsilab::device::with_rehearsal_mark;
use epsilab::{Error, ErrorKind, Result, program};
use serde::Deserialize;
use serde_json::Value;

use super::case::Case;
use super::options::{self, MASK_OPTIONS, Options};
use super::paper::PaperResults;
use super::sanitise_file_name;

/// Returns advice about a file that does not contain experiments.
fn advice() -> String {
    format!("see the example in `{}`", program::command("sweep --help"))
}

/// Experiments of a file.
pub struct Experiments(pub Vec<Experiment>);

/// One experiment: every case is trained with the seeds 0, 1, …
pub struct Experiment {
    pub name: String,
    /// Title: what the experiment shows.
    pub title: String,
    pub seeds: u64,
    pub cases: Vec<Case>,
}

/// Experiment in the form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentEntry {
    name: String,
    #[serde(default)]
    title: String,
    #[serde(default = "one")]
    seeds: u64,
    /// Options of all cases.
    #[serde(default)]
    options: Options,
    /// Results that a paper prints for all cases.
    #[serde(default)]
    paper: Value,
    /// Groups of cases, each with further options and with the paper's results for them.
    #[serde(default)]
    cases: Vec<Options>,
}

fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    /// Remark for readers, which is ignored.
    #[serde(default, rename = "about")]
    _about: Value,
    experiments: Vec<ExperimentEntry>,
}

impl Experiments {
    /// Reads a file of experiments.
    ///
    /// # Errors
    /// `Io` if it can't be read, `Setting` if it does not hold experiments.
    pub fn read(path: &Path) -> Result<Self> {
        let what = format!("the experiments {}", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(format!("reading {what}"), &e).fix(advice()))?;
        Self::parse(&text).map_err(|why| Error::new(ErrorKind::Setting, what, why).fix(advice()))
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let file: ExperimentFile = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let experiments = file.experiments.into_iter().map(Experiment::from_entry);
        let experiments: Vec<Experiment> = experiments.collect::<std::result::Result<_, _>>()?;
        // Files of results have these names.
        let names: Vec<String> = experiments.iter().map(|e| sanitise_file_name(&e.name)).collect();
        match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            Some((_, name)) => Err(format!("two experiments are named `{name}`")),
            None if names.is_empty() => Err("the file has no experiments".into()),
            None => Ok(Self(experiments)),
        }
    }

    /// Keeps only the experiments with these names, or all if there are none.
    ///
    /// # Errors
    /// `Setting` for an unknown name.
    pub fn only(mut self, names: &[String]) -> Result<Self> {
        let known: Vec<&str> = self.0.iter().map(|e| e.name.as_str()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::setting("--only", name, "unknown experiment")
                .fix(format!("choose from {}", known.join(", "))));
        }
        self.0.retain(|e| names.is_empty() || names.contains(&e.name));
        Ok(self)
    }

    /// Sets the number of seeds, if one is given.
    ///
    /// # Errors
    /// `Setting` for 0 and for more than 10,000, also in the file.
    pub fn with_seeds(mut self, seeds: Option<u64>) -> Result<Self> {
        for experiment in &mut self.0 {
            experiment.seeds = checked_seeds(seeds.unwrap_or(experiment.seeds))?;
        }
        Ok(self)
    }

    /// Replaces options of the file by those of the command line. Several values of one option
    /// make a case of each.
    ///
    /// # Errors
    /// `Setting` for values that make no cases.
    pub fn with_options(mut self, given: &Options) -> Result<Self> {
        let refused = |why: String| {
            Error::new(ErrorKind::Setting, "the options on the command line", why).fix(advice())
        };
        let given = options::combinations(given).map_err(refused)?;
        for experiment in &mut self.0 {
            let with = |case: &Case| {
                let replaced = |given: &Options| {
                    let mut case = case.clone();
                    case.replace(given);
                    case
                };
                given.iter().map(replaced).collect::<Vec<_>>()
            };
            experiment.cases = experiment.cases.iter().flat_map(with).collect();
            experiment.remove_equal_cases();
        }
        Ok(self)
    }

    /// Checks all cases as far as that needs no data.
    ///
    /// # Errors
    /// `Setting` for the first case that `train` refuses; the text names it.
    pub fn checked(self) -> Result<Self> {
        for experiment in &self.0 {
            for case in &experiment.cases {
                let checked = case.train_args().and_then(|args| args.check());
                checked.map_err(|e| {
                    let what = experiment.place(case);
                    let why = e.to_string().lines().next().unwrap_or_default().to_owned();
                    Error::new(e.kind(), what, why).fix(e.advice())
                })?;
            }
        }
        Ok(self)
    }

    /// Returns a table as text: name, cases x seeds and title of each experiment, and the total
    /// number of runs below.
    pub fn list(&self) -> String {
        let width = self.0.iter().map(|e| e.name.len()).max().unwrap_or(0);
        let line = |e: &Experiment| {
            let runs = format!("{} x {}", e.cases.len(), e.seeds);
            format!("{:width$}  {runs:>8}  {}", e.name, e.title)
        };
        let lines: Vec<String> = self.0.iter().map(line).collect();
        let runs: usize = self.0.iter().map(Experiment::runs).sum();
        format!("{}\n{runs} runs (cases x seeds)", lines.join("\n"))
    }
}

/// Returns a number of seeds that experiments can have.
///
/// # Errors
/// `Setting` for 0 and for more than 10,000.
pub fn checked_seeds(seeds: u64) -> Result<u64> {
    if (1..=10_000).contains(&seeds) {
        return Ok(seeds);
    }
    let why = "the number of runs per case must be from 1 to 10000";
    Err(Error::setting("seeds", seeds, why).fix("use 1 to 10000"))
}

impl Experiment {
    fn from_entry(entry: ExperimentEntry) -> std::result::Result<Self, String> {
        let ExperimentEntry { name, title, seeds, options, paper, mut cases } = entry;
        let of_all = match paper {
            Value::Null => PaperResults::default(),
            paper => PaperResults::from_json(paper).map_err(|why| format!("`{name}`: {why}"))?,
        };
        if cases.is_empty() {
            cases.push(Options::new());
        }
        let in_it = |why: String| format!("`{name}`: {why}");
        let options = options::canonicalise(options).map_err(in_it)?;
        let mut all = Vec::new();
        for mut group in cases {
            let paper =
                group.remove("paper").map_or(Ok(PaperResults::default()), PaperResults::from_json);
            let paper = paper.map_err(in_it)?.merged_with(&of_all);
            let mut base = options.clone();
            options::replace(&mut base, &options::canonicalise(group).map_err(in_it)?);
            let combinations = options::combinations(&base).map_err(in_it)?;
            all.extend(
                combinations.into_iter().map(|options| Case { options, paper: paper.clone() }),
            );
        }
        let mut experiment = Self { name, title, seeds, cases: all };
        experiment.remove_equal_cases();
        Ok(experiment)
    }

    /// Removes cases that are equal to an earlier one; their runs would be trained only once
    /// anyway.
    fn remove_equal_cases(&mut self) {
        let mut kept: Vec<Case> = Vec::new();
        for case in self.cases.drain(..) {
            if !kept.iter().any(|kept| kept.options == case.options) {
                kept.push(case);
            }
        }
        self.cases = kept;
    }

    /// Returns the experiment with one case for each cost.
    pub fn cost_experiment(&self) -> Self {
        let mut cases: Vec<Case> = Vec::new();
        for case in self.cases.iter().map(Case::cost) {
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        Self { name: self.name.clone(), title: self.title.clone(), seeds: self.seeds, cases }
    }

    /// Returns the names of the options that are not the same in all cases.
    pub fn varied_options(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for case in &self.cases {
            names.extend(case.options.keys().map(String::as_str));
        }
        names.sort_by_key(|name| (options::rank(name), *name));
        names.dedup();
        let differs = |name: &str| {
            let first = self.cases.first().and_then(|case| case.options.get(name));
            self.cases.iter().any(|case| case.options.get(name) != first)
        };
        names.into_iter().filter(|name| differs(name)).collect()
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.cases.len() * self.seeds as usize
    }

    /// Returns the heading that is printed before the experiment is trained.
    pub fn heading(&self) -> String {
        let (name, cases, seeds) = (with_rehearsal_mark(&self.name), self.cases.len(), self.seeds);
        format!("{name}: {cases} x {seeds} runs (cases x seeds)")
    }

    /// Returns the name of the experiment and its title.
    pub fn caption(&self) -> String {
        let name = with_rehearsal_mark(&self.name);
        if self.title.is_empty() { name } else { format!("{name}: {}", self.title) }
    }

    /// Returns the names of the options that tables show as labels of cases, beside those with a
    /// column of their own.
    pub fn labels(&self) -> Vec<String> {
        const SHOWN: [&str; 6] = ["data", "model", "method", "epsilon", "pre-prune", "drop"];
        // The method tells that a case lacks an option, and a rate of 0 that it has no mask.
        let differs = |name: &&str| {
            let values = || self.cases.iter().map(|case| case.options.get(*name));
            let first = values().flatten().next();
            let mut is_given = BTreeMap::new();
            let is_told = MASK_OPTIONS.contains(name)
                || self.cases.iter().zip(values()).all(|(case, value)| {
                    *is_given.entry(case.get("method")).or_insert(value.is_some())
                        == value.is_some()
                });
            !is_told || values().flatten().any(|value| Some(value) != first)
        };
        let varied = self.varied_options().into_iter().filter(|name| !SHOWN.contains(name));
        varied.filter(differs).map(str::to_owned).collect()
    }

    /// Returns the name of the experiment and, if it has any, the options that distinguish the
    /// case.
    pub fn place(&self, case: &Case) -> String {
        let (name, label) = (&self.name, self.label(case));
        if label.is_empty() { format!("experiment {name}") } else { format!("{name}, {label}") }
    }

    /// Returns the options that distinguish a case from the others of its experiment, in words.
    pub fn label(&self, case: &Case) -> String {
        let option_text = |name: &str| case.get(name).map(|value| format!("{name} {value}"));
        let parts: Vec<String> =
            self.varied_options().into_iter().filter_map(option_text).collect();
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests;
