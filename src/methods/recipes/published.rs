//! Recipes of papers, at their own scale and at that of other data.

use crate::Result;
use crate::data::{Dataset, Population};
use crate::methods::{Method, Plan, Scaled};
use crate::privacy::Delta;
use crate::privacy::digits::{RoundedNearest, format_count};

/// The settings of a paper for one data set.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRecipe<M> {
    method: M,
    data: &'static str,
    examples: usize,
}

impl<M: Method + Clone> PublishedRecipe<M> {
    pub(super) fn new(method: M, data: &'static str, examples: usize) -> Self {
        Self { method, data, examples }
    }

    /// Returns the method with the settings of the paper.
    pub fn method(&self) -> M {
        self.method.clone()
    }

    /// Returns the number of training examples of the paper's data set.
    pub fn examples(&self) -> usize {
        self.examples
    }

    /// Returns the training examples of the paper's data set, without the data.
    pub fn population(&self) -> Population {
        Population::with_size(self.examples)
    }

    /// Returns the plan of the paper, for as many examples as it had.
    ///
    /// # Errors
    /// `Setting` for values out of range; `Accounting` if a target can't be reached.
    pub fn plan(&self) -> Result<Plan> {
        self.method.plan_for(&self.population())
    }

    /// Returns the recipe for these data, which are usually smaller.
    ///
    /// The batch size becomes the same fraction of the examples, so that sampling rate, number of
    /// steps and schedules stay as they are, and epsilon is the same at the same noise multiplier
    /// and delta. Delta grows with 1 / examples, rounded down to a power of ten, if the data are
    /// smaller.
    ///
    /// # Guarantee
    /// As the method. What shrinking costs is accuracy: at the same noise multiplier, the noise of
    /// the mean gradient is larger by the factor that the batch is smaller.
    pub fn scaled_to(&self, data: &Dataset) -> Scaled<M> {
        let (from, to) = (self.examples, data.train().len());
        let ratio = to as f64 / from as f64;
        let mut method = self.method.clone();
        let mut changes = Vec::new();
        let batch = &mut method.settings_mut().expected_batch_size;
        let smaller = ((*batch as f64 * ratio).round() as usize).max(1);
        if smaller != *batch {
            changes.push(format!(
                "batch size {} instead of {}: the same fraction of the examples, {}, in the same \
                 number of steps",
                format_count(smaller),
                format_count(*batch),
                RoundedNearest(*batch as f64 / from as f64)
            ));
        }
        *batch = smaller;
        let noise = 1.0 / ratio;
        if let Some(private) = method.privacy_settings_mut() {
            if let Some(delta) = private.delta.filter(|_| ratio < 1.0) {
                // Powers of ten, so that the result is the number that one would write.
                let larger = 10f64.powf((delta.0 / ratio).log10().floor());
                if larger > delta.0 * (1.0 + 1e-9) {
                    private.delta = Some(Delta(larger));
                    changes.push(format!(
                        "delta {} instead of {}: there are {} examples instead of {}",
                        Delta(larger),
                        delta,
                        format_count(to),
                        format_count(from)
                    ));
                }
            }
            if noise > 1.0 {
                changes.push(format!(
                    "rates and schedules as for {}; at the same noise multiplier the noise of the \
                     mean gradient is {noise:.0} times as large, so a smaller learning rate may be \
                     better",
                    self.data
                ));
            }
        }
        Scaled { scaled: method, changes }
    }
}
