//! Settings of dynamic DP-SGD, checked into a plan.

use crate::Result;
use crate::data::Population;
use crate::methods::registry::{method, number};
use crate::methods::settings::private::{PrivateSettings, private_settings};
use crate::methods::settings::shared_settings;
use crate::methods::{Plan, Recipe, Settings};
use crate::privacy::{ClipSchedule, NoiseSchedule};

/// DP-SGD whose clip norm and noise multiplier decay exponentially in every step (Du, Li, Chen,
/// Chen, Hong: Dynamic Differential-Privacy Preserving SGD, 2021). A baseline of Auto DP-SGD, whose
/// text does not state the two ratios.
///
/// # Guarantee
/// That of [`DpSgd`](crate::methods::DpSgd) with public schedules of noise and clip norm: every
/// step is accounted with its own noise multiplier. The published epsilons are those of a central
/// limit theorem, which are too small.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicDpSgd {
    settings: Settings,
    private: PrivateSettings,
}

/// Last noise multiplier over the first one, our choice.
const NOISE_RATIO: f64 = 0.7;
/// Last clip norm over the first one, our choice.
const CLIP_RATIO: f64 = 0.5;

/// dynamic DP-SGD in the registry: the steps of DP-SGD.
static RECIPE: Recipe = Recipe {
    name: "dynamic-dp-sgd",
    title: "dynamic DP-SGD",
    summary: "DP-SGD whose clip norm and noise multiplier decay in every step (Du et al., 2021)",
    own_settings: &[
        ("noise-ratio", "last noise multiplier over the first one [default: 0.7]"),
        ("clip-ratio", "last clip norm over the first one [default: 0.5]"),
    ],
    ..Recipe::DP_SGD
};
method!(
    DynamicDpSgd,
    &RECIPE,
    |method| Some(&mut method.private),
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        *self = match name {
            "noise-ratio" => self.clone().noise_ratio(number(name, value)?),
            "clip-ratio" => self.clone().clip_ratio(number(name, value)?),
            _ => return Err(RECIPE.unknown_setting(name, value)),
        };
        Ok(())
    }
);
shared_settings!(DynamicDpSgd);
private_settings!(DynamicDpSgd);

impl Default for DynamicDpSgd {
    fn default() -> Self {
        Self::new()
    }
}

impl DynamicDpSgd {
    /// Clip norm 1 at first, batches of 256 and 5 epochs; noise and clip norm decay to 0.7 and 0.5
    /// of their first values. Needs a [`target`](Self::target) or a
    /// [`noise_multiplier`](Self::noise_multiplier).
    pub fn new() -> Self {
        let private = PrivateSettings::new();
        Self { settings: Settings::default(), private }
            .noise_ratio(NOISE_RATIO)
            .clip_ratio(CLIP_RATIO)
    }

    /// The last noise multiplier over the first one.
    pub fn noise_ratio(self, ratio: f64) -> Self {
        self.noise_schedule(NoiseSchedule::decay(ratio))
    }

    /// The last clip norm over the first one.
    pub fn clip_ratio(self, ratio: f64) -> Self {
        self.clip_schedule(ClipSchedule::decay(ratio))
    }

    /// Checks the settings against the size of the data and makes the plan, including its noise
    /// multiplier.
    ///
    /// # Errors
    /// As [`DpSgd::plan_for`](crate::methods::DpSgd::plan_for).
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let privacy = self.private.settle("DynamicDpSgd", &self.settings, population, &[])?;
        let learning_rate = self.private.learning_rate(&self.settings);
        Plan::new(&RECIPE, &self.settings, population, learning_rate, Some(privacy))
    }
}
