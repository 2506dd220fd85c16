//! Gradient dropping: which coordinates a step leaves out.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::choose;
use super::rate::dropped_of;
use super::{Kept, Mask, Rate};
use crate::Result;
use crate::engine::{Gradients, Weights};
use crate::nn::Network;

/// Which coordinates of each tensor a step leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DroppingRule {
    /// A uniformly random part, new in every step.
    Random,
    /// Those of the smallest absolute value, ties broken by index.
    Magnitude,
}

/// Gradient dropping (section 3.2 of the pre-pruning paper): in every step a share of each weight
/// tensor's coordinates, of those that a mask keeps, is left out of norm, sum, noise and update.
///
/// # Guarantee
/// The choice is a function of the step's parameters and of randomness that has nothing to do
/// with the data, so each step is a Gaussian mechanism of the same sensitivity on the coordinates
/// that are left: the accounting does not change (the paper's claim, which holds).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dropping {
    /// How coordinates are chosen.
    pub rule: DroppingRule,
    /// The share of each tensor that is dropped.
    pub rate: Rate,
    /// Whether biases and the factors of normalisation are dropped too.
    #[serde(default)]
    pub include_1d: bool,
}

impl Dropping {
    /// A random share, new in every step.
    pub fn random(rate: impl Into<Rate>) -> Self {
        Self { rule: DroppingRule::Random, rate: rate.into(), include_1d: false }
    }

    /// The share of the smallest absolute values.
    pub fn magnitude(rate: impl Into<Rate>) -> Self {
        Self { rule: DroppingRule::Magnitude, rate: rate.into(), include_1d: false }
    }

    /// Drops biases and the factors of normalisation too.
    pub fn include_1d(self) -> Self {
        Self { include_1d: true, ..self }
    }
}

impl fmt::Display for Dropping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            DroppingRule::Random => "random",
            DroppingRule::Magnitude => "smallest",
        };
        write!(f, "{rule} coordinates, {} of each weight tensor", self.rate)
    }
}

/// Chooses the coordinates of every step: those a mask keeps, less those that are dropped.
pub struct Selector {
    mask: Option<Mask>,
    dropping: Option<Dropping>,
    steps: u64,
    rng: ChaCha20Rng,
    step: u64,
    kept: Option<Arc<Weights>>,
    /// Where the coordinates lie that the mask keeps, in the order of its tensors, if they are
    /// chosen among.
    left: Vec<Vec<usize>>,
}

impl Selector {
    /// For a run of `steps` steps. `seed` is for random dropping only.
    pub fn new(
        mask: Option<&Mask>,
        dropping: Option<Dropping>,
        steps: u64,
        seed: [u8; 32],
    ) -> Self {
        let rng = ChaCha20Rng::from_seed(seed);
        let tensors = mask.filter(|_| dropping.is_some()).map_or(&[][..], Mask::tensors);
        let left = |tensor: &Kept| (0..tensor.kept.len()).filter(|&i| tensor.kept[i]).collect();
        let left = tensors.iter().map(left).collect();
        Self { mask: mask.cloned(), dropping, steps, rng, step: 0, kept: None, left }
    }

    /// The coordinates of the next step for a network that stands at these parameters: ones and
    /// zeros. `None` selects everything.
    ///
    /// # Errors
    /// Kind `Model` if the mask is not for this network, kind `Setting` for a rate out of range.
    pub fn next(&mut self, network: &Network) -> Result<Option<Arc<Weights>>> {
        let step = self.step;
        self.step += 1;
        let Some(dropping) = self.dropping else {
            if self.kept.is_none() {
                let kept = self.mask.as_ref().map(|mask| mask.weights(network)).transpose()?;
                self.kept = kept.map(Arc::new);
            }
            return Ok(self.kept.clone());
        };
        dropping.rate.check()?;
        if let Some(mask) = &self.mask {
            mask.check(network)?;
        }
        let rate = dropping.rate.at(step, self.steps);
        let hosts = match dropping.rule {
            DroppingRule::Random => Vec::new(),
            DroppingRule::Magnitude => network.hosts(),
        };
        let mut selected = Gradients::zeros_like(network);
        for (index, entry) in selected.entries.iter_mut().enumerate() {
            let tensors = self.mask.as_ref().map_or(&[][..], Mask::tensors);
            let masked = tensors.iter().position(|tensor| tensor.path == entry.path);
            let left = masked.map(|tensor| &self.left[tensor]);
            let count = left.map_or(entry.values.len(), Vec::len);
            let drops = dropping.include_1d || entry.shape.len() >= 2;
            let rate = if drops { rate } else { 0.0 };
            let drop = dropped_of(rate, count).min(count.saturating_sub(1));
            let kept = match dropping.rule {
                _ if drop == 0 => vec![1.0; count],
                DroppingRule::Random => choose::at_random(count, drop, self.rng.random()),
                DroppingRule::Magnitude => {
                    let all = hosts[index].slice();
                    match left {
                        None => choose::largest(all, drop),
                        Some(left) => {
                            let some: Vec<f32> = left.iter().map(|&i| all[i]).collect();
                            choose::largest(&some, drop)
                        }
                    }
                }
            };
            match left {
                None => entry.values = kept.into(),
                Some(left) => {
                    left.iter().zip(kept).for_each(|(&i, kept)| entry.values[i] = kept);
                }
            }
        }
        Ok(Some(Arc::new(Weights::new(network, selected)?)))
    }
}
