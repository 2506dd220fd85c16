//! Shared code of the synthetic data sets: a random stream per example.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::dataset::Dataset;
use super::digest::format_count;
use super::examples::Examples;
use crate::{Error, Result};

/// Split of an example: training and test examples have different streams.
#[derive(Clone, Copy)]
pub(super) enum DataSplit {
    Train = 0,
    Test = 1,
}

/// Returns the random generator of one example. Each example has its own, so that it depends
/// neither on the number of threads nor on the number of examples. The tag is different for each
/// data set.
pub(super) fn example_rng(tag: &[u8; 16], seed: u64, part: DataSplit, number: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = part as u8;
    key[16..].copy_from_slice(tag);
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(number);
    rng
}

/// Returns a data set drawn by code of this many training and test examples of a shape. `draw`
/// writes the features of the example with an index in its part, which are zero, and returns its
/// class.
pub(super) fn dataset(
    (name, source): (&str, String),
    class_names: Vec<String>,
    shape: &[usize],
    (train, test): (usize, usize),
    draw: impl Fn(DataSplit, u64, &mut [f32]) -> usize + Sync,
) -> Result<Dataset> {
    let size: usize = shape.iter().product();
    check_counts(train, test, size)?;
    let part = |len: usize, part: DataSplit| {
        let mut features = vec![0.0; len * size];
        let each = features.par_chunks_mut(size).enumerate();
        let labels = each.map(|(i, into)| draw(part, i as u64, into) as u32).collect();
        Examples::new(shape, features, labels)
    };
    let (train, test) = (part(train, DataSplit::Train), part(test, DataSplit::Test));
    Ok(Dataset::new(name, source, class_names, train, test).mark_synthetic())
}

/// Checks the requested numbers of examples, each of `size` features.
fn check_counts(train: usize, test: usize, size: usize) -> Result<()> {
    if train == 0 {
        let why = "there must be training examples";
        return Err(Error::setting("train", train, why).fix("use one or more"));
    }
    for (name, n) in [("train", train), ("test", test)] {
        if n > u32::MAX as usize / size {
            let why = "that is more examples than 32-bit indices and memory allow";
            return Err(Error::setting(name, format_count(n), why).fix("use fewer"));
        }
    }
    Ok(())
}

/// Draws a uniform number from `low` to `high`.
pub(super) fn uniform(rng: &mut impl Rng, low: f32, high: f32) -> f32 {
    let unit = (rng.next_u32() >> 8) as f32 / (1 << 24) as f32;
    low + (high - low) * unit
}

/// Draws an approximately normal number: mean 0, standard deviation 1, absolute value at most 3.5.
pub(super) fn approx_normal(rng: &mut impl Rng) -> f32 {
    // The sum of four bytes has mean 510 and variance 4 (256^2 - 1) / 12.
    let sum: u32 = rng.next_u32().to_le_bytes().into_iter().map(u32::from).sum();
    (sum as f32 - 510.0) / 147.801
}

/// Draws one of several values, uniform up to 2^-32.
pub(super) fn choose<T: Copy>(rng: &mut impl Rng, from: &[T]) -> T {
    from[uniform_below(rng, from.len())]
}

/// Draws an integer below `n`, uniform up to 2^-32.
pub(super) fn uniform_below(rng: &mut impl Rng, n: usize) -> usize {
    ((u64::from(rng.next_u32()) * n as u64) >> 32) as usize
}

/// Returns true with this probability, up to 2^-24.
pub(super) fn bernoulli(rng: &mut impl Rng, probability: f32) -> bool {
    uniform(rng, 0.0, 1.0) < probability
}
