//! The step without privacy: the gradient, clipped if asked for, without noise.

use crate::Result;
use crate::engine::{AutoExecutor, Batch, ClipRule, Executor, Weights, typical_max_batch_size};
use crate::methods::{Mechanism, Plan, Release, check_state};
use crate::nn::{Network, Precision};
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
    /// The mechanism for this expected batch size.
    pub fn new(expected_batch_size: usize) -> Self {
        let executor =
            AutoExecutor::default().fixed_chunks(typical_max_batch_size(expected_batch_size));
        Self { expected_batch_size: expected_batch_size as f64, clip: None, executor }
    }

    /// The same with the gradient of each example clipped to this L2 norm.
    pub(crate) fn clip(self, max_grad_norm: f64) -> Self {
        Self { clip: Some(ClipRule::flat(max_grad_norm)), ..self }
    }

    /// The same with this precision of products on a GPU.
    pub(crate) fn precision(self, precision: Precision) -> Self {
        Self { executor: self.executor.precision(precision), ..self }
    }
}

impl Mechanism for MeanGradient {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&Weights>,
    ) -> Result<Release> {
        if let Some(clip) = &self.clip {
            let clipped = self.executor.weighted_sum(network, batch, clip, selected)?;
            let mut gradient = clipped.sum;
            gradient.scale(1.0 / self.expected_batch_size);
            let noise_std = vec![0.0; gradient.entries.len()];
            return Ok(Release::new(gradient, clipped.losses, noise_std).with_norms(clipped.norms));
        }
        let all = self.executor.plain_sum(network, batch, selected)?;
        let mut gradient = all.sum;
        gradient.scale(1.0 / self.expected_batch_size);
        let noise_std = vec![0.0; gradient.entries.len()];
        Ok(Release::new(gradient, all.losses, noise_std))
    }

    fn resume(&mut self, _steps: u64, state: &[f64]) -> Result<()> {
        check_state(state, 0)
    }
}

/// The mechanism of a plan; there is no noise.
pub(super) fn of(plan: &Plan, _noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let mut mean = MeanGradient::new(plan.expected_batch_size());
    if let Some(norm) = plan.settings().clip_without_noise {
        mean = mean.clip(norm);
    }
    Ok(Box::new(mean.precision(plan.precision())))
}

/// The event of the first steps, which no accountant accepts.
pub(super) fn event(plan: &Plan, steps: u64) -> Event {
    match steps {
        0 => Event::Composed { events: Vec::new() },
        _ => Event::Unaccountable {
            why: format!("{} adds no noise: it releases raw gradients", plan.method()),
        },
    }
}
