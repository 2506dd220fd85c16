//! [`SignalNoise`]: norms of the clipped gradient sum and of its noise, with and without a
//! selection of coordinates.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{CoordinateSelector, Dropping, Mask};
use crate::Result;
use crate::data::{Dataset, PoissonSampler};
use crate::engine::{AutoExecutor, Batch, ClipRule, CoordinateWeights, Executor, Gradients};
use crate::nn::Model;
use crate::{Error, ErrorKind};

/// L2 norms of the clipped gradient sum and of its noise in one step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalPoint {
    /// The step (the index of the sampled batch).
    pub step: u64,
    /// ‖Σ clip(gᵢ)‖, where each gᵢ is restricted to the selected coordinates before clipping.
    pub signal: f64,
    /// Root mean square of the noise norm on the selected coordinates: σ C √selected.
    pub noise: f64,
    /// The number of selected coordinates.
    pub selected: usize,
    /// The signal on all coordinates.
    pub signal_all: f64,
    /// The noise on all coordinates.
    pub noise_all: f64,
}

/// The settings of [`SignalNoise::measure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalSettings {
    /// The clip norm C.
    pub clip: f64,
    /// The noise multiplier σ: the standard deviation per coordinate of the sum is σ C.
    pub noise_multiplier: f64,
    /// The expected size of the Poisson batches.
    pub expected_batch_size: usize,
    /// The number of batches. 5 are usually enough.
    pub batches: u64,
    /// The seed of batches and random dropping.
    pub seed: u64,
}

/// Signal and noise norms over some steps, with and without a selection of coordinates.
///
/// # Guarantee
/// None: these are norms of sums of private gradients without noise. The figure is marked
/// [`NOT_COVERED`](crate::show::NOT_COVERED) unless [`private`](Self::private) is false.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalNoise {
    /// The steps, in order.
    pub points: Vec<SignalPoint>,
    /// Whether the examples are private.
    pub private: bool,
}

impl SignalNoise {
    /// Measures signal and noise norms at the model's current parameters, on Poisson batches of the
    /// training part.
    ///
    /// The gradients are clipped once on the selected coordinates and once on all coordinates. A
    /// scheduled dropping rate runs through its whole schedule.
    ///
    /// # Guarantee
    /// None (see the type): do not publish the result.
    ///
    /// # Errors
    /// `Setting` if a setting is out of range; `Model` if mask or data do not fit the model, or if
    /// a norm is not finite; errors of reading the examples.
    pub fn measure(
        model: &Model,
        data: &Dataset,
        settings: SignalSettings,
        mask: Option<&Mask>,
        dropping: Option<Dropping>,
    ) -> Result<Self> {
        let SignalSettings { clip, noise_multiplier, expected_batch_size, batches, seed } =
            settings;
        if !(noise_multiplier >= 0.0 && noise_multiplier.is_finite()) {
            let why = "the standard deviation of the noise must be finite and at least 0";
            return Err(Error::setting("noise_multiplier", noise_multiplier, why)
                .fix("choose a number such as 1.0"));
        }
        if batches == 0 {
            let why = "at least one batch is needed to measure the norms";
            return Err(Error::setting("batches", batches, why).fix("use 5"));
        }
        let network = model.network();
        let examples = data.train();
        let rate = expected_batch_size as f64 / examples.len() as f64;
        let mut sampler = PoissonSampler::new(examples.len(), rate, derived_seed(seed, 1))?;
        let mut selector = CoordinateSelector::new(mask, dropping, batches, derived_seed(seed, 2));
        let (executor, rule) = (AutoExecutor::default(), ClipRule::flat(clip));
        let all = Gradients::zeros_like(network).len();
        let mut points = Vec::new();
        for step in 0..batches {
            let batch = Batch::from_examples(examples, &sampler.next_batch())?;
            let weights = selector.next_selection(network)?;
            let signal_all = executor.clipped_sum(network, &batch, &rule)?.sum.l2_norm();
            let (signal, selected) = match weights.as_deref() {
                None => (signal_all, all),
                Some(weights) => {
                    let sum = executor.weighted_sum(network, &batch, &rule, Some(weights))?.sum;
                    (sum.l2_norm(), count_nonzero(weights))
                }
            };
            let std = rule.noise_std(noise_multiplier);
            points.push(SignalPoint {
                step,
                signal,
                noise: std * (selected as f64).sqrt(),
                selected,
                signal_all,
                noise_all: std * (all as f64).sqrt(),
            });
        }
        if points.iter().any(|p| !(p.signal.is_finite() && p.signal_all.is_finite())) {
            let why = "the gradient sum is not finite";
            return Err(Error::new(ErrorKind::Model, "the gradient norm of a model", why)
                .fix("check the parameters: training may have diverged"));
        }
        Ok(Self { points, private: true })
    }

    /// Returns the mean signal over the mean noise, on the selected and on all coordinates.
    /// Infinite without noise, NaN without points.
    pub fn ratios(&self) -> (f64, f64) {
        let sum = |value: fn(&SignalPoint) -> f64| self.points.iter().map(value).sum::<f64>();
        (sum(|p| p.signal) / sum(|p| p.noise), sum(|p| p.signal_all) / sum(|p| p.noise_all))
    }
}

impl fmt::Display for SignalNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (selected, all) = self.ratios();
        let text = |ratio: f64| {
            if ratio.is_finite() { format!("{ratio:.4}") } else { "unknown".to_owned() }
        };
        let (selected, all) = (text(selected), text(all));
        write!(
            f,
            "signal over noise {selected} on the selected coordinates, {all} on all of them \
             (mean of {})",
            self.points.len()
        )
    }
}

fn count_nonzero(weights: &CoordinateWeights) -> usize {
    let counts = weights.entries().iter().map(|e| e.values.iter().filter(|&&w| w != 0.0).count());
    counts.sum()
}

/// Derives a separate seed for each purpose.
fn derived_seed(seed: u64, purpose: u8) -> [u8; 32] {
    let mut bytes = [purpose; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::glyphs_with;
    use crate::mask::RandomMask;
    use crate::nn::models;

    const SETTINGS: SignalSettings = SignalSettings {
        clip: 0.5,
        noise_multiplier: 2.0,
        expected_batch_size: 8,
        batches: 3,
        seed: 1,
    };

    fn model() -> (Model, Dataset) {
        let data = glyphs_with(40, 0, 1).unwrap();
        (models::linear(&data).seed(1).build().unwrap(), data)
    }

    #[test]
    fn without_a_selection_both_norms_are_equal_and_noise_follows_the_formula() {
        let (model, data) = model();
        let all = SignalNoise::measure(&model, &data, SETTINGS, None, None).unwrap();
        let n = model.num_parameters();
        for point in &all.points {
            assert_eq!((point.signal, point.noise), (point.signal_all, point.noise_all));
            assert_eq!(point.selected, n);
            assert!((point.noise - 2.0 * 0.5 * (n as f64).sqrt()).abs() < 1e-9);
        }
        assert!(all.private && all.points.len() == 3);
    }

    #[test]
    fn norms_are_measured_on_the_selected_coordinates() {
        let (model, data) = model();
        let mask = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
        let first_point = |mask, drop| {
            SignalNoise::measure(&model, &data, SETTINGS, mask, drop).unwrap().points[0]
        };
        let (masked, dropped) =
            (first_point(Some(&mask), None), first_point(Some(&mask), Some(Dropping::random(0.5))));
        let unmasked = model.num_parameters() - mask.len();
        assert_eq!(masked.selected, mask.kept_count() + unmasked);
        assert!(dropped.selected < masked.selected && dropped.noise < masked.noise);
        assert!(masked.noise < masked.noise_all);
        // Without clipping, the norm on the selection is below that on all coordinates.
        let wide = SignalSettings { clip: 1e6, ..SETTINGS };
        let unclipped =
            SignalNoise::measure(&model, &data, wide, Some(&mask), None).unwrap().points[0];
        assert!(unclipped.signal < unclipped.signal_all && unclipped.signal > 0.0);
        assert_eq!(first_point(Some(&mask), None), masked, "a seed repeats the result");
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let (model, data) = model();
        for bad in [
            SignalSettings { clip: -1.0, ..SETTINGS },
            SignalSettings { noise_multiplier: f64::NAN, ..SETTINGS },
            SignalSettings { expected_batch_size: 0, ..SETTINGS },
            SignalSettings { batches: 0, ..SETTINGS },
        ] {
            let error = SignalNoise::measure(&model, &data, bad, None, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        }
    }
}
