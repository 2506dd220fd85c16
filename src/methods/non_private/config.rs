//! Settings of training without privacy, checked into a plan.

use crate::Result;
use crate::data::Population;
use crate::methods::registry::method;
use crate::methods::settings::{shared_settings, sparse_settings};
use crate::methods::{Plan, Recipe, Settings};

/// Stochastic gradient descent with the sampler and optimizer of the private methods, so that a
/// comparison shows the effect of clipping and noise alone.
///
/// # Guarantee
/// None. The model may reveal any training example.
#[derive(Clone, Debug, PartialEq)]
pub struct NonPrivate {
    pub(crate) settings: Settings,
}

/// Used when no learning rate is given.
const DEFAULT_LEARNING_RATE: f64 = 0.1;

impl Default for NonPrivate {
    fn default() -> Self {
        Self::new()
    }
}

/// Training without privacy in the registry.
static RECIPE: Recipe = Recipe {
    name: "non-private",
    title: "non-private SGD",
    summary: "the same sampler and optimizer without clipping and noise",
    is_private: false,
    is_sparse: true,
    mechanism: super::mechanism::of,
    bound: |_, _| Ok(None),
    event: super::mechanism::event,
    takes_clip: false,
    ..Recipe::DP_SGD
};
method!(NonPrivate, &RECIPE, |_| None);
shared_settings!(NonPrivate);
sparse_settings!(NonPrivate);

impl NonPrivate {
    /// Batches of 256, 5 epochs, SGD with momentum 0.9 and learning rate 0.1.
    pub fn new() -> Self {
        Self { settings: Settings::default() }
    }

    /// Clips the gradient of each example to this L2 norm (`max_grad_norm`), to see what clipping
    /// alone does. Without noise there is no guarantee.
    pub fn clip(mut self, max_grad_norm: f64) -> Self {
        self.settings.clip_without_noise = Some(max_grad_norm);
        self
    }

    /// Checks the settings against the size of the data and makes the plan.
    ///
    /// # Errors
    /// `Setting` for values out of range or an augmentation that does not apply to the data.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let learning_rate = self.settings.learning_rate_or(DEFAULT_LEARNING_RATE);
        let mut settings = self.settings.clone();
        settings.sparsity = settings.sparsity.map(|s| s.calibrated(None)).transpose()?;
        Plan::new(&RECIPE, &settings, population, learning_rate, None)
    }
}
