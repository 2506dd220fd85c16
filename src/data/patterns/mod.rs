//! Synthetic colour images of the shape of CIFAR-10, without a download. Begin with `patterns`. The
//! class of an image is its form, one of `SDF_SHAPES`; all else in it is random.

use rand::Rng;

use super::canvas::{Canvas, Colour, Pose, SIDE, colour, turn};
use super::dataset::Dataset;
use super::signed_distance::SDF_SHAPES;
use super::synthetic::{dataset, example_rng, uniform, uniform_below};
use crate::Result;

/// Returns synthetic coloured shapes and textures in ten classes: 10,000 for training and 2,000
/// for testing, 3x32x32 as CIFAR-10.
///
/// The class is the shape (disc, ring, square, triangle, cross, stripes, checks, dots, zigzag,
/// crescent). Colours, position, size, rotation, shading, blobs and noise are random and
/// independent of the class: a linear model stays near chance, a small CNN reaches 98 % (90 % with
/// epsilon 8). Features are `(x / 255 - 0.5) / 0.5`, as in [`cifar10`](super::cifar10). They
/// contain no private data.
///
/// # Errors
/// None for these sizes; the signature is that of the other data sets.
pub fn patterns() -> Result<Dataset> {
    patterns_with(10_000, 2_000, 0)
}

/// Generates the shapes of [`patterns`] in the given numbers of examples, from a seed.
///
/// Equal seeds give equal bits on every machine and with any number of threads. A smaller data set
/// is a prefix of a larger one.
///
/// # Errors
/// No training examples, or more than 32-bit indices allow.
pub fn patterns_with(train: usize, test: usize, seed: u64) -> Result<Dataset> {
    let source = format!("Shapes drawn by code from seed {seed}: no download and no private data.");
    let names = SDF_SHAPES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let shape = [3, SIDE, SIDE];
    dataset(("patterns", source), names, &shape, (train, test), |part, i, into| {
        let mut rng = example_rng(b"epsilab shapes 1", seed, part, i);
        let class = uniform_below(&mut rng, SDF_SHAPES.len());
        draw(&mut rng, class, into);
        class
    })
}

fn pose(rng: &mut impl Rng, smallest: f32, largest: f32, max_shift: f32) -> Pose {
    let turn = turn(uniform(rng, -0.6, 0.6));
    let middle = SIDE as f32 / 2.0;
    let centre = (
        middle + uniform(rng, -max_shift, max_shift),
        middle + uniform(rng, -max_shift, max_shift),
    );
    Pose { centre, turn, radius: uniform(rng, smallest, largest), aspect: 1.0 }
}

fn draw(rng: &mut impl Rng, class: usize, into: &mut [f32]) {
    let paper = colour(rng, 0.05, 0.95);
    let ink = contrast(rng, paper);
    // The brightness of the background changes along a random direction.
    let slope = (uniform(rng, -0.012, 0.012), uniform(rng, -0.012, 0.012));
    let noise = uniform(rng, 0.01, 0.07);
    let mut canvas = Canvas::new(paper);
    for _ in 0..uniform_below(rng, 4) {
        let blob = pose(rng, 1.5, 3.5, 15.0);
        let (stain, strength) = (colour(rng, 0.05, 0.95), uniform(rng, 0.3, 0.7));
        canvas.paint(&blob, SDF_SHAPES[0].1, |_| stain, strength);
    }
    let strength = uniform(rng, 0.75, 1.0);
    canvas.paint(&pose(rng, 8.0, 13.0, 4.5), SDF_SHAPES[class].1, |_| ink, strength);
    canvas.scan(rng, noise, slope, into);
}

/// Draws a colour that differs from the given one by 0.3 to 0.6 in each channel.
fn contrast(rng: &mut impl Rng, from: Colour) -> Colour {
    from.map(|value| {
        let step = uniform(rng, 0.3, 0.6);
        let up = uniform(rng, 0.0, 1.0) < 0.5;
        let moved = if up { value + step } else { value - step };
        // If one direction would leave the range, the other does not.
        let moved = if (0.0..=1.0).contains(&moved) { moved } else { 2.0 * value - moved };
        moved.clamp(0.0, 1.0)
    })
}

#[cfg(test)]
mod tests;
