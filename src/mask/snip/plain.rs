//! SNIP without privacy: what the private one is measured against.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::sensitivities::{CHUNK, Sensitivities};
use crate::Result;
use crate::data::{Dataset, Examples};
use crate::engine::ClipRule;
use crate::mask::rate::{check_pruning, in_percent};
use crate::mask::{Covered, Mask, Saliency};
use crate::nn::Model;

/// SNIP (Lee, Ajanthan and Torr, 2019): keeps the weights with the largest |Σᵢ θ ⊙ ∂Lᵢ/∂θ|, over
/// all examples and all layers together. For comparison with [`DpSnip`](super::DpSnip).
///
/// # Guarantee
/// None: the training examples are read without noise. The mask says so wherever it is used; no
/// ledger is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snip {
    rate: f64,
}

impl Snip {
    /// Keeps this share of all weights.
    pub fn keep(share: f64) -> Self {
        Self::prune(1.0 - share)
    }

    /// Drops this share of all weights.
    pub fn prune(rate: f64) -> Self {
        Self { rate }
    }

    /// The share that is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// |Σᵢ θ ⊙ ∂Lᵢ/∂θ| / N for every weight, over all N examples; those whose gradient is not
    /// finite count as zero. (The paper divides by the sum of all scores too, which changes no
    /// rank.) Dropout layers use the same masks every time.
    ///
    /// # Errors
    /// Kind `Model` or `Setting` if model and examples do not fit, or there are none.
    pub fn saliency(&self, model: &Model, examples: &Examples) -> Result<Saliency> {
        let rule = ClipRule::unclipped();
        let Sensitivities { sum, prunable } = Sensitivities::of(model, examples, &rule, 0, CHUNK)?;
        let scores = Sensitivities::scores(&sum, &prunable, examples.len());
        let why = "SNIP looked at the training examples without noise";
        let covered = Covered::NotPrivate(why.to_owned());
        Ok(Saliency::new("SNIP", covered, scores))
    }

    /// The mask for a model on the training part of `data`.
    ///
    /// # Errors
    /// As [`saliency`](Self::saliency); kind `Setting` for a rate outside [0, 1).
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
