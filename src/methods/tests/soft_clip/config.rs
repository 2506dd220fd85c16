//! Settings of the example, checked into a plan.

use crate::Result;
use crate::data::Population;
use crate::engine::ClipRule;
use crate::methods::registry::method;
use crate::methods::settings::private::{PrivateSettings, private_settings};
use crate::methods::settings::shared_settings;
use crate::methods::{Plan, Recipe, Settings};
use crate::privacy::{Neighbouring, NoiseSchedule};

/// SGD with soft clipping: each gradient g becomes g · C/√(C² + ‖g‖²). The noise of the first half
/// of the run is twice that of the second half.
///
/// # Guarantee
/// Neighbours: one example added or removed. Each step is a Gaussian mechanism of sensitivity
/// `clip` on a Poisson sample.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftClipSgd {
    settings: Settings,
    private: PrivateSettings,
}

/// The example in the registry.
static RECIPE: Recipe = Recipe {
    name: "soft-clip",
    title: "soft-clip SGD",
    summary: "SGD with soft clipping, an example",
    mechanism: super::mechanism::of,
    bound: super::mechanism::bound,
    event: super::mechanism::event,
    ..Recipe::DP_SGD
};
method!(SoftClipSgd, &RECIPE, |method| Some(&mut method.private));
shared_settings!(SoftClipSgd);
private_settings!(SoftClipSgd);

impl Default for SoftClipSgd {
    fn default() -> Self {
        Self { settings: Settings::default(), private: PrivateSettings::new() }
    }
}

impl SoftClipSgd {
    /// Checks the settings against the size of the data and makes the plan.
    ///
    /// # Errors
    /// As [`DpSgd::plan_for`](crate::methods::DpSgd::plan_for).
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let mut private = self.private.clone();
        let clip = private.clip_rule().sensitivity(Neighbouring::AddOrRemoveOne);
        private.set_clip_rule(ClipRule::flat(clip));
        let epochs = (self.settings.epochs / 2.0).ceil().max(1.0) as u64;
        private.set_noise_schedule(NoiseSchedule::piecewise([(epochs, 2.0), (1, 1.0)]));
        let privacy = private.settle("SoftClipSgd", &self.settings, population, &[])?;
        Plan::new(&RECIPE, &self.settings, population, 0.1, Some(privacy))
    }
}
