//! Synthetic digits of the shape of MNIST, without a download.

mod hand;
mod ink;
mod shapes;

use rand::Rng;
use rayon::prelude::*;

use super::dataset::Dataset;
use super::drawn::{Part, check_counts, stream};
use super::examples::Examples;
use crate::Result;
use hand::Hand;
use ink::{PIXELS, SIDE};

/// The names of the ten classes.
pub(super) const DIGIT_NAMES: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Public constants of the normalisation, computed from glyphs of another seed.
const MEAN: f32 = 0.11;
const STD: f32 = 0.23;

/// Synthetic digits 0 to 9: 12,000 for training and 2,000 for testing, 28x28 grey.
///
/// Each glyph is one of several shapes of its digit, with random distortion, slant, rotation, size,
/// position, thickness, pressure, contrast, stray marks and noise. A linear model stays below 92 %
/// test accuracy, a small CNN exceeds 97 %. Features are `(x / 255 - 0.11) / 0.23`, with two public
/// constants. They contain no private data.
///
/// # Errors
/// None for these sizes; the signature is that of the other data sets.
pub fn glyphs() -> Result<Dataset> {
    glyphs_with(12_000, 2_000, 0)
}

/// [`glyphs`] with the given numbers of examples and seed.
///
/// Equal seeds give equal bits on every machine and with any number of threads. A smaller data set
/// is a prefix of a larger one.
///
/// # Errors
/// No training examples, or more than 32-bit indices allow.
pub fn glyphs_with(train: usize, test: usize, seed: u64) -> Result<Dataset> {
    check_counts(train, test, PIXELS)?;
    let source = format!("Digits drawn by code from seed {seed}: no download and no private data.");
    let names = DIGIT_NAMES.map(String::from).to_vec();
    let (train, test) = (part(train, seed, Part::Train), part(test, seed, Part::Test));
    Ok(Dataset::new("glyphs", source, names, train, test).drawn_by_code())
}

fn part(len: usize, seed: u64, part: Part) -> Examples {
    let mut features = vec![0.0; len * PIXELS];
    let labels = (features.par_chunks_mut(PIXELS).enumerate())
        .map(|(i, into)| {
            let (label, pixels) = glyph(seed, part, i as u64);
            for (x, pixel) in into.iter_mut().zip(pixels) {
                *x = (f32::from(pixel) / 255.0 - MEAN) / STD;
            }
            label
        })
        .collect();
    Examples::new(&[1, SIDE, SIDE], features, labels)
}

/// The glyph with this index.
fn glyph(seed: u64, part: Part, number: u64) -> (u32, [u8; PIXELS]) {
    let mut rng = stream(b"epsilab glyphs 1", seed, part, number);
    // 2^32 is not a multiple of ten, so the digits are uniform up to 2^-32.
    let label = rng.next_u32() % 10;
    let mut hand = Hand::new(rng);
    let page = hand.write(label as usize);
    (label, page.scan(&mut hand))
}

#[cfg(test)]
mod tests;
