//! Gaussian noise from a cryptographic generator.

use rayon::prelude::*;
use std::fmt;

use super::{Gradient, Gradients, Weights};
use crate::device::DeviceArray;
use crate::device::kernels::stream::{BLOCK, CHUNK, Stream};
use crate::{Error, ErrorKind, Result};

mod device;

/// Pieces that are made on the calling thread: waking others would take longer.
const MIN_PARALLEL_CHUNKS: usize = 24;

/// Draws that are summed for one secure value: 2n with n = 2.
const SECURE_DRAWS: usize = 4;

/// Independent Gaussian noise, drawn from ChaCha20.
///
/// Step number `t` uses the generator's stream `t`, and each chunk of values its own place in
/// that stream: the noise depends on the seed, the step and the layout of the parameters only,
/// not on the number of threads, and a run can be resumed at any step.
///
/// # Guarantee
/// Values are Gaussian of the given standard deviation up to the uniforms they are made of: a
/// radius of 52 bits and an angle of 32. |z| stays below 8.58 standard deviations, a tail that a
/// true Gaussian enters with probability 1e-17 per value. What a neighbour could show by that
/// end adds about 1e-13 per step to delta at a noise multiplier of 1 or more and up to three
/// million parameters (3e-11 at a multiplier of 0.5). Values are computed in f64 and rounded once,
/// to f32, on adding. The time taken does not depend on the values: no draw is ever rejected.
///
/// Floating-point numbers are not real numbers: which results are possible at all depends a
/// little on what was noised (Mironov, 2012; Jin et al., arXiv:2112.05307, break PyTorch's
/// generator that way). Rounding to f32 hides most of it here; see [`secure`](Self::secure).
///
/// DeviceArray on a GPU get their noise there, of the same words, without being copied. The formula is
/// then computed in f32: each value lies within 1e-5 of a standard deviation of what the CPU adds,
/// an error that no accountant knows of, and fewer values are possible, so the attacks above have
/// less to search. Who fears them takes [`secure`](Self::secure), or the CPU.
#[derive(Clone)]
pub struct GaussianNoise {
    seed: [u8; 32],
    step: u64,
    secure: bool,
}

impl GaussianNoise {
    /// Noise from this seed, at step 0. Who knows the seed can take the noise on_device again: outside
    /// of studies it must be secret, random and used for one run only.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, step: 0, secure: false }
    }

    /// Each value becomes half the sum of four (Holohan and Braghin, arXiv:2107.10138, section
    /// 5.1: "2n calls" with n = 2, which Opacus calls secure mode). Four times the work.
    ///
    /// # Guarantee
    /// Half the sum of four independent standard normal values is standard normal: the mechanism
    /// and its accounting stay the same. Who wants to find out which noise could have led to a
    /// result has to search the uniforms of four pairs per value instead of one; the paper counts
    /// 2^(p(2n-1)) trials for uniforms of p bits: 2^156 for 52, 2^96 for the 32 of an angle. The four come from different pairs, since
    /// sine and cosine of one pair add up to a single term, and no two values share more than two
    /// pairs: each draw is shifted against the one before (which is what throwing the first draw
    /// on_device is for, where they come one at a time).
    ///
    /// For numbers on a GPU the noise is drawn on the host and copied there: the construction
    /// wants f64, which not every GPU has. It is rounded to f32 once more then, before the sum.
    ///
    /// It does NOT defend against: a sum whose rounding depends on the order of examples (its
    /// sensitivity is C only up to about 1e-7 of the sum's length), the finite tail, whoever
    /// knows the seed, timing of anything but the noise, and attacks on other parts of a run.
    pub fn secure(self) -> Self {
        Self { secure: true, ..self }
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
        self.add(gradients, std, None)
    }

    /// Adds noise where the weight is not zero, the same noise as [`add_to`](Self::add_to) there,
    /// and moves on to the next step. The other coordinates stay zero.
    ///
    /// # Guarantee
    /// On a weighted sum made with these weights and `std = rule.noise_std(noise_multiplier)` this
    /// is the Gaussian mechanism with that noise multiplier, if the weights were fixed without a
    /// look at the batch: selected coordinates change by at most C in L2 norm (a weight of one or
    /// more never makes a norm smaller), and the others are zero for every batch. On a GPU nobody
    /// looks whether they are (a step would wait for it): there they are made exactly zero, by
    /// selection, whatever they were.
    ///
    /// # Errors
    /// If `std` is negative or not finite, the weights matching to other parameters, a weight lies
    /// between 0 and 1 (it would let the sum change by more than C), or a coordinate of weight zero
    /// is not zero on the host (it would be released without noise). Nothing is changed then.
    pub fn add_to_selected(
        &mut self,
        gradients: &mut Gradients,
        std: f64,
        weights: &Weights,
    ) -> Result<()> {
        check_selection(weights, gradients)?;
        self.add(gradients, std, Some(weights))
    }

    fn add(
        &mut self,
        gradients: &mut Gradients,
        std: f64,
        weights: Option<&Weights>,
    ) -> Result<()> {
        if !std.is_finite() || std < 0.0 {
            let why = "the standard deviation of noise is a finite number, zero or more";
            return Err(
                Error::setting("std", std, why).fix("clip gradients at a finite max_grad_norm")
            );
        }
        let (mut next, mut chunks) = (0, Vec::new());
        for (index, entry) in gradients.entries.iter_mut().enumerate() {
            // Passed over, but counted: the noise of a coordinate doesn't depend on the others.
            let first = next;
            next += entry.values.len().div_ceil(CHUNK) as u64;
            if let Some(device) = entry.values.device() {
                let values = entry.values.tensor(&device);
                let selected = weights.map(|weights| (weights, index));
                entry.values = DeviceArray::of(self.noised(values, first, std, selected));
                continue;
            }
            if weights.is_some_and(|weights| weights.is_zero(index)) {
                continue;
            }
            let weights = weights.map(|weights| &weights.entries()[index].values[..]);
            for (i, values) in entry.values.chunks_mut(CHUNK).enumerate() {
                let weights = weights.map(|weights| &weights[i * CHUNK..]);
                chunks.push((first + i as u64, values, weights));
            }
        }
        if chunks.len() > MIN_PARALLEL_CHUNKS {
            chunks.into_par_iter().for_each(|chunk| self.add_chunk(std, chunk));
        } else {
            chunks.into_iter().for_each(|chunk| self.add_chunk(std, chunk));
        }
        self.step += 1;
        Ok(())
    }

    /// Adds the noise of one chunk to its values, where the weights, if any, are not zero.
    fn add_chunk(&self, std: f64, (chunk, values, weights): (u64, &mut [f32], Option<&[f32]>)) {
        let mut noise = [0.0; CHUNK];
        self.fill(chunk, values.len(), &mut noise);
        if let Some(weights) = weights {
            for (z, weight) in noise.iter_mut().zip(weights) {
                *z = if *weight == 0.0 { 0.0 } else { *z };
            }
        }
        for (value, z) in values.iter_mut().zip(noise) {
            *value = (f64::from(*value) + std * z) as f32;
        }
    }

    /// The first `len` standard normal values of one chunk of the current step, at least.
    fn fill(&self, chunk: u64, len: usize, out: &mut [f64; CHUNK]) {
        if !self.secure {
            return self.draw(chunk, len, out);
        }
        let mut draw = [0.0; CHUNK];
        for i in 0..SECURE_DRAWS {
            self.draw(chunk * SECURE_DRAWS as u64 + i as u64, CHUNK, &mut draw);
            // By half the lanes of a block: the partner of a value, its pair's other half, lies
            // once above and once below it.
            draw.rotate_left(i * BLOCK / SECURE_DRAWS);
            for (out, z) in out.iter_mut().zip(draw) {
                *out += 0.5 * z;
            }
        }
    }

    /// Standard normal values from one piece of the current step's stream.
    fn draw(&self, chunk: u64, len: usize, out: &mut [f64; CHUNK]) {
        Stream { seed: self.seed, step: self.step }.draw(chunk, len, out);
    }
}

/// Whether noise on the selected coordinates alone protects this sum.
fn check_selection(weights: &Weights, sum: &Gradients) -> Result<()> {
    let matching = weights.entries().len() == sum.entries.len()
        && weights
            .entries()
            .iter()
            .zip(&sum.entries)
            .all(|(w, g)| w.path == g.path && w.values.len() == g.values.len());
    if !matching {
        let what = "weights and gradients of different parameters";
        let why = "which coordinates get noise would be left to chance";
        return Err(Error::new(ErrorKind::Model, what, why).fix("make both from one network"));
    }
    // What lies on a GPU is not looked at: weights know this of themselves.
    let on_device = |entry: &Gradient| entry.values.device().is_some();
    if let Some(weight) = weights.fractional().filter(|_| sum.entries.iter().any(on_device)) {
        return Err(fractional_weight(weight));
    }
    let pairs = weights.entries().iter().zip(&sum.entries);
    for (weights, sum) in pairs.filter(|(_, sum)| !on_device(sum)) {
        let Some((weight, value)) = unprotected(&weights.values, &sum.values) else { continue };
        if weight > 0.0 {
            return Err(fractional_weight(weight));
        }
        let what = format!("a sum of {value} at a coordinate of weight 0 in {}", sum.path);
        let why = "it would be released without noise";
        return Err(Error::new(ErrorKind::Model, what, why)
            .fix("make the sum with Executor::weighted_sum and the same weights"));
    }
    Ok(())
}

/// A weight between 0 and 1.
fn fractional_weight(weight: f32) -> Error {
    let why = "the weighted norm is clipped, so here the sum may change by more than C";
    Error::setting("weight", weight, why).fix("choose the selected coordinates by zeros and ones")
}

/// The first weight between 0 and 1, or of 0 beside a number that is not, and that number.
fn unprotected(weights: &[f32], values: &[f32]) -> Option<(f32, f32)> {
    let wrong = |w: f32, v: f32| (w > 0.0) & (w < 1.0) | (w == 0.0) & (v != 0.0);
    // Counted block by block: without a way out in between, several go at a time.
    let clean = |(weights, values): &(&[f32], &[f32])| {
        weights.iter().zip(*values).map(|(&w, &v)| u32::from(wrong(w, v))).sum::<u32>() == 0
    };
    let mut blocks = weights.chunks(CHUNK).zip(values.chunks(CHUNK));
    let (weights, values) = blocks.find(|block| !clean(block))?;
    weights.iter().copied().zip(values.iter().copied()).find(|&(w, v)| wrong(w, v))
}

/// Without the seed: it must not end up in a log or a notebook.
impl fmt::Debug for GaussianNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GaussianNoise").field("step", &self.step).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
