//! Signal against noise, with and without a selection of coordinates.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Dropping, Mask, Selector};
use crate::Result;
use crate::data::{Dataset, PoissonSampler};
use crate::engine::{AutoExecutor, Batch, ClipRule, Executor, Gradients, Weights};
use crate::nn::Model;
use crate::{Error, ErrorKind};

/// One step: L2 norms of the sum of clipped gradients, and of its noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalPoint {
    /// The step, or the number of the batch that was drawn.
    pub step: u64,
    /// ‖Σ clip(gᵢ)‖ on the selected coordinates, each example clipped there.
    pub signal: f64,
    /// The noise there: σ C √selected, the root of the expected square.
    pub noise: f64,
    /// How many coordinates are selected.
    pub selected: usize,
    /// The signal if all coordinates are trained.
    pub signal_all: f64,
    /// The noise then.
    pub noise_all: f64,
}

/// What is compared, as a plan would say it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalSettings {
    /// C: each example's gradient is clipped to this norm.
    pub clip: f64,
    /// σ: noise per coordinate of the sum, over C.
    pub noise_multiplier: f64,
    /// The mean size of the batches.
    pub expected_batch_size: usize,
    /// How many batches are drawn; 5 are enough to see.
    pub batches: u64,
    /// For batches and random dropping.
    pub seed: u64,
}

/// Signal against noise over some steps, with and without a selection of coordinates.
///
/// # Guarantee
/// None: norms of sums of private gradients, without noise. Its figure says
/// [`NOT_COVERED`](crate::show::NOT_COVERED) unless [`private`](Self::private) is false.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalNoise {
    /// The steps, in order.
    pub points: Vec<SignalPoint>,
    /// Whether the examples are private.
    pub private: bool,
}

impl SignalNoise {
    /// Draws some Poisson batches of the training part and compares the norms at the model's
    /// current parameters: of the sum clipped on the selected coordinates, of the sum clipped on
    /// all of them, and of the noise of each. A dropping rate that changes over the steps is taken
    /// along its whole way.
    ///
    /// # Guarantee
    /// None, see the type: for your own eyes only.
    ///
    /// # Errors
    /// Kind `Setting` for a setting out of range, kind `Model` if mask or data do not suit the
    /// model; what reading the examples says.
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
            let why = "noise is zero or more, and finite";
            return Err(Error::setting("noise_multiplier", noise_multiplier, why));
        }
        if batches == 0 {
            let why = "there would be nothing to compare";
            return Err(Error::setting("batches", batches, why).fix("draw 5"));
        }
        let network = model.network();
        let examples = data.train();
        let rate = expected_batch_size as f64 / examples.len() as f64;
        let mut sampler = PoissonSampler::new(examples.len(), rate, stream(seed, 1))?;
        let mut selector = Selector::new(mask, dropping, batches, stream(seed, 2));
        let (best, rule) = (AutoExecutor::default(), ClipRule::flat(clip));
        let all = Gradients::zeros_like(network).len();
        let mut points = Vec::new();
        for step in 0..batches {
            let batch = Batch::of(examples, &sampler.next_batch())?;
            let weights = selector.next(network)?;
            let whole = best.clipped_sum(network, &batch, &rule)?.sum.l2_norm();
            let (signal, selected) = match weights.as_deref() {
                None => (whole, all),
                Some(weights) => {
                    let sum = best.weighted_sum(network, &batch, &rule, Some(weights))?.sum;
                    (sum.l2_norm(), count(weights))
                }
            };
            let std = rule.noise_std(noise_multiplier);
            points.push(SignalPoint {
                step,
                signal,
                noise: std * (selected as f64).sqrt(),
                selected,
                signal_all: whole,
                noise_all: std * (all as f64).sqrt(),
            });
        }
        if points.iter().any(|p| !(p.signal.is_finite() && p.signal_all.is_finite())) {
            let why = "the sum of gradients is not finite";
            return Err(Error::new(ErrorKind::Model, "signal of a model", why)
                .fix("look at the parameters: training may have diverged"));
        }
        Ok(Self { points, private: true })
    }

    /// Mean signal over mean noise with the selection and without; NaN without points or noise.
    pub fn ratios(&self) -> (f64, f64) {
        let sum = |of: fn(&SignalPoint) -> f64| self.points.iter().map(of).sum::<f64>();
        (sum(|p| p.signal) / sum(|p| p.noise), sum(|p| p.signal_all) / sum(|p| p.noise_all))
    }
}

impl fmt::Display for SignalNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (selected, all) = self.ratios();
        let word = |ratio: f64| match ratio.is_finite() {
            true => format!("{ratio:.4}"),
            false => "unknown".to_owned(),
        };
        let (selected, all) = (word(selected), word(all));
        write!(
            f,
            "signal over noise {selected} on the selected coordinates, {all} on all of them \
             (mean of {})",
            self.points.len()
        )
    }
}

fn count(weights: &Weights) -> usize {
    let each = weights.entries().iter().map(|e| e.values.iter().filter(|&&w| w != 0.0).count());
    each.sum()
}

/// A seed of its own for each purpose.
fn stream(seed: u64, purpose: u8) -> [u8; 32] {
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
    fn without_a_selection_both_are_the_same_and_noise_is_that_of_the_formula() {
        let (model, data) = model();
        let all = SignalNoise::measure(&model, &data, SETTINGS, None, None).unwrap();
        let n = model.parameters();
        for point in &all.points {
            assert_eq!((point.signal, point.noise), (point.signal_all, point.noise_all));
            assert_eq!(point.selected, n);
            assert!((point.noise - 2.0 * 0.5 * (n as f64).sqrt()).abs() < 1e-9);
        }
        assert!(all.private && all.points.len() == 3);
    }

    #[test]
    fn a_selection_is_measured_on_its_own_coordinates() {
        let (model, data) = model();
        let mask = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
        let measured = |mask, drop| {
            SignalNoise::measure(&model, &data, SETTINGS, mask, drop).unwrap().points[0]
        };
        let (one, two) =
            (measured(Some(&mask), None), measured(Some(&mask), Some(Dropping::random(0.5))));
        let free = model.parameters() - mask.len();
        assert_eq!(one.selected, mask.kept() + free);
        assert!(two.selected < one.selected && two.noise < one.noise && one.noise < one.noise_all);
        // The same batch, clipped in fewer coordinates: what was not clipped is a part of it.
        let wide = SignalSettings { clip: 1e6, ..SETTINGS };
        let unclipped =
            SignalNoise::measure(&model, &data, wide, Some(&mask), None).unwrap().points[0];
        assert!(unclipped.signal < unclipped.signal_all && unclipped.signal > 0.0);
        assert_eq!(measured(Some(&mask), None), one, "the same seed, the same numbers");
    }

    #[test]
    fn bad_settings_are_refused() {
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
