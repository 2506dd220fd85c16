//! Geometry of convolutions and pooling, and the im2col and col2im transforms.

use std::ops::Range;

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

/// The dilation of an undilated kernel, and the value of files that do not state one.
pub(crate) fn no_dilation() -> [usize; 2] {
    [1, 1]
}

impl Window {
    /// Height and width of the output. `None` if the kernel does not fit into the padded image, if
    /// a kernel side or stride is 0, or if the arithmetic overflows.
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

    /// Number of values in one patch: channels x kernel height x kernel width.
    pub(crate) fn patch(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// Number of values in one image: channels x height x width.
    pub(crate) fn image(&self) -> usize {
        self.channels * self.size[0] * self.size[1]
    }

    /// Number of output positions; 0 if there is no output.
    pub(crate) fn positions(&self) -> usize {
        self.output().map_or(0, |[rows, columns]| rows * columns)
    }

    /// im2col: writes every patch of one image `[channels, height, width]` as a row of `out`,
    /// `[positions, patch]`. The convolution is then a matrix product with the kernels.
    pub(crate) fn im2col(&self, image: &[f32], out: &mut [f32]) {
        let mut gather = Gather { image, out };
        self.visit_rows(&mut gather);
    }

    /// col2im, the transpose of [`im2col`](Self::im2col): adds every row of `patches`,
    /// `[positions, patch]`, to the pixels of `image` that it was read from.
    pub(crate) fn col2im(&self, patches: &[f32], image: &mut [f32]) {
        let mut scatter = Scatter { patches, image };
        self.visit_rows(&mut scatter);
    }

    fn visit_rows(&self, visitor: &mut impl RowVisitor) {
        // Kernel widths known at compile time are copied through registers. Calling `memcpy` for
        // a few floats would cost more than the matrix product that reads them.
        match self.kernel[1] {
            _ if self.dilation[1] != 1 => self.visit_dilated(visitor),
            1 => self.visit_undilated::<1>(visitor),
            2 => self.visit_undilated::<2>(visitor),
            3 => self.visit_undilated::<3>(visitor),
            4 => self.visit_undilated::<4>(visitor),
            5 => self.visit_undilated::<5>(visitor),
            7 => self.visit_undilated::<7>(visitor),
            8 => self.visit_undilated::<8>(visitor),
            _ => self.visit_undilated::<0>(visitor),
        }
    }

    /// Visits every kernel row of every patch, in the order of the patch matrix. `K` is the
    /// kernel width, or 0 for a width that is only known at run time.
    fn visit_undilated<const K: usize>(&self, visitor: &mut impl RowVisitor) {
        let [height, width] = self.size;
        let [kernel_height, kernel_width] = self.kernel;
        let Some([rows, columns]) = self.output() else { return };
        let mut next = 0;
        for position in 0..rows * columns {
            let top = (position / columns * self.stride[0]) as isize - self.padding[0] as isize;
            let left = (position % columns * self.stride[1]) as isize - self.padding[1] as isize;
            // The part of a kernel row that lies inside the image.
            let first = (-left).clamp(0, kernel_width as isize) as usize;
            let end = (width as isize - left).clamp(first as isize, kernel_width as isize) as usize;
            for channel in 0..self.channels {
                for row in 0..kernel_height {
                    let y = top + (row * self.dilation[0]) as isize;
                    let patch = next..next + kernel_width;
                    next = patch.end;
                    if y < 0 || y >= height as isize || first == end {
                        visitor.outside(patch);
                        continue;
                    }
                    let start = ((channel * height + y as usize) * width) as isize;
                    let pixel = (start + left + first as isize) as usize;
                    if K > 0 && end - first == K {
                        visitor.inside::<K>(patch.start, pixel);
                    } else {
                        visitor.partial(patch, first..end, pixel);
                    }
                }
            }
        }
    }
}

impl Window {
    /// As [`visit_undilated`](Self::visit_undilated), but pixel by pixel: neighbouring elements of
    /// a dilated kernel are not contiguous in the image.
    fn visit_dilated(&self, visitor: &mut impl RowVisitor) {
        let [height, width] = self.size;
        let Some([rows, columns]) = self.output() else { return };
        let mut at = 0;
        for position in 0..rows * columns {
            let top = (position / columns * self.stride[0]) as isize - self.padding[0] as isize;
            let left = (position % columns * self.stride[1]) as isize - self.padding[1] as isize;
            for channel in 0..self.channels {
                for row in 0..self.kernel[0] {
                    let y = top + (row * self.dilation[0]) as isize;
                    for column in 0..self.kernel[1] {
                        let x = left + (column * self.dilation[1]) as isize;
                        let inside =
                            (0..height as isize).contains(&y) && (0..width as isize).contains(&x);
                        if inside {
                            let pixel = (channel * height + y as usize) * width + x as usize;
                            visitor.partial(at..at + 1, 0..1, pixel);
                        } else {
                            visitor.outside(at..at + 1);
                        }
                        at += 1;
                    }
                }
            }
        }
    }
}

/// An operation on one row of a patch. `patch` is the row's range (or start) in the patch matrix,
/// `pixel` the index in the image of the first element that lies inside it.
trait RowVisitor {
    /// The row lies in the padding.
    fn outside(&mut self, patch: Range<usize>);
    /// All `K` elements of the row lie inside the image.
    fn inside<const K: usize>(&mut self, patch: usize, pixel: usize);
    /// Only the elements `inside` of the row lie inside the image.
    fn partial(&mut self, patch: Range<usize>, inside: Range<usize>, pixel: usize);
}

struct Gather<'a> {
    image: &'a [f32],
    out: &'a mut [f32],
}

impl RowVisitor for Gather<'_> {
    fn outside(&mut self, patch: Range<usize>) {
        self.out[patch].fill(0.0);
    }

    fn inside<const K: usize>(&mut self, patch: usize, pixel: usize) {
        let source = &self.image[pixel..pixel + K];
        for (o, p) in self.out[patch..patch + K].iter_mut().zip(source) {
            *o = *p;
        }
    }

    fn partial(&mut self, patch: Range<usize>, inside: Range<usize>, pixel: usize) {
        let row = &mut self.out[patch];
        row[..inside.start].fill(0.0);
        row[inside.end..].fill(0.0);
        let source = &self.image[pixel..pixel + inside.len()];
        row[inside].copy_from_slice(source);
    }
}

struct Scatter<'a> {
    patches: &'a [f32],
    image: &'a mut [f32],
}

impl RowVisitor for Scatter<'_> {
    fn outside(&mut self, _patch: Range<usize>) {}

    fn inside<const K: usize>(&mut self, patch: usize, pixel: usize) {
        let source = &self.patches[patch..patch + K];
        for (p, s) in self.image[pixel..pixel + K].iter_mut().zip(source) {
            *p += s;
        }
    }

    fn partial(&mut self, patch: Range<usize>, inside: Range<usize>, pixel: usize) {
        let source = &self.patches[patch][inside];
        for (p, s) in self.image[pixel..pixel + source.len()].iter_mut().zip(source) {
            *p += s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn im2col_rows_are_patches_with_zero_padding() {
        let window = Window {
            channels: 1,
            size: [3, 3],
            kernel: [2, 2],
            stride: [2, 2],
            padding: [1, 0],
            dilation: [1, 1],
        };
        assert_eq!(window.output(), Some([2, 1]));
        let image: Vec<f32> = (1..=9).map(|v| v as f32).collect();
        let mut out = vec![9.0; 8];
        window.im2col(&image, &mut out);
        assert_eq!(out, [0.0, 0.0, 1.0, 2.0, 4.0, 5.0, 7.0, 8.0]);
    }

    #[test]
    fn col2im_of_ones_counts_the_patches_that_cover_a_pixel() {
        let window = Window {
            channels: 1,
            size: [3, 3],
            kernel: [2, 2],
            stride: [1, 1],
            padding: [0, 1],
            dilation: [1, 1],
        };
        let mut image = [0.0; 9];
        window.col2im(&[1.0; 32], &mut image);
        assert_eq!(image, [2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn patches_entirely_in_the_padding_are_zero() {
        let window = Window {
            channels: 1,
            size: [1, 2],
            kernel: [1, 2],
            stride: [1, 1],
            padding: [0, 3],
            dilation: [1, 1],
        };
        assert_eq!(window.output(), Some([1, 7]));
        let mut out = vec![9.0; 14];
        window.im2col(&[1.0, 2.0], &mut out);
        assert_eq!(out, [0., 0., 0., 0., 0., 1., 1., 2., 2., 0., 0., 0., 0., 0.]);
    }

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
