//! [`SelectionLog`]: the frequency of each coordinate in the selections of a run, binned over time
//! and coordinates.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

use crate::engine::{CoordinateWeights, Gradient};

mod recorder;

pub(crate) use recorder::SelectionRecorder;

/// Maximal number of time bins.
const MAX_TIME_BINS: u64 = 32;
/// Maximal number of coordinate bins per tensor.
const MAX_COORDINATE_BINS: usize = 64;

/// Selection frequencies of the coordinates of one weight tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelectionLogTensor {
    /// The path of the parameter, such as `"0.weight"`.
    pub path: String,
    /// Number of coordinates of the parameter.
    pub coordinates: usize,
    /// Shape of the parameter; empty in logs of versions that stored no shapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<usize>,
    /// `fractions[t][c]`: the fraction of the coordinates in bin `c` (row-major order) that a step
    /// in time bin `t` selected, averaged over the steps. Zero where no step was recorded.
    #[serde(rename = "share")]
    pub fractions: Vec<Vec<f32>>,
}

impl SelectionLogTensor {
    /// Returns the selected fraction in each coordinate bin, averaged over all recorded steps.
    /// `recorded` holds the number of steps in each time bin.
    pub(crate) fn mean_by_bin(&self, recorded: &[u64]) -> Vec<f64> {
        let steps: u64 = recorded.iter().sum();
        let bins = self.fractions.first().map_or(0, Vec::len);
        let mean = |c: usize| {
            let rows = self.fractions.iter().zip(recorded);
            rows.map(|(row, &steps)| f64::from(row.get(c).copied().unwrap_or(0.0)) * steps as f64)
                .sum::<f64>()
                / steps.max(1) as f64
        };
        (0..bins).map(mean).collect()
    }
}

/// Log of the coordinates that the steps of a run selected, in at most 32 time bins and 64
/// coordinate bins per weight tensor.
///
/// # Guarantee
/// The log is post-processing of the selections. [`Dropping`](super::Dropping) selects by the
/// released parameters and independent randomness, so the log reveals nothing more. What the choice
/// of a [`Mask`](super::Mask) reveals is stated by the mask's origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelectionLog {
    /// The number of steps of the whole run.
    pub steps: u64,
    /// The number of steps recorded so far in each time bin.
    pub recorded: Vec<u64>,
    /// Logs of the tensors of two or more dimensions, in the order of the model's parameters.
    pub tensors: Vec<SelectionLogTensor>,
}

impl SelectionLog {
    /// Creates an empty log for a run of `steps` steps.
    pub fn new(steps: u64) -> Self {
        let time_bins = steps.clamp(1, MAX_TIME_BINS) as usize;
        Self { steps, recorded: vec![0; time_bins], tensors: Vec::new() }
    }

    /// Records the coordinates that step `step` (counted from 0) selected: the coordinates of
    /// nonzero weight.
    ///
    /// The first call decides which tensors are recorded; later calls ignore all others. A step
    /// beyond the end counts as the last one. The cost is one pass over the coordinates.
    pub fn record(&mut self, step: u64, selected: &CoordinateWeights) {
        let time = self.start_step(step, selected);
        let count = self.recorded[time] as f32;
        // Both lists follow the order of the parameters.
        let mut entries = selected.entries().iter();
        for tensor in &mut self.tensors {
            let matches = |path: &str, n: usize| path == tensor.path && n == tensor.coordinates;
            let Some(entry) = entries.find(|e| matches(&e.path, e.values.len())) else { break };
            let bins = tensor.fractions[time].len();
            for (c, fraction) in tensor.fractions[time].iter_mut().enumerate() {
                let bin = bin_range(c, bins, entry.values.len());
                let size = bin.len() as f32;
                let hits = entry.values[bin].iter().filter(|&&weight| weight != 0.0).count();
                // A running mean, which is correct at every step, also of a run that ends early.
                *fraction += (hits as f32 / size - *fraction) / count;
            }
        }
    }

    /// Counts the step and returns its time bin. The first step sets the tensors.
    fn start_step(&mut self, step: u64, selected: &CoordinateWeights) -> usize {
        let time_bins = self.recorded.len();
        if self.tensors.is_empty() {
            let empty = recorded_entries(selected).map(|entry| SelectionLogTensor {
                path: entry.path.clone(),
                coordinates: entry.values.len(),
                shape: entry.shape.clone(),
                fractions: vec![vec![0.0; entry.values.len().min(MAX_COORDINATE_BINS)]; time_bins],
            });
            self.tensors = empty.collect();
        }
        let steps = self.steps.max(1);
        let step = u128::from(step.min(steps - 1));
        let time = (step * time_bins as u128 / u128::from(steps)) as usize;
        self.recorded[time] += 1;
        time
    }

    /// Returns the number of recorded steps.
    pub(crate) fn recorded_steps(&self) -> u64 {
        self.recorded.iter().sum()
    }
}

/// Returns the entries that are recorded: tensors of two or more dimensions.
fn recorded_entries(selected: &CoordinateWeights) -> impl Iterator<Item = &Gradient> {
    selected.entries().iter().filter(|entry| entry.shape.len() >= 2)
}

/// Returns the coordinates of bin `c` when `n` coordinates are split into `bins` bins.
fn bin_range(c: usize, bins: usize, n: usize) -> Range<usize> {
    c * n / bins..(c + 1) * n / bins
}

impl fmt::Display for SelectionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut hits, mut all) = (0.0, 0.0);
        for tensor in &self.tensors {
            let bins = tensor.mean_by_bin(&self.recorded);
            let mean = bins.iter().sum::<f64>() / bins.len().max(1) as f64;
            hits += mean * tensor.coordinates as f64;
            all += tensor.coordinates as f64;
        }
        if all == 0.0 {
            return f.write_str("no step with a selection recorded");
        }
        write!(
            f,
            "{:.1} % of the weights selected in a step, over {} of {} steps and {} tensors",
            100.0 * hits / all,
            self.recorded_steps(),
            self.steps,
            self.tensors.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::glyphs_with;
    use crate::mask::{CoordinateSelector, Dropping, RandomMask};
    use crate::nn::models;

    fn record(dropping: Dropping, masked: bool, steps: u64, recorded: u64) -> SelectionLog {
        let data = glyphs_with(2, 0, 1).unwrap();
        let model = models::mlp(&data, &[16]).seed(1).build().unwrap();
        let mask = masked.then(|| RandomMask::prune(0.5).seed(1).mask(&model).unwrap());
        let mut selector = CoordinateSelector::new(mask.as_ref(), Some(dropping), steps, [7; 32]);
        let mut log = SelectionLog::new(steps);
        for step in 0..recorded {
            log.record(step, &selector.next_selection(model.network()).unwrap().unwrap());
        }
        log
    }

    #[test]
    fn fractions_match_the_dropping_rate() {
        let log = record(Dropping::random(0.25), false, 100, 100);
        assert_eq!((log.recorded.len(), log.recorded_steps()), (32, 100));
        assert_eq!(log.tensors.len(), 2, "weights only");
        for tensor in &log.tensors {
            assert_eq!((tensor.fractions.len(), tensor.fractions[0].len()), (32, 64));
            let bins = tensor.mean_by_bin(&log.recorded);
            let mean = bins.iter().sum::<f64>() / bins.len() as f64;
            assert!((mean - 0.75).abs() < 0.02, "{mean}");
        }
        assert!(log.to_string().starts_with("75."), "{log}");
    }

    #[test]
    fn magnitude_selects_the_same_bins_in_every_step_and_random_does_not() {
        let spread = |log: &SelectionLog| -> f32 {
            let rows = &log.tensors[1].fractions;
            let differences = (0..64).map(|c| (rows[0][c] - rows[9][c]).abs());
            differences.fold(0.0, f32::max)
        };
        assert_eq!(spread(&record(Dropping::magnitude(0.5), false, 32, 32)), 0.0);
        assert!(spread(&record(Dropping::random(0.5), false, 32, 32)) > 0.3);
    }

    #[test]
    fn masked_coordinates_are_never_selected_and_a_short_run_is_normalised() {
        let log = record(Dropping::random(0.0), true, 64, 10);
        assert_eq!(log.recorded_steps(), 10);
        for tensor in &log.tensors {
            for (row, &steps) in tensor.fractions.iter().zip(&log.recorded) {
                let mean = row.iter().sum::<f32>() / row.len() as f32;
                let expected = if steps > 0 { 0.5 } else { 0.0 };
                assert!((mean - expected).abs() < 0.02, "{mean} for {steps} steps");
            }
        }
    }

    #[test]
    fn runs_without_steps_and_steps_beyond_the_end_are_accepted() {
        let data = glyphs_with(2, 0, 1).unwrap();
        let model = models::linear(&data).seed(1).build().unwrap();
        let mask = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
        let weights = mask.to_weights(model.network()).unwrap();
        let mut log = SelectionLog::new(0);
        assert_eq!(log.to_string(), "no step with a selection recorded");
        log.record(0, &weights);
        log.record(u64::MAX, &weights);
        assert_eq!(log.recorded, [2]);
        let text = serde_json::to_string(&log).unwrap();
        assert_eq!(serde_json::from_str::<SelectionLog>(&text).unwrap(), log);
    }
}
