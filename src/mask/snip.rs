//! SNIP, with and without privacy.
use serde::{Deserialize, Serialize};

use super::Mask;
use crate::Result;
use crate::data::Examples;
use crate::nn::Model;
use crate::privacy::{Delta, Epsilon, Event};

/// SNIP without privacy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snip {
    rate: f64,
}

impl Snip {
    /// Keeps this share of all weights.
    pub fn keep(share: f64) -> Self {
        Self::prune(1.0 - share)
    }

    /// Drops this share.
    pub fn prune(rate: f64) -> Self {
        Self { rate }
    }

    /// The share that is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The mask for a model on training examples.
    pub fn mask(&self, model: &Model, examples: &Examples) -> Result<Mask> {
        let _ = (model, examples);
        todo!()
    }
}

/// DP-SNIP (Algorithm 2 of the pre-pruning paper, clipped per example).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DpSnip {
    rate: f64,
    clip: f64,
    noise: Noise,
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Noise {
    Share(f64),
    Target(Epsilon, Option<Delta>),
    Multiplier(f64),
}

impl DpSnip {
    /// Keeps this share of all weights.
    pub fn keep(share: f64) -> Self {
        Self::prune(1.0 - share)
    }

    /// Drops this share.
    pub fn prune(rate: f64) -> Self {
        Self { rate, clip: 1.0, noise: Noise::Share(0.05), seed: None }
    }

    /// The share that is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The same with its noise multiplier settled, for a run that is to stay within the total:
    /// a share of it (the default), or the recipe's own epsilon, becomes a multiplier.
    pub(crate) fn settled(self, total: Option<(Epsilon, Delta)>) -> Result<Self> {
        let _ = total;
        todo!()
    }

    /// What the release costs.
    ///
    /// # Errors
    /// If the noise is not settled.
    pub fn event(&self) -> Result<Event> {
        todo!()
    }

    /// One noisy release on the examples, with noise from this seed. The caller has charged it.
    pub(crate) fn release(
        &self,
        model: &Model,
        examples: &Examples,
        seeds: ([u8; 32], u64),
        data: &str,
        run: &str,
    ) -> Result<Mask> {
        let _ = (model, examples, seeds, data, run);
        todo!()
    }
}
