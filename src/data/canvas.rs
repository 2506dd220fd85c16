//! Painting of colour images of the shape of CIFAR-10, for synthetic data.

use rand::Rng;

use super::signed_distance::Point;
use super::synthetic::{approx_normal, uniform};

/// Pixels along each side.
pub(super) const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
pub(super) type Colour = [f32; 3];

/// Position, rotation and size of a shape on the image. Shapes are drawn with sums, products,
/// quotients and square roots of `f32` only, which give equal bits on every machine.
pub(super) struct Pose {
    pub centre: Point,
    /// Cosine and sine of the rotation.
    pub turn: Point,
    /// Half the width, in pixels.
    pub radius: f32,
    /// Height over width.
    pub aspect: f32,
}

impl Pose {
    /// Converts pixels to units of the shape.
    fn local(&self, (x, y): Point) -> Point {
        let (x, y) = ((x - self.centre.0) / self.radius, (y - self.centre.1) / self.radius);
        let (u, v) = (self.turn.0 * x + self.turn.1 * y, self.turn.0 * y - self.turn.1 * x);
        (u, v / self.aspect)
    }

    /// Returns whether a point is so far away that no shape covers it.
    fn is_far_from(&self, (x, y): Point) -> bool {
        // The shapes end at 1.2 radii, their soft edges one pixel later.
        let reach = 1.2 * self.radius + 2.0;
        (x - self.centre.0).abs() > reach || (y - self.centre.1).abs() > reach
    }
}

/// Returns a rotation with this tangent, which needs a square root but no sine or cosine.
pub(super) fn turn(tangent: f32) -> Point {
    let cos = 1.0 / (1.0 + tangent * tangent).sqrt();
    (cos, tangent * cos)
}

/// An image in the making, 0 black and 1 white.
pub(super) struct Canvas {
    pixels: [Colour; PLANE],
}

impl Canvas {
    /// Creates an image of one colour.
    pub fn new(paper: Colour) -> Self {
        Self { pixels: [paper; PLANE] }
    }

    /// Applies a function to the colour of every pixel, by its number.
    pub fn change(&mut self, change: impl Fn(usize, Colour) -> Colour) {
        for (i, pixel) in self.pixels.iter_mut().enumerate() {
            *pixel = change(i, *pixel);
        }
    }

    /// Draws a shape over the image, with soft edges of one pixel. `ink` is the colour at the pixel
    /// with this number.
    pub fn paint(
        &mut self,
        pose: &Pose,
        form: fn(Point) -> f32,
        ink: impl Fn(usize) -> Colour,
        strength: f32,
    ) {
        for (i, pixel) in self.pixels.iter_mut().enumerate() {
            let at = centre(i);
            if pose.is_far_from(at) {
                continue;
            }
            let distance = form(pose.local(at)) * pose.radius * pose.aspect;
            let cover = strength * (0.5 - distance).clamp(0.0, 1.0);
            pixel.iter_mut().zip(ink(i)).for_each(|(old, new)| *old += cover * (new - *old));
        }
    }

    /// Writes the image as features `(x / 255 - 0.5) / 0.5`, channel by channel, with noise of this
    /// standard deviation and light that changes by `slope` per pixel.
    pub fn scan(&self, rng: &mut impl Rng, noise: f32, slope: Point, into: &mut [f32]) {
        for (i, colour) in self.pixels.iter().enumerate() {
            let (x, y) = centre(i);
            let light = slope.0 * (x - 16.0) + slope.1 * (y - 16.0);
            for (channel, &value) in colour.iter().enumerate() {
                // `as` saturates: values beyond white become white.
                let byte = (255.0 * (value + light + noise * approx_normal(rng)) + 0.5) as u8;
                into[channel * PLANE + i] = (f32::from(byte) / 255.0 - 0.5) / 0.5;
            }
        }
    }
}

/// Returns the centre of the pixel with this number.
pub(super) fn centre(pixel: usize) -> Point {
    ((pixel % SIDE) as f32 + 0.5, (pixel / SIDE) as f32 + 0.5)
}

/// Returns one value per pixel.
pub(super) fn per_pixel(value: impl FnMut(Point) -> f32) -> Vec<f32> {
    (0..PLANE).map(centre).map(value).collect()
}

/// Draws a random colour: a value from 0 to 1 for each channel, within these limits.
pub(super) fn colour(rng: &mut impl Rng, low: f32, high: f32) -> Colour {
    std::array::from_fn(|_| uniform(rng, low, high))
}
