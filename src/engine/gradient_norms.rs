//! [`GradientNorms`]: norms of single examples' gradients at fixed parameters.

use serde::{Deserialize, Serialize};

use super::{AutoExecutor, Batch, ClipRule, Executor};
use crate::data::Examples;
use crate::nn::Model;
use crate::{Error, ErrorKind, Result};

/// Examples of one batch.
const BATCH: usize = 4096;

/// L2 norms of the gradients of single examples before clipping, over all parameters.
///
/// # Guarantee
/// None: computed from the examples without noise. The figure is marked
/// [`NOT_COVERED`](crate::show::NOT_COVERED) unless [`private`](Self::private) is false.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientNorms {
    /// Norms of the gradients, one per example, in their order; NaN where loss or gradient is not
    /// finite, or the file can't be read.
    pub norms: Vec<f32>,
    /// Clip norm to compare the norms with.
    pub clip: Option<f64>,
    /// Whether the examples are private.
    pub private: bool,
}

impl GradientNorms {
    /// Measures the norms at the model's parameters.
    ///
    /// # Guarantee
    /// None (see the type): do not publish the result, and choose no setting of a private run by
    /// it.
    ///
    /// # Errors
    /// `MissingData` without examples; `Model` if they do not fit the model.
    pub(crate) fn measure(model: &Model, examples: &Examples) -> Result<Self> {
        if examples.is_empty() {
            let what = "the gradient norms of no examples";
            return Err(Error::new(
                ErrorKind::MissingData,
                what,
                "there are no examples to measure",
            )
            .fix("pass examples, such as data.train()"));
        }
        let executor = AutoExecutor::default();
        let ids: Vec<u32> = (0..examples.len() as u32).collect();
        let mut norms = Vec::with_capacity(ids.len());
        for ids in ids.chunks(BATCH) {
            let batch = Batch::from_examples(examples, ids)?;
            let sum = executor.clipped_sum(model.network(), &batch, &ClipRule::flat(1.0))?;
            norms.extend(sum.norms.iter());
        }
        Ok(Self { norms, clip: None, private: true })
    }

    /// Sets a clip norm to compare the norms with.
    pub fn with_clip(self, clip: f64) -> Self {
        Self { clip: Some(clip), ..self }
    }

    /// Declares that the examples are public.
    pub fn assumed_public(self) -> Self {
        Self { private: false, ..self }
    }

    /// Returns the fraction of examples whose gradient norm exceeds the clip norm, if there is
    /// one.
    pub(crate) fn clipped_fraction(&self) -> Option<f64> {
        let clip = self.clip?;
        let longer = self.norms.iter().filter(|&&norm| f64::from(norm) > clip).count();
        Some(longer as f64 / self.norms.len().max(1) as f64)
    }

    /// Returns the norm below which this fraction of the finite norms lies; `None` without finite
    /// norms.
    pub fn quantile(&self, fraction: f64) -> Option<f64> {
        quantile(&self.norms, fraction)
    }
}

/// Returns the quantile of the finite norms; `None` if there are none.
pub(super) fn quantile(norms: &[f32], fraction: f64) -> Option<f64> {
    let mut finite: Vec<f32> = norms.iter().copied().filter(|norm| norm.is_finite()).collect();
    finite.sort_by(f32::total_cmp);
    let at = (fraction.clamp(0.0, 1.0) * finite.len().saturating_sub(1) as f64).round() as usize;
    finite.get(at).map(|&norm| f64::from(norm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::engine::ReferenceExecutor;
    use crate::nn::models;

    #[test]
    fn norms_are_those_of_the_reference_and_shares_are_counted() -> Result<()> {
        let data = data::glyphs_with(40, 5, 3)?;
        let model = models::mlp(&data, &[8]).seed(2).build()?;
        let measured = GradientNorms::measure(&model, data.train())?;
        let ids: Vec<u32> = (0..data.train().len() as u32).collect();
        let batch = Batch::from_examples(data.train(), &ids)?;
        let rule = ClipRule::unclipped();
        let reference = ReferenceExecutor.clipped_sum(model.network(), &batch, &rule)?;
        for (norm, expected) in measured.norms.iter().zip(reference.norms.iter()) {
            assert!((norm / expected - 1.0).abs() < 1e-4, "{norm} {expected}");
        }
        assert_eq!(measured.norms.len(), data.train().len());
        let median = measured.quantile(0.5).expect("finite");
        let share = measured.clone().with_clip(median).clipped_fraction().expect("a share");
        assert!((share - 0.5).abs() < 0.05, "{share}");
        assert_eq!(measured.clipped_fraction(), None);
        assert!(GradientNorms::measure(&model, &data.train().take(0)).is_err());
        Ok(())
    }

    #[test]
    fn a_norm_that_is_not_finite_is_not_counted() {
        let norms = vec![1.0, f32::NAN, 3.0, 2.0];
        let norms = GradientNorms { norms, clip: Some(2.5), private: true };
        assert_eq!((norms.clipped_fraction(), norms.quantile(1.0)), (Some(0.25), Some(3.0)));
        let none = GradientNorms { norms: vec![f32::NAN], clip: None, private: true };
        assert_eq!(none.quantile(0.5), None);
    }
}
