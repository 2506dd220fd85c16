//! Augmentation: several random versions of each image, whose gradients are averaged before
//! clipping.

use std::fmt;

use burn::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::drawn::{below, chance};
use super::examples::{Examples, shape_text};
use crate::device::kernels;
use crate::{Error, ErrorKind, Result};

/// Random flips and crops of images, `copies` versions of each.
///
/// ```
/// use epsilab::data::Augment;
/// let usual = Augment::default();                       // 16 copies, flips, crops of 4 pixels
/// let few = Augment::new().copies(4).flip().crop(2);
/// # assert_ne!(usual, few);
/// ```
///
/// # Guarantee
/// Each version of an image depends on that image, the seed, the step, the image's number and the
/// copy's number only: no image is mixed with another, and batches that share an example show the
/// same versions of it whoever else is in them. The engine averages the gradients of one example's
/// copies before it clips once, so an example still moves the sum by the clip norm at most: the
/// sensitivity is that of training without augmentation (De et al. 2022, arXiv:2204.13650, section
/// on augmentation multiplicity).
/// Assumption: the seed is secret. For every fixed choice of versions the bound holds as it
/// stands; but taking an example out of a data set gives those behind it other numbers, hence other
/// versions. A secret seed makes that invisible, for versions are drawn alike for all numbers (the
/// argument of [`Batch::seed`](crate::engine::Batch::seed)). Training draws the seed from a secret
/// stream of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Augment {
    copies: usize,
    flip: bool,
    crop: usize,
}

impl Default for Augment {
    /// What De et al. 2022 train CIFAR-10 with: 16 copies, flips, crops of 4 pixels.
    fn default() -> Self {
        Self { copies: 16, flip: true, crop: 4 }
    }
}

impl Augment {
    /// One copy, unchanged: the start for a choice of one's own.
    pub fn new() -> Self {
        Self { copies: 1, flip: false, crop: 0 }
    }

    /// How many versions of each image a step uses.
    pub fn copies(self, copies: usize) -> Self {
        Self { copies, ..self }
    }

    /// Mirrors each version left to right with probability 1/2.
    pub fn flip(self) -> Self {
        Self { flip: true, ..self }
    }

    /// Moves each version by up to `padding` pixels each way, uniformly and independently along
    /// both sides; what comes in from beyond the edge is the image mirrored there (the edge itself
    /// is not repeated). The same as padding by reflection and cropping at random.
    pub fn crop(self, padding: usize) -> Self {
        Self { crop: padding, ..self }
    }

    /// How many versions of each image a step uses.
    pub fn multiplicity(&self) -> usize {
        self.copies
    }

    /// Whether examples of this shape can be augmented so.
    ///
    /// # Errors
    /// [`ErrorKind::Setting`] for copies outside 1 to 1,024, a crop not below the shorter side, or
    /// examples that are no images (texts, tables) with flips or crops.
    pub fn check(&self, shape: &[usize]) -> Result<()> {
        /// Beyond this, one example is more work than a whole batch of most.
        const MOST: usize = 1024;
        if !(1..=MOST).contains(&self.copies) {
            let why = format!("a step uses 1 to {MOST} versions of each example");
            return Err(Error::setting("copies", self.copies, why).fix("16 is usual"));
        }
        if !self.flip && self.crop == 0 {
            return Ok(());
        }
        let &[_, height, width] = shape else {
            let what = format!("{self} of examples of shape {}", shape_text(shape));
            let why = "only images (channels, height, width) can be flipped and cropped; words or \
                       columns in another order would mean something else";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("leave augmentation out, or use Augment::new() without flips and crops"));
        };
        if self.crop >= height.min(width) {
            let why = format!(
                "an image of {width}x{height} pixels has only {} to mirror beyond an edge",
                height.min(width) - 1
            );
            return Err(Error::setting("crop", self.crop, why).fix("for instance .crop(4)"));
        }
        Ok(())
    }

    /// The versions of these examples for one step, and the labels (one per example, not per
    /// version). Features are `[ids.len(), copies, shape…]`, row-major.
    ///
    /// A function of its arguments alone: neither the number of threads nor the other examples of
    /// the batch matter.
    ///
    /// # Errors
    /// As [`check`](Self::check) and [`Examples::gather`].
    pub fn batch(
        &self,
        examples: &Examples,
        ids: &[u32],
        seed: u64,
        step: u64,
    ) -> Result<(Vec<f32>, Vec<u32>)> {
        self.check(examples.shape())?;
        let mut plain = Vec::new();
        examples.gather(ids, &mut plain)?;
        let labels = ids.iter().map(|&id| examples.labels()[id as usize]).collect();
        let size: usize = examples.shape().iter().product();
        let mut features = vec![0.0; plain.len() * self.copies];
        (features.par_chunks_mut(size * self.copies).zip(plain.par_chunks(size)).zip(ids))
            .for_each(|((versions, image), &id)| {
                for (copy, version) in versions.chunks_exact_mut(size).enumerate() {
                    let choice = self.choose(seed, step, id, copy as u32);
                    choice.apply(examples.shape(), image, version);
                }
            });
        Ok((features, labels))
    }

    /// The versions that [`batch`](Self::batch) makes, made where the images are: of
    /// `[ids, features]`, `[ids x copies, features]`. What happens to each version is drawn on the
    /// host and taken there, so that all devices see the same versions.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn versions(
        &self,
        images: Tensor<2>,
        shape: &[usize],
        ids: &[u32],
        [seed, step]: [u64; 2],
    ) -> Result<Tensor<2>> {
        self.check(shape)?;
        let shape = match *shape {
            [channels, height, width] => [channels, height, width],
            // What is no image is only repeated.
            _ => [1, 1, shape.iter().product()],
        };
        Ok(kernels::augment(images, shape, &self.choices(ids, seed, step), self.copies))
    }

    /// What happens to every version of these examples, copy after copy: how many rows down and
    /// columns to the right it begins, and 1 if it is flipped.
    fn choices(&self, ids: &[u32], seed: u64, step: u64) -> Vec<[i32; 3]> {
        let of = |&id: &u32| (0..self.copies as u32).map(move |copy| (id, copy));
        let versions: Vec<(u32, u32)> = ids.iter().flat_map(of).collect();
        let number = |(id, copy)| {
            let Choice { down, right, flip } = self.choose(seed, step, id, copy);
            [down as i32, right as i32, i32::from(flip)]
        };
        versions.into_par_iter().map(number).collect()
    }

    /// What happens to one version. Each has a random stream of its own.
    fn choose(&self, seed: u64, step: u64, id: u32, copy: u32) -> Choice {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&step.to_le_bytes());
        key[16..].copy_from_slice(b"epsilab copies 1");
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(u64::from(id) << 32 | u64::from(copy));
        let mut shift = || below(&mut rng, 2 * self.crop + 1) as isize - self.crop as isize;
        let (down, right) = (shift(), shift());
        Choice { down, right, flip: self.flip && chance(&mut rng, 0.5) }
    }
}

/// What happens to one version of an image.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// Where the crop begins, counted from the image's first row and column.
    down: isize,
    right: isize,
    flip: bool,
}

impl Choice {
    fn apply(self, shape: &[usize], image: &[f32], into: &mut [f32]) {
        let &[_, height, width] = shape else {
            // Checked before: nothing is done to other shapes.
            into.copy_from_slice(image);
            return;
        };
        let column = |x: usize| {
            let x = if self.flip { width - 1 - x } else { x };
            mirrored(x as isize + self.right, width)
        };
        let columns: Vec<usize> = (0..width).map(column).collect();
        let planes = image.chunks_exact(height * width).zip(into.chunks_exact_mut(height * width));
        for (image, into) in planes {
            for (y, row) in into.chunks_exact_mut(width).enumerate() {
                let from = &image[mirrored(y as isize + self.down, height) * width..][..width];
                row.iter_mut().zip(&columns).for_each(|(pixel, &x)| *pixel = from[x]);
            }
        }
    }
}

/// A position beyond an edge, reflected at the edge pixel; at most one reflection is needed.
fn mirrored(at: isize, length: usize) -> usize {
    let last = length as isize - 1;
    (if at < 0 {
        -at
    } else if at > last {
        2 * last - at
    } else {
        at
    }) as usize
}

/// `16 copies, flips, crops by 4 pixels`.
impl fmt::Display for Augment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.copies, if self.copies == 1 { "copy" } else { "copies" })?;
        if self.flip {
            f.write_str(", flips")?;
        }
        if self.crop > 0 {
            write!(f, ", crops by {} pixels", self.crop)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
