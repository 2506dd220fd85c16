//! Negative controls: mechanisms that are wrong on purpose.

use crate::Result;
use crate::engine::{AutoExecutor, Batch, CoordinateWeights, Executor, Gradients};
use crate::methods::{Mechanism, Plan, Release};
use crate::nn::Network;

/// A mechanism whose coordinates are chosen by the gradients of the batch, which the ledger does
/// not know: the half that is largest in the sum without noise.
pub(super) struct MaskFromGradients {
    mechanism: Box<dyn Mechanism>,
    executor: AutoExecutor,
}

impl MaskFromGradients {
    pub(super) fn new(mechanism: Box<dyn Mechanism>) -> Self {
        Self { mechanism, executor: AutoExecutor::default() }
    }
}

impl Mechanism for MaskFromGradients {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        _selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let sum = self.executor.unclipped_sum(network, batch, None)?.sum;
        let selected = CoordinateWeights::new(network, largest_half(sum))?;
        self.mechanism.release(network, batch, Some(&selected))
    }
}

/// The mechanism of another plan, on the network that this plan prepares.
pub(super) struct PlanMechanism {
    plan: Plan,
    mechanism: Box<dyn Mechanism>,
}

impl PlanMechanism {
    pub(super) fn new(plan: &Plan, noise_seed: [u8; 32]) -> Result<Self> {
        Ok(Self { plan: plan.clone(), mechanism: plan.mechanism(noise_seed)? })
    }
}

impl Mechanism for PlanMechanism {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        self.mechanism.release(&self.plan.prepare_network(network)?, batch, selected)
    }
}

/// Returns 1 for the half of each tensor's values of largest absolute value, the last of equal
/// ones; 0 for the rest.
fn largest_half(mut values: Gradients) -> Gradients {
    for entry in &mut values.entries {
        let mut order: Vec<usize> = (0..entry.values.len()).collect();
        order.sort_by(|&a, &b| entry.values[a].abs().total_cmp(&entry.values[b].abs()));
        let dropped = order.len() / 2;
        for (rank, index) in order.into_iter().enumerate() {
            entry.values[index] = f32::from(u8::from(rank >= dropped));
        }
    }
    values
}
