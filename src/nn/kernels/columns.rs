//! The patches a convolution looks at, laid out as a matrix.

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
}

impl Window {
    /// Height and width of the output; `None` if the kernel does not fit into the padded image
    /// or a number is out of any sensible range.
    pub fn output(&self) -> Option<[usize; 2]> {
        let side = |i: usize| {
            let padded = self.padding[i].checked_mul(2)?.checked_add(self.size[i])?;
            let room = padded.checked_sub(self.kernel[i])?;
            Some(room.checked_div(self.stride[i])? + 1)
        };
        Some([side(0)?, side(1)?])
    }

    /// Numbers in one patch: channels x kernel height x kernel width.
    pub(crate) fn patch(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// Numbers in one image.
    pub(crate) fn image(&self) -> usize {
        self.channels * self.size[0] * self.size[1]
    }

    /// Writes every patch of one image `[channels, height, width]` as a row of `out`, a matrix
    /// `[positions, patch]`: the convolution becomes a product with the kernels.
    pub(crate) fn columns(&self, image: &[f32], out: &mut [f32]) {
        // Known widths copy through registers; `memcpy` calls of a few floats cost more than
        // the product they feed.
        match self.kernel[1] {
            1 => self.columns_of::<1>(image, out),
            2 => self.columns_of::<2>(image, out),
            3 => self.columns_of::<3>(image, out),
            4 => self.columns_of::<4>(image, out),
            5 => self.columns_of::<5>(image, out),
            7 => self.columns_of::<7>(image, out),
            8 => self.columns_of::<8>(image, out),
            _ => self.columns_of::<0>(image, out),
        }
    }

    /// `K` is the kernel's width, 0 for any.
    fn columns_of<const K: usize>(&self, image: &[f32], out: &mut [f32]) {
        let [height, width] = self.size;
        let [kernel_height, kernel_width] = self.kernel;
        let Some([rows, columns]) = self.output() else { return };
        let patches = out.chunks_exact_mut(self.patch().max(1));
        for (position, patch) in patches.enumerate().take(rows * columns) {
            let top = (position / columns * self.stride[0]) as isize - self.padding[0] as isize;
            let left = (position % columns * self.stride[1]) as isize - self.padding[1] as isize;
            // The part of a kernel row that lies inside the image.
            let first = (-left).clamp(0, kernel_width as isize) as usize;
            let end = (width as isize - left).clamp(first as isize, kernel_width as isize) as usize;
            let whole = first == 0 && end == kernel_width;
            for (line, row) in patch.chunks_exact_mut(kernel_width).enumerate() {
                let y = top + (line % kernel_height) as isize;
                if y < 0 || y >= height as isize || first == end {
                    row.fill(0.0);
                    continue;
                }
                let start = (line / kernel_height * height + y as usize) * width;
                let from = (start as isize + left + first as isize) as usize;
                let source = &image[from..from + end - first];
                if !whole {
                    row[..first].fill(0.0);
                    row[end..].fill(0.0);
                    row[first..end].copy_from_slice(source);
                } else if let (Ok(row), Ok(source)) =
                    (<&mut [f32; K]>::try_from(&mut *row), <&[f32; K]>::try_from(source))
                {
                    *row = *source;
                } else {
                    row.copy_from_slice(source);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_show_what_lies_under_the_kernel() {
        let window =
            Window { channels: 1, size: [3, 3], kernel: [2, 2], stride: [2, 2], padding: [1, 0] };
        assert_eq!(window.output(), Some([2, 1]));
        let image: Vec<f32> = (1..=9).map(|v| v as f32).collect();
        let mut out = vec![9.0; 8];
        window.columns(&image, &mut out);
        assert_eq!(out, [0.0, 0.0, 1.0, 2.0, 4.0, 5.0, 7.0, 8.0]);
    }

    #[test]
    fn a_kernel_that_hangs_over_the_edge_sees_zeros() {
        let window =
            Window { channels: 1, size: [1, 2], kernel: [1, 2], stride: [1, 1], padding: [0, 3] };
        assert_eq!(window.output(), Some([1, 7]));
        let mut out = vec![9.0; 14];
        window.columns(&[1.0, 2.0], &mut out);
        assert_eq!(out, [0., 0., 0., 0., 0., 1., 1., 2., 2., 0., 0., 0., 0., 0.]);
    }

    #[test]
    fn a_kernel_larger_than_the_padded_image_has_no_output() {
        let window =
            Window { channels: 1, size: [5, 5], kernel: [8, 8], stride: [1, 1], padding: [1, 1] };
        assert_eq!(window.output(), None);
        assert_eq!(Window { stride: [0, 1], kernel: [1, 1], ..window }.output(), None);
        assert_eq!(Window { padding: [usize::MAX, 1], ..window }.output(), None);
    }
}
