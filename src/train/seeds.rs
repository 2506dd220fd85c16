//! The random seeds of a run: separate streams for sampling, masks and noise.

use crate::data::digest::hex;
use crate::mask::MaskSeeds;
use crate::{Error, ErrorKind, Result};
use rand::{Rng, SeedableRng, TryRng, rngs::SysRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Independent seeds for the streams of one run.
///
/// # Guarantee
/// The streams are independent. Without a study seed they come from the operating system's
/// generator. With one they are functions of it, and the guarantee holds only against those who do
/// not know it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Seeds {
    /// Seed of the sampler.
    pub sampling: [u8; 32],
    /// Seed of dropout masks and augmentation.
    #[serde(rename = "masks")]
    pub dropout: [u8; 32],
    /// Seed of the noise.
    pub noise: [u8; 32],
    /// Seed of random masks and random dropping.
    #[serde(rename = "coordinates")]
    pub sparsity: [u8; 32],
    /// Seed of the noise of a mask by DP-SNIP.
    pub mask_noise: [u8; 32],
}

impl Seeds {
    /// Derives the seeds of the run `id` from a study seed, or draws them from the operating
    /// system.
    ///
    /// Runs with one study seed and different ids share no noise: common noise of two releases
    /// would cancel in their difference. On the CPU, the same run gives the same bits. GPUs round
    /// differently, so only one of several repetitions of a run on different devices, or on a GPU,
    /// may be published; the badge says so.
    ///
    /// # Errors
    /// `Io` if the operating system gives no randomness.
    pub fn new(seed: Option<u64>, id: &str) -> Result<Self> {
        let stream = |name| match seed {
            Some(seed) => Ok(derive(seed, id, name)),
            None => from_system(),
        };
        Ok(Self {
            sampling: stream("sampling")?,
            dropout: stream("masks")?,
            noise: stream("noise")?,
            sparsity: stream("coordinates")?,
            mask_noise: stream("mask noise")?,
        })
    }

    /// Returns the seeds of the coordinates of the run.
    pub(crate) fn mask_seeds(&self) -> MaskSeeds {
        let number = |stream: u64| {
            let mut rng = ChaCha20Rng::from_seed(self.sparsity);
            rng.set_stream(stream);
            rng.next_u64()
        };
        MaskSeeds {
            mask: number(1),
            dropping: self.sparsity,
            noise: self.mask_noise,
            dropout: number(2),
        }
    }

    /// Returns a short random name.
    ///
    /// # Errors
    /// `Io` if the operating system gives no randomness.
    pub(crate) fn nonce() -> Result<String> {
        Ok(hex(&from_system()?[..4]))
    }
}

fn derive(seed: u64, id: &str, stream: &str) -> [u8; 32] {
    Sha256::new()
        .chain_update(b"epsilab stream ")
        .chain_update(stream.as_bytes())
        .chain_update(seed.to_le_bytes())
        .chain_update(id.as_bytes())
        .finalize()
        .into()
}

fn from_system() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| {
        Error::new(
            ErrorKind::Io,
            format!("the operating system provided no randomness ({error})"),
            "predictable noise gives no privacy",
        )
        .fix("set .seed(…) to run in study mode, without a guarantee")
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_differ(seeds: &Seeds) -> bool {
        let Seeds { sampling, dropout, noise, sparsity, mask_noise } = seeds;
        let all = [sampling, dropout, noise, sparsity, mask_noise];
        (0..all.len()).all(|i| all[..i].iter().all(|other| *other != all[i]))
    }

    #[test]
    fn a_study_seed_repeats_a_run_and_separates_streams_and_runs() {
        let seeds = |seed, id| Seeds::new(Some(seed), id).unwrap();
        let (a, b) = (seeds(7, "run"), seeds(7, "run"));
        assert_eq!(a.noise, b.noise);
        assert_eq!((a.sampling, a.dropout), (b.sampling, b.dropout));
        assert!(all_differ(&a));
        assert_ne!(a.dropout, seeds(7, "another run").dropout);
        assert_ne!(a.noise, seeds(8, "run").noise);
        assert_ne!(a.noise, seeds(7, "another run").noise, "runs must not share their noise");
    }

    #[test]
    fn the_operating_system_never_repeats() {
        let (a, b) = (Seeds::new(None, "run").unwrap(), Seeds::new(None, "run").unwrap());
        assert!(a.noise != b.noise && a.sampling != b.sampling && a.dropout != b.dropout);
        assert!(all_differ(&a));
        assert!(a.mask_noise != b.mask_noise && a.sparsity != b.sparsity);
    }
}
