//! The patches a convolution looks at, laid out as a matrix.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How a kernel walks over an image. All pairs are (vertical, horizontal), in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Channels of the image.
    pub channels: usize,
    /// Height and width of the image.
    pub size: [usize; 2],
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Step of the kernel.
    pub stride: [usize; 2],
    /// Zeros around the image, on both sides.
    pub padding: [usize; 2],
    /// Distance between the kernel's own pixels: 1 for a kernel without holes.
    #[serde(default = "ones")]
    pub dilation: [usize; 2],
}

pub(crate) fn ones() -> [usize; 2] {
    [1, 1]
}

impl Window {
    /// Height and width of the output; `None` if the kernel does not fit into the padded image
    /// or a number is out of any sensible range.
    pub fn output(&self) -> Option<[usize; 2]> {
        let side = |i: usize| {
            let padded = self.padding[i].checked_mul(2)?.checked_add(self.size[i])?;
            // A kernel of k pixels reaches over d (k - 1) + 1 of the image's.
            let reach = self.kernel[i].checked_sub(1)?.checked_mul(self.dilation[i])?;
            let room = padded.checked_sub(reach)?.checked_sub(1)?;
            Some(room.checked_div(self.stride[i])? + 1)
        };
        Some([side(0)?, side(1)?])
    }

    /// DeviceArray in one patch: channels x kernel height x kernel width.
    pub(crate) fn patch(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// DeviceArray in one image.
    pub(crate) fn image(&self) -> usize {
        self.channels * self.size[0] * self.size[1]
    }

    /// Places the kernel can be in.
    pub(crate) fn positions(&self) -> usize {
        self.output().map_or(0, |[rows, columns]| rows * columns)
    }

    /// Writes every patch of one image `[channels, height, width]` as a row of `out`, a matrix
    /// `[positions, patch]`: the convolution becomes a product with the kernels.
    pub(crate) fn columns(&self, image: &[f32], out: &mut [f32]) {
        let mut gather = Gather { image, out };
        self.walk_lines(&mut gather);
    }

    /// The way back: adds every row of the matrix `[positions, patch]` to the image's pixels it
    /// came from.
    pub(crate) fn add_columns(&self, patches: &[f32], image: &mut [f32]) {
        let mut scatter = Scatter { patches, image };
        self.walk_lines(&mut scatter);
    }

    fn walk_lines(&self, visit: &mut impl Visit) {
        // Known widths go through registers; calls of `memcpy` for a few floats cost more than
        // the product they feed.
        match self.kernel[1] {
            _ if self.dilation[1] != 1 => self.walk_holes(visit),
            1 => self.walk::<1>(visit),
            2 => self.walk::<2>(visit),
            3 => self.walk::<3>(visit),
            4 => self.walk::<4>(visit),
            5 => self.walk::<5>(visit),
            7 => self.walk::<7>(visit),
            8 => self.walk::<8>(visit),
            _ => self.walk::<0>(visit),
        }
    }

    /// Visits every line of every patch, in the order of the matrix. `K` is the kernel's width,
    /// 0 for any.
    fn walk<const K: usize>(&self, visit: &mut impl Visit) {
        let [height, width] = self.size;
        let [kernel_height, kernel_width] = self.kernel;
        let Some([rows, columns]) = self.output() else { return };
        let mut line = 0;
        for position in 0..rows * columns {
            let top = (position / columns * self.stride[0]) as isize - self.padding[0] as isize;
            let left = (position % columns * self.stride[1]) as isize - self.padding[1] as isize;
            // The part of a kernel row that lies inside the image.
            let first = (-left).clamp(0, kernel_width as isize) as usize;
            let end = (width as isize - left).clamp(first as isize, kernel_width as isize) as usize;
            for channel in 0..self.channels {
                for row in 0..kernel_height {
                    let y = top + (row * self.dilation[0]) as isize;
                    let patch = line..line + kernel_width;
                    line = patch.end;
                    if y < 0 || y >= height as isize || first == end {
                        visit.outside(patch);
                        continue;
                    }
                    let start = ((channel * height + y as usize) * width) as isize;
                    let pixel = (start + left + first as isize) as usize;
                    if K > 0 && end - first == K {
                        visit.whole::<K>(patch.start, pixel);
                    } else {
                        visit.part(patch, first..end, pixel);
                    }
                }
            }
        }
    }
}

/// Kernels with holes go pixel by pixel: neighbours in the patch are none in the image.
impl Window {
    fn walk_holes(&self, visit: &mut impl Visit) {
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
                            visit.part(at..at + 1, 0..1, pixel);
                        } else {
                            visit.outside(at..at + 1);
                        }
                        at += 1;
                    }
                }
            }
        }
    }
}

/// What is done with one line of a patch. `pixel` is where its part inside the image begins.
trait Visit {
    /// The line lies outside the image.
    fn outside(&mut self, patch: Range<usize>);
    /// All `K` pixels of the line lie inside.
    fn whole<const K: usize>(&mut self, patch: usize, pixel: usize);
    /// Some of the line's pixels, `inside`, lie inside.
    fn part(&mut self, patch: Range<usize>, inside: Range<usize>, pixel: usize);
}

struct Gather<'a> {
    image: &'a [f32],
    out: &'a mut [f32],
}

impl Visit for Gather<'_> {
    fn outside(&mut self, patch: Range<usize>) {
        self.out[patch].fill(0.0);
    }

    fn whole<const K: usize>(&mut self, patch: usize, pixel: usize) {
        let source = &self.image[pixel..pixel + K];
        for (o, p) in self.out[patch..patch + K].iter_mut().zip(source) {
            *o = *p;
        }
    }

    fn part(&mut self, patch: Range<usize>, inside: Range<usize>, pixel: usize) {
        let line = &mut self.out[patch];
        line[..inside.start].fill(0.0);
        line[inside.end..].fill(0.0);
        let source = &self.image[pixel..pixel + inside.len()];
        line[inside].copy_from_slice(source);
    }
}

struct Scatter<'a> {
    patches: &'a [f32],
    image: &'a mut [f32],
}

impl Visit for Scatter<'_> {
    fn outside(&mut self, _patch: Range<usize>) {}

    fn whole<const K: usize>(&mut self, patch: usize, pixel: usize) {
        let source = &self.patches[patch..patch + K];
        for (p, s) in self.image[pixel..pixel + K].iter_mut().zip(source) {
            *p += s;
        }
    }

    fn part(&mut self, patch: Range<usize>, inside: Range<usize>, pixel: usize) {
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
    fn patches_show_what_lies_under_the_kernel() {
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
        window.columns(&image, &mut out);
        assert_eq!(out, [0.0, 0.0, 1.0, 2.0, 4.0, 5.0, 7.0, 8.0]);
    }

    #[test]
    fn the_way_back_counts_how_often_a_pixel_was_seen() {
        let window = Window {
            channels: 1,
            size: [3, 3],
            kernel: [2, 2],
            stride: [1, 1],
            padding: [0, 1],
            dilation: [1, 1],
        };
        let mut image = [0.0; 9];
        window.add_columns(&[1.0; 32], &mut image);
        assert_eq!(image, [2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn a_kernel_that_hangs_over_the_edge_sees_zeros() {
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
        window.columns(&[1.0, 2.0], &mut out);
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
