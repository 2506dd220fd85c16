//! The im2col and col2im transforms.

use std::ops::Range;

use super::Window;
use super::product::{Real, sum};

/// The windows over images in one layout, for one group of channels: the patches of a convolution
/// as a matrix, so that the convolution is a product with the kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Im2col {
    pub(crate) size: [usize; 2],
    /// Number of values at a pixel: all channels, or 1 if each channel is an image of its own.
    pub(crate) channels: usize,
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) padding: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) output: [usize; 2],
    /// First channel of the group, and number of channels per group.
    pub(crate) first_channel: usize,
    pub(crate) group_channels: usize,
    /// Number of images that follow one another and have one patch together: 1, or the channels.
    pub(crate) planes: usize,
    /// Whether the matrix is `[patch, positions]`, not `[positions, patch]`.
    pub(crate) is_transposed: bool,
    /// Whether the values of a pixel are added in the order of the positions. Otherwise those of
    /// windows that lie inside the image are added last. The order decides the last bits of sums.
    pub(crate) in_order: bool,
}

impl Im2col {
    /// Creates windows over images `[height, width, channels]`, with patches
    /// `[kernel height, kernel width, channels]`.
    pub(crate) fn channels_last(window: &Window) -> Self {
        let Window { channels, size, kernel, stride, padding, dilation } = *window;
        Self {
            size,
            channels,
            kernel,
            stride,
            padding,
            dilation,
            output: window.output().unwrap_or_default(),
            first_channel: 0,
            group_channels: channels,
            planes: 1,
            is_transposed: false,
            in_order: false,
        }
    }

    /// Creates windows over images `[channels, height, width]`, with patches
    /// `[channels, kernel height, kernel width]`.
    pub(crate) fn channels_first(window: &Window) -> Self {
        let one = Window { channels: 1, ..*window };
        Self { planes: window.channels, in_order: true, ..Self::channels_last(&one) }
    }

    /// Creates windows over images `[channels, height, width]`, with a matrix `[patch, positions]`
    /// that is written row by row.
    pub(crate) fn channels_first_transposed(window: &Window) -> Self {
        Self { is_transposed: true, in_order: false, ..Self::channels_first(window) }
    }

    /// Returns whether the patches are the pixels: a 1 x 1 kernel with stride 1 and no padding.
    pub(crate) fn are_pixels(&self) -> bool {
        self.kernel == [1, 1] && self.stride == [1, 1] && self.padding == [0, 0]
    }

    /// Returns the number of elements of one patch.
    pub(crate) fn patch_len(&self) -> usize {
        self.planes * self.kernel[0] * self.kernel[1] * self.group_channels
    }

    /// Returns the number of kernel positions.
    pub(crate) fn positions(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// Computes the sum of each patch of each image, without forming patches, for channels-last
    /// images.
    pub(crate) fn patch_sums(&self, images: &[f32], sums: &mut [f32]) {
        let [height, width] = self.size;
        let each = images.chunks_exact(height * width * self.channels);
        for (image, sums) in each.zip(sums.chunks_exact_mut(self.positions())) {
            let group_channels = |pixel: &[f32]| {
                sum(&pixel[self.first_channel..self.first_channel + self.group_channels])
            };
            let pixels: Vec<f32> = image.chunks_exact(self.channels).map(group_channels).collect();
            for (position, sum) in sums.iter_mut().enumerate() {
                let (row, column) = (position / self.output[1], position % self.output[1]);
                *sum = 0.0;
                for tap in 0..self.kernel[0] * self.kernel[1] {
                    let (y, x) = (tap / self.kernel[1], tap % self.kernel[1]);
                    let y = row * self.stride[0] + y * self.dilation[0];
                    let x = column * self.stride[1] + x * self.dilation[1];
                    // Pixels of the padding wrap around and lie beyond the image.
                    let (y, x) = (y.wrapping_sub(self.padding[0]), x.wrapping_sub(self.padding[1]));
                    if y < height && x < width {
                        *sum += pixels[y * width + x];
                    }
                }
            }
        }
    }

    /// Writes the patches of one image into the matrix (im2col).
    pub(crate) fn gather<T: Real>(&self, image: &[T], matrix: &mut [T]) {
        if self.padding != [0, 0] {
            matrix.fill(T::ZERO);
        }
        self.for_each_run(|run| {
            run.for_each(|pixels, values| matrix[values].copy_from_slice(&image[pixels]));
        });
    }

    /// Adds the elements of the matrix to the pixels that they were read from (col2im, the
    /// transpose of [`gather`](Self::gather)).
    pub(crate) fn scatter<T: Real>(&self, matrix: &[T], image: &mut [T]) {
        self.for_each_run(|run| {
            run.for_each(|pixels, values| {
                let pairs = image[pixels].iter_mut().zip(&matrix[values]);
                pairs.for_each(|(pixel, value)| *pixel += *value);
            });
        });
    }

    /// Visits everything inside of the image, in the order of the matrix: kernel row after kernel
    /// row for each row of positions, or row of positions after row of positions for each element
    /// of the kernel.
    fn for_each_run(&self, mut visit: impl FnMut(Run)) {
        // A kernel row is contiguous in a patch only if the group has all channels.
        let is_contiguous = self.group_channels == self.channels && self.dilation[1] == 1;
        let together = if is_contiguous && !self.is_transposed { self.kernel[1] } else { 1 };
        let taps = (0..self.kernel[1]).step_by(together);
        let mut taps: Vec<Taps> = taps.map(|first| self.taps(first, together)).collect();
        if self.in_order {
            // Of windows one behind the other, a pixel is the element of a lower number.
            taps.reverse();
        }
        if self.is_transposed {
            for line in self.kernel_lines() {
                for taps in &taps {
                    for row in 0..self.output[0] {
                        self.runs_of_line(row, line, taps, &mut visit);
                    }
                }
            }
        } else {
            for row in 0..self.output[0] {
                for line in self.kernel_lines() {
                    taps.iter().for_each(|taps| self.runs_of_line(row, line, taps, &mut visit));
                }
            }
        }
    }

    /// Returns the rows of the kernel: plane, and row within the plane.
    fn kernel_lines(&self) -> impl Iterator<Item = [usize; 2]> {
        let rows = self.kernel[0];
        (0..self.planes).flat_map(move |plane| (0..rows).map(move |y| [plane, y]))
    }

    /// Returns `count` elements of a kernel row from the element `first` on.
    fn taps(&self, first: usize, count: usize) -> Taps {
        let (offset, columns) = (first * self.dilation[1], self.output[1]);
        let before = self.padding[1].saturating_sub(offset).div_ceil(self.stride[1]);
        let room = (self.size[1] + self.padding[1]).checked_sub(offset + count);
        let end = room.map_or(0, |room| room / self.stride[1] + 1).min(columns);
        let start = before.min(columns);
        Taps { first, count, whole: start..end.max(start) }
    }

    /// Visits some elements of one kernel row at one row of positions. Whole runs, nearly all, are
    /// visited together.
    #[inline(always)]
    fn runs_of_line(
        &self,
        row: usize,
        [plane, y]: [usize; 2],
        taps: &Taps,
        visit: &mut impl FnMut(Run),
    ) {
        let ([height, width], columns) = (self.size, self.output[1]);
        let y_with_padding = row * self.stride[0] + y * self.dilation[0];
        // Pixels of the padding wrap around and lie beyond the image.
        let top = y_with_padding.wrapping_sub(self.padding[0]);
        if top >= height {
            return;
        }
        let pixels = (plane * height + top) * width;
        let left = |column: usize| {
            (column * self.stride[1] + taps.first * self.dilation[1]) as isize
                - self.padding[1] as isize
        };
        // The distance in the matrix between patches, and between elements of a patch.
        let (patch, element) =
            if self.is_transposed { (1, self.positions()) } else { (self.patch_len(), 1) };
        let line = plane * self.kernel[0] + y;
        let first_element = (line * self.kernel[1] + taps.first) * self.group_channels;
        // `count` runs from `column` on, of the pixels `inside` of each.
        let part = |column: usize, inside: Range<usize>, count: usize| {
            let pixel = pixels + (left(column) + inside.start as isize) as usize;
            let position = row * columns + column;
            let from = first_element + inside.start * self.group_channels;
            Run {
                pixel: pixel * self.channels + self.first_channel,
                value: position * patch + from * element,
                len: inside.len() * self.group_channels,
                count,
                pixel_step: self.stride[1] * self.channels,
                value_step: patch,
            }
        };
        let whole = taps.whole.clone();
        let cut = |column: usize| {
            let from = (-left(column)).clamp(0, taps.count as isize);
            let to = (width as isize - left(column)).clamp(from, taps.count as isize);
            (to > from).then(|| part(column, from as usize..to as usize, 1))
        };
        (0..whole.start).filter_map(cut).for_each(&mut *visit);
        if !self.in_order {
            (whole.end..columns).filter_map(cut).for_each(&mut *visit);
        }
        if !whole.is_empty() {
            visit(part(whole.start, 0..taps.count, whole.len()));
        }
        if self.in_order {
            (whole.end..columns).filter_map(cut).for_each(&mut *visit);
        }
    }
}

/// Neighbouring elements of a kernel row, which are visited together.
struct Taps {
    first: usize,
    count: usize,
    /// The columns of positions at which all of them lie inside the image.
    whole: Range<usize>,
}

/// Runs of `len` values, `count` in number, that are contiguous both in the image and in the
/// matrix.
#[derive(Clone, Copy)]
struct Run {
    /// The first value in the image, and in the matrix.
    pixel: usize,
    value: usize,
    len: usize,
    count: usize,
    /// The distances between the runs.
    pixel_step: usize,
    value_step: usize,
}

impl Run {
    /// Calls `each` with the location of every run in the image and in the matrix.
    #[inline(always)]
    fn for_each(self, each: impl FnMut(Range<usize>, Range<usize>)) {
        if self.pixel_step == self.len && self.value_step == self.len {
            let len = self.len * self.count;
            return Self { len, count: 1, ..self }.of_any_len(each);
        }
        // Lengths known at compile time go through registers; calling `memcpy` for a few elements
        // costs more than the copy.
        match self.len {
            1 => self.of_len::<1>(each),
            2 => self.of_len::<2>(each),
            3 => self.of_len::<3>(each),
            4 => self.of_len::<4>(each),
            5 => self.of_len::<5>(each),
            7 => self.of_len::<7>(each),
            8 => self.of_len::<8>(each),
            9 => self.of_len::<9>(each),
            16 => self.of_len::<16>(each),
            32 => self.of_len::<32>(each),
            48 => self.of_len::<48>(each),
            64 => self.of_len::<64>(each),
            _ => self.of_any_len(each),
        }
    }

    #[inline(always)]
    fn of_len<const LEN: usize>(self, each: impl FnMut(Range<usize>, Range<usize>)) {
        Self { len: LEN, ..self }.of_any_len(each);
    }

    #[inline(always)]
    fn of_any_len(self, mut each: impl FnMut(Range<usize>, Range<usize>)) {
        for i in 0..self.count {
            let (pixel, value) =
                (self.pixel + i * self.pixel_step, self.value + i * self.value_step);
            each(pixel..pixel + self.len, value..value + self.len);
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
        Im2col::channels_first(&window).gather(&image, &mut out);
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
        Im2col::channels_first(&window).scatter(&[1.0; 32], &mut image);
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
        Im2col::channels_first(&window).gather(&[1.0, 2.0], &mut out);
        assert_eq!(out, [0., 0., 0., 0., 0., 1., 1., 2., 2., 0., 0., 0., 0., 0.]);
    }

    #[test]
    fn both_layouts_and_the_transpose_have_the_same_patches() {
        let window = Window {
            channels: 2,
            size: [5, 4],
            kernel: [3, 2],
            stride: [2, 1],
            padding: [1, 1],
            dilation: [1, 2],
        };
        let first = Im2col::channels_first(&window);
        let transposed = Im2col::channels_first_transposed(&window);
        let (patch, positions) = (first.patch_len(), first.positions());
        let images: Vec<f64> = (1..=window.image()).map(|v| v as f64).collect();
        let (mut rows, mut columns) = (vec![9.0; patch * positions], vec![9.0; patch * positions]);
        first.gather(&images, &mut rows);
        transposed.gather(&images, &mut columns);
        let pixels = |i: usize| images[i % 2 * 20 + i / 2];
        let images: Vec<f64> = (0..images.len()).map(pixels).collect();
        let mut last = vec![9.0; rows.len()];
        Im2col::channels_last(&window).gather(&images, &mut last);
        for position in 0..positions {
            for (i, value) in rows[position * patch..(position + 1) * patch].iter().enumerate() {
                assert_eq!(*value, columns[i * positions + position]);
                assert_eq!(*value, last[position * patch + i % 6 * 2 + i / 6]);
            }
        }
        let (mut back, mut other) = (vec![0.0; images.len()], vec![0.0; images.len()]);
        first.scatter(&rows, &mut back);
        transposed.scatter(&columns, &mut other);
        assert_eq!(back, other);
    }

    /// The order of additions decides the last bits of a gradient, and so what a seeded run is.
    #[test]
    fn values_of_a_pixel_are_added_in_the_order_of_the_positions() {
        for (kernel, stride, dilation) in [([3, 3], [1, 1], [1, 1]), ([2, 3], [1, 2], [1, 2])] {
            let (size, padding) = ([4, 7], [1, 2]);
            let window = Window { channels: 2, size, kernel, stride, padding, dilation };
            let [rows, columns] = window.output().unwrap();
            let patch = window.patch_len();
            let wild = |i: usize| (i as f32 * 0.7).sin() * 10f32.powi(i as i32 % 7 - 3);
            let values: Vec<f32> = (0..rows * columns * patch).map(wild).collect();
            let mut expected = vec![0f32; window.image()];
            for (position, values) in values.chunks_exact(patch).enumerate() {
                for (element, value) in values.iter().enumerate() {
                    let (x, y) = (element % kernel[1], element / kernel[1] % kernel[0]);
                    let channel = element / (kernel[0] * kernel[1]);
                    let y = position / columns * stride[0] + y * dilation[0];
                    let x = position % columns * stride[1] + x * dilation[1];
                    let (y, x) = (y.wrapping_sub(padding[0]), x.wrapping_sub(padding[1]));
                    if y < size[0] && x < size[1] {
                        expected[(channel * size[0] + y) * size[1] + x] += value;
                    }
                }
            }
            let mut image = vec![0f32; window.image()];
            Im2col::channels_first(&window).scatter(&values, &mut image);
            let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&image), bits(&expected), "{kernel:?} {dilation:?}");
        }
    }
}
