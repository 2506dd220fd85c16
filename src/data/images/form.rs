//! Resizes images of any size to features of one shape.

use image::RgbImage;
use image::imageops::{self, FilterType};

/// The shape and the scale of the features.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Channels, 1 or 3.
    pub(super) channels: usize,
    pub(super) side: usize,
    pub(super) mean: f32,
    pub(super) std: f32,
}

impl Form {
    pub(super) fn shape(&self) -> [usize; 3] {
        [self.channels, self.side, self.side]
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
            match self.channels {
                1 => into[at] = scale(0.299 * red + 0.587 * green + 0.114 * blue),
                _ => {
                    for (channel, value) in [red, green, blue].into_iter().enumerate() {
                        into[channel * plane + at] = scale(value);
                    }
                }
            }
        }
    }
}
