//! Settings of DP-SGD, checked into a plan.

use crate::data::Dataset;
use crate::engine::ClipRule;
use crate::methods::plan::{shared_settings, steps_of};
use crate::methods::{Plan, Privacy, Settings};
use crate::privacy::{
    Delta, Epsilon, Headline, NoiseMultiplier, SamplingRate, noise_multiplier_for,
};
use crate::{Error, Result};

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
/// (epsilon, delta)-differential privacy of everything a run releases (the model after every
/// step), for data sets that differ by adding or removing one training example; each step has
/// sensitivity `clip`. Assumes that the size of the training part and all settings are public.
#[derive(Clone, Debug, PartialEq)]
pub struct DpSgd {
    pub(crate) settings: Settings,
    clip: f64,
    noise: Noise,
    delta: Option<Delta>,
}

/// How the noise is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Noise {
    /// Neither a target nor a multiplier was given.
    Unset,
    Target(Epsilon),
    Multiplier(NoiseMultiplier),
}

/// What the reported epsilon holds for when only a noise multiplier is given.
const DEFAULT_DELTA: Delta = Delta(1e-5);
/// Learning rate times clip norm: what decides the length of a step when most examples are
/// clipped. Used when no learning rate is given.
const LEARNING_RATE_TIMES_CLIP: f64 = 0.4;

impl Default for DpSgd {
    fn default() -> Self {
        Self::new()
    }
}

shared_settings!(DpSgd);

impl DpSgd {
    /// DP-SGD with clip norm 1, batches of 256 and 5 epochs; give it a [`target`](Self::target)
    /// or a [`noise_multiplier`](Self::noise_multiplier).
    pub fn new() -> Self {
        Self { settings: Settings::default(), clip: 1.0, noise: Noise::Unset, delta: None }
    }

    /// The guarantee to reach: the noise multiplier is the smallest that the accountant proves.
    pub fn target(mut self, epsilon: Epsilon, delta: Delta) -> Self {
        self.noise = Noise::Target(epsilon);
        self.delta = Some(delta);
        self
    }

    /// The noise on the sum, as a multiple of the clip norm, instead of a target. Epsilon is then
    /// reported at delta = 1e-5 unless [`delta`](Self::delta) says otherwise.
    pub fn noise_multiplier(mut self, noise_multiplier: f64) -> Self {
        self.noise = Noise::Multiplier(NoiseMultiplier(noise_multiplier));
        self
    }

    /// The delta that epsilon is reported at.
    pub fn delta(mut self, delta: Delta) -> Self {
        self.delta = Some(delta);
        self
    }

    /// Clip norm: the L2 length that one example's gradient is cut to (`max_grad_norm`).
    pub fn clip(mut self, max_grad_norm: f64) -> Self {
        self.clip = max_grad_norm;
        self
    }

    /// Checks the settings against the data and fixes the plan, noise included.
    ///
    /// # Errors
    /// `Setting` for values out of range or an augmentation that does not suit the data;
    /// `Accounting` if no noise multiplier reaches the target.
    pub fn plan(&self, data: &Dataset) -> Result<Plan> {
        let examples = data.train().len();
        let clip = self.checked_clip()?;
        let steps = steps_of(&self.settings, examples)?;
        let sampling_rate = self.settings.expected_batch_size as f64 / examples as f64;
        let delta = self.delta.unwrap_or(DEFAULT_DELTA).check()?;
        let (noise_multiplier, target) = match self.noise {
            Noise::Unset => {
                return Err(Error::new(
                    crate::ErrorKind::Setting,
                    "DpSgd has neither a target nor a noise multiplier",
                    "the amount of noise decides the guarantee and has no safe default",
                )
                .fix("add .target(Epsilon(3.0), Delta(1e-5)) or .noise_multiplier(1.1)"));
            }
            Noise::Target(epsilon) => {
                let found = noise_multiplier_for(
                    epsilon,
                    delta,
                    SamplingRate(sampling_rate),
                    steps,
                    &Headline::default(),
                )?;
                (found.noise_multiplier.0, Some(epsilon))
            }
            Noise::Multiplier(noise_multiplier) => (noise_multiplier.check()?.0, None),
        };
        let learning_rate =
            self.settings.learning_rate.unwrap_or(LEARNING_RATE_TIMES_CLIP / self.clip);
        let privacy = Privacy { clip, noise_multiplier, delta, target };
        Plan::new("DP-SGD", &self.settings, data.train(), learning_rate, Some(privacy))
    }

    fn checked_clip(&self) -> Result<ClipRule> {
        if self.clip.is_finite() && self.clip > 0.0 {
            return Ok(ClipRule::flat(self.clip));
        }
        Err(Error::setting("clip", self.clip, "the clip norm bounds one example's influence")
            .fix("choose a positive number, usually between 0.1 and 10"))
    }
}
