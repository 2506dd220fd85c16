//! Gaussian noise from a cryptographic generator.

mod box_muller;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use std::fmt;

use super::Gradients;
use crate::{Error, Result};
use box_muller::normals;

/// Values made from one piece of the stream.
const CHUNK: usize = 2048;

/// Each value takes 64 random bits: two words of the stream.
const WORDS: usize = 2 * CHUNK;

/// Independent Gaussian noise, drawn from ChaCha20.
///
/// Step number `t` uses the generator's stream `t`, and each chunk of values its own place in
/// that stream: the noise depends on the seed, the step and the layout of the parameters only,
/// not on the number of threads, and a run can be resumed at any step.
///
/// # Guarantee
/// Values are Gaussian of the given standard deviation up to the 52-bit uniforms they are made
/// of: |z| stays below 8.6, a tail that a true Gaussian enters with probability 1e-17 per value.
/// They are computed in f64 and rounded to f32 on adding. Like all floating-point noise this is
/// not safe against attacks on the least significant bits (Mironov, 2012).
#[derive(Clone)]
pub struct GaussianNoise {
    seed: [u8; 32],
    step: u64,
}

impl GaussianNoise {
    /// Noise from this seed, at step 0. Who knows the seed can take the noise away again: outside
    /// of studies it must be secret, random and used for one run only.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, step: 0 }
    }

    /// Goes on at this step.
    pub fn at_step(self, step: u64) -> Self {
        Self { step, ..self }
    }

    /// The step whose noise comes next.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Adds noise of this standard deviation to every number, and moves on to the next step.
    ///
    /// # Guarantee
    /// On a sum of clipped gradients with `std = rule.noise_std(noise_multiplier)` this is the
    /// Gaussian mechanism with that noise multiplier. Call it once per step, on the sum, before
    /// any division by a batch size.
    ///
    /// # Errors
    /// If `std` is negative or not finite.
    pub fn add_to(&mut self, gradients: &mut Gradients, std: f64) -> Result<()> {
        if !std.is_finite() || std < 0.0 {
            let why = "the standard deviation of noise is a finite number, zero or more";
            return Err(
                Error::setting("std", std, why).fix("clip gradients at a finite max_grad_norm")
            );
        }
        let mut chunk = 0;
        for entry in &mut gradients.entries {
            entry.values.par_chunks_mut(CHUNK).enumerate().for_each(|(i, values)| {
                let mut noise = [0.0; CHUNK];
                self.fill(chunk + i as u64, &mut noise);
                for (value, z) in values.iter_mut().zip(noise) {
                    *value = (f64::from(*value) + std * z) as f32;
                }
            });
            chunk += entry.values.len().div_ceil(CHUNK) as u64;
        }
        self.step += 1;
        Ok(())
    }

    /// Standard normal values of one chunk of the current step.
    fn fill(&self, chunk: u64, out: &mut [f64; CHUNK]) {
        let mut rng = ChaCha20Rng::from_seed(self.seed);
        rng.set_stream(self.step);
        rng.set_word_pos(u128::from(chunk) * WORDS as u128);
        let mut bytes = [0; 4 * WORDS];
        rng.fill_bytes(&mut bytes);
        let mut bits = [0; CHUNK];
        for (bits, bytes) in bits.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *bits = u64::from_le_bytes(*bytes);
        }
        normals(&bits, out);
    }
}

/// Without the seed: it must not end up in a log or a notebook.
impl fmt::Debug for GaussianNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GaussianNoise").field("step", &self.step).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
