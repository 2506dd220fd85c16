//! Settings of DP-SGD, checked into a plan.

use crate::Result;
use crate::data::Population;
use crate::mask::{Dropping, PrePrune};
use crate::methods::registry::method;
use crate::methods::settings::private::{PrivateSettings, private_settings};
use crate::methods::settings::shared_settings;
use crate::methods::{DpSsgd, Plan, Recipe, Settings};

/// Differentially private stochastic gradient descent (Abadi et al., 2016).
///
/// ```
/// use epsilab::prelude::*;
/// let plan = DpSgd::new()
///     .target(Epsilon(3.0), Delta(1e-5))
///     .clip(1.0)
///     .batch_size(256)
///     .epochs(5);
/// ```
///
/// # Guarantee
/// (epsilon, delta)-differential privacy of all releases of a run (the model after every step), for
/// neighbours that differ by one added or removed training example. Each step has sensitivity
/// `clip`. The size of the training part and all settings are assumed to be public.
#[derive(Clone, Debug, PartialEq)]
pub struct DpSgd {
    pub(crate) settings: Settings,
    pub(in crate::methods) private: PrivateSettings,
}

impl Default for DpSgd {
    fn default() -> Self {
        Self::new()
    }
}

/// DP-SGD in the registry.
static RECIPE: Recipe = Recipe::DP_SGD;
method!(DpSgd, &RECIPE, |method| Some(&mut method.private));
shared_settings!(DpSgd);
private_settings!(DpSgd);

impl DpSgd {
    /// DP-SGD with clip norm 1, batches of 256 and 5 epochs; give it a [`target`](Self::target)
    /// or a [`noise_multiplier`](Self::noise_multiplier).
    pub fn new() -> Self {
        Self { settings: Settings::default(), private: PrivateSettings::new() }
    }

    /// DP-SSGD with these settings and a mask, as [`DpSsgd::pre_prune`].
    pub fn pre_prune(self, mask: impl Into<PrePrune>) -> DpSsgd {
        DpSsgd::from(self).pre_prune(mask)
    }

    /// DP-SSGD with these settings and gradient dropping, as [`DpSsgd::drop_gradients`].
    pub fn drop_gradients(self, dropping: Dropping) -> DpSsgd {
        DpSsgd::from(self).drop_gradients(dropping)
    }

    /// Checks the settings against the size of the data and makes the plan, including its noise
    /// multiplier.
    ///
    /// # Errors
    /// `Setting` for values out of range, unless exactly one of target and noise multiplier is
    /// given, or for an augmentation that does not apply to the data; `Accounting` if no noise
    /// multiplier reaches the target.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let privacy = self.private.settle("DpSgd", &self.settings, population, &[])?;
        let learning_rate = self.private.learning_rate(&self.settings);
        Plan::new(&RECIPE, &self.settings, population, learning_rate, Some(privacy))
    }
}
