//! The settings that private methods share: clip norm, noise multiplier or target, delta.

use crate::data::Dataset;
use crate::engine::ClipRule;
use crate::methods::settings::steps_of;
use crate::methods::{Privacy, Settings};
use crate::privacy::{
    Delta, Epsilon, Event, Headline, NoiseMultiplier, SamplingRate, noise_multiplier_given_prior,
};
use crate::{Error, ErrorKind, Result};

/// The delta of the reported epsilon where only a noise multiplier is given.
const DEFAULT_DELTA: Delta = Delta(1e-5);
/// Default of the learning rate times the clip norm. Where most examples are clipped, this product
/// decides the length of a step.
const LEARNING_RATE_TIMES_CLIP: f64 = 0.4;

/// The settings that only private methods have, as given: [`settle`](Self::settle) checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivateSettings {
    pub(crate) clip: f64,
    pub(crate) target: Option<Epsilon>,
    pub(crate) noise_multiplier: Option<NoiseMultiplier>,
    pub(crate) delta: Option<Delta>,
}

impl PrivateSettings {
    pub(super) const NEW: Self =
        Self { clip: 1.0, target: None, noise_multiplier: None, delta: None };

    /// Sets the clip norm.
    pub fn set_clip(&mut self, max_grad_norm: f64) {
        self.clip = max_grad_norm;
    }

    /// Sets the guarantee to reach.
    pub fn target(&mut self, epsilon: Epsilon, delta: Delta) {
        self.target = Some(epsilon);
        self.delta = Some(delta);
    }

    /// The delta that epsilon is reported at.
    pub(super) fn delta(&self) -> Result<Delta> {
        self.delta.unwrap_or(DEFAULT_DELTA).check()
    }

    /// The total that the run may spend, if a target was given.
    pub(super) fn total(&self) -> Result<Option<(Epsilon, Delta)>> {
        self.target.map(|epsilon| Ok((epsilon.check()?, self.delta()?))).transpose()
    }

    /// Clip rule, noise multiplier and delta of training. `beside` are the other releases that the
    /// run's result depends on; a target is for all of them together.
    ///
    /// # Errors
    /// Kind `Setting` for values out of range, and unless exactly one of target and noise
    /// multiplier is given; kind `Accounting` if no noise multiplier reaches the target.
    pub(super) fn settle(
        &self,
        method: &str,
        settings: &Settings,
        data: &Dataset,
        beside: &[Event],
    ) -> Result<Privacy> {
        let examples = data.train().len();
        let clip = self.checked_clip()?;
        let steps = steps_of(settings, examples)?;
        let sampling_rate = SamplingRate(settings.expected_batch_size as f64 / examples as f64);
        let delta = self.delta()?;
        let noise_multiplier = match (self.target, self.noise_multiplier) {
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::Setting,
                    format!("{method} has neither a target nor a noise multiplier"),
                    "the amount of noise decides the guarantee and has no safe default",
                )
                .fix("add .target(Epsilon(3.0), Delta(1e-5)) or .noise_multiplier(1.1)"));
            }
            (Some(epsilon), Some(NoiseMultiplier(multiplier))) => {
                return Err(Error::new(
                    ErrorKind::Setting,
                    format!(
                        "{method} has both a target, epsilon {epsilon}, and a noise multiplier, \
                         {multiplier}"
                    ),
                    "each of them decides the amount of noise",
                )
                .fix(format!(
                    "leave out .noise_multiplier({multiplier}) to reach the target, or .target(…) \
                     and give its delta by .delta({delta})"
                )));
            }
            (Some(epsilon), None) => {
                let accountant = Headline::default();
                let found = noise_multiplier_given_prior(
                    beside,
                    epsilon,
                    delta,
                    sampling_rate,
                    steps,
                    &accountant,
                )?;
                found.noise_multiplier.0
            }
            (None, Some(noise_multiplier)) => noise_multiplier.check()?.0,
        };
        Ok(Privacy { clip, noise_multiplier, delta, target: self.target })
    }

    /// The given learning rate, or the default for the clip norm.
    pub(super) fn learning_rate(&self, settings: &Settings) -> f64 {
        settings.learning_rate.unwrap_or(LEARNING_RATE_TIMES_CLIP / self.clip)
    }

    fn checked_clip(&self) -> Result<ClipRule> {
        if self.clip.is_finite() && self.clip > 0.0 {
            let rule = ClipRule::flat(self.clip);
            return rule.check().map(|()| rule);
        }
        Err(Error::setting("clip", self.clip, "the clip norm bounds one example's influence")
            .fix("choose a positive number, usually between 0.1 and 10"))
    }
}

/// Writes the builder methods of a private method, which keeps [`PrivateSettings`] in `private`.
macro_rules! private_settings {
    ($method:ty) => {
        impl $method {
            /// The guarantee to reach: the noise multiplier is the smallest that the accountant
            /// proves. Giving a noise multiplier too is an error.
            pub fn target(
                mut self,
                epsilon: $crate::privacy::Epsilon,
                delta: $crate::privacy::Delta,
            ) -> Self {
                self.private.target(epsilon, delta);
                self
            }

            /// Standard deviation of the noise on the sum, as a multiple of the clip norm; instead
            /// of a target. Epsilon is then reported at delta = 1e-5 unless
            /// [`delta`](Self::delta) says otherwise.
            pub fn noise_multiplier(mut self, noise_multiplier: f64) -> Self {
                let multiplier = $crate::privacy::NoiseMultiplier(noise_multiplier);
                self.private.noise_multiplier = Some(multiplier);
                self
            }

            /// The delta that epsilon is reported at.
            pub fn delta(mut self, delta: $crate::privacy::Delta) -> Self {
                self.private.delta = Some(delta);
                self
            }

            /// Clip norm: the largest L2 norm of one example's gradient (`max_grad_norm`).
            pub fn clip(mut self, max_grad_norm: f64) -> Self {
                self.private.clip = max_grad_norm;
                self
            }
        }
    };
}
pub(crate) use private_settings;
