//! The results of cases.

use epsilab::device::marked;
use epsilab::grid::{CellResult, CellRun};
use epsilab::privacy::Badge;
use epsilab::{Error, ErrorKind, Result};
use serde::Serialize;

use super::case::Case;
use super::file::Experiment;
use super::options::Options;
use super::paper::Paper;

/// One case with the results of its seeds. It has no names of runs, which are derived from the
/// data.
#[derive(Serialize)]
pub struct Row {
    pub experiment: String,
    /// The `train` options of the case.
    pub options: Options,
    pub accuracy_mean: Option<f64>,
    /// Sample standard deviation over seeds; none for one seed.
    pub accuracy_std: Option<f64>,
    pub accuracies: Vec<f64>,
    /// The weakest of the runs: proved, assumption or none.
    pub badge: Option<&'static str>,
    /// The largest of the runs. None if no epsilon covers one of them.
    pub epsilon: Option<f64>,
    /// The delta of epsilon; none without privacy.
    pub delta: Option<f64>,
    /// Mean over seeds of what the method's paper claims without a valid proof.
    pub claimed_epsilon: Option<f64>,
    /// Mean over seeds of the mean clip threshold, of a method that adapts it.
    pub mean_threshold: Option<f64>,
    /// Mean over seeds of the seconds of training per epoch.
    pub seconds_per_epoch: Option<f64>,
    /// Results that a paper prints for the same work.
    #[serde(skip_serializing_if = "is_silent")]
    pub paper: Paper,
    /// Number of finished runs.
    pub runs: usize,
    pub errors: Vec<String>,
}

fn is_silent(paper: &Paper) -> bool {
    !paper.has_results()
}

impl Row {
    /// Returns the row of a case without runs.
    pub fn new(experiment: &Experiment, case: &Case) -> Self {
        Self {
            experiment: marked(&experiment.name),
            options: case.options.clone(),
            accuracy_mean: None,
            accuracy_std: None,
            accuracies: Vec::new(),
            badge: None,
            epsilon: None,
            delta: None,
            claimed_epsilon: None,
            mean_threshold: None,
            seconds_per_epoch: None,
            paper: case.paper.clone(),
            runs: 0,
            errors: Vec::new(),
        }
    }

    /// Adds the runs of the case and what a paper says of the same work.
    pub fn fill(&mut self, cell: &CellResult, paper: Paper) {
        let runs = &cell.runs;
        let mean = |value: fn(&CellRun) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(value).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        self.paper = paper;
        self.accuracies = cell.accuracies();
        (self.accuracy_mean, self.accuracy_std) = (cell.mean(), cell.std());
        self.badge = ["none", "assumption", "proved"]
            .into_iter()
            .find(|&badge| runs.iter().any(|run| badge_name(&run.badge) == badge));
        self.epsilon = cell.epsilon_spent().filter(|_| self.badge != Some("none"));
        self.delta = cell.delta;
        self.claimed_epsilon = mean(|run| run.claimed_epsilon);
        self.mean_threshold = mean(|run| run.mean_threshold);
        self.seconds_per_epoch = mean(|run| Some(run.seconds_per_epoch));
        self.runs = runs.len();
        self.errors.extend(cell.errors.iter().map(|error| error.replace('\n', " ")));
    }

    /// Adds the error of a case that could not be trained.
    pub fn failed(&mut self, error: &Error) {
        self.errors.push(in_a_line(error));
    }
}

fn badge_name(badge: &Badge) -> &'static str {
    match badge {
        Badge::Proved => "proved",
        Badge::Assumption(_) => "assumption",
        Badge::None(_) => "none",
    }
}

/// Returns an error as one line.
pub fn in_a_line(error: &Error) -> String {
    error.to_string().replace('\n', " ")
}

/// The rows as a JSON list.
///
/// # Errors
/// If they can't be written as JSON, for which no case is known.
pub fn json(rows: &[impl Serialize]) -> Result<String> {
    serde_json::to_string(rows)
        .map_err(|e| Error::new(ErrorKind::Io, "the results as JSON", e.to_string()))
}
