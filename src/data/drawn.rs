//! What all data sets that are drawn by code have in common: a random stream for each example.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::digest::count;
use crate::{Error, Result};

/// Training and test examples never share a stream.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Train,
    Test,
}

/// The random stream of one example: each has its own, so that the number of threads and of
/// examples can't matter. The tag tells the data sets apart.
pub(super) fn stream(tag: &[u8; 16], seed: u64, part: Part, number: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = match part {
        Part::Train => 0,
        Part::Test => 1,
    };
    key[16..].copy_from_slice(tag);
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(number);
    rng
}

/// Checks the numbers of examples asked for; each takes `size` numbers.
pub(super) fn check_counts(train: usize, test: usize, size: usize) -> Result<()> {
    if train == 0 {
        let why = "there must be training examples";
        return Err(Error::setting("train", train, why).fix("ask for one or more"));
    }
    for (name, n) in [("train", train), ("test", test)] {
        if n > u32::MAX as usize / size {
            let why = "more examples than this lab can number";
            return Err(Error::setting(name, count(n), why).fix("ask for fewer"));
        }
    }
    Ok(())
}

/// Uniform from `low` to `high`.
pub(super) fn between(rng: &mut impl Rng, low: f32, high: f32) -> f32 {
    let unit = (rng.next_u32() >> 8) as f32 / (1 << 24) as f32;
    low + (high - low) * unit
}

/// Nearly normal, mean 0, standard deviation 1, at most 3.5 in size.
pub(super) fn normal(rng: &mut impl Rng) -> f32 {
    // The sum of four bytes has mean 510 and variance 4 (256^2 - 1) / 12.
    let sum: u32 = rng.next_u32().to_le_bytes().into_iter().map(u32::from).sum();
    (sum as f32 - 510.0) / 147.801
}

/// One of several, all equally likely up to a part in 2^32.
pub(super) fn pick<T: Copy>(rng: &mut impl Rng, from: &[T]) -> T {
    from[below(rng, from.len())]
}

/// A whole number below `n`, all equally likely up to a part in 2^32.
pub(super) fn below(rng: &mut impl Rng, n: usize) -> usize {
    ((u64::from(rng.next_u32()) * n as u64) >> 32) as usize
}

/// True with this probability (a part in 2^24 either way).
pub(super) fn chance(rng: &mut impl Rng, probability: f32) -> bool {
    between(rng, 0.0, 1.0) < probability
}
