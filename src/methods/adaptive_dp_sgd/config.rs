//! Settings of adaptive DP-SGD, checked into a plan.

use crate::Result;
use crate::data::Population;
use crate::methods::registry::{method, number};
use crate::methods::settings::private::{PrivateSettings, private_settings};
use crate::methods::settings::shared_settings;
use crate::methods::{Plan, Recipe, Settings};
use crate::privacy::NoiseSchedule;

/// DP-SGD with a noise variance that decays every epoch: each epoch has R times the variance of the
/// one before (Zhang et al., 2021). A baseline of Auto DP-SGD.
///
/// # Guarantee
/// That of [`DpSgd`](crate::methods::DpSgd) with a noise schedule: every step is accounted with its
/// own noise multiplier. The published epsilons count epochs in place of steps and are too small.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveDpSgd {
    settings: Settings,
    private: PrivateSettings,
}

/// R in the experiments of Auto DP-SGD.
const DECAY: f64 = 0.99;

/// Adaptive DP-SGD in the registry: the steps of DP-SGD.
static RECIPE: Recipe = Recipe {
    name: "adaptive-dp-sgd",
    title: "adaptive DP-SGD",
    summary: "DP-SGD whose noise variance decays every epoch (Zhang et al., 2021)",
    own_settings: &[("decay", "factor on the noise variance per epoch [default: 0.99]")],
    ..Recipe::DP_SGD
};
method!(
    AdaptiveDpSgd,
    &RECIPE,
    |method| Some(&mut method.private),
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        *self = match name {
            "decay" => self.clone().decay(number(name, value)?),
            _ => return Err(RECIPE.unknown_setting(name, value)),
        };
        Ok(())
    }
);
shared_settings!(AdaptiveDpSgd);
private_settings!(AdaptiveDpSgd);

impl Default for AdaptiveDpSgd {
    fn default() -> Self {
        Self::new()
    }
}

impl AdaptiveDpSgd {
    /// Clip norm 1, batches of 256 and 5 epochs; the variance is multiplied by 0.99 every epoch.
    /// Needs a [`target`](Self::target) or a [`noise_multiplier`](Self::noise_multiplier).
    pub fn new() -> Self {
        let private = PrivateSettings::new();
        Self { settings: Settings::default(), private }.decay(DECAY)
    }

    /// Factor on the noise variance per epoch.
    pub fn decay(self, factor: f64) -> Self {
        self.noise_schedule(NoiseSchedule::linear(factor))
    }

    /// Checks the settings against the size of the data and makes the plan, including its noise
    /// multiplier.
    ///
    /// # Errors
    /// As [`DpSgd::plan_for`](crate::methods::DpSgd::plan_for).
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let privacy = self.private.settle("AdaptiveDpSgd", &self.settings, population, &[])?;
        let learning_rate = self.private.learning_rate(&self.settings);
        Plan::new(&RECIPE, &self.settings, population, learning_rate, Some(privacy))
    }
}
