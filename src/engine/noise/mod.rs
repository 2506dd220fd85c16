//! Gaussian noise from a cryptographically secure generator.

use rayon::prelude::*;
use std::fmt;

use super::{CoordinateWeights, Gradient, Gradients};
use crate::device::DeviceArray;
use crate::device::is_stub_device;
use crate::device::kernels::noise_stream::{NORMALS_PER_BLOCK, NORMALS_PER_CHUNK, NoiseStream};
use crate::{Error, ErrorKind, Result};

mod device;

/// Smallest number of chunks that are drawn in parallel; with fewer, the calling thread draws all
/// of them: waking others takes longer.
const MIN_PARALLEL_CHUNKS: usize = 24;

/// Draws that are summed for one value in secure mode: 2n with n = 2.
const SECURE_DRAWS: usize = 4;

/// Independent Gaussian noise, drawn from ChaCha20.
///
/// Step `t` uses the generator's stream `t`, and every chunk of values has a fixed position in that
/// stream. The noise therefore depends on the seed, the step and the parameter layout only. It does
/// not depend on the number of threads, and a run can be resumed at any step.
///
/// # Guarantee
/// Values are Gaussian with the given standard deviation up to the resolution of the uniforms in
/// the Box–Muller transform: a relative 2^-32 of the one that makes the radius, and 32 bits for the
/// angle. The tail is not cut: a radius beyond 5.2 standard deviations is computed from up to 576
/// bits, so |z| stays below 28.3 standard deviations, which a true Gaussian exceeds with
/// probability 1e-175. Values are computed in f64 and rounded once, to f32, when they are added.
/// No draw is rejected; one pair in a million takes a few hundred nanoseconds longer because it is
/// in the tail.
///
/// Floating-point noise is not exactly Gaussian: the set of possible outputs depends slightly on
/// the value that the noise is added to (Mironov, 2012; Jin et al., arXiv:2112.05307, attack
/// PyTorch's generator that way). Rounding to f32 hides most of this here; see
/// [`secure`](Self::secure).
///
/// Values on a GPU get noise from the same random bits there, without a copy to the host. The
/// transform is then computed in f32: each value is within 1e-5 standard deviations of the value on
/// the CPU. No accountant covers this error, and there are fewer possible values, so the attacks
/// above have less to search. If that matters, use [`secure`](Self::secure) or train on the CPU.
#[derive(Clone)]
pub struct GaussianNoise {
    seed: [u8; 32],
    step: u64,
    secure: bool,
}

impl GaussianNoise {
    /// Creates noise from this seed, starting at step 0. Whoever knows the seed can subtract the
    /// noise: except in seeded runs, the seed must be secret, random and used for a single run.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, step: 0, secure: false }
    }

    /// Enables secure mode: each value is half the sum of four draws (Holohan and Braghin,
    /// arXiv:2107.10138, section 5.1, with n = 2; Opacus' secure mode). Costs four times as much.
    ///
    /// # Guarantee
    /// Half the sum of four independent standard normal values is standard normal, so the mechanism
    /// and its accounting do not change. An attacker who looks for the noise that could have led to
    /// a result must search the uniforms of four pairs per value instead of one: 2^(p(2n-1)) trials
    /// for uniforms of p bits, according to the paper, which is 2^156 for p = 52 and 2^96 for the
    /// 32 bits of an angle. The four draws of a value come from different pairs, because the sine
    /// and cosine of one pair would combine into a single term, and two values share at most two
    /// pairs. To this end, each draw is rotated against the previous one; the paper discards the
    /// first draw for the same purpose.
    ///
    /// Values on a GPU get noise that is drawn on the host and copied, because the construction
    /// needs f64. It is rounded to f32 once more before it is added.
    ///
    /// Secure mode does not protect against a sum whose rounding depends on the order of examples
    /// (the sensitivity is C only up to about 1e-7 of the norm of the sum), disclosure of the seed,
    /// timing, or attacks on other parts of a run.
    pub fn secure(self) -> Self {
        Self { secure: true, ..self }
    }

    /// Sets the step of the next call, to resume a run.
    pub fn at_step(self, step: u64) -> Self {
        Self { step, ..self }
    }

    /// Returns the step of the next call.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Adds noise with standard deviation `std` to every value and advances to the next step.
    ///
    /// # Guarantee
    /// On a sum of clipped gradients, with `std = rule.noise_std(noise_multiplier)`, this is the
    /// Gaussian mechanism with that noise multiplier. Call it once per step, on the sum, before
    /// dividing by a batch size.
    ///
    /// # Errors
    /// If `std` is negative or not finite.
    pub fn add_to(&mut self, gradients: &mut Gradients, std: f64) -> Result<()> {
        let stds = vec![std; gradients.entries.len()];
        self.add_to_each(gradients, &stds, None)
    }

    /// Adds noise to the coordinates of non-zero weight and advances to the next step. The noise of
    /// a coordinate is the same as in [`add_to`](Self::add_to). The other coordinates stay zero.
    ///
    /// # Guarantee
    /// On a weighted sum made with these weights, with `std = rule.noise_std(noise_multiplier)`,
    /// this is the Gaussian mechanism with that noise multiplier, provided that the weights do not
    /// depend on the batch. One example changes the selected coordinates by at most C in L2 norm,
    /// because weights of one or more never reduce a norm, and the other coordinates are zero for
    /// every batch. On a GPU the latter is not checked, since a check would synchronise; these
    /// coordinates are set to zero instead.
    ///
    /// # Errors
    /// If `std` is negative or not finite; if the weights belong to other parameters; if a weight
    /// lies strictly between 0 and 1, since the sum could then change by more than C; or if a
    /// coordinate of weight zero is not zero on the host, since it would be released without noise.
    /// The sum is then unchanged.
    pub fn add_to_selected(
        &mut self,
        gradients: &mut Gradients,
        std: f64,
        weights: &CoordinateWeights,
    ) -> Result<()> {
        let stds = vec![std; gradients.entries.len()];
        self.add_to_each(gradients, &stds, Some(weights))
    }

    /// Adds noise with standard deviation `stds[p]` to the selected values of parameter tensor p
    /// and advances to the next step. `None` selects all values.
    ///
    /// # Guarantee
    /// On a sum with a bound of several groups, made with these weights, this is the Gaussian
    /// mechanism with the noise multiplier
    /// [`joint_noise_multiplier(stds)`](super::ClipGroups::joint_noise_multiplier). As
    /// [`add_to_selected`](Self::add_to_selected) otherwise.
    ///
    /// # Errors
    /// As [`add_to_selected`](Self::add_to_selected), and unless there is one standard deviation
    /// per parameter tensor.
    pub fn add_to_each(
        &mut self,
        gradients: &mut Gradients,
        stds: &[f64],
        weights: Option<&CoordinateWeights>,
    ) -> Result<()> {
        weights.map_or(Ok(()), |weights| check_selection(weights, gradients))?;
        if let Some(std) = stds.iter().find(|std| !std.is_finite() || **std < 0.0) {
            let why = "the standard deviation of the noise must be finite and at least 0";
            return Err(
                Error::setting("std", std, why).fix("clip gradients at a finite max_grad_norm")
            );
        }
        if stds.len() != gradients.entries.len() {
            let what = format!("noise for {} parameter tensors", stds.len());
            let why = format!("the sum has {}", gradients.entries.len());
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("use ClipGroups::noise_stds of a bound on the same network"));
        }
        let (mut next, mut chunks) = (0, Vec::new());
        for (index, entry) in gradients.entries.iter_mut().enumerate() {
            // Skipped chunks count: the noise of a coordinate does not depend on the selection.
            let first = next;
            next += entry.values.len().div_ceil(NORMALS_PER_CHUNK) as u64;
            if let Some(device) = entry.values.device() {
                let values = entry.values.to_tensor(&device);
                let selected = weights.map(|weights| (weights, index));
                let noised = self.add_on_device(values, first, stds[index], selected);
                entry.values = DeviceArray::from_tensor(noised);
                continue;
            }
            if weights.is_some_and(|weights| weights.is_zero_tensor(index)) {
                continue;
            }
            let weights = weights.map(|weights| &weights.entries()[index].values[..]);
            for (i, values) in entry.values.chunks_mut(NORMALS_PER_CHUNK).enumerate() {
                let weights = weights.map(|weights| &weights[i * NORMALS_PER_CHUNK..]);
                chunks.push((stds[index], (first + i as u64, values, weights)));
            }
        }
        if chunks.len() > MIN_PARALLEL_CHUNKS {
            chunks.into_par_iter().for_each(|(std, chunk)| self.add_chunk(std, chunk));
        } else {
            chunks.into_iter().for_each(|(std, chunk)| self.add_chunk(std, chunk));
        }
        self.step += 1;
        Ok(())
    }

    /// Adds the noise of one chunk to its values where the weight is not zero.
    fn add_chunk(&self, std: f64, (chunk, values, weights): (u64, &mut [f32], Option<&[f32]>)) {
        let mut noise = [0.0; NORMALS_PER_CHUNK];
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

    /// Fills at least the first `len` values of `out` with the noise of one chunk at this step.
    fn fill(&self, chunk: u64, len: usize, out: &mut [f64; NORMALS_PER_CHUNK]) {
        if !self.secure {
            return self.draw(chunk, len, out);
        }
        let mut draw = [0.0; NORMALS_PER_CHUNK];
        for i in 0..SECURE_DRAWS {
            self.draw(chunk * SECURE_DRAWS as u64 + i as u64, NORMALS_PER_CHUNK, &mut draw);
            // Rotating by half the lanes of a block pairs each value with different partners: the
            // other half of its Box–Muller pair lies once above and once below it.
            draw.rotate_left(i * NORMALS_PER_BLOCK / SECURE_DRAWS);
            for (out, z) in out.iter_mut().zip(draw) {
                *out += 0.5 * z;
            }
        }
    }

    /// Draws standard normal values from one chunk of this step's stream.
    fn draw(&self, chunk: u64, len: usize, out: &mut [f64; NORMALS_PER_CHUNK]) {
        NoiseStream { seed: self.seed, step: self.step }.draw(chunk, len, out);
    }
}

/// Checks that noise on the selected coordinates alone protects this sum.
fn check_selection(weights: &CoordinateWeights, sum: &Gradients) -> Result<()> {
    let matching = weights.entries().len() == sum.entries.len()
        && weights
            .entries()
            .iter()
            .zip(&sum.entries)
            .all(|(w, g)| w.path == g.path && w.values.len() == g.values.len());
    if !matching {
        let what = "weights and gradients of different parameters";
        let why = "noise would be added to the wrong coordinates";
        return Err(
            Error::new(ErrorKind::Model, what, why).fix("create both from the same network")
        );
    }
    // Values on a GPU are not read; the weights have recorded whether one is fractional.
    let on_device = |entry: &Gradient| entry.values.device().is_some();
    if let Some(weight) =
        weights.first_fractional_weight().filter(|_| sum.entries.iter().any(on_device))
    {
        return Err(fractional_weight(weight));
    }
    let pairs = weights.entries().iter().zip(&sum.entries);
    for (weights, sum) in pairs.filter(|(_, sum)| !on_device(sum)) {
        let Some((weight, value)) = find_unprotected(&weights.values, &sum.values) else {
            continue;
        };
        // Nothing was computed there, and nothing is released.
        if is_stub_device() {
            continue;
        }
        if weight > 0.0 {
            return Err(fractional_weight(weight));
        }
        let what = format!("a sum of {value} at a coordinate of weight 0 in {}", sum.path);
        let why = "the value would be released without noise";
        return Err(Error::new(ErrorKind::Model, what, why)
            .fix("compute the sum with Executor::weighted_sum and the same weights"));
    }
    Ok(())
}

/// Returns the error for a weight strictly between 0 and 1.
fn fractional_weight(weight: f32) -> Error {
    let why = "with this weight the sum can change by more than the bound on the weighted norm";
    Error::setting("weight", weight, why).fix("use zeros and ones to select coordinates")
}

/// Returns the first weight strictly between 0 and 1, or weight 0 of a non-zero value, with that
/// value.
fn find_unprotected(weights: &[f32], values: &[f32]) -> Option<(f32, f32)> {
    let wrong = |w: f32, v: f32| (w > 0.0) & (w < 1.0) | (w == 0.0) & (v != 0.0);
    // No early exit within a block: the compiler vectorises the count.
    let clean = |(weights, values): &(&[f32], &[f32])| {
        weights.iter().zip(*values).map(|(&w, &v)| u32::from(wrong(w, v))).sum::<u32>() == 0
    };
    let mut blocks = weights.chunks(NORMALS_PER_CHUNK).zip(values.chunks(NORMALS_PER_CHUNK));
    let (weights, values) = blocks.find(|block| !clean(block))?;
    weights.iter().copied().zip(values.iter().copied()).find(|&(w, v)| wrong(w, v))
}

/// Omits the seed, which must not end up in a log or a notebook.
impl fmt::Debug for GaussianNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GaussianNoise").field("step", &self.step).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
