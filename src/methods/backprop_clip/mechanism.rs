//! The release of a step of backpropagation clipping: the plain sum of a network with clips, plus
//! noise layer by layer.

use burn::prelude::Device;

use super::standardised::PlainConvolutions;
use crate::Result;
use crate::device::DeviceArray;
use crate::engine::{Batch, Bound, ClipRule, CoordinateWeights, Executor, Gradients};
use crate::methods::noisy_aggregator::NoisyAggregator;
use crate::methods::{Mechanism, Plan, Release};
use crate::nn::{LayerClips, Network};
use crate::privacy::Stages;

/// The Gaussian mechanism on the sum of the gradients of a network whose layers have clips.
///
/// # Guarantee
/// Neighbours: one example added, removed or zeroed out. No gradient is clipped after it has been
/// computed: the clips of layer l keep one example's part in its sum below the sensitivity Δ of
/// [`BackpropClippedSpec::sensitivity`](crate::nn::BackpropClippedSpec::sensitivity). Independent
/// Gaussian noise of standard deviation σ √L Δ is added to every coordinate of the sum of each of
/// the L trained layers, so the noise multiplier of a step is σ. For a convolution with a
/// standardised weight, all of this holds with respect to the standardised weight. The gradient
/// with respect to raw weight and gain is computed from the noisy sum and from parameters that are
/// released already, which is post-processing. The sum is then divided by the expected batch size,
/// a public number. Coordinates that are not selected are zero in sum and noise, which makes no
/// sensitivity larger. The loss is summed over the examples, so no gradient depends on the size of
/// the batch.
pub struct BackpropClipMechanism {
    clips: LayerClips,
    aggregator: NoisyAggregator,
    /// Plain convolutions of the network of the step before, if it standardises weights.
    plain: Option<PlainConvolutions>,
}

impl BackpropClipMechanism {
    /// Creates the mechanism of these stages, with a noise stream of its own.
    pub fn new(
        clips: LayerClips,
        stages: Stages,
        expected_batch_size: usize,
        noise_seed: [u8; 32],
    ) -> Self {
        let aggregator = NoisyAggregator::new(stages, expected_batch_size, noise_seed);
        Self { clips, aggregator, plain: None }
    }

    /// Computes the noisy sum, the losses, and the standard deviation of the noise in each tensor.
    fn noisy_sum(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<(Gradients, DeviceArray, Vec<f64>)> {
        let rule = ClipRule::Backprop(self.clips);
        let groups = rule.groups(network)?;
        // On other devices than the CPU, Burn's products may round their factors or the sum itself,
        // and a plain sum is made of them. Weighted sums add f32 products of the clipped inputs and
        // gradients.
        let all = if network.device() == Device::flex() {
            self.aggregator.executor.unclipped_sum(network, batch, selected)?
        } else {
            self.aggregator.executor.weighted_sum(network, batch, &rule, selected)?
        };
        let mut sum = all.sum;
        let trained: Vec<bool> = match selected {
            None => vec![true; sum.entries.len()],
            Some(selected) => selected.nonzero_tensors(),
        };
        let stds =
            groups.equal_split_noise_stds(self.aggregator.stage().noise_multiplier, &trained);
        self.aggregator.add_noise(&mut sum, &stds, selected)?;
        Ok((sum, all.losses, stds))
    }
}

impl Mechanism for BackpropClipMechanism {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let (gradient, losses, stds) =
            match PlainConvolutions::for_network(network, self.plain.take())? {
                None => self.noisy_sum(network, batch, selected)?,
                Some(mut plain) => {
                    let of_plain = plain.network(network);
                    let plain_selection =
                        selected.map(|selected| plain.selection(selected)).transpose()?;
                    let (sum, losses, stds) = self.noisy_sum(&of_plain, batch, plain_selection)?;
                    let gradient = plain.pull_back(network, sum, selected);
                    let stds = plain.noise_stds(network, &stds);
                    self.plain = Some(plain);
                    (gradient, losses, stds)
                }
            };
        let (gradient, noise_std) = self.aggregator.divided(gradient, &stds);
        Ok(Release::new(gradient, losses, noise_std))
    }

    fn resume(&mut self, steps: u64, state: &[f64]) -> Result<()> {
        self.aggregator.resume(steps, state, 0)
    }
}

/// Creates the mechanism of a plan.
pub(super) fn build_mechanism(plan: &Plan, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let (clips, stages) = clips_and_stages(plan)?;
    let aggregator = NoisyAggregator::from_plan(plan, stages, noise_seed);
    Ok(Box::new(BackpropClipMechanism { clips, aggregator, plain: None }))
}

/// Returns the bound of every step.
pub(super) fn bound(plan: &Plan, _: u64) -> Result<Option<Box<dyn Bound>>> {
    Ok(Some(Box::new(ClipRule::Backprop(clips_and_stages(plan)?.0))))
}

/// Returns the network with clips around every layer that the plan trains.
pub(super) fn network(plan: &Plan, network: &Network) -> Result<Option<Network>> {
    let frozen = plan.freezing().frozen_flags(network)?;
    network.with_backprop_clips(&clips_and_stages(plan)?.0, &frozen).map(Some)
}

/// Returns clips and stages, which a plan lacks only if its file was edited.
pub(super) fn clips_and_stages(plan: &Plan) -> Result<(LayerClips, Stages)> {
    let clip = plan.privacy().map(|privacy| (&privacy.clip, privacy.clip_schedule.is_constant()));
    let clip = clip.filter(|_| plan.privacy().is_some_and(|privacy| privacy.quantile.is_none()));
    match (clip, plan.stages()?) {
        (Some((&ClipRule::Backprop(clips), true)), Some(stages)) => Ok((clips, stages)),
        _ => Err(plan.edited("without its clips")),
    }
}
