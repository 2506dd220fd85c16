//! The bound and the release of the example.

use std::sync::Arc;

use burn::prelude::*;

use crate::engine::{
    AutoExecutor, Batch, Bound, ClipFunction, ClipGroups, CoordinateWeights, Executor,
    GaussianNoise,
};
use crate::methods::{Mechanism, Plan, Release, check_state, dp_sgd};
use crate::nn::Network;
use crate::privacy::{Event, Stages};
use crate::{Error, ErrorKind, Result};

/// The factor C/√(C² + n²) for a gradient of norm n, which gives a norm below C.
#[derive(Clone, Copy, Debug)]
struct SoftClip(f64);

impl ClipFunction for SoftClip {
    fn factor(&self, norm: f32) -> f32 {
        (self.0 / self.0.hypot(f64::from(norm))) as f32
    }

    fn factors(&self, norms: Tensor<1>) -> Tensor<1> {
        let c = self.0 as f32;
        norms.full_like(c) / (norms.clone() * norms + c * c).sqrt()
    }

    fn sensitivity(&self) -> f64 {
        self.0
    }
}

impl Bound for SoftClip {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn groups(&self, network: &Network) -> Result<ClipGroups> {
        Ok(ClipGroups::joint(network, Arc::new(*self)))
    }
}

struct SoftClipMechanism {
    clip: SoftClip,
    stages: Stages,
    expected_batch_size: f64,
    noise: GaussianNoise,
    executor: AutoExecutor,
}

impl Mechanism for SoftClipMechanism {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let clipped = self.executor.weighted_sum(network, batch, &self.clip, selected)?;
        let multiplier = self.stages.at(self.noise.step()).noise_multiplier;
        let stds = self.clip.groups(network)?.noise_stds(multiplier);
        let mut gradient = clipped.sum;
        self.noise.add_to_each(&mut gradient, &stds, selected)?;
        gradient.scale(1.0 / self.expected_batch_size);
        let noise_std = stds.iter().map(|std| std / self.expected_batch_size).collect();
        let norms = Some(clipped.norms);
        Ok(Release { norms, ..Release::new(gradient, clipped.losses, noise_std) })
    }

    fn resume(&mut self, steps: u64, state: &[f64]) -> Result<()> {
        check_state(state, 0)?;
        self.noise = self.noise.clone().at_step(steps);
        Ok(())
    }
}

/// Returns C and the stages. The settings keep C as a flat clip norm.
fn settings(plan: &Plan) -> Result<(SoftClip, Stages)> {
    match (plan.privacy(), plan.stages()?) {
        (Some(privacy), Some(stages)) => Ok((SoftClip(privacy.clip.noise_std(1.0)), stages)),
        _ => Err(Error::new(ErrorKind::CorruptData, "a plan without noise", "it was edited")),
    }
}

pub(super) fn build_mechanism(plan: &Plan, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let (clip, stages) = settings(plan)?;
    Ok(Box::new(SoftClipMechanism {
        clip,
        stages,
        expected_batch_size: plan.expected_batch_size() as f64,
        noise: GaussianNoise::new(noise_seed),
        executor: AutoExecutor::default(),
    }))
}

pub(super) fn bound(plan: &Plan, _step: u64) -> Result<Option<Box<dyn Bound>>> {
    Ok(Some(Box::new(settings(plan)?.0)))
}

/// Returns the event of DP-SGD, whose steps, sampler and noise are the same.
pub(super) fn event(plan: &Plan, steps: u64) -> Event {
    dp_sgd::event(plan, steps)
}
