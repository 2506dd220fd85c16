//! Noise with a given spectrum: a sum of random lattices of several spacings, each interpolated.
//! Lattices instead of a Fourier transform give equal bits on every machine.

use rand::Rng;

use crate::data::canvas::turn;
use crate::data::signed_distance::Point;
use crate::data::synthetic::{approx_normal, bernoulli, uniform};

/// Number of octaves: spacings of 1, 2, 4, 8 and 16 pixels.
const OCTAVES: usize = 5;
/// Number of points along each side of the lattices, beyond which they are repeated.
const POINTS: usize = 32;

/// Spectrum of the noise: the strength of each octave, and the direction along which the noise is
/// stretched.
pub(super) struct Spectrum {
    amplitudes: [f32; OCTAVES],
    direction: Point,
    stretch: f32,
}

impl Spectrum {
    /// Creates a random spectrum, from one of fine grain to one of large clouds, of variance about
    /// 1.
    pub fn new(rng: &mut impl Rng) -> Self {
        let tilt = uniform(rng, 0.5, 2.0);
        let mut next = 1.0;
        let mut amplitudes = [0.0; OCTAVES];
        for amplitude in &mut amplitudes {
            *amplitude = next * uniform(rng, 0.5, 1.5);
            next *= tilt;
        }
        let norm = amplitudes.iter().map(|a| a * a).sum::<f32>().sqrt();
        let direction = turn(uniform(rng, -1.0, 1.0));
        let stretch = if bernoulli(rng, 0.5) { uniform(rng, 1.0, 3.0) } else { 1.0 };
        Self { amplitudes: amplitudes.map(|a| a / norm), direction, stretch }
    }

    /// Returns a random image with this spectrum.
    pub fn noise(&self, rng: &mut impl Rng) -> Noise<'_> {
        let mut lattice = |_| (0..POINTS * POINTS).map(|_| approx_normal(rng)).collect();
        Noise { law: self, lattices: std::array::from_fn(&mut lattice) }
    }
}

/// Random noise with one value per point of the image.
pub(super) struct Noise<'a> {
    law: &'a Spectrum,
    lattices: [Vec<f32>; OCTAVES],
}

impl Noise<'_> {
    /// Returns the value at a point of the image.
    pub fn at(&self, (x, y): Point) -> f32 {
        let (cos, sin) = self.law.direction;
        let (along, across) = (cos * x + sin * y, self.law.stretch * (cos * y - sin * x));
        let mut sum = 0.0;
        let mut spacing = 1.0;
        for (lattice, amplitude) in self.lattices.iter().zip(self.law.amplitudes) {
            sum += amplitude * interpolated(lattice, along / spacing, across / spacing);
            spacing *= 2.0;
        }
        sum
    }
}

fn interpolated(lattice: &[f32], u: f32, v: f32) -> f32 {
    let (column, row) = (u.floor(), v.floor());
    let (s, t) = (smooth(u - column), smooth(v - row));
    let wrap = |i: f32| (i as i32).rem_euclid(POINTS as i32) as usize;
    let value = |i: f32, j: f32| lattice[wrap(j) * POINTS + wrap(i)];
    let mix = |a: f32, b: f32, t: f32| a + t * (b - a);
    let upper = mix(value(column, row), value(column + 1.0, row), s);
    let lower = mix(value(column, row + 1.0), value(column + 1.0, row + 1.0), s);
    mix(upper, lower, t)
}

/// Returns a smooth step from 0 to 1 with slope 0 at both ends.
fn smooth(t: f32) -> f32 {
    t * t * (3.0 - 2.0 * t)
}
