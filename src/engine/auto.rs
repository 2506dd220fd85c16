//! The executor that training uses.

use super::{Batch, Bound, ClippedSum, CoordinateWeights, Executor, FusedExecutor, TapExecutor};
use crate::Result;
use crate::nn::{Network, Precision};

/// Executor that uses [`FusedExecutor`] for the lab's own layers on the CPU, and [`TapExecutor`]
/// for user modules and for other devices.
///
/// Keeps buffers and the measured chunk size between calls: use one executor for a whole training
/// run.
#[derive(Debug, Default)]
pub struct AutoExecutor {
    fused: FusedExecutor,
    tap: TapExecutor,
}

impl AutoExecutor {
    /// Sets the chunks of the tap executor: see [`TapExecutor::fixed_chunks`].
    pub(crate) fn fixed_chunks(self, examples: usize) -> Self {
        Self { tap: self.tap.fixed_chunks(examples), ..self }
    }

    /// Sets the precision of the tap executor: see [`TapExecutor::precision`].
    pub fn precision(self, precision: Precision) -> Self {
        Self { tap: self.tap.precision(precision), ..self }
    }

    fn executor_for(&self, network: &Network) -> &dyn Executor {
        if FusedExecutor::supports(network) { &self.fused } else { &self.tap }
    }
}

impl Executor for AutoExecutor {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        self.executor_for(network).weighted_sum(network, batch, bound, weights)
    }

    fn unclipped_sum(
        &self,
        network: &Network,
        batch: &Batch,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        self.executor_for(network).unclipped_sum(network, batch, weights)
    }

    fn norm_methods(&self, network: &Network) -> Vec<&'static str> {
        self.executor_for(network).norm_methods(network)
    }
}
