//! The settings that private methods share: clip norm, noise multiplier or target, delta.

use super::setting_spec::settings;
use super::{Scope, step_count};
use crate::data::Population;
use crate::engine::ClipRule;
use crate::methods::builder::{Clip, Noise};
use crate::methods::{Builder, Privacy, Settings};
use crate::privacy::{
    ClipSchedule, Delta, Epsilon, Event, NeighbouringRelation, NoiseMultiplier, NoiseSchedule,
    Stages, TightestAccountant, Trials, noise_multiplier_for_events,
};
use crate::{Error, ErrorKind, Result};

/// The clip norm where none is given.
const DEFAULT_CLIP: f64 = 1.0;
/// Default of the learning rate times the clip norm. Where most examples are clipped, this product
/// decides the length of a step.
const LEARNING_RATE_TIMES_CLIP: f64 = 0.4;

/// The settings that only private methods have, as given; making a plan checks them.
///
/// The defaults are flat clipping at norm 1, without noise multiplier and target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrivacySettings {
    pub(crate) clip: Option<f64>,
    pub(crate) clip_rule: Option<ClipRule>,
    pub(crate) noise_schedule: NoiseSchedule,
    pub(crate) clip_schedule: ClipSchedule,
    pub(crate) target: Option<Epsilon>,
    pub(crate) noise_multiplier: Option<NoiseMultiplier>,
    pub(crate) delta: Option<Delta>,
    /// Distribution of the number of trials, if a target is for the best of all trials together,
    /// not for one run.
    pub(crate) selection_trials: Option<Trials>,
}

impl PrivacySettings {
    /// Sets the clip norm of flat clipping, and removes a given clip rule.
    pub(crate) fn set_clip(&mut self, max_grad_norm: f64) {
        self.clip = Some(max_grad_norm);
        self.clip_rule = None;
    }

    /// Sets the noise multiplier.
    pub fn set_noise_multiplier(&mut self, noise_multiplier: f64) {
        self.noise_multiplier = Some(NoiseMultiplier(noise_multiplier));
    }

    /// Sets the guarantee to reach.
    pub(crate) fn target(&mut self, epsilon: Epsilon, delta: Delta) {
        self.target = Some(epsilon);
        self.delta = Some(delta);
    }

    /// Returns the delta that epsilon is reported at.
    pub(in crate::methods) fn delta(&self) -> Result<Delta> {
        Ok(self.delta.unwrap_or(Delta::DEFAULT).check()?)
    }

    /// Returns the total that the run may spend, if a target was given.
    pub(in crate::methods) fn total(&self) -> Result<Option<(Epsilon, Delta)>> {
        self.target.map(|epsilon| Ok((epsilon.check()?, self.delta()?))).transpose()
    }

    /// Determines clip rule, noise and delta of training. The run's result also depends on
    /// `other_releases`; a target is for all of them together.
    ///
    /// # Errors
    /// Kind `Setting` for values out of range, and unless exactly one of target and noise
    /// multiplier is given; kind `Accounting` if no noise multiplier reaches the target.
    pub(in crate::methods) fn resolve(
        &self,
        method: &str,
        settings: &Settings,
        population: &Population,
        other_releases: &[Event],
    ) -> Result<Privacy> {
        let examples = population.examples();
        let clip = self.clip_rule();
        check_clip(&clip)?;
        let steps = step_count(settings, examples)?;
        let rate = settings.sampling.rate(examples, settings.expected_batch_size);
        let delta = self.delta()?;
        let stages = |initial| {
            Stages::from_schedules(&self.noise_schedule, &self.clip_schedule, initial, rate, steps)
        };
        let noise_multiplier = match (self.target, self.noise_multiplier) {
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::Setting,
                    format!("{method} has neither a target nor a noise multiplier"),
                    "the amount of noise determines the guarantee and has no safe default",
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
                    "each of them determines the amount of noise",
                )
                .fix(format!(
                    "leave out .noise_multiplier({multiplier}) to reach the target, or .target(…) \
                     and give its delta by .delta({delta})"
                )));
            }
            (Some(epsilon), None) => {
                let relative = stages(NoiseMultiplier(1.0))?;
                let sampling = settings.sampling;
                sampling.check()?;
                let accountant = TightestAccountant::with_neighbouring(sampling.neighbouring());
                let batch_size = settings.expected_batch_size;
                let trials =
                    self.selection_trials.map(|trials| trials.check().copied()).transpose()?;
                let event = |stages: &Stages| {
                    let one = sampling.event(stages, examples, batch_size, steps);
                    trials.map_or(one.clone(), |trials| one.best_of(trials))
                };
                let found = noise_multiplier_for_events(
                    other_releases,
                    &relative,
                    epsilon,
                    delta,
                    &event,
                    &accountant,
                )?;
                found.noise_multiplier.0
            }
            (None, Some(noise_multiplier)) => noise_multiplier.check()?.0,
        };
        stages(NoiseMultiplier(noise_multiplier))?;
        Ok(Privacy {
            target: self.target,
            noise_schedule: self.noise_schedule.clone(),
            clip_schedule: self.clip_schedule.clone(),
            ..Privacy::new(clip, noise_multiplier, delta)
        })
    }

    /// Returns the default learning rate of SGD: where most examples are clipped, a step is as long
    /// as the clip norm times the rate.
    pub(in crate::methods) fn learning_rate(&self) -> f64 {
        LEARNING_RATE_TIMES_CLIP
            / self.clip_rule().sensitivity(NeighbouringRelation::AddOrRemoveOne)
    }

    /// Returns whether a clip norm, a clip rule or a schedule of either was given.
    pub(in crate::methods) fn has_clip(&self) -> bool {
        self.clip.is_some() || self.clip_rule.is_some() || !self.clip_schedule.is_constant()
    }

    /// Returns the given rule, or flat clipping at the given norm.
    pub(in crate::methods) fn clip_rule(&self) -> ClipRule {
        self.clip_rule.clone().unwrap_or(ClipRule::flat(self.clip.unwrap_or(DEFAULT_CLIP)))
    }
}

/// Checks that a clip rule bounds one example's influence.
///
/// # Errors
/// As [`ClipRule::check`], and for an infinite bound.
pub(in crate::methods) fn check_clip(clip: &ClipRule) -> Result<()> {
    if let ClipRule::Backprop(_) = clip {
        let why = "the rule bounds the layers of a network with clips, but this method adds no \
                   clips";
        return Err(Error::new(
            ErrorKind::Setting,
            "the clip rule of backpropagation clipping",
            why,
        )
        .fix("use the method BackpropClip"));
    }
    let sensitivity = clip.sensitivity(NeighbouringRelation::AddOrRemoveOne);
    if sensitivity.is_finite() && sensitivity > 0.0 {
        return clip.check();
    }
    let why = "the clip norm bounds one example's influence, so it must be positive";
    Err(Error::setting("clip", sensitivity, why)
        .fix("choose a positive number, usually between 0.1 and 10"))
}

settings! {
    pub(super) static NOISE in Scope::Private, on |method| method.privacy_settings_mut();
    impl [S: Noise] Builder<S>, on |builder| &mut builder.private;

    /// Sets the epsilon to reach: the noise multiplier is the smallest that the accountant proves.
    /// Giving a noise multiplier too is an error.
    #[setting(
        "E", "", Cost, ["target_epsilon"],
        "Epsilon of the whole run, which determines the noise"
    )]
    fn epsilon(epsilon: impl Into<Epsilon> as Epsilon) |private| {
        private.target = Some(epsilon)
    };

    /// Sets the standard deviation of the noise on the sum, as a multiple of its sensitivity;
    /// instead of a target. Epsilon is then reported at delta = 1e-5 unless [`delta`](Self::delta)
    /// says otherwise.
    #[setting(
        "SIGMA", "", Cost, ["sigma"],
        "Standard deviation of the noise over the clip norm, instead of epsilon"
    )]
    fn noise_multiplier(noise_multiplier: f64) |private| {
        private.set_noise_multiplier(noise_multiplier)
    };

    /// Sets the delta that epsilon is reported at.
    #[setting("D", "1e-5", Cost, ["target_delta"], "Delta of epsilon")]
    fn delta(delta: Delta) |private| private.delta = Some(delta);

    /// Sets a public schedule of the noise multiplier, `NoiseSchedule::linear(0.99)`. A target
    /// decides its initial value, and a given noise multiplier is its initial value.
    #[setting(
        "SCHEDULE", "constant", Cost, [],
        "Schedule of the noise multiplier: linear:0.99, time:0.01, step:0.99:10, exp:0.1, \
         decay:0.5, piecewise:10x1,5x0.8"
    )]
    fn noise_schedule(schedule: NoiseSchedule) |private| private.noise_schedule = schedule;
}

impl<S: Noise> Builder<S> {
    /// Sets the guarantee to reach: [`epsilon`](Self::epsilon) and [`delta`](Self::delta).
    pub fn target(self, epsilon: Epsilon, delta: Delta) -> Self {
        self.epsilon(epsilon).delta(delta)
    }
}

settings! {
    pub(super) static CLIP in Scope::Clip, on |method| method.privacy_settings_mut();
    impl [S: Clip] Builder<S>, on |builder| &mut builder.private;

    /// Sets the clip norm: the largest L2 norm of one example's gradient (`max_grad_norm`), by flat
    /// clipping.
    #[setting(
        "C", "1", Outcome, ["max_grad_norm", "clip_norm"],
        "Clip norm: the bound on one example's contribution"
    )]
    fn clip(max_grad_norm: f64) |private| private.set_clip(max_grad_norm);

    /// Sets a public schedule of the clip norm, `ClipSchedule::decay(0.5)`. The noise is scaled
    /// with the bound, so epsilon does not change.
    #[setting(
        "SCHEDULE", "constant", Outcome, [],
        "Schedule of the clip norm, with the same forms as the noise schedule"
    )]
    fn clip_schedule(schedule: ClipSchedule) |private| private.clip_schedule = schedule;

    #[setting(
        "RULE", "flat", Outcome, [],
        "Rule that bounds each example's gradient by the clip norm: flat, auto-s, normalised, \
         per-layer"
    )]
    text clip_rule(rule: String) |private| {
        private.clip_rule = Some(ClipRule::named(&rule, private.clip.unwrap_or(DEFAULT_CLIP))?)
    };
}

impl<S: Clip> Builder<S> {
    /// Sets how one example's influence is bounded, instead of flat clipping:
    /// `ClipRule::auto_s(1.0)`, `ClipRule::normalised(1.0)`, `ClipRule::per_layer(1.0)`.
    pub fn clip_rule(mut self, rule: ClipRule) -> Self {
        self.private.clip_rule = Some(rule);
        self
    }
}
