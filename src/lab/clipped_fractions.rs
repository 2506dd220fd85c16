//! Fractions of examples that the clips of backpropagation clipping scale down.

use crate::Result;
use crate::data::Dataset;
use crate::engine::{Batch, ClippedFractions};
use crate::nn::Model;
use crate::train::Run;

/// Largest number of examples. The standard error of a fraction is at most 1.1 %.
const MOST_EXAMPLES: usize = 2_000;

impl Model {
    /// Returns the fractions of training examples whose input and upstream gradient the clips of
    /// each layer scale down, at the current parameters. Up to 2,000 examples are used, at even
    /// distances in the training part, without augmentation.
    ///
    /// # Guarantee
    /// None: computed from private examples without noise. Do not publish the result.
    ///
    /// # Errors
    /// `Model` for a model without the clips of backpropagation clipping, or for other data than it
    /// takes; `Setting` if there are no examples; errors of reading them.
    pub fn clipped_fractions(&self, data: &Dataset) -> Result<ClippedFractions> {
        let n = data.train().len();
        let most = n.min(MOST_EXAMPLES);
        let ids: Vec<u32> = (0..most).map(|i| (i * n / most) as u32).collect();
        ClippedFractions::measure(self.network(), &Batch::from_examples(data.train(), &ids)?)
    }
}

impl Run {
    /// Measures the [`Model::clipped_fractions`] of the model of a finished run of
    /// [`BackpropClip`](crate::methods::BackpropClip).
    ///
    /// # Guarantee
    /// None: computed from private examples without noise. Do not publish the result.
    ///
    /// # Errors
    /// `Model` for a run of another method, or for other data than the model takes; `Setting` if
    /// there are no examples; errors of reading them.
    pub fn clipped_fractions(&self, data: &Dataset) -> Result<ClippedFractions> {
        self.model().clipped_fractions(data)
    }
}
