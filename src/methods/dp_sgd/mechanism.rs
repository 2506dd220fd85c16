//! The release of a DP-SGD step: clipped sum plus noise, divided by the expected batch size.

use crate::engine::{Batch, Bound, ClipRule, CoordinateWeights, Executor, Gradients};
use crate::methods::noisy_aggregator::NoisyAggregator;
use crate::methods::{Mechanism, Plan, Privacy, Release};
use crate::nn::Network;
use crate::privacy::{Event, Stages};
use crate::{Error, ErrorKind, Result};

/// The Gaussian mechanism on a sum of clipped per-example gradients.
///
/// # Guarantee
/// Neighbours: one example added or removed, or its gradient replaced by zero. The sum changes by
/// at most the sensitivity of the clip rule in L2 norm. Independent Gaussian noise of standard
/// deviation `noise_multiplier * sensitivity` is added to every coordinate of the sum, which is
/// then divided by the expected batch size, a public number. Noise multiplier and clip norm of
/// step t are those of the stages at t. The release of an empty batch is noise only. With selected
/// coordinates, norm, clipping, sum and noise are restricted to them, and all others are zero for
/// every batch.
pub struct GaussianMechanism {
    clip: ClipRule,
    aggregator: NoisyAggregator,
}

impl GaussianMechanism {
    /// Creates the mechanism of these stages, with a noise stream of its own.
    pub fn new(
        clip: ClipRule,
        stages: Stages,
        expected_batch_size: usize,
        noise_seed: [u8; 32],
    ) -> Self {
        Self { clip, aggregator: NoisyAggregator::new(stages, expected_batch_size, noise_seed) }
    }

    /// Returns the clip rule of the next step.
    pub fn clip_rule(&self) -> ClipRule {
        self.clip.clone().scaled(self.aggregator.stage().clip_scale)
    }

    /// Returns the standard deviation of the noise that the next step adds to the sum.
    fn noise_std(&self) -> f64 {
        self.clip_rule().noise_std(self.aggregator.stage().noise_multiplier)
    }

    /// Adds the noise of the next step to a sum that was clipped by
    /// [`clip_rule`](Self::clip_rule), and divides it by the expected batch size.
    ///
    /// # Errors
    /// `Setting` if the noise is not a finite number; as
    /// [`GaussianNoise::add_to_each`](crate::engine::GaussianNoise::add_to_each) if the sum was not
    /// made with the same selection.
    ///
    /// # Guarantee
    /// As [`GaussianMechanism`], if the sum was clipped by [`clip_rule`](Self::clip_rule) of the
    /// same step.
    pub fn privatise(
        &mut self,
        sum: Gradients,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Gradients> {
        let std = self.noise_std();
        self.aggregator.noisy_mean(sum, std, selected).map(|(mean, _)| mean)
    }
}

impl Mechanism for GaussianMechanism {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let rule = self.clip_rule();
        let clipped = self.aggregator.executor.weighted_sum(network, batch, &rule, selected)?;
        let std = self.noise_std();
        self.aggregator.release(clipped, std, selected)
    }

    fn resume(&mut self, steps: u64, state: &[f64]) -> Result<()> {
        self.aggregator.resume(steps, state, 0)
    }
}

/// Creates the mechanism of a private plan.
pub(crate) fn build_mechanism(plan: &Plan, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let (clip, stages) = clip_and_stages(plan)?;
    let clip = clip.clone();
    let aggregator = NoisyAggregator::from_plan(plan, stages, noise_seed);
    Ok(Box::new(GaussianMechanism { clip, aggregator }))
}

/// Returns the clip rule of a step of a private plan.
pub(crate) fn bound(plan: &Plan, step: u64) -> Result<Option<Box<dyn Bound>>> {
    let (clip, stages) = clip_and_stages(plan)?;
    Ok(Some(Box::new(clip.clone().scaled(stages.at(step).clip_scale))))
}

/// Returns the event of the first steps of a private plan.
///
/// # Guarantee
/// As [`GaussianMechanism`], on the plan's batches.
pub(crate) fn event(plan: &Plan, steps: u64) -> Event {
    plan.event_of(clip_and_stages(plan).map(|(_, stages)| stages), steps)
}

/// Returns clip rule and stages, which a plan lacks only if its file was edited.
fn clip_and_stages(plan: &Plan) -> Result<(&ClipRule, Stages)> {
    let is_own = |privacy: &&Privacy| {
        privacy.quantile.is_none() && !matches!(privacy.clip, ClipRule::Backprop(_))
    };
    let private_settings = plan.privacy().filter(is_own);
    let (Some(privacy), Some(stages)) = (private_settings, plan.stages()?) else {
        let what = format!("a plan of {} without clip rule and noise", plan.method());
        return Err(Error::new(
            ErrorKind::CorruptData,
            what,
            "the steps would release raw gradients",
        )
        .fix("make a new plan"));
    };
    Ok((&privacy.clip, stages))
}
