//! Magnitude masks: what is small goes.

use serde::{Deserialize, Serialize};

use super::Mask;
use super::covered::Covered;
use super::saliency::{Saliency, Scores, prunable};
use crate::Result;
use crate::nn::Model;

/// Drops the smallest parameters by absolute value, over all weight tensors together.
///
/// # Guarantee
/// A function of the parameters alone. For a model with its initial parameters that is data-free;
/// for a trained one it costs nothing if that training was private or on other data, which the
/// badge of a run says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MagnitudeMask {
    rate: f64,
    #[serde(default)]
    include_1d: bool,
}

impl MagnitudeMask {
    /// Keeps this share of all weights.
    pub fn keep(share: f64) -> Self {
        Self::prune(1.0 - share)
    }

    /// Drops this share of all weights.
    pub fn prune(rate: f64) -> Self {
        Self { rate, include_1d: false }
    }

    /// Prunes biases and the factors of normalisation too.
    pub fn include_1d(self) -> Self {
        Self { include_1d: true, ..self }
    }

    /// The share that is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The absolute values of the prunable parameters.
    pub fn saliency(&self, model: &Model) -> Saliency {
        let wanted = prunable(model.network(), self.include_1d);
        let values = model.network().values().into_iter();
        let scores = values.filter(|(p, _)| wanted.contains(p)).map(|(p, values)| Scores {
            path: p.path,
            shape: p.shape,
            values: values.into_iter().map(|v| f64::from(v).abs()).collect(),
        });
        Saliency::new("magnitude", of_parameters(model), scores.collect())
    }

    /// The mask for a model.
    ///
    /// # Errors
    /// Kind `Setting` for a rate outside [0, 1).
    pub fn mask(&self, model: &Model) -> Result<Mask> {
        self.saliency(model).prune(self.rate)
    }
}

/// What a function of the model's parameters reveals.
pub(in crate::mask) fn of_parameters(model: &Model) -> Covered {
    if model.is_initial() {
        return Covered::DataFree;
    }
    let what = "the model it was made from was trained privately, or not on these data";
    Covered::Assumption(what.to_owned())
}
