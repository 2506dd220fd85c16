//! The settings of all readers of image files.

use super::form::Form;
use crate::{Error, Result};

/// How images in files become features of one shape.
///
/// ```
/// use epsilab::data::ImageOptions;
/// let colour = ImageOptions::size(64);           // [3, 64, 64], from -1 (black) to 1 (white)
/// let grey = ImageOptions::size(28).grey().scaled(0.0, 1.0);    // [1, 28, 28], from 0 to 1
/// # assert_ne!(colour, grey);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageOptions {
    side: usize,
    grey: bool,
    mean: f32,
    std: f32,
}

impl ImageOptions {
    /// Colour images of `side` by `side` pixels: the square at the centre of each image, resized
    /// with a triangular filter (bilinear, with antialiasing where it is reduced). Features are
    /// `(x / 255 - 0.5) / 0.5`.
    pub fn size(side: usize) -> Self {
        Self { side, grey: false, mean: 0.5, std: 0.5 }
    }

    /// One channel of brightness (0.299 R + 0.587 G + 0.114 B, ITU-R BT.601) instead of three.
    pub fn grey(self) -> Self {
        Self { grey: true, ..self }
    }

    /// Features are `(x / 255 - mean) / std`. Both values must be public: they must not be computed
    /// from the private images.
    pub fn scaled(self, mean: f32, std: f32) -> Self {
        Self { mean, std, ..self }
    }

    pub(super) fn form(self) -> Result<Form> {
        /// A larger image has more features than a network of this library can use.
        const LARGEST: usize = 2048;
        if !(1..=LARGEST).contains(&self.side) {
            let why = format!("images are resized to 1 to {LARGEST} pixels along each side");
            return Err(Error::setting("size", self.side, why).fix("for instance 32 or 64"));
        }
        if !self.mean.is_finite() {
            return Err(Error::setting("mean", self.mean, "it must be a finite number"));
        }
        if !(self.std.is_finite() && self.std > 0.0) {
            return Err(Error::setting("std", self.std, "it must be a finite number above 0"));
        }
        let channels = if self.grey { 1 } else { 3 };
        Ok(Form { channels, side: self.side, mean: self.mean, std: self.std })
    }
}
