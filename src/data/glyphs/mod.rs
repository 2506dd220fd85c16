//! Synthetic digits of the shape of MNIST, without a download. Begin with `glyphs`, or with
//! `drawn_digits`, which are centred as those of MNIST. `shapes` has the strokes of the digits,
//! `renderer` varies them, and `page` makes pixels of them.

mod page;
mod renderer;
mod shapes;

use rand::Rng;

use super::dataset::Dataset;
use super::synthetic::{DataSplit, dataset, example_rng};
use crate::Result;
use page::{PIXELS, SIDE};
use renderer::GlyphRenderer;

/// The names of the ten classes.
pub(super) const DIGIT_NAMES: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Public constants of the normalisation, computed from glyphs of another seed.
const MEAN: f32 = 0.11;
const STD: f32 = 0.23;
/// Mean and standard deviation by which MNIST is scaled.
const MNIST: (f32, f32) = (0.1307, 0.3081);

/// Returns synthetic digits 0 to 9: 12,000 for training and 2,000 for testing, 28x28 grey.
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

/// Generates the digits of [`glyphs`] in the given numbers of examples, from a seed.
///
/// Equal seeds give equal bits on every machine and with any number of threads. A smaller data set
/// is a prefix of a larger one.
///
/// # Errors
/// No training examples, or more than 32-bit indices allow.
pub fn glyphs_with(train: usize, test: usize, seed: u64) -> Result<Dataset> {
    let source = format!("Digits drawn by code from seed {seed}: no download and no private data.");
    let draw = |part, i| glyph(seed, part, i);
    digits(("glyphs", source), (train, test), (MEAN, STD), draw)
}

/// Returns synthetic digits 0 to 9 that are prepared as MNIST is: 28x28 grey, in a box of about
/// 20x20, the centre of mass at the middle, scaled by `(x / 255 - 0.1307) / 0.3081`.
///
/// The shapes are those of [`glyphs`], with twice their variation, clean paper and no stray marks.
/// A model that learns from them knows more about handwriting than one that learns from [`glyphs`]:
/// they are the images of a drawn prior
/// ([`recipes::drawn_prior`](crate::lab::recipes::drawn_prior)). They contain no private data.
/// Equal seeds give equal bits, and a smaller data set is a prefix of a larger one.
///
/// # Errors
/// No training examples, or more than 32-bit indices allow.
pub fn drawn_digits(train: usize, test: usize, seed: u64) -> Result<Dataset> {
    let source = format!(
        "Digits drawn by code from seed {seed} and centred as those of MNIST: no download and no \
         private data."
    );
    let draw = |part, i| digit_in_box(seed, part, i);
    digits(("drawn digits", source), (train, test), MNIST, draw)
}

/// Returns a data set of `counts` training and test digits, scaled by mean and standard deviation.
fn digits(
    description: (&str, String),
    counts: (usize, usize),
    (mean, std): (f32, f32),
    draw: impl Fn(DataSplit, u64) -> (u32, [u8; PIXELS]) + Sync,
) -> Result<Dataset> {
    let names = DIGIT_NAMES.map(String::from).to_vec();
    dataset(description, names, &[1, SIDE, SIDE], counts, |part, i, into| {
        let (label, pixels) = draw(part, i);
        for (x, pixel) in into.iter_mut().zip(pixels) {
            *x = (f32::from(pixel) / 255.0 - mean) / std;
        }
        label as usize
    })
}

/// Returns the drawn digit with this index.
fn digit_in_box(seed: u64, part: DataSplit, number: u64) -> (u32, [u8; PIXELS]) {
    let mut rng = example_rng(b"epsilab digits 1", seed, part, number);
    let label = rng.next_u32() % 10;
    let page = GlyphRenderer::new(rng).write_in_box(label as usize);
    (label, page::centred(&page.grey()))
}

/// Returns the glyph with this index.
fn glyph(seed: u64, part: DataSplit, number: u64) -> (u32, [u8; PIXELS]) {
    let mut rng = example_rng(b"epsilab glyphs 1", seed, part, number);
    // 2^32 is not a multiple of ten, so the digits are uniform up to 2^-32.
    let label = rng.next_u32() % 10;
    let mut hand = GlyphRenderer::new(rng);
    let page = hand.write(label as usize);
    (label, page.to_noisy_grey(&mut hand))
}

#[cfg(test)]
mod tests;
