//! Gradient dropping: the coordinates that each training step leaves out.

use burn::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::rate::dropped_count;
use super::subset;
use super::{DropRate, Mask, MaskTensor};
use crate::Result;
use crate::device::{DeviceArray, kernels};
use crate::engine::{CoordinateWeights, Gradient, Gradients};
use crate::nn::Network;

/// Rule by which a step selects the coordinates that it drops from each tensor.
///
/// ```
/// use epsilab::prelude::*;
/// assert_eq!(Dropping::magnitude(0.5).rule, DroppingRule::Magnitude);
/// let grid = Grid::new(DpSsgd::new())
///     .drop_gradients(DroppingRule::Random, [0.0, 0.3, 0.6])
///     .epsilon([3.0]);
/// assert_eq!(grid.len(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DroppingRule {
    /// Uniformly random subset, new in every step.
    Random,
    /// Coordinates of smallest absolute parameter value, ties broken by index.
    Magnitude,
}

/// Gradient dropping (section 3.2 of the pre-pruning paper): every step leaves a fraction of each
/// weight tensor's coordinates out of norm, sum, noise and update.
///
/// The fraction is of the coordinates that the mask keeps, if there is a mask.
///
/// ```
/// use epsilab::prelude::*;
/// let population = data::Population::with_size(60_000);
/// let method = DpSgd::new().noise_multiplier(1.0);
/// let dense = method.plan_for(&population)?;
/// let sparse = method.drop_gradients(Dropping::random(0.5)).plan_for(&population)?;
/// assert_eq!(sparse.event(), dense.event()); // it costs the same
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// The selection is a function of the step's parameters, which are released, and of randomness that
/// is independent of the data. Each step is therefore a Gaussian mechanism of the same sensitivity
/// on the remaining coordinates, and the accounting does not change, as the paper claims.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dropping {
    /// Rule by which coordinates are selected.
    pub rule: DroppingRule,
    /// Fraction of each tensor that is dropped.
    pub rate: DropRate,
    /// Whether biases and normalisation parameters are dropped too.
    #[serde(default)]
    pub include_1d: bool,
}

impl Dropping {
    /// Drops a uniformly random subset, new in every step.
    pub fn random(rate: impl Into<DropRate>) -> Self {
        Self { rule: DroppingRule::Random, rate: rate.into(), include_1d: false }
    }

    /// Drops the coordinates of smallest absolute parameter value.
    pub fn magnitude(rate: impl Into<DropRate>) -> Self {
        Self { rule: DroppingRule::Magnitude, rate: rate.into(), include_1d: false }
    }

    /// Drops coordinates of biases and normalisation parameters too.
    pub fn include_1d(self) -> Self {
        Self { include_1d: true, ..self }
    }

    /// Returns the number of a tensor's `candidates` coordinates that are dropped. At least one
    /// always remains.
    fn drop_count(&self, rate: f64, shape: &[usize], candidates: usize) -> usize {
        let rate = if self.include_1d || shape.len() >= 2 { rate } else { 0.0 };
        dropped_count(rate, candidates).min(candidates.saturating_sub(1))
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

/// Selector of the coordinates of each step: those that the mask keeps, minus those that are
/// dropped.
///
/// The selection is the same on every device. On a GPU, the smallest values are found there.
pub struct CoordinateSelector {
    mask: Option<Mask>,
    dropping: Option<Dropping>,
    steps: u64,
    rng: ChaCha20Rng,
    step: u64,
    /// Mask as weights (all ones without a mask), once it has been needed.
    mask_weights: Option<Arc<CoordinateWeights>>,
    /// Indices that the mask keeps, by the path of the parameter. Empty without dropping.
    kept_indices: HashMap<String, Vec<usize>>,
}

impl CoordinateSelector {
    /// Creates a selector for a run of `steps` steps. Only random dropping uses `seed`.
    pub fn new(
        mask: Option<&Mask>,
        dropping: Option<Dropping>,
        steps: u64,
        seed: [u8; 32],
    ) -> Self {
        let rng = ChaCha20Rng::from_seed(seed);
        let tensors = mask.filter(|_| dropping.is_some()).map_or(&[][..], Mask::tensors);
        let kept = |MaskTensor { path, kept, .. }: &MaskTensor| {
            (path.clone(), (0..kept.len()).filter(|&i| kept[i]).collect())
        };
        let kept_indices = tensors.iter().map(kept).collect();
        Self {
            mask: mask.cloned(),
            dropping,
            steps,
            rng,
            step: 0,
            mask_weights: None,
            kept_indices,
        }
    }

    /// Returns the number of steps so far, and the position of the generator.
    pub(crate) fn position(&self) -> (u64, [u64; 2]) {
        let word = self.rng.get_word_pos();
        (self.step, [(word >> 64) as u64, word as u64])
    }

    /// Resumes from the [`position`](Self::position) of a selector for the same run.
    pub(crate) fn resume(&mut self, (step, [high, low]): (u64, [u64; 2])) {
        self.step = step;
        self.rng.set_word_pos(u128::from(high) << 64 | u128::from(low));
    }

    /// Returns the coordinates of the next step, as weights of 0 and 1. `None` selects all
    /// coordinates.
    ///
    /// `network` holds the parameters at the beginning of the step.
    ///
    /// # Errors
    /// `Model` if the mask does not fit the network, `Setting` if the dropping rate is out of
    /// range.
    pub fn next_selection(&mut self, network: &Network) -> Result<Option<Arc<CoordinateWeights>>> {
        let device = network.device();
        let gpu = (device != Device::flex()).then_some(device);
        self.next_selection_on(gpu.as_ref(), network)
    }

    /// Returns the coordinates of the next step as [`next_selection`](Self::next_selection) does,
    /// for a network on this GPU, if any. The weights are on the GPU too.
    pub(super) fn next_selection_on(
        &mut self,
        gpu: Option<&Device>,
        network: &Network,
    ) -> Result<Option<Arc<CoordinateWeights>>> {
        let step = self.step;
        self.step += 1;
        let Some(dropping) = self.dropping else {
            return self.mask.is_some().then(|| self.mask_weights(gpu, network)).transpose();
        };
        dropping.rate.check()?;
        if let Some(mask) = &self.mask {
            mask.check(network)?;
        }
        let rate = dropping.rate.at(step, self.steps);
        if let (DroppingRule::Magnitude, Some(gpu)) = (dropping.rule, gpu) {
            return self.largest_mask_on(gpu, dropping, rate, network).map(Some);
        }
        let parameters = match dropping.rule {
            DroppingRule::Random => Vec::new(),
            DroppingRule::Magnitude => network.host_values(),
        };
        let mut selected = Gradients::zeros_like(network);
        for (index, entry) in selected.entries.iter_mut().enumerate() {
            let indices = self.kept_indices.get(&entry.path);
            let count = indices.map_or(entry.values.len(), Vec::len);
            let drop = dropping.drop_count(rate, &entry.shape, count);
            let kept = match dropping.rule {
                _ if drop == 0 => vec![1.0; count],
                DroppingRule::Random => subset::random_subset(count, drop, self.rng.random()),
                DroppingRule::Magnitude => {
                    let values = parameters[index].slice();
                    match indices {
                        None => subset::largest_mask(values, drop),
                        Some(indices) => {
                            let values: Vec<f32> = indices.iter().map(|&i| values[i]).collect();
                            subset::largest_mask(&values, drop)
                        }
                    }
                }
            };
            match indices {
                None => entry.values = kept.into(),
                Some(indices) => {
                    let values = &mut entry.values[..];
                    indices.iter().zip(kept).for_each(|(&i, kept)| values[i] = kept);
                }
            }
        }
        Ok(Some(to_device(CoordinateWeights::new(network, selected)?, gpu)))
    }

    /// Computes magnitude dropping on the GPU, without a copy to the host.
    fn largest_mask_on(
        &mut self,
        gpu: &Device,
        dropping: Dropping,
        rate: f64,
        network: &Network,
    ) -> Result<Arc<CoordinateWeights>> {
        let mask = self.mask_weights(Some(gpu), network)?;
        let entries = mask.entries().iter().zip(network.tensors()).map(|(entry, values)| {
            let indices = self.kept_indices.get(&entry.path);
            let count = indices.map_or(entry.values.len(), Vec::len);
            let candidates = entry.values.to_tensor(gpu);
            let kept = match dropping.drop_count(rate, &entry.shape, count) {
                0 => candidates,
                drop => kernels::largest_mask(values, candidates, drop),
            };
            let (path, shape) = (entry.path.clone(), entry.shape.clone());
            Gradient { path, id: entry.id, shape, values: DeviceArray::from_tensor(kept) }
        });
        let selected = Gradients { entries: entries.collect() };
        // Dropping keeps at least one coordinate, so a tensor is all zeros only if the mask is.
        let zero = (0..selected.entries.len()).map(|entry| mask.is_zero_tensor(entry)).collect();
        Ok(Arc::new(CoordinateWeights::from_device_mask(network, selected, zero)?))
    }

    /// Returns the mask as weights, all ones without a mask. Copied to the GPU once.
    fn mask_weights(
        &mut self,
        gpu: Option<&Device>,
        network: &Network,
    ) -> Result<Arc<CoordinateWeights>> {
        if let Some(weights) = &self.mask_weights {
            return Ok(weights.clone());
        }
        let weights = match &self.mask {
            Some(mask) => mask.to_weights(network)?,
            None => {
                let mut ones = Gradients::zeros_like(network);
                ones.entries.iter_mut().for_each(|entry| entry.values.fill(1.0));
                CoordinateWeights::new(network, ones)?
            }
        };
        Ok(self.mask_weights.insert(to_device(weights, gpu)).clone())
    }
}

/// Returns the weights, with a copy on this GPU, if any.
fn to_device(weights: CoordinateWeights, gpu: Option<&Device>) -> Arc<CoordinateWeights> {
    Arc::new(match gpu {
        Some(gpu) => weights.with_copy_on(gpu),
        None => weights,
    })
}

#[cfg(test)]
mod tests;
