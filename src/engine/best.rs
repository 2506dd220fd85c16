//! The executor that training uses: the fastest that takes the network.

use super::{Batch, ClipRule, ClippedSum, Fused, PerExample, Taps, Weights};
use crate::Result;
use crate::nn::{Network, Precision};

/// [`Fused`] for the lab's own layers on the CPU, [`Taps`] for a module of one's own and for other
/// devices. Keeps its buffers, and what it knows of the memory of a card, from step to step, so
/// hold on to one for a whole training.
#[derive(Debug, Default)]
pub struct Best {
    fused: Fused,
    taps: Taps,
}

impl Best {
    /// In steady passes where the network is on a card; see [`Taps::steady`].
    pub fn steady(self, examples: usize) -> Self {
        Self { taps: self.taps.steady(examples), ..self }
    }

    /// With products in such numbers where the network is on a card; see [`Taps::precision`].
    pub fn precision(self, precision: Precision) -> Self {
        Self { taps: self.taps.precision(precision), ..self }
    }

    fn of(&self, network: &Network) -> &dyn PerExample {
        if Fused::takes(network) { &self.fused } else { &self.taps }
    }
}

impl PerExample for Best {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        rule: &ClipRule,
        weights: Option<&Weights>,
    ) -> Result<ClippedSum> {
        self.of(network).weighted_sum(network, batch, rule, weights)
    }

    fn plain_sum(&self, network: &Network, batch: &Batch) -> Result<ClippedSum> {
        self.of(network).plain_sum(network, batch)
    }

    fn how(&self, network: &Network) -> Vec<&'static str> {
        self.of(network).how(network)
    }
}
