//! Images from random processes: dead leaves over noise with a random spectrum. Begin with
//! `dead_leaves`, which makes the data set; `Process` is a class, and `noise` has the noise behind
//! the leaves.

mod noise;

use rand::Rng;

use super::canvas::{Canvas, Colour, Pose, SIDE, colour, per_pixel, turn};
use super::dataset::Dataset;
use super::signed_distance::{Point, SDF_SHAPES, SdfShape};
use super::synthetic::{
    DataSplit, approx_normal, bernoulli, choose, dataset, example_rng, uniform, uniform_below,
};
use crate::Result;
use noise::Spectrum;

/// Number of random processes, which are the classes.
const CLASSES: usize = 200;

/// Returns colour images of random processes, 3x32x32 as CIFAR-10: overlapping shapes of all sizes
/// ("dead leaves") over noise with a random spectrum, in 200 classes.
///
/// The class is the process that drew the image: its palette, two shapes, the law of their sizes,
/// their direction, and spectrum and strength of the noise. Places, brightness, tint, noise of
/// the camera and how grey the image is are random and independent of the class. To tell the
/// processes apart a network needs edges, textures, shapes and colours, as for photographs: these
/// are the images of a drawn prior for colour images
/// ([`recipes::drawn_prior`](crate::lab::recipes::drawn_prior)). Features are
/// `(x / 255 - 0.5) / 0.5`, as in [`cifar10`](super::cifar10). They contain no private data. The
/// seed decides the processes too. Equal seeds give equal bits, and a smaller data set is a prefix
/// of a larger one.
///
/// (Lee, Mumford and Huang, 2001, "Occlusion models for natural images"; Baradad et al., 2021,
/// "Learning to see by looking at noise", train on such images, and Tang et al., 2023, privately
/// after them.)
///
/// # Errors
/// No training examples, or more than 32-bit indices allow.
pub fn dead_leaves(train: usize, test: usize, seed: u64) -> Result<Dataset> {
    let source = format!(
        "Dead leaves and noise drawn by code from seed {seed}: no download and no private data."
    );
    let names = (0..CLASSES).map(|class| format!("process {class}")).collect();
    let process =
        |class| Process::new(&mut example_rng(b"epsilab process1", seed, DataSplit::Train, class));
    let processes: Vec<_> = (0..CLASSES as u64).map(process).collect();
    let shape = [3, SIDE, SIDE];
    dataset(("dead leaves", source), names, &shape, (train, test), |part, i, into| {
        let mut rng = example_rng(b"epsilab leaves 1", seed, part, i);
        let class = uniform_below(&mut rng, CLASSES);
        processes[class].draw(&mut rng, into);
        class
    })
}

/// Random process that draws images: the properties that the images of one class share.
struct Process {
    palette: Vec<Colour>,
    forms: [SdfShape; 2],
    /// The smallest and the largest radius, in pixels.
    radii: (f32, f32),
    aspect: f32,
    /// Direction of all leaves; `None` if each has its own.
    direction: Option<Point>,
    spectrum: Spectrum,
    /// Standard deviation of the noise on the leaves.
    grain: f32,
}

impl Process {
    fn new(rng: &mut impl Rng) -> Self {
        let colours = 2 + uniform_below(rng, 3);
        let palette = (0..colours).map(|_| tone(rng)).collect();
        let forms = [choose(rng, &SDF_SHAPES), choose(rng, &SDF_SHAPES)];
        let radii = (uniform(rng, 1.5, 4.0), uniform(rng, 9.0, 20.0));
        let aspect = uniform(rng, 0.45, 1.0);
        let common = direction(rng);
        let direction = bernoulli(rng, 0.5).then_some(common);
        let grain = uniform(rng, 0.03, 0.2);
        Self { palette, forms, radii, aspect, direction, spectrum: Spectrum::new(rng), grain }
    }

    fn draw(&self, rng: &mut impl Rng, into: &mut [f32]) {
        let noise = self.spectrum.noise(rng);
        let noise = per_pixel(|at| noise.at(at));
        let ground = near(rng, self.palette[0], 0.08);
        let grain = self.grain * uniform(rng, 0.0, 1.5);
        let mut canvas = Canvas::new(ground);
        canvas.change(|i, colour| colour.map(|x| x + grain * noise[i]));
        for (pose, (_, form)) in self.leaves(rng) {
            let leaf = choose(rng, &self.palette);
            let leaf = near(rng, leaf, 0.12);
            let grain = self.grain * uniform(rng, 0.2, 1.2);
            canvas.paint(&pose, form, |i| leaf.map(|x| x + grain * noise[i]), 1.0);
        }
        let light = Light::new(rng);
        canvas.change(|_, colour| light.on(colour));
        let noise = uniform(rng, 0.0, 0.05);
        canvas.scan(rng, noise, (0.0, 0.0), into);
    }

    /// Draws the leaves of an image, from the back to the front: in half of the images the large
    /// ones are behind the small ones.
    fn leaves(&self, rng: &mut impl Rng) -> Vec<(Pose, SdfShape)> {
        let mut leaves: Vec<_> = (0..10 + uniform_below(rng, 40))
            .map(|_| (self.pose(rng), choose(rng, &self.forms)))
            .collect();
        if bernoulli(rng, 0.5) {
            leaves.sort_by(|(a, _), (b, _)| b.radius.total_cmp(&a.radius));
        }
        leaves
    }

    fn pose(&self, rng: &mut impl Rng) -> Pose {
        // The density of the radius is proportional to its power -2.
        let (smallest, largest) = (1.0 / self.radii.0, 1.0 / self.radii.1);
        let radius = 1.0 / uniform(rng, largest, smallest);
        let centre = (uniform(rng, -6.0, 38.0), uniform(rng, -6.0, 38.0));
        let drawn = direction(rng);
        Pose { centre, turn: self.direction.unwrap_or(drawn), radius, aspect: self.aspect }
    }
}

/// Brightness, tint and colourfulness of an image.
struct Light {
    gains: Colour,
    offsets: Colour,
    /// The fraction of grey: 1 removes all colour.
    grey: f32,
}

impl Light {
    fn new(rng: &mut impl Rng) -> Self {
        let (gain, offset) = (uniform(rng, 0.65, 1.35), uniform(rng, -0.15, 0.15));
        let gains = colour(rng, 0.88, 1.12).map(|tint| gain * tint);
        let offsets = colour(rng, -0.08, 0.08).map(|tint| offset + tint);
        let grey = if bernoulli(rng, 0.2) { 1.0 } else { uniform(rng, 0.0, 0.4) };
        Self { gains, offsets, grey }
    }

    fn on(&self, colour: Colour) -> Colour {
        let mean = colour.iter().sum::<f32>() / 3.0;
        std::array::from_fn(|i| {
            let value = colour[i] + self.grey * (mean - colour[i]);
            (value - 0.5) * self.gains[i] + 0.5 + self.offsets[i]
        })
    }
}

/// Draws a rotation by any multiple of a right angle and up to 45 degrees more.
fn direction(rng: &mut impl Rng) -> Point {
    let (cos, sin) = turn(uniform(rng, -1.0, 1.0));
    if bernoulli(rng, 0.5) { (cos, sin) } else { (-sin, cos) }
}

/// Draws a colour of any brightness, mostly not far from grey.
fn tone(rng: &mut impl Rng) -> Colour {
    let (brightness, spread) = (uniform(rng, 0.1, 0.9), uniform(rng, 0.0, 0.15));
    std::array::from_fn(|_| brightness + spread * approx_normal(rng))
}

/// Draws a colour near the given one; half of the variance is that of the brightness.
fn near(rng: &mut impl Rng, colour: Colour, deviation: f32) -> Colour {
    let brightness = approx_normal(rng);
    colour.map(|value| value + 0.7 * deviation * (brightness + approx_normal(rng)))
}

#[cfg(test)]
mod tests;
