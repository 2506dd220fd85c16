//! Zero padding of images, channels last.

use super::op::{Backward, Forward, InputGradient, Op};
use crate::nn::ZeroPad2dSpec;

/// Rows and columns of zeros around an image.
pub(super) struct ZeroPad {
    /// Number of values in a row of the image, and in a row of the padded image.
    row: usize,
    padded_row: usize,
    /// Number of rows of the image, and of the padded image.
    rows: usize,
    padded_rows: usize,
    /// Index of the image's first value in the padded image.
    first: usize,
}

impl ZeroPad {
    /// Pads images of shape `[channels, height, width]`.
    pub(super) fn new(spec: ZeroPad2dSpec, [channels, height, width]: [usize; 3]) -> Self {
        let ZeroPad2dSpec { before, after } = spec;
        let padded_row = (before[1] + width + after[1]) * channels;
        Self {
            row: width * channels,
            padded_row,
            rows: height,
            padded_rows: before[0] + height + after[0],
            first: before[0] * padded_row + before[1] * channels,
        }
    }

    /// Returns the offset of each row of the image in the padded image.
    fn starts(&self) -> impl Iterator<Item = usize> {
        (0..self.rows).map(|row| self.first + row * self.padded_row)
    }
}

impl Op for ZeroPad {
    fn describe(&self) -> String {
        "padding".into()
    }

    fn len(&self) -> usize {
        self.padded_rows * self.padded_row
    }

    fn forward(&self, pass: Forward) {
        pass.y.fill(0.0);
        let images = pass.x.chunks_exact(self.rows * self.row);
        for (x, y) in images.zip(pass.y.chunks_exact_mut(self.len())) {
            for (x, start) in x.chunks_exact(self.row).zip(self.starts()) {
                y[start..start + self.row].copy_from_slice(x);
            }
        }
    }

    fn backward(&self, pass: Backward) {
        let Some(InputGradient { values, store }) = pass.gx else { return };
        let images = values.chunks_exact_mut(self.rows * self.row);
        for (gx, g) in images.zip(pass.g.chunks_exact(self.len())) {
            for (gx, start) in gx.chunks_exact_mut(self.row).zip(self.starts()) {
                store.put(gx, &g[start..start + self.row]);
            }
        }
    }
}
