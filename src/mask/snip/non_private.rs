//! Non-private SNIP, the baseline of DP-SNIP.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::sensitivities::{CHUNK, ConnectionSensitivities};
use crate::Result;
use crate::data::{Dataset, Examples};
use crate::engine::ClipRule;
use crate::mask::rate::{check_pruning, in_percent};
use crate::mask::{Mask, PrivacyStatus, Saliency};
use crate::nn::Model;

/// SNIP (Lee, Ajanthan and Torr, 2019), not private: keeps the weights with the largest
/// |Σᵢ θ ⊙ ∂Lᵢ/∂θ|, summed over all examples and ranked over all layers together.
///
/// Use it as a baseline of [`DpSnip`](super::DpSnip).
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::linear(&data).seed(1).build()?;
/// let mask = Snip::keep(0.1).mask(&model, &data)?;
/// assert_eq!(mask.kept_count(), 784);
/// assert!(!mask.origin().privacy[0].is_covered()); // no epsilon covers it
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// None: the mask depends on the training examples without noise. Its origin says so, every
/// accountant refuses a run with it, and no ledger entry is written for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snip {
    rate: f64,
}

impl Snip {
    /// Keeps this fraction of all weights.
    pub fn keep(fraction: f64) -> Self {
        Self::prune(1.0 - fraction)
    }

    /// Drops this fraction of all weights.
    pub fn prune(rate: f64) -> Self {
        Self { rate }
    }

    /// Computes the scores |Σᵢ θ ⊙ ∂Lᵢ/∂θ| / N of all weights, where N is the number of examples.
    ///
    /// Examples with a gradient that is not finite contribute zero. The paper also divides by the
    /// sum of all scores, which does not change their order. Dropout uses the same masks in every
    /// call.
    ///
    /// # Errors
    /// `Model` or `Setting` if model and examples do not fit, or if there are no examples.
    pub fn saliency(&self, model: &Model, examples: &Examples) -> Result<Saliency> {
        let rule = ClipRule::unclipped();
        let ConnectionSensitivities { sum, prunable } =
            ConnectionSensitivities::compute(model, examples, &rule, 0, CHUNK)?;
        let scores = ConnectionSensitivities::scores(&sum, &prunable, examples.len());
        let why = "SNIP looked at the training examples without noise";
        let privacy = PrivacyStatus::NotPrivate(why.to_owned());
        Ok(Saliency::new("SNIP", privacy, scores))
    }

    /// Makes the mask for a model on the training part of `data`.
    ///
    /// # Errors
    /// `Model` or `Setting` if model and examples do not fit, or if there are no examples;
    /// `Setting` if the rate is not in [0, 1).
    pub fn mask(&self, model: &Model, data: &Dataset) -> Result<Mask> {
        check_pruning(self.rate)?;
        self.saliency(model, data.train())?.prune(self.rate)
    }
}

impl fmt::Display for Snip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SNIP, {} dropped, not private", in_percent(self.rate))
    }
}
