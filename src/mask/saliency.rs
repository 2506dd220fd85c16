//! Saliencies: one score per coordinate, and the masks they make.

use std::sync::Arc;

use super::covered::{Covered, Origin};
use super::rank;
use super::rate::{check_pruning, dropped_of, in_percent};
use super::{Kept, Mask};
use crate::Result;
use crate::nn::{Network, Parameter};

/// The scores of one parameter tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// The parameter, by its path.
    pub path: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// One score per coordinate, row-major; the larger, the more it matters.
    pub values: Vec<f64>,
}

/// How much each coordinate matters, by some rule. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Saliency {
    how: String,
    covered: Covered,
    tensors: Arc<[Scores]>,
}

impl Saliency {
    pub(crate) fn new(how: &str, covered: Covered, tensors: Vec<Scores>) -> Self {
        Self { how: how.to_owned(), covered, tensors: tensors.into() }
    }

    /// The rule, in words.
    pub fn how(&self) -> &str {
        &self.how
    }

    /// Whether looking at the scores reveals anything about a data set.
    pub fn covered(&self) -> &Covered {
        &self.covered
    }

    /// The scores, tensor by tensor, in the order of the model's parameters.
    pub fn tensors(&self) -> &[Scores] {
        &self.tensors
    }

    /// The mask that keeps this share of all coordinates: the largest scores over all tensors,
    /// ties broken by index, at least one coordinate in each tensor. Post-processing: it reveals
    /// no more than the scores.
    ///
    /// # Errors
    /// Kind `Setting` for a share that is not in (0, 1].
    pub fn keep(&self, share: f64) -> Result<Mask> {
        self.prune(1.0 - share)
    }

    /// The mask that drops this share, as [`keep`](Self::keep).
    ///
    /// # Errors
    /// Kind `Setting` for a rate that is not in [0, 1).
    pub fn prune(&self, rate: f64) -> Result<Mask> {
        let rate = check_pruning(rate)?;
        let scores: Vec<&[f64]> = self.tensors.iter().map(|t| t.values.as_slice()).collect();
        let count = scores.iter().map(|scores| scores.len()).sum();
        let kept = rank::keep_largest(&scores, dropped_of(rate, count), None);
        let how = format!("{}, {} dropped", self.how, in_percent(rate));
        self.mask(kept, how)
    }

    /// The mask of these flags, with these scores.
    pub(crate) fn mask(&self, kept: Vec<Vec<bool>>, how: String) -> Result<Mask> {
        let tensors = self.tensors.iter().zip(kept).map(|(scores, kept)| Kept {
            path: scores.path.clone(),
            shape: scores.shape.clone(),
            kept,
        });
        let origin = Origin::new(how, self.covered.clone());
        Ok(Mask::made(tensors.collect(), origin)?.with_saliency(self.clone()))
    }
}

/// The parameters that masks are about unless told otherwise: weight tensors, of two or more
/// dimensions. Biases and the factors of normalisation stay trained.
pub(crate) fn prunable(network: &Network, include_1d: bool) -> Vec<Parameter> {
    let mut all = network.parameters();
    all.retain(|parameter| include_1d || parameter.shape.len() >= 2);
    all
}
