//! Gradient dropping: which coordinates a step leaves out.

use burn::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::choose;
use super::rate::dropped_of;
use super::{Kept, Mask, Rate};
use crate::Result;
use crate::device::{DeviceArray, kernels};
use crate::engine::{Gradient, Gradients, Weights};
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

    /// How many of the `count` coordinates that are left of a tensor go; one stays at least.
    fn drops(&self, rate: f64, shape: &[usize], count: usize) -> usize {
        let rate = if self.include_1d || shape.len() >= 2 { rate } else { 0.0 };
        dropped_of(rate, count).min(count.saturating_sub(1))
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

/// Chooses the coordinates of every step: those a mask keeps, less those that are dropped. The choice
/// is the same wherever the network lives; on a GPU the smallest are found there.
pub struct Selector {
    mask: Option<Mask>,
    dropping: Option<Dropping>,
    steps: u64,
    rng: ChaCha20Rng,
    step: u64,
    /// What the mask keeps, or ones, where it was needed as weights.
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
        let device = network.device();
        let gpu = (device != Device::flex()).then_some(device);
        self.next_on(gpu.as_ref(), network)
    }

    /// The same for a network on this GPU, if on any: the weights are then there too.
    pub(super) fn next_on(
        &mut self,
        gpu: Option<&Device>,
        network: &Network,
    ) -> Result<Option<Arc<Weights>>> {
        let step = self.step;
        self.step += 1;
        let Some(dropping) = self.dropping else {
            return self.mask.is_some().then(|| self.kept(gpu, network)).transpose();
        };
        dropping.rate.check()?;
        if let Some(mask) = &self.mask {
            mask.check(network)?;
        }
        let rate = dropping.rate.at(step, self.steps);
        if let (DroppingRule::Magnitude, Some(gpu)) = (dropping.rule, gpu) {
            return self.largest(dropping, rate, gpu, network).map(Some);
        }
        let hosts = match dropping.rule {
            DroppingRule::Random => Vec::new(),
            DroppingRule::Magnitude => network.hosts(),
        };
        let mut selected = Gradients::zeros_like(network);
        for (index, entry) in selected.entries.iter_mut().enumerate() {
            let left = left(&self.left, self.mask.as_ref(), &entry.path);
            let count = left.map_or(entry.values.len(), Vec::len);
            let drop = dropping.drops(rate, &entry.shape, count);
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
                    let values = &mut entry.values[..];
                    left.iter().zip(kept).for_each(|(&i, kept)| values[i] = kept);
                }
            }
        }
        Ok(Some(brought(gpu, Weights::new(network, selected)?)))
    }

    /// All but the smallest of the parameters, found on the GPU: nobody looks at them here.
    fn largest(
        &mut self,
        dropping: Dropping,
        rate: f64,
        gpu: &Device,
        network: &Network,
    ) -> Result<Arc<Weights>> {
        let among = self.kept(Some(gpu), network)?;
        let entries = among.entries().iter().zip(network.tensors()).map(|(entry, values)| {
            let left = left(&self.left, self.mask.as_ref(), &entry.path);
            let count = left.map_or(entry.values.len(), Vec::len);
            let among = entry.values.tensor(gpu);
            let chosen = match dropping.drops(rate, &entry.shape, count) {
                0 => among,
                drop => kernels::keep_largest(values, among, drop),
            };
            let (path, shape) = (entry.path.clone(), entry.shape.clone());
            Gradient { path, id: entry.id, shape, values: DeviceArray::of(chosen) }
        });
        let selected = Gradients { entries: entries.collect() };
        // Something of each tensor stays.
        let zero = (0..selected.entries.len()).map(|entry| among.is_zero(entry)).collect();
        Ok(Arc::new(Weights::chosen_on_device(network, selected, zero)?))
    }

    /// Ones where the mask keeps coordinates, or everywhere; brought to the GPU once.
    fn kept(&mut self, gpu: Option<&Device>, network: &Network) -> Result<Arc<Weights>> {
        if let Some(kept) = &self.kept {
            return Ok(kept.clone());
        }
        let kept = match &self.mask {
            Some(mask) => mask.weights(network)?,
            None => {
                let mut ones = Gradients::zeros_like(network);
                ones.entries.iter_mut().for_each(|entry| entry.values.fill(1.0));
                Weights::new(network, ones)?
            }
        };
        Ok(self.kept.insert(brought(gpu, kept)).clone())
    }
}

/// Weights that are on this GPU too, if on any.
fn brought(gpu: Option<&Device>, weights: Weights) -> Arc<Weights> {
    Arc::new(match gpu {
        Some(gpu) => weights.on(gpu),
        None => weights,
    })
}

/// Where the mask keeps coordinates of a parameter, if it is about it.
fn left<'a>(left: &'a [Vec<usize>], mask: Option<&Mask>, path: &str) -> Option<&'a Vec<usize>> {
    let tensors = mask.map_or(&[][..], Mask::tensors);
    tensors.iter().position(|tensor| tensor.path == path).map(|tensor| &left[tensor])
}

#[cfg(test)]
mod tests;
