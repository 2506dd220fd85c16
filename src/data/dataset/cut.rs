//! Data sets cut from others: they keep the ledger of the whole.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::Dataset;
use crate::data::digest::count;
use crate::data::examples::Examples;
use crate::{Error, ErrorKind, Result};

impl Dataset {
    /// Splits the training part at random: `share` of it stays for training, the rest becomes the
    /// test part (in place of the former one). Both keep at least one example.
    ///
    /// The same seed gives the same split on every machine.
    ///
    /// # Errors
    /// A share outside (0, 1), or fewer than two training examples.
    pub fn split(&self, share: f64, seed: u64) -> Result<Self> {
        let len = self.train().len();
        if !(share > 0.0 && share < 1.0) {
            let why = "the share that stays for training must lie between 0 and 1, both excluded";
            return Err(Error::setting("share", share, why).fix("for instance .split(0.8, 7)"));
        }
        if len < 2 {
            let why = "a split needs one example for each of its two parts";
            return Err(Error::setting("training examples", len, why).fix("give more examples"));
        }
        // Rounded, then kept in 1..len: a share of .999 of ten examples must leave a test part.
        let kept = ((share * len as f64).round() as usize).clamp(1, len - 1);
        let order = shuffled(len, seed);
        let (mut train, mut test) = (order[..kept].to_vec(), order[kept..].to_vec());
        train.sort_unstable();
        test.sort_unstable();
        let source = format!(
            "{} Its training part was split by seed {seed}: {} for training, {} for testing.",
            self.source(),
            count(kept),
            count(len - kept)
        );
        Ok(self.with_parts(source, self.train().select(&train), self.train().select(&test)))
    }

    /// The first `train` training examples (at least one) and the first `test` test examples, for
    /// quick trials. Counts beyond the data take all there is.
    ///
    /// The shorter training part has its own [`hash`](Self::hash) but the ledger of the whole.
    pub fn limit(&self, train: usize, test: usize) -> Self {
        let (train, test) = (self.train().take(train.max(1)), self.test().take(test));
        if (train.len(), test.len()) == (self.train().len(), self.test().len()) {
            return self.clone();
        }
        let source = format!(
            "{} Only the first {} training and {} test examples are used.",
            self.source(),
            count(train.len()),
            count(test.len())
        );
        self.with_parts(source, train, test)
    }

    /// Replaces every feature `x` by `(x - mean) / std`.
    ///
    /// The two numbers must be public: known from elsewhere, never measured on the private data,
    /// for that would be a release outside the ledger.
    ///
    /// # Errors
    /// A mean that is not finite, or a standard deviation that is not finite and positive; a text
    /// data set, whose features are numbers of words.
    pub fn normalized(&self, mean: f32, std: f32) -> Result<Self> {
        if !mean.is_finite() {
            return Err(Error::setting("mean", mean, "it must be a finite number"));
        }
        if !(std.is_finite() && std > 0.0) {
            return Err(Error::setting("std", std, "it must be a finite number above 0"));
        }
        if self.vocabulary().is_some() {
            let what = format!("{} holds token ids", self.name());
            let why = "they are numbers of words: scaled, they would name other words or none";
            return Err(Error::new(ErrorKind::Setting, what, why).fix("leave texts as they are"));
        }
        let scaled = |part: &Examples| part.scaled(mean, std);
        let source = format!("{} Features are (x - {mean}) / {std}.", self.source());
        Ok(self.with_parts(source, scaled(self.train()), scaled(self.test())))
    }

    /// The same data set with all features in memory. A folder of images that fits there trains
    /// much faster so: each file is decoded once instead of once per use, and can't break in the
    /// middle of training. Others are unchanged. The numbers are the same, so [`hash`](Self::hash)
    /// and ledger are too, and a run that was stored is found; parts cut afterwards have other
    /// hashes than parts cut before.
    ///
    /// # Errors
    /// If a file can't be read or decoded, or has changed since the folder was opened.
    pub fn in_memory(&self) -> Result<Self> {
        if self.train().is_in_memory() && self.test().is_in_memory() {
            return Ok(self.clone());
        }
        let (train, test) = (self.train().in_memory()?, self.test().in_memory()?);
        let hash = self.hash().to_owned();
        Ok(self.with_parts(self.source().to_owned(), train, test).with_hash(hash))
    }
}

/// A random order of `0..len` (Fisher-Yates on a ChaCha20 stream).
fn shuffled(len: usize, seed: u64) -> Vec<u32> {
    // Not `seed_from_u64`: its expansion is rand's affair, and a split must never change.
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha20Rng::from_seed(key);
    let mut order: Vec<u32> = (0..len as u32).collect();
    for i in (1..len).rev() {
        order.swap(i, rng.random_range(0..=i as u64) as usize);
    }
    order
}
