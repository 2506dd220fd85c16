//! Magnitude pruning.

use serde::{Deserialize, Serialize};

use super::Mask;
use super::origin::PrivacyStatus;
use super::saliency::{Saliency, SaliencyTensor, prunable};
use crate::Result;
use crate::nn::Model;

/// Magnitude pruning: drops the weights of smallest absolute value, over all weight tensors
/// together.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let mask = MagnitudeMask::keep(0.25).mask(&model)?;
/// assert_eq!((mask.kept_count(), mask.len()), (794, 784 * 4 + 4 * 10));
/// let biases = MagnitudeMask::keep(0.25).include_1d().mask(&model)?;
/// assert_eq!(biases.len(), model.num_parameters());
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// The mask is a function of the parameters alone. For a model with its initial parameters it is
/// data-free. For a trained model it costs nothing if that training was private or on other data;
/// the badge of a run states this assumption.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MagnitudeMask {
    pub(super) rate: f64,
    #[serde(default)]
    include_1d: bool,
}

impl MagnitudeMask {
    /// Keeps this fraction of all weights.
    pub fn keep(fraction: f64) -> Self {
        Self::prune(1.0 - fraction)
    }

    /// Drops this fraction of all weights.
    pub fn prune(rate: f64) -> Self {
        Self { rate, include_1d: false }
    }

    /// Prunes biases and normalisation parameters too.
    pub fn include_1d(self) -> Self {
        Self { include_1d: true, ..self }
    }

    /// Returns the absolute values of the prunable parameters, as scores.
    pub fn saliency(&self, model: &Model) -> Saliency {
        let parameters = prunable(model.network(), self.include_1d);
        let values = model.network().values().into_iter();
        let scores =
            values.filter(|(p, _)| parameters.contains(p)).map(|(p, values)| SaliencyTensor {
                path: p.path,
                shape: p.shape,
                values: values.into_iter().map(|v| f64::from(v).abs()).collect(),
            });
        Saliency::new("magnitude", privacy_of_parameters(model), scores.collect())
    }

    /// Makes the mask for a model.
    ///
    /// # Errors
    /// `Setting` if the rate is not in [0, 1).
    pub fn mask(&self, model: &Model) -> Result<Mask> {
        self.saliency(model).prune(self.rate)
    }
}

/// Returns the privacy status of a function of the model's parameters.
pub(in crate::mask) fn privacy_of_parameters(model: &Model) -> PrivacyStatus {
    if model.provenance().is_data_free() {
        return PrivacyStatus::DataFree;
    }
    let assumed = "the model it was made from was trained privately, or not on these data";
    PrivacyStatus::Assumption(assumed.to_owned())
}
