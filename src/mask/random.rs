//! Random masks: no data, no scores.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

use super::choose;
use super::covered::{Covered, Origin};
use super::rate::{check_pruning, dropped_of, in_percent};
use super::saliency::prunable;
use super::{Kept, Mask};
use crate::Result;
use crate::nn::{Model, fresh_seed};

/// Drops the same share of every weight tensor, uniformly at random (the paper's random
/// pre-pruning).
///
/// # Guarantee
/// Data-free: the mask costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomMask {
    rate: f64,
    #[serde(default)]
    include_1d: bool,
    seed: Option<u64>,
}

impl RandomMask {
    /// Keeps this share of each weight tensor.
    pub fn keep(share: f64) -> Self {
        Self::prune(1.0 - share)
    }

    /// Drops this share of each weight tensor.
    pub fn prune(rate: f64) -> Self {
        Self { rate, include_1d: false, seed: None }
    }

    /// The seed of the choice; taken from the operating system if not given.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Prunes biases and the factors of normalisation too.
    pub fn include_1d(self) -> Self {
        Self { include_1d: true, ..self }
    }

    /// The same with this seed, unless it has one.
    pub(crate) fn or_seed(self, seed: u64) -> Self {
        Self { seed: self.seed.or(Some(seed)), ..self }
    }

    /// The share that is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The mask for a model.
    ///
    /// # Errors
    /// Kind `Setting` for a rate outside [0, 1); kind `Io` if the operating system gives no
    /// randomness.
    pub fn mask(&self, model: &Model) -> Result<Mask> {
        let rate = check_pruning(self.rate)?;
        let seed = self.seed.map_or_else(fresh_seed, Ok)?;
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let tensors = prunable(model.network(), self.include_1d).into_iter().map(|parameter| {
            let n = parameter.len();
            let drop = dropped_of(rate, n).min(n - 1);
            let kept = choose::at_random(n, drop, rng.random());
            let kept = kept.into_iter().map(|kept| kept != 0.0).collect();
            Kept { path: parameter.path, shape: parameter.shape, kept }
        });
        let how = format!("random, {} dropped", in_percent(rate));
        let origin = Origin::new(how, Covered::DataFree);
        Mask::made(tensors.collect(), origin)
    }
}
