//! [`Saliency`]: one score per coordinate, from which masks are made.

use std::sync::Arc;

use super::origin::{MaskOrigin, PrivacyStatus};
use super::rate::{check_pruning, dropped_count, in_percent};
use super::top_k;
use super::{Mask, MaskTensor};
use crate::Result;
use crate::nn::{Network, Parameter};

/// The scores of one parameter tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct SaliencyTensor {
    /// The path of the parameter.
    pub path: String,
    /// The shape of the parameter.
    pub shape: Vec<usize>,
    /// Scores, one per coordinate, row-major. Larger means more important.
    pub values: Vec<f64>,
}

/// Importance scores of all prunable coordinates of a model. Cheap to clone.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let scores = Synflow::saliency(&model)?;
/// assert_eq!(scores.tensors().len(), 2); // the weights of both layers
/// assert_eq!(scores.keep(0.25)?.kept_count(), 794); // of 3,176, by the scores of one round
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Saliency {
    method: String,
    privacy: PrivacyStatus,
    tensors: Arc<[SaliencyTensor]>,
}

impl Saliency {
    pub(crate) fn new(method: &str, privacy: PrivacyStatus, tensors: Vec<SaliencyTensor>) -> Self {
        Self { method: method.to_owned(), privacy, tensors: tensors.into() }
    }

    /// Returns the scoring method, for display.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the privacy of the scores: the information that they reveal about a data set.
    pub fn privacy(&self) -> &PrivacyStatus {
        &self.privacy
    }

    /// Returns the scores, tensor by tensor, in the order of the model's parameters.
    pub fn tensors(&self) -> &[SaliencyTensor] {
        &self.tensors
    }

    /// Makes the mask that keeps this fraction of all coordinates: those with the largest scores
    /// over all tensors.
    ///
    /// Ties are broken by index, and every tensor keeps at least one coordinate.
    ///
    /// # Guarantee
    /// Post-processing of the scores: the mask reveals no more than they do.
    ///
    /// # Errors
    /// `Setting` if the fraction is not in (0, 1].
    pub fn keep(&self, fraction: f64) -> Result<Mask> {
        self.prune(1.0 - fraction)
    }

    /// Makes the mask that drops this fraction of all coordinates; see [`keep`](Self::keep).
    ///
    /// # Errors
    /// `Setting` if the rate is not in [0, 1).
    pub fn prune(&self, rate: f64) -> Result<Mask> {
        let rate = check_pruning(rate)?;
        let scores: Vec<&[f64]> = self.tensors.iter().map(|t| t.values.as_slice()).collect();
        let count = scores.iter().map(|scores| scores.len()).sum();
        let kept = top_k::largest_masks(&scores, dropped_count(rate, count));
        let method = format!("{}, {} dropped", self.method, in_percent(rate));
        self.mask(kept, method)
    }

    /// Makes a mask with these flags (one list per tensor) and these scores.
    pub(crate) fn mask(&self, kept: Vec<Vec<bool>>, method: String) -> Result<Mask> {
        let tensors = self.tensors.iter().zip(kept).map(|(scores, kept)| MaskTensor {
            path: scores.path.clone(),
            shape: scores.shape.clone(),
            kept,
        });
        let origin = MaskOrigin::new(method, self.privacy.clone());
        Ok(Mask::with_origin(tensors.collect(), origin)?.with_saliency(self.clone()))
    }
}

/// Returns the parameters that can be pruned: tensors of two or more dimensions, and with
/// `include_1d` also biases and normalisation parameters.
pub(crate) fn prunable(network: &Network, include_1d: bool) -> Vec<Parameter> {
    let mut all = network.parameters();
    all.retain(|parameter| include_1d || parameter.shape.len() >= 2);
    all
}
