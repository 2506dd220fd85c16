//! Augmentation multiplicity: several random copies of each image, whose gradients are averaged
//! before clipping. Begin with `Augment`, the settings: `Augment::batch` makes the copies on the
//! processor, and `Augment::augment_on_device` on the device of a batch.

use std::fmt;

use burn::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::examples::{Examples, format_shape};
use super::images::{self, ReadErrorHandler};
use super::synthetic::{bernoulli, uniform_below};
use crate::device::kernels;
use crate::{Error, ErrorKind, Result};

/// Random flips and crops of images, with several copies of each image per step.
///
/// ```
/// use epsilab::data::Augment;
/// let usual = Augment::default();                       // 16 copies, flips, crops of 4 pixels
/// let few = Augment::new().copies(4).flip().crop(2);
/// # assert_ne!(usual, few);
/// ```
///
/// # Guarantee
/// A copy of an image is a function of that image, the seed, the step, the image's index and the
/// index of the copy. It depends on no other image of the batch. The engine averages the gradients
/// of an example's copies before it clips once, so an example changes the sum by at most the clip
/// norm: the sensitivity is that of training without augmentation (De et al. 2022,
/// arXiv:2204.13650, section on augmentation multiplicity).
///
/// Assumption: the seed is secret. The bound holds for every fixed choice of copies. Removing an
/// example from a data set shifts the indices of later examples and so changes their copies. With a
/// secret seed this changes no distribution, because copies are identically distributed for all
/// indices (the argument of [`Batch::seed`](crate::engine::Batch::seed)). Training draws the seed
/// from a secret stream of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Augment {
    copies: usize,
    flip: bool,
    crop: usize,
}

impl Default for Augment {
    /// Returns the augmentation of De et al. 2022 for CIFAR-10: 16 copies, flips, and crops after
    /// padding by 4 pixels.
    fn default() -> Self {
        Self { copies: 16, flip: true, crop: 4 }
    }
}

impl Augment {
    /// Returns the augmentation that changes nothing, with one copy: the starting point of a custom
    /// one.
    pub fn new() -> Self {
        Self { copies: 1, flip: false, crop: 0 }
    }

    /// Sets the augmentation multiplicity: the number of copies of each image that a step uses.
    pub fn copies(self, copies: usize) -> Self {
        Self { copies, ..self }
    }

    /// Flips each copy horizontally with probability 1/2.
    pub fn flip(self) -> Self {
        Self { flip: true, ..self }
    }

    /// Crops each copy at random after padding the image by `padding` pixels on each side. The
    /// padding reflects the image without repeating its edge pixels.
    pub fn crop(self, padding: usize) -> Self {
        Self { crop: padding, ..self }
    }

    /// Returns the augmentation multiplicity: the number of copies of each image that a step uses.
    pub fn multiplicity(&self) -> usize {
        self.copies
    }

    /// Checks that the augmentation applies to examples of this shape.
    ///
    /// # Errors
    /// [`ErrorKind::Setting`] for fewer than 1 or more than 1,024 copies, for a crop that is not
    /// smaller than the shorter side, and for flips or crops of examples that are not images.
    pub fn check(&self, shape: &[usize]) -> Result<()> {
        self.check_copies()?;
        if !self.flip && self.crop == 0 {
            return Ok(());
        }
        let &[_, height, width] = shape else {
            let what = format!("{self} of examples of shape {}", format_shape(shape));
            let why = "only images (channels, height, width) can be flipped and cropped: words or \
                       columns in another order have another meaning";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("leave augmentation out, or use Augment::new() without flips and crops"));
        };
        if self.crop >= height.min(width) {
            let why = format!(
                "reflecting an image of {width}x{height} pixels can pad it by at most {}",
                height.min(width) - 1
            );
            return Err(Error::setting("crop", self.crop, why).fix("for instance .crop(4)"));
        }
        Ok(())
    }

    /// Checks what does not depend on the shape of an example.
    ///
    /// # Errors
    /// `Setting` for a number of copies out of range.
    pub(crate) fn check_copies(&self) -> Result<()> {
        /// Largest number of copies: with more, one example would cost more than a typical batch.
        const MOST: usize = 1024;
        if (1..=MOST).contains(&self.copies) {
            return Ok(());
        }
        let why = format!("a step uses 1 to {MOST} copies of each example");
        Err(Error::setting("copies", self.copies, why).fix("16 is usual"))
    }

    /// Returns the copies of these examples for one step, `[ids.len(), copies, shape…]` row-major,
    /// and one label per example.
    ///
    /// The result is a function of the arguments. It does not depend on the number of threads, and
    /// the copies of an example do not depend on the other examples.
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
        let mut features = Vec::new();
        self.check(examples.shape())?;
        self.gather(examples, ids, [seed, step], &mut features, &|_, error| Err(error))?;
        let labels = ids.iter().map(|&id| examples.labels()[id as usize]).collect();
        Ok((features, labels))
    }

    /// Appends the features that [`batch`](Self::batch) returns. The shape must have been checked.
    /// `unread` decides about examples that can't be read.
    ///
    /// # Errors
    /// If an index is out of range; those of `unread`. `into` is unchanged then.
    pub(super) fn gather(
        &self,
        examples: &Examples,
        ids: &[u32],
        [seed, step]: [u64; 2],
        into: &mut Vec<f32>,
        unread: ReadErrorHandler,
    ) -> Result<()> {
        examples.check(ids)?;
        let shape = examples.shape();
        let size: usize = shape.iter().product();
        images::gather(ids, size * self.copies, into, unread, |id, buffer, copies| {
            let image = examples.read_one(id, buffer)?;
            for (index, copy) in copies.chunks_exact_mut(size).enumerate() {
                self.transform(seed, step, id, index as u32).apply(shape, image, copy);
            }
            Ok(())
        })
    }

    /// Computes the copies that [`batch`](Self::batch) makes on the device of the images: from
    /// `[ids, features]` to `[ids x copies, features]`. The random transforms are drawn on the
    /// host, so that all devices make the same copies.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn augment_on_device(
        &self,
        images: Tensor<2>,
        shape: &[usize],
        ids: &[u32],
        [seed, step]: [u64; 2],
    ) -> Result<Tensor<2>> {
        self.check(shape)?;
        let shape = match *shape {
            [channels, height, width] => [channels, height, width],
            // Examples that are not images are only repeated.
            _ => [1, 1, shape.iter().product()],
        };
        Ok(kernels::augment(images, shape, &self.transforms(ids, seed, step), self.copies))
    }

    /// Returns the transforms of all copies of these examples: row offset, column offset, and 1 if
    /// the copy is flipped.
    fn transforms(&self, ids: &[u32], seed: u64, step: u64) -> Vec<[i32; 3]> {
        let encoded = |id: u32, copy: u32| {
            let Transform { down, right, flip } = self.transform(seed, step, id, copy);
            [down as i32, right as i32, i32::from(flip)]
        };
        let copies = 0..self.copies as u32;
        let transforms = |&id: &u32| copies.clone().map(move |copy| encoded(id, copy));
        ids.par_iter().flat_map_iter(transforms).collect()
    }

    /// Returns the transform of one copy, from a random stream of its own.
    fn transform(&self, seed: u64, step: u64, id: u32, copy: u32) -> Transform {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&step.to_le_bytes());
        key[16..].copy_from_slice(b"epsilab copies 1");
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(u64::from(id) << 32 | u64::from(copy));
        let mut shift = || uniform_below(&mut rng, 2 * self.crop + 1) as isize - self.crop as isize;
        let (down, right) = (shift(), shift());
        Transform { down, right, flip: self.flip && bernoulli(&mut rng, 0.5) }
    }
}

/// The random transform of one copy of an image.
#[derive(Clone, Copy, Debug)]
struct Transform {
    /// Offset of the crop from the image's first row, and from its first column.
    down: isize,
    right: isize,
    flip: bool,
}

impl Transform {
    fn apply(self, shape: &[usize], image: &[f32], into: &mut [f32]) {
        let &[_, height, width] = shape else {
            // `check` allows flips and crops for images only.
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

/// Reflects a position outside the image at the edge pixel; at most one reflection is needed.
fn mirrored(at: isize, length: usize) -> usize {
    let last = length as isize - 1;
    (if at < 0 { -at } else { at.min(2 * last - at) }) as usize
}

/// Formats the augmentation as `16 copies, flips, crops by 4 pixels`.
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
