//! The executor that training uses: the fastest that takes the network.

use super::{Batch, ClipRule, ClippedSum, Executor, FusedExecutor, TapExecutor, Weights};
use crate::Result;
use crate::nn::{Network, Precision};

/// [`FusedExecutor`] for the lab's own layers on the CPU, [`TapExecutor`] for a module of one's own and for other
/// devices. Keeps its buffers, and what it knows of the memory of a GPU, from step to step, so
/// hold on to one for a whole training.
#[derive(Debug, Default)]
pub struct AutoExecutor {
    fused: FusedExecutor,
    tap: TapExecutor,
}

impl AutoExecutor {
    /// In steady passes where the network is on a GPU; see [`TapExecutor::fixed_chunks`].
    pub fn fixed_chunks(self, examples: usize) -> Self {
        Self { tap: self.tap.fixed_chunks(examples), ..self }
    }

    /// With products in such numbers where the network is on a GPU; see [`TapExecutor::precision`].
    pub fn precision(self, precision: Precision) -> Self {
        Self { tap: self.tap.precision(precision), ..self }
    }

    fn choose(&self, network: &Network) -> &dyn Executor {
        if FusedExecutor::takes(network) { &self.fused } else { &self.tap }
    }
}

impl Executor for AutoExecutor {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        rule: &ClipRule,
        weights: Option<&Weights>,
    ) -> Result<ClippedSum> {
        self.choose(network).weighted_sum(network, batch, rule, weights)
    }

    fn plain_sum(&self, network: &Network, batch: &Batch) -> Result<ClippedSum> {
        self.choose(network).plain_sum(network, batch)
    }

    fn norm_methods(&self, network: &Network) -> Vec<&'static str> {
        self.choose(network).norm_methods(network)
    }
}
