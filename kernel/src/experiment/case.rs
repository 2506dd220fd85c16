//! Case of an experiment: the options of runs that differ only in their seed.

use clap::FromArgMatches;
use epsilab::{Result, grid};

use super::options::{self, Options, arguments, words};
use super::paper::PaperResults;
use crate::train::TrainArgs;

/// Options that the results of a paper do not depend on: the name of its data, and the device.
const PAPER_NEUTRAL_OPTIONS: [&str; 2] = ["data", "device"];
/// Options that choose a part of the data.
const PARTS: [&str; 2] = ["train", "split"];

/// Options of the runs of one case, which differ only in their seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub options: Options,
    /// Results that a paper prints for the case.
    pub paper: PaperResults,
}

impl Case {
    /// Replaces options. The paper's results are removed if options other than the name of the
    /// data and the device change: they are then those of other work.
    pub fn replace(&mut self, given: &Options) {
        let before = self.options.clone();
        options::replace(&mut self.options, given);
        let names = before.keys().chain(self.options.keys());
        let mut changed = names.filter(|&name| before.get(name) != self.options.get(name));
        if changed.any(|name| !PAPER_NEUTRAL_OPTIONS.contains(&name.as_str())) {
            self.paper = self.paper.without_results();
        }
        if PARTS.iter().any(|name| given.contains_key(*name)) {
            self.paper.examples = None;
        }
    }

    /// Returns the case with only those options that determine the cost of a run, and without the
    /// paper's other results.
    pub fn cost(&self) -> Self {
        let mut options = self.options.clone();
        options.retain(|name, _| !options::is_free(name));
        let paper = PaperResults { epsilon: self.paper.epsilon, ..self.paper.without_results() };
        Self { options, paper }
    }

    /// Returns the value of an option in words.
    pub fn get(&self, name: &str) -> Option<String> {
        self.options.get(name).map(|value| words(value).join(" "))
    }

    /// Returns the case as a row of results without runs.
    pub fn row(&self) -> grid::GridRow {
        let case = self.train_args().and_then(|args| args.case(None));
        grid::GridRow {
            data: self.get("data").unwrap_or_default(),
            model: self.get("model").unwrap_or_default(),
            method: case.map_or("", |case| case.name()),
            ..grid::GridRow::default()
        }
    }

    /// Returns the arguments of `train`, without a seed.
    ///
    /// # Errors
    /// `Setting` for an option or a value that `train` does not know.
    pub fn train_args(&self) -> Result<TrainArgs> {
        let args = self.options.iter().flat_map(|(name, value)| arguments(name, value));
        let args: Vec<String> = args.collect();
        let matches = options::command().try_get_matches_from(&args);
        matches
            .and_then(|matches| TrainArgs::from_arg_matches(&matches))
            .map_err(|error| options::refused(&args, &error))
    }
}
