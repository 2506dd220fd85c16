//! The results of cases.

use epsilab::device::marked;
use epsilab::privacy::Badge;
use epsilab::train::Run;
use epsilab::{Error, ErrorKind, Result};
use serde::Serialize;

use super::case::{Case, Options};
use super::file::Experiment;
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
    /// What a paper says of the same work.
    #[serde(skip_serializing_if = "is_silent")]
    pub paper: Paper,
    /// Number of finished runs.
    pub runs: usize,
    pub errors: Vec<String>,
    #[serde(skip)]
    outcomes: Vec<Outcome>,
}

/// What a row takes from a run.
struct Outcome {
    accuracy: Option<f64>,
    badge: &'static str,
    epsilon: Option<f64>,
    claim: Option<f64>,
    threshold: Option<f64>,
    seconds_per_epoch: f64,
}

fn is_silent(paper: &Paper) -> bool {
    !paper.has_results()
}

impl Row {
    /// A case without runs.
    pub fn of(experiment: &Experiment, case: &Case) -> Self {
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
            outcomes: Vec::new(),
        }
    }

    /// Adds a finished run.
    pub fn add(&mut self, run: &Run) {
        let record = run.record();
        let (badge, epsilon) = match run.badge() {
            Badge::Proved => ("proved", record.epsilon),
            Badge::Assumption(_) => ("assumption", record.epsilon),
            Badge::None(_) => ("none", None),
        };
        self.outcomes.push(Outcome {
            accuracy: record.test_accuracy,
            badge,
            epsilon,
            claim: record.claim().map(|claim| claim.epsilon),
            threshold: record.mean_threshold,
            seconds_per_epoch: record.seconds / (record.steps as f64 * run.plan().sampling_rate()),
        });
        self.delta = run.plan().privacy().map(|privacy| privacy.delta.0);
        self.summarise();
    }

    /// Adds a run that could not be trained.
    pub fn failed(&mut self, seed: u64, error: &Error) {
        self.errors.push(format!("seed {seed}: {}", super::in_a_line(error)));
    }

    fn summarise(&mut self) {
        let all = &self.outcomes;
        let of = |get: fn(&Outcome) -> Option<f64>| all.iter().filter_map(get).collect::<Vec<_>>();
        self.accuracies = of(|run| run.accuracy);
        self.accuracy_mean = mean(&self.accuracies);
        self.accuracy_std = deviation(&self.accuracies);
        self.badge = ["none", "assumption", "proved"]
            .into_iter()
            .find(|&badge| all.iter().any(|run| run.badge == badge));
        let largest = of(|run| run.epsilon).into_iter().reduce(f64::max);
        self.epsilon = largest.filter(|_| all.iter().all(|run| run.epsilon.is_some()));
        self.claimed_epsilon = mean(&of(|run| run.claim));
        self.mean_threshold = mean(&of(|run| run.threshold));
        self.seconds_per_epoch = mean(&of(|run| Some(run.seconds_per_epoch)));
        self.runs = all.len();
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The rows as a JSON list.
///
/// # Errors
/// If they can't be written as JSON, for which no case is known.
pub fn json(rows: &[impl Serialize]) -> Result<String> {
    serde_json::to_string(rows)
        .map_err(|e| Error::new(ErrorKind::Io, "the results as JSON", e.to_string()))
}
