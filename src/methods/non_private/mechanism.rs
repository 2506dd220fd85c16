//! The step without privacy: the gradient, clipped if asked for, without noise.

use crate::Result;
use crate::engine::{
    AutoExecutor, Batch, ClipRule, CoordinateWeights, Executor, typical_max_batch_size,
};
use crate::methods::{Mechanism, Plan, Release, check_state};
use crate::nn::Network;
use crate::privacy::Event;

/// The summed gradient divided by the expected batch size, as in the private methods.
///
/// # Guarantee
/// None: no noise.
pub struct MeanGradient {
    expected_batch_size: f64,
    clip: Option<ClipRule>,
    executor: AutoExecutor,
}

impl MeanGradient {
    /// Creates the mechanism for this expected batch size.
    pub fn new(expected_batch_size: usize) -> Self {
        let executor =
            AutoExecutor::default().fixed_chunks(typical_max_batch_size(expected_batch_size));
        Self { expected_batch_size: expected_batch_size as f64, clip: None, executor }
    }
}

impl Mechanism for MeanGradient {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let (mut gradient, losses, norms) = match &self.clip {
            Some(clip) => {
                let clipped = self.executor.weighted_sum(network, batch, clip, selected)?;
                (clipped.sum, clipped.losses, Some(clipped.norms))
            }
            None => {
                let all = self.executor.unclipped_sum(network, batch, selected)?;
                (all.sum, all.losses, None)
            }
        };
        gradient.scale(1.0 / self.expected_batch_size);
        let noise_std = vec![0.0; gradient.entries.len()];
        Ok(Release { norms, ..Release::new(gradient, losses, noise_std) })
    }

    fn resume(&mut self, _steps: u64, state: &[f64]) -> Result<()> {
        check_state(state, 0)
    }
}

/// Creates the mechanism of a plan; there is no noise.
pub(super) fn build_mechanism(plan: &Plan, _noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let (settings, mean) = (plan.settings(), MeanGradient::new(plan.expected_batch_size()));
    let executor = mean.executor.precision(settings.precision);
    let clip = settings.clip_without_noise.map(ClipRule::flat);
    Ok(Box::new(MeanGradient { clip, executor, ..mean }))
}

/// Returns the event of the first steps, which no accountant accepts.
pub(super) fn event(plan: &Plan, steps: u64) -> Event {
    match steps {
        0 => Event::Composed { events: Vec::new() },
        _ => Event::Unaccountable {
            why: format!("{} adds no noise: it releases raw gradients", plan.method()),
        },
    }
}
