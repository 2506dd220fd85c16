//! Geometry of convolutions and pooling.

use serde::{Deserialize, Serialize};

/// Geometry of a convolution or pooling window that slides over an image. All pairs are
/// (vertical, horizontal), in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Number of channels of the image.
    pub channels: usize,
    /// Height and width of the image.
    pub size: [usize; 2],
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Stride of the kernel.
    pub stride: [usize; 2],
    /// Zero padding on both sides.
    pub padding: [usize; 2],
    /// Dilation: the distance between neighbouring kernel elements.
    #[serde(default = "no_dilation")]
    pub dilation: [usize; 2],
}

/// Returns the dilation of an undilated kernel, the value for files that do not state one.
pub(crate) fn no_dilation() -> [usize; 2] {
    [1, 1]
}

impl Window {
    /// Creates the windows of a pooling layer over an image `[channels, height, width]`.
    pub(crate) fn pooling(
        [channels, height, width]: [usize; 3],
        kernel: [usize; 2],
        stride: [usize; 2],
    ) -> Self {
        let (size, padding, dilation) = ([height, width], [0, 0], [1, 1]);
        Self { channels, size, kernel, stride, padding, dilation }
    }

    /// Returns the height and width of the output. `None` if the kernel does not fit into the
    /// padded image, if a kernel side or stride is 0, or if the arithmetic overflows.
    pub fn output(&self) -> Option<[usize; 2]> {
        let side = |i: usize| {
            let padded = self.padding[i].checked_mul(2)?.checked_add(self.size[i])?;
            // A kernel of k elements with dilation d covers d (k - 1) + 1 pixels.
            let extent = self.kernel[i].checked_sub(1)?.checked_mul(self.dilation[i])?;
            let last_offset = padded.checked_sub(extent)?.checked_sub(1)?;
            Some(last_offset.checked_div(self.stride[i])? + 1)
        };
        Some([side(0)?, side(1)?])
    }

    /// Returns the number of values in one patch: channels x kernel height x kernel width.
    pub(crate) fn patch_len(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// Returns the number of values in one image: channels x height x width.
    pub(crate) fn image(&self) -> usize {
        self.channels * self.size[0] * self.size[1]
    }

    /// Returns the index of each window's first pixel, for windows without padding.
    pub(crate) fn corners(&self) -> Vec<usize> {
        let [rows, columns] = self.output().unwrap_or_default();
        let all = (0..rows).flat_map(|row| (0..columns).map(move |column| [row, column]));
        let pixel = |[row, column]: [usize; 2]| {
            row * self.stride[0] * self.size[1] + column * self.stride[1]
        };
        all.map(pixel).collect()
    }

    /// Returns the distance of each pixel of a window from the first.
    pub(crate) fn taps(&self) -> Vec<usize> {
        let all = (0..self.kernel[0]).flat_map(|y| (0..self.kernel[1]).map(move |x| [y, x]));
        let offset =
            |[y, x]: [usize; 2]| y * self.dilation[0] * self.size[1] + x * self.dilation[1];
        all.map(offset).collect()
    }

    /// Returns the number of output positions; 0 if there is no output.
    pub(crate) fn positions(&self) -> usize {
        self.output().map_or(0, |[rows, columns]| rows * columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_larger_than_the_padded_image_has_no_output() {
        let window = Window {
            channels: 1,
            size: [5, 5],
            kernel: [8, 8],
            stride: [1, 1],
            padding: [1, 1],
            dilation: [1, 1],
        };
        assert_eq!(window.output(), None);
        assert_eq!(Window { stride: [0, 1], kernel: [1, 1], ..window }.output(), None);
        assert_eq!(Window { padding: [usize::MAX, 1], ..window }.output(), None);
    }
}
