//! What private methods have in common: clip norm, noise or target, delta.

use crate::data::Dataset;
use crate::engine::ClipRule;
use crate::methods::settings::steps_of;
use crate::methods::{Privacy, Settings};
use crate::privacy::{
    Delta, Epsilon, Event, Headline, NoiseMultiplier, SamplingRate, noise_multiplier_given_prior,
};
use crate::{Error, ErrorKind, Result};

/// What the reported epsilon holds for when only a noise multiplier is given.
const DEFAULT_DELTA: Delta = Delta(1e-5);
/// Learning rate times clip norm: what decides the length of a step when most examples are
/// clipped. Used when no learning rate is given.
const LEARNING_RATE_TIMES_CLIP: f64 = 0.4;

/// How much noise, and what it is measured against.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Private {
    pub(super) clip: f64,
    pub(super) noise: Noise,
    pub(super) delta: Option<Delta>,
}

/// How the noise is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Noise {
    /// Neither a target nor a multiplier was given.
    Unset,
    Target(Epsilon),
    Multiplier(NoiseMultiplier),
}

impl Private {
    pub(super) const NEW: Self = Self { clip: 1.0, noise: Noise::Unset, delta: None };

    /// The delta that epsilon is reported at.
    pub(super) fn delta(&self) -> Result<Delta> {
        self.delta.unwrap_or(DEFAULT_DELTA).check()
    }

    /// The total that the run may spend, if a target was given.
    pub(super) fn total(&self) -> Result<Option<(Epsilon, Delta)>> {
        match self.noise {
            Noise::Target(epsilon) => Ok(Some((epsilon.check()?, self.delta()?))),
            _ => Ok(None),
        }
    }

    /// Noise and clip of training, beside what else the run's result depends on.
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
        let (noise_multiplier, target) = match self.noise {
            Noise::Unset => {
                return Err(Error::new(
                    ErrorKind::Setting,
                    format!("{method} has neither a target nor a noise multiplier"),
                    "the amount of noise decides the guarantee and has no safe default",
                )
                .fix("add .target(Epsilon(3.0), Delta(1e-5)) or .noise_multiplier(1.1)"));
            }
            Noise::Target(epsilon) => {
                let accountant = Headline::default();
                let found = noise_multiplier_given_prior(
                    beside,
                    epsilon,
                    delta,
                    sampling_rate,
                    steps,
                    &accountant,
                )?;
                (found.noise_multiplier.0, Some(epsilon))
            }
            Noise::Multiplier(noise_multiplier) => (noise_multiplier.check()?.0, None),
        };
        Ok(Privacy { clip, noise_multiplier, delta, target })
    }

    /// The learning rate that was given, or one that suits the clip norm.
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

/// Writes the builder methods of a private method, which keeps a [`Private`] in `private`.
macro_rules! private_settings {
    ($method:ty) => {
        impl $method {
            /// The guarantee to reach: the noise multiplier is the smallest that the accountant
            /// proves.
            pub fn target(
                mut self,
                epsilon: $crate::privacy::Epsilon,
                delta: $crate::privacy::Delta,
            ) -> Self {
                self.private.noise = $crate::methods::private::Noise::Target(epsilon);
                self.private.delta = Some(delta);
                self
            }

            /// The noise on the sum, as a multiple of the clip norm, instead of a target. Epsilon
            /// is then reported at delta = 1e-5 unless [`delta`](Self::delta) says otherwise.
            pub fn noise_multiplier(mut self, noise_multiplier: f64) -> Self {
                let multiplier = $crate::privacy::NoiseMultiplier(noise_multiplier);
                self.private.noise = $crate::methods::private::Noise::Multiplier(multiplier);
                self
            }

            /// The delta that epsilon is reported at.
            pub fn delta(mut self, delta: $crate::privacy::Delta) -> Self {
                self.private.delta = Some(delta);
                self
            }

            /// Clip norm: the L2 length that one example's gradient is cut to (`max_grad_norm`).
            pub fn clip(mut self, max_grad_norm: f64) -> Self {
                self.private.clip = max_grad_norm;
                self
            }
        }
    };
}
pub(crate) use private_settings;
