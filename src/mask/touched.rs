//! Which coordinates a run touched, and when: small enough to keep.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

use crate::engine::{Gradient, Weights};

mod recorder;

pub(crate) use recorder::Recorder;

/// Most stretches of time that are kept apart.
const TIMES: u64 = 32;
/// Most stretches of a tensor's coordinates that are kept apart.
const PLACES: usize = 64;

/// How often the coordinates of one weight tensor were selected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TouchedTensor {
    /// The parameter, by its path: `"0.weight"`.
    pub path: String,
    /// How many coordinates it has.
    pub coordinates: usize,
    /// Its shape. Records stored before this was kept have an empty one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<usize>,
    /// `share[t][c]`: the share of all pairs of a step in time stretch `t` and a coordinate in
    /// stretch `c` (row-major order) that were selected. Zeros where no step was recorded.
    pub share: Vec<Vec<f32>>,
}

impl TouchedTensor {
    /// The share of its coordinates, over all recorded steps, by stretch of coordinates.
    pub(crate) fn by_place(&self, recorded: &[u64]) -> Vec<f64> {
        let steps: u64 = recorded.iter().sum();
        let places = self.share.first().map_or(0, Vec::len);
        let mean = |c: usize| {
            let times = self.share.iter().zip(recorded);
            times
                .map(|(row, &steps)| f64::from(row.get(c).copied().unwrap_or(0.0)) * steps as f64)
                .sum::<f64>()
                / steps.max(1) as f64
        };
        (0..places).map(mean).collect()
    }
}

/// Which coordinates the steps of a run selected, in at most 32 stretches of time and 64 stretches
/// of each weight tensor.
///
/// # Guarantee
/// It adds nothing to what selects the coordinates: [`Dropping`](super::Dropping) is a function of
/// the released parameters and of independent randomness, so counting it is post-processing. For
/// coordinates that a [`Mask`](super::Mask) leaves out, the mask's own origin says what its choice
/// reveals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Touched {
    /// Steps of the whole run.
    pub steps: u64,
    /// Steps recorded so far in each stretch of time; they end early where a run does.
    pub recorded: Vec<u64>,
    /// One entry per tensor of two or more dimensions, in the order of the model's parameters.
    pub tensors: Vec<TouchedTensor>,
}

impl Touched {
    /// An empty record for a run of `steps` steps.
    pub fn new(steps: u64) -> Self {
        let times = steps.clamp(1, TIMES) as usize;
        Self { steps, recorded: vec![0; times], tensors: Vec::new() }
    }

    /// Counts the coordinates that step `step` (from 0) selected: those whose weight is not zero.
    /// The first call decides which tensors are recorded; others are passed over later. Steps past
    /// the end count as the last. Takes one pass over the coordinates.
    pub fn record(&mut self, step: u64, selected: &Weights) {
        let time = self.begin(step, selected);
        let count = self.recorded[time] as f32;
        // Both lists are in the order of the parameters.
        let mut entries = selected.entries().iter();
        for tensor in &mut self.tensors {
            let same = |path: &str, n: usize| path == tensor.path && n == tensor.coordinates;
            let Some(entry) = entries.find(|e| same(&e.path, e.values.len())) else { break };
            let places = tensor.share[time].len();
            for (c, share) in tensor.share[time].iter_mut().enumerate() {
                let Range { start: from, end: to } = stretch(c, places, entry.values.len());
                let hits = entry.values[from..to].iter().filter(|&&weight| weight != 0.0).count();
                // The mean so far, so that a run that ends early needs no last word.
                *share += (hits as f32 / (to - from) as f32 - *share) / count;
            }
        }
    }

    /// Counts the step itself: the stretch of time that it falls into.
    fn begin(&mut self, step: u64, selected: &Weights) -> usize {
        let times = self.recorded.len();
        if self.tensors.is_empty() {
            let empty = wide(selected).map(|entry| TouchedTensor {
                path: entry.path.clone(),
                coordinates: entry.values.len(),
                shape: entry.shape.clone(),
                share: vec![vec![0.0; entry.values.len().min(PLACES)]; times],
            });
            self.tensors = empty.collect();
        }
        let steps = self.steps.max(1);
        let time = (u128::from(step.min(steps - 1)) * times as u128 / u128::from(steps)) as usize;
        self.recorded[time] += 1;
        time
    }

    /// How many steps were recorded.
    pub fn recorded_steps(&self) -> u64 {
        self.recorded.iter().sum()
    }
}

/// The tensors that are recorded.
fn wide(selected: &Weights) -> impl Iterator<Item = &Gradient> {
    selected.entries().iter().filter(|entry| entry.shape.len() >= 2)
}

/// Which of `n` coordinates lie in a stretch.
fn stretch(c: usize, places: usize, n: usize) -> Range<usize> {
    c * n / places..(c + 1) * n / places
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut hits, mut all) = (0.0, 0.0);
        for tensor in &self.tensors {
            let places = tensor.by_place(&self.recorded);
            let mean = places.iter().sum::<f64>() / places.len().max(1) as f64;
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
    use crate::mask::{Dropping, RandomMask, Selector};
    use crate::nn::models;

    fn record(dropping: Dropping, masked: bool, steps: u64, taken: u64) -> Touched {
        let data = glyphs_with(2, 0, 1).unwrap();
        let model = models::mlp(&data, &[16]).seed(1).build().unwrap();
        let mask = masked.then(|| RandomMask::prune(0.5).seed(1).mask(&model).unwrap());
        let mut selector = Selector::new(mask.as_ref(), Some(dropping), steps, [7; 32]);
        let mut touched = Touched::new(steps);
        for step in 0..taken {
            touched.record(step, &selector.next(model.network()).unwrap().unwrap());
        }
        touched
    }

    #[test]
    fn shares_are_those_of_the_selection_and_small() {
        let touched = record(Dropping::random(0.25), false, 100, 100);
        assert_eq!((touched.recorded.len(), touched.recorded_steps()), (32, 100));
        assert_eq!(touched.tensors.len(), 2, "weights only");
        for tensor in &touched.tensors {
            assert_eq!((tensor.share.len(), tensor.share[0].len()), (32, 64));
            let places = tensor.by_place(&touched.recorded);
            let mean = places.iter().sum::<f64>() / places.len() as f64;
            assert!((mean - 0.75).abs() < 0.02, "{mean}");
        }
        assert!(touched.to_string().starts_with("75."), "{touched}");
    }

    #[test]
    fn magnitude_touches_the_same_places_in_every_step_and_random_does_not() {
        let spread = |touched: &Touched| -> f32 {
            let share = &touched.tensors[1].share;
            let between = (0..64).map(|c| (share[0][c] - share[9][c]).abs());
            between.fold(0.0, f32::max)
        };
        assert_eq!(spread(&record(Dropping::magnitude(0.5), false, 32, 32)), 0.0);
        assert!(spread(&record(Dropping::random(0.5), false, 32, 32)) > 0.3);
    }

    #[test]
    fn what_a_mask_leaves_out_is_never_touched_and_a_short_run_stays_normalised() {
        let touched = record(Dropping::random(0.0), true, 64, 10);
        assert_eq!(touched.recorded_steps(), 10);
        for tensor in &touched.tensors {
            for (row, &steps) in tensor.share.iter().zip(&touched.recorded) {
                let mean = row.iter().sum::<f32>() / row.len() as f32;
                let wanted = if steps > 0 { 0.5 } else { 0.0 };
                assert!((mean - wanted).abs() < 0.02, "{mean} for {steps} steps");
            }
        }
    }

    #[test]
    fn runs_without_steps_and_steps_past_the_end_are_taken() {
        let data = glyphs_with(2, 0, 1).unwrap();
        let model = models::linear(&data).seed(1).build().unwrap();
        let mask = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
        let weights = mask.weights(model.network()).unwrap();
        let mut touched = Touched::new(0);
        assert_eq!(touched.to_string(), "no step with a selection recorded");
        touched.record(0, &weights);
        touched.record(u64::MAX, &weights);
        assert_eq!(touched.recorded, [2]);
        let text = serde_json::to_string(&touched).unwrap();
        assert_eq!(serde_json::from_str::<Touched>(&text).unwrap(), touched);
    }
}
