//! The settings of all readers of image files.

use image::RgbImage;
use image::imageops::{self, FilterType};

use crate::data::examples::check_scale;
use crate::{Error, Result};

/// Options for the conversion of images in files to features of one shape.
///
/// ```
/// use epsilab::data::ImageOptions;
/// let colour = ImageOptions::size(64);           // [3, 64, 64], from -1 (black) to 1 (white)
/// let grey = ImageOptions::size(28).grey().scaled(0.0, 1.0);    // [1, 28, 28], from 0 to 1
/// # assert_ne!(colour, grey);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageOptions {
    pub(super) side: usize,
    grey: bool,
    pub(super) mean: f32,
    pub(super) std: f32,
}

impl ImageOptions {
    /// Creates options for colour images of `side` by `side` pixels: the square at the centre of
    /// each image, resized with a triangular filter (bilinear, with antialiasing where it is
    /// reduced). Features are `(x / 255 - 0.5) / 0.5`.
    pub fn size(side: usize) -> Self {
        Self { side, grey: false, mean: 0.5, std: 0.5 }
    }

    /// Uses one channel of brightness (0.299 R + 0.587 G + 0.114 B, ITU-R BT.601) instead of
    /// three.
    pub fn grey(self) -> Self {
        Self { grey: true, ..self }
    }

    /// Scales the features as `(x / 255 - mean) / std`. Both values must be public: they must not
    /// be computed from the private images.
    pub fn scaled(self, mean: f32, std: f32) -> Self {
        Self { mean, std, ..self }
    }

    /// Returns the options, if they are in range.
    pub(super) fn checked(self) -> Result<Self> {
        /// Largest side in pixels: a larger image has more features than a network of this library
        /// can use.
        const LARGEST: usize = 2048;
        if !(1..=LARGEST).contains(&self.side) {
            let why = format!("images are resized to 1 to {LARGEST} pixels along each side");
            return Err(Error::setting("size", self.side, why).fix("for instance 32 or 64"));
        }
        check_scale(self.mean, self.std).map(|()| self)
    }

    /// Returns channels, height and width.
    pub(super) fn shape(&self) -> [usize; 3] {
        [if self.grey { 1 } else { 3 }, self.side, self.side]
    }

    /// Cuts out the square at the centre of an image, resizes it, and scales its values:
    /// `[channels, side, side]`.
    ///
    /// Each target pixel is a mean of source pixels with triangular weights that reach to the
    /// centres of its neighbours (at least one source pixel): linear interpolation where the square
    /// is enlarged, averaging where it is reduced. Means are rounded to whole numbers, as in the
    /// image.
    pub(super) fn features(&self, image: &RgbImage, into: &mut [f32]) {
        let ((width, height), side) = (image.dimensions(), self.side as u32);
        let edge = width.min(height);
        let (left, top) = ((width - edge) / 2, (height - edge) / 2);
        let square = imageops::crop_imm(image, left, top, edge, edge);
        let small = imageops::resize(&*square, side, side, FilterType::Triangle);
        let scale = |value: f32| (value / 255.0 - self.mean) / self.std;
        let plane = self.side * self.side;
        for (at, pixel) in small.pixels().enumerate() {
            let [red, green, blue] = pixel.0.map(f32::from);
            if self.grey {
                into[at] = scale(0.299 * red + 0.587 * green + 0.114 * blue);
                continue;
            }
            for (channel, value) in [red, green, blue].into_iter().enumerate() {
                into[channel * plane + at] = scale(value);
            }
        }
    }
}
