//! Class probabilities: the softmax of the logits.

use super::argmax;
use crate::Result;
use crate::data::{Dataset, Examples};
use crate::nn::Model;

/// Prediction of a model for one example.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassPrediction {
    /// The probability of each class.
    pub(crate) probabilities: Vec<f32>,
    /// Predicted class, as of [`Model::predict`].
    pub(crate) class: u32,
    /// The softmax cross-entropy with the example's label, in nats.
    pub(crate) loss: f64,
}

impl Model {
    /// Predicts the probability of each class for every example of the test part, or of the
    /// training part if the data has no test part: the softmax of the logits. One row for each
    /// example, with a value for each class in the order of the labels; a row adds up to 1.
    ///
    /// ```
    /// # use epsilab::prelude::*;
    /// let data = data::glyphs_with(20, 5, 1)?;
    /// let model = models::linear(&data).seed(1).build()?;
    /// let probabilities = model.predict_proba(&data)?;
    /// assert_eq!((probabilities.len(), probabilities[0].len()), (5, 10));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Guarantee
    /// That of the parameters for the examples that they were trained on. The examples that are
    /// classified are read without noise: their probabilities are not private.
    ///
    /// # Errors
    /// `Model` if the shape of the examples differs from the model's, or if an example has a class
    /// or a token id that the model does not know.
    pub fn predict_proba(&self, data: &Dataset) -> Result<Vec<Vec<f32>>> {
        let part = if data.test().is_empty() { data.train() } else { data.test() };
        self.predict_proba_examples(part)
    }

    /// Predicts the probability of each class for every example, as
    /// [`predict_proba`](Self::predict_proba) does.
    ///
    /// # Errors
    /// `Model` if the shape of the examples differs from the model's, or if an example has a class
    /// or a token id that the model does not know.
    pub fn predict_proba_examples(&self, examples: &Examples) -> Result<Vec<Vec<f32>>> {
        let logits = self.all_logits(examples)?;
        Ok(logits.chunks_exact(self.classes()).map(|row| softmax(row).0).collect())
    }

    /// Computes the probabilities, class and loss of every example, from one pass over them.
    ///
    /// # Errors
    /// As [`predict_examples`](Self::predict_examples).
    pub(crate) fn predict_with_losses(&self, examples: &Examples) -> Result<Vec<ClassPrediction>> {
        let logits = self.all_logits(examples)?;
        let rows = logits.chunks_exact(self.classes()).zip(examples.labels());
        let verdict = |(row, &label): (&[f32], &u32)| {
            let (probabilities, log_sum) = softmax(row);
            let loss = log_sum - f64::from(row[label as usize]);
            ClassPrediction { probabilities, class: argmax(row), loss }
        };
        Ok(rows.map(verdict).collect())
    }

    /// Computes the logits of all examples, `[examples, classes]` row-major.
    fn all_logits(&self, examples: &Examples) -> Result<Vec<f32>> {
        if let Some(examples) = self.copy_to_device(examples)? {
            return self.logits_on(&examples);
        }
        let mut all = Vec::with_capacity(examples.len() * self.classes());
        self.logits(examples, |logits| all.extend_from_slice(logits))?;
        Ok(all)
    }
}

/// Computes the softmax of the logits, and the logarithm of the sum of their exponentials. The
/// largest logit is subtracted first, so that no exponential overflows.
fn softmax(logits: &[f32]) -> (Vec<f32>, f64) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let largest = if largest.is_finite() { f64::from(largest) } else { 0.0 };
    let powers: Vec<f64> = logits.iter().map(|&x| (f64::from(x) - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    (powers.iter().map(|power| (power / sum) as f32).collect(), largest + sum.ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::nn::models;

    #[test]
    fn the_softmax_is_right_for_small_and_for_huge_logits() {
        // e^1 / (e^1 + e^2 + e^3) = 0.09003, and so on.
        for shift in [0.0, 3e38, -3e38] {
            let row = [1.0, 2.0, 3.0].map(|x: f32| if shift == 0.0 { x } else { shift });
            let (probabilities, _) = softmax(&row);
            let expected = if shift == 0.0 { [0.09003, 0.24473, 0.66524] } else { [1.0 / 3.0; 3] };
            for (found, expected) in probabilities.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{probabilities:?}");
            }
        }
        let (_, log_sum) = softmax(&[1.0, 2.0, 3.0]);
        assert!((log_sum - 3.407_606).abs() < 1e-6, "{log_sum}");
    }

    #[test]
    fn verdicts_agree_with_predictions_and_losses() -> crate::Result<()> {
        let data = data::glyphs_with(20, 150, 4)?;
        let model = models::linear(&data).seed(2).build()?;
        let verdicts = model.predict_with_losses(data.test())?;
        let classes: Vec<u32> = verdicts.iter().map(|verdict| verdict.class).collect();
        assert_eq!(classes, model.predict(&data)?);
        for (verdict, loss) in verdicts.iter().zip(model.losses(data.test())?) {
            assert!((verdict.loss - f64::from(loss)).abs() < 1e-4, "{} {loss}", verdict.loss);
        }
        let all = model.predict_proba(&data)?;
        assert_eq!(all.len(), 150);
        for (row, label) in all.iter().zip(data.test().labels()) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            assert!(row[*label as usize] > 0.0);
        }
        // Without a test part, the training part.
        assert_eq!(model.predict_proba(&data::glyphs_with(7, 0, 4)?)?.len(), 7);
        Ok(())
    }
}
