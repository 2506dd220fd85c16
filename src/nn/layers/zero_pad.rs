//! Zero padding of images.

use burn::module::Module;
use burn::tensor::ops::PadMode;
use serde::{Deserialize, Serialize};

use super::parameter_source::{MAX_SIZE, image_shape};
use crate::nn::BatchTensor;
use crate::{Error, ErrorKind, Result};

/// Specification of a [`ZeroPad2d`] layer. Pairs are (vertical, horizontal), in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZeroPad2dSpec {
    /// Rows above the image, and columns to its left.
    pub before: [usize; 2],
    /// Rows below the image, and columns to its right.
    pub after: [usize; 2],
}

impl ZeroPad2dSpec {
    pub(super) fn check(&self) -> Result<()> {
        let mut sides = self.before.into_iter().chain(self.after);
        let Some(side) = sides.find(|&side| side > MAX_SIZE) else { return Ok(()) };
        let why = format!("at most {MAX_SIZE} pixels can be added on a side");
        Err(Error::new(ErrorKind::Model, format!("zero padding by {side} pixels"), why)
            .fix("check the settings of the layer"))
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let [channels, height, width] = image_shape("ZeroPad2d", input)?;
        self.check()?;
        let padded = |side: usize, axis: usize| {
            side.checked_add(self.before[axis] + self.after[axis]).ok_or_else(|| {
                let what = format!("a ZeroPad2d layer received images of {height} x {width}");
                Error::new(ErrorKind::Model, what, "the padded image is too large")
                    .fix("use smaller images")
            })
        };
        Ok(vec![channels, padded(height, 0)?, padded(width, 1)?])
    }

    pub(super) fn build(&self) -> ZeroPad2d {
        ZeroPad2d { spec: *self }
    }
}

/// Zero padding of images `[batch, channels, height, width]`.
///
/// Convolutions pad by themselves, equally on opposite sides. This layer pads before a pooling
/// layer, which then sees the zeros as pixels, and on one side only: the padding that TensorFlow
/// and JAX call `SAME` adds more below and to the right for strides above 1.
#[derive(Module, Debug)]
pub struct ZeroPad2d {
    #[module(skip)]
    spec: ZeroPad2dSpec,
}

impl ZeroPad2d {
    /// Returns the images with rows and columns of zeros around them.
    pub fn forward(&self, x: BatchTensor) -> BatchTensor {
        let ZeroPad2dSpec { before: [top, left], after: [bottom, right] } = self.spec;
        BatchTensor::Image(x.into_image().pad((left, right, top, bottom), PadMode::Constant(0.0)))
    }
}
