//! The game of a mask by DP-SNIP: its one noisy release, with and without a canary.

use super::canary::{Canary, CanaryNetwork, inner_product};
use super::game::Game;
use super::report::Statistic;
use crate::Result;
use crate::data::Dataset;
use crate::mask::DpSnip;
use crate::nn::Model;
use crate::privacy::NoiseMultiplier;
use crate::train::Seeds;

/// The release of a mask by DP-SNIP on the others, and on the others with the canary.
pub(super) struct SnipMaskGame {
    snip: DpSnip,
    model: Model,
    without: Dataset,
    with: Dataset,
    canary: Canary,
    clip: f64,
    sigma: NoiseMultiplier,
}

impl SnipMaskGame {
    /// Creates the game of DP-SNIP with this clip norm and noise multiplier on `others` examples.
    ///
    /// # Errors
    /// As making the data, the canary and the model.
    pub(super) fn new(
        snip: DpSnip,
        (clip, sigma): (f64, NoiseMultiplier),
        setup: &CanaryNetwork,
        others: usize,
    ) -> Result<Self> {
        let canary = setup.canary(None, None)?;
        let (without, with) =
            (setup.data(others, None)?, setup.data(others, Some(canary.feature))?);
        Ok(Self { snip, model: setup.model()?, without, with, canary, clip, sigma })
    }
}

impl Game for SnipMaskGame {
    fn statistics(&self) -> &[Statistic] {
        &[Statistic::Projection, Statistic::SelectedCoordinate]
    }

    fn play(&self, with_canary: bool, seeds: &Seeds) -> Result<Vec<f64>> {
        let data = if with_canary { &self.with } else { &self.without };
        let noise = (seeds.mask_noise, 0);
        let (sum, prunable) = self.snip.noisy_sum(&self.model, data.train(), noise)?;
        let mask = self.snip.mask_from_sum(&sum, &prunable, &self.model, data, "audit")?;
        let projection = inner_product(&sum, &self.canary.direction) / self.clip / self.sigma.0;
        let kept = &mask.tensors()[0].kept;
        let kept = [2 * self.canary.feature, 2 * self.canary.feature + 1].map(|i| kept[i]);
        Ok(vec![projection, kept.into_iter().filter(|&kept| kept).count() as f64])
    }
}
