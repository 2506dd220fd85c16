//! [`Saliency`]: one score per coordinate, from which masks are made.

use std::sync::Arc;

use super::origin::{Origin, PrivacyStatus};
use super::rate::{check_pruning, dropped_of, in_percent};
use super::top_k;
use super::{Mask, MaskTensor};
use crate::Result;
use crate::nn::{Network, Parameter};

/// The scores of one parameter tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// The path of the parameter.
    pub path: String,
    /// The shape of the parameter.
    pub shape: Vec<usize>,
    /// One score per coordinate, row-major. Larger means more important.
    pub values: Vec<f64>,
}

/// Importance scores of all prunable coordinates of a model. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Saliency {
    method: String,
    privacy: PrivacyStatus,
    tensors: Arc<[Scores]>,
}

impl Saliency {
    pub(crate) fn new(method: &str, privacy: PrivacyStatus, tensors: Vec<Scores>) -> Self {
        Self { method: method.to_owned(), privacy, tensors: tensors.into() }
    }

    /// The scoring method, for display.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// What the scores reveal about a data set.
    pub fn privacy(&self) -> &PrivacyStatus {
        &self.privacy
    }

    /// The scores, tensor by tensor, in the order of the model's parameters.
    pub fn tensors(&self) -> &[Scores] {
        &self.tensors
    }

    /// The mask that keeps this fraction of all coordinates: those with the largest scores over all
    /// tensors.
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

    /// The mask that drops this fraction of all coordinates; see [`keep`](Self::keep).
    ///
    /// # Errors
    /// `Setting` if the rate is not in [0, 1).
    pub fn prune(&self, rate: f64) -> Result<Mask> {
        let rate = check_pruning(rate)?;
        let scores: Vec<&[f64]> = self.tensors.iter().map(|t| t.values.as_slice()).collect();
        let count = scores.iter().map(|scores| scores.len()).sum();
        let kept = top_k::keep_largest(&scores, dropped_of(rate, count));
        let method = format!("{}, {} dropped", self.method, in_percent(rate));
        self.mask(kept, method)
    }

    /// A mask with these flags (one list per tensor) and these scores.
    pub(crate) fn mask(&self, kept: Vec<Vec<bool>>, method: String) -> Result<Mask> {
        let tensors = self.tensors.iter().zip(kept).map(|(scores, kept)| MaskTensor {
            path: scores.path.clone(),
            shape: scores.shape.clone(),
            kept,
        });
        let origin = Origin::new(method, self.privacy.clone());
        Ok(Mask::with_origin(tensors.collect(), origin)?.with_saliency(self.clone()))
    }
}

/// The parameters that can be pruned: tensors of two or more dimensions, and with `include_1d` also
/// biases and normalisation parameters.
pub(crate) fn prunable(network: &Network, include_1d: bool) -> Vec<Parameter> {
    let mut all = network.parameters();
    all.retain(|parameter| include_1d || parameter.shape.len() >= 2);
    all
}
