//! Random pruning.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

use super::origin::{MaskOrigin, PrivacyStatus};
use super::rate::{check_pruning, dropped_count, in_percent};
use super::saliency::prunable;
use super::subset;
use super::{Mask, MaskTensor};
use crate::Result;
use crate::nn::{Model, os_random_seed};

/// Random pruning: drops the same fraction of every weight tensor, uniformly at random (random
/// pre-pruning of the pre-pruning paper).
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let mask = RandomMask::keep(0.25).seed(7).mask(&model)?;
/// assert!(mask.tensors().iter().all(|tensor| tensor.density() == 0.25));
/// let method = DpSgd::new().noise_multiplier(1.0).pre_prune(RandomMask::keep(0.25)); // in the run
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// Data-free: the mask costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomMask {
    pub(super) rate: f64,
    #[serde(default)]
    include_1d: bool,
    seed: Option<u64>,
}

impl RandomMask {
    /// Keeps this fraction of each weight tensor.
    pub fn keep(fraction: f64) -> Self {
        Self::prune(1.0 - fraction)
    }

    /// Drops this fraction of each weight tensor.
    pub fn prune(rate: f64) -> Self {
        Self { rate, include_1d: false, seed: None }
    }

    /// Sets the seed of the random choice. Without it, the operating system provides one.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Prunes biases and normalisation parameters too.
    pub fn include_1d(self) -> Self {
        Self { include_1d: true, ..self }
    }

    /// Returns the same method with this seed, unless it has a seed already.
    pub(crate) fn with_default_seed(self, seed: u64) -> Self {
        Self { seed: self.seed.or(Some(seed)), ..self }
    }

    /// Makes the mask for a model.
    ///
    /// # Errors
    /// `Setting` if the rate is not in [0, 1); `Io` if the operating system provides no randomness.
    pub fn mask(&self, model: &Model) -> Result<Mask> {
        let rate = check_pruning(self.rate)?;
        let seed = self.seed.map_or_else(os_random_seed, Ok)?;
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let tensors = prunable(model.network(), self.include_1d).into_iter().map(|parameter| {
            let n = parameter.len();
            let drop = dropped_count(rate, n).min(n - 1);
            let kept = subset::random_subset(n, drop, rng.random());
            let kept = kept.into_iter().map(|kept| kept != 0.0).collect();
            MaskTensor { path: parameter.path, shape: parameter.shape, kept }
        });
        let method = format!("random, {} dropped", in_percent(rate));
        let origin = MaskOrigin::new(method, PrivacyStatus::DataFree);
        Mask::with_origin(tensors.collect(), origin)
    }
}
