//! im2col and col2im for channels-last images: the patches of a convolution as rows of a matrix.

use super::outer;

/// Geometry of a convolution over images `[height, width, channels]`, for one group of channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Im2col {
    pub(super) size: [usize; 2],
    pub(super) channels: usize,
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) output: [usize; 2],
    /// First channel of the group, and number of channels per group.
    pub(super) first_channel: usize,
    pub(super) group_channels: usize,
}

impl Im2col {
    /// Number of elements of one patch: kernel height x kernel width x channels of the group.
    pub(super) fn patch_len(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.group_channels
    }

    /// Number of kernel positions.
    pub(super) fn positions(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// The sum of each patch of each image, without forming patches.
    pub(super) fn patch_sums(&self, images: &[f32], sums: &mut [f32]) {
        let [height, width] = self.size;
        let each = images.chunks_exact(height * width * self.channels);
        for (image, sums) in each.zip(sums.chunks_exact_mut(self.positions())) {
            let own = |pixel: &[f32]| {
                outer::sum(&pixel[self.first_channel..self.first_channel + self.group_channels])
            };
            let pixels: Vec<f32> = image.chunks_exact(self.channels).map(own).collect();
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

    /// im2col: writes the patches of one image as rows of `[positions, patch]`.
    pub(super) fn gather(&self, image: &[f32], out: &mut [f32]) {
        self.runs(&mut Gather { image, out });
    }

    /// col2im: adds the rows of `[positions, patch]` to the pixels they came from.
    pub(super) fn scatter(&self, patches: &[f32], image: &mut [f32]) {
        self.runs(&mut Scatter { patches, image });
    }

    /// Visits every run of elements that are contiguous both in the image and in a patch. Runs
    /// inside the image, nearly all, are visited one row of positions at a time.
    fn runs(&self, visit: &mut impl Visit) {
        let [height, width] = self.size;
        let [kernel_height, kernel_width] = self.kernel;
        let (columns, patch) = (self.output[1], self.patch_len());
        // A kernel row is contiguous in a patch only if the group has all channels.
        let contiguous = self.group_channels == self.channels && self.dilation[1] == 1;
        let (taps, run) = if contiguous { (1, kernel_width) } else { (kernel_width, 1) };
        for row in 0..self.output[0] {
            for y in 0..kernel_height {
                let top = (row * self.stride[0] + y * self.dilation[0]) as isize
                    - self.padding[0] as isize;
                let inside = top >= 0 && top < height as isize;
                for tap in 0..taps {
                    let offset =
                        row * columns * patch + (y * kernel_width + tap) * self.group_channels;
                    if !inside {
                        visit.padding(offset, run * self.group_channels, columns, patch);
                        continue;
                    }
                    let left = |column: usize| {
                        (column * self.stride[1] + tap * self.dilation[1]) as isize
                            - self.padding[1] as isize
                    };
                    let fits = |c: usize| left(c) >= 0 && left(c) + run as isize <= width as isize;
                    let first = (0..columns).find(|&c| fits(c)).unwrap_or(columns);
                    let end = (first..columns).find(|&c| !fits(c)).unwrap_or(columns);
                    for column in (0..first).chain(end..columns) {
                        // The part of the run inside the image, in pixels.
                        let left = left(column);
                        let from = (-left).clamp(0, run as isize) as usize;
                        let to =
                            (width as isize - left).clamp(from as isize, run as isize) as usize;
                        let offset = offset + column * patch;
                        visit.padding(offset, from * self.group_channels, 1, patch);
                        if to > from {
                            let pixel = top as usize * width + (left + from as isize) as usize;
                            let pixel = pixel * self.channels + self.first_channel;
                            let offset = offset + from * self.group_channels;
                            visit.pixels(
                                pixel,
                                offset,
                                (to - from) * self.group_channels,
                                1,
                                (0, 0),
                            );
                        }
                        visit.padding(
                            offset + to * self.group_channels,
                            (run - to) * self.group_channels,
                            1,
                            patch,
                        );
                    }
                    if end > first {
                        let pixel = top as usize * width + left(first) as usize;
                        let pixel = pixel * self.channels + self.first_channel;
                        let steps = (self.stride[1] * self.channels, patch);
                        let offset = offset + first * patch;
                        visit.pixels(pixel, offset, run * self.group_channels, end - first, steps);
                    }
                }
            }
        }
    }
}

/// Processes `count` runs of `len` elements, at distances of `steps` in the image and in the
/// matrix.
trait Visit {
    /// Runs in the padding, which start at `offset` in the matrix.
    fn padding(&mut self, offset: usize, len: usize, count: usize, step: usize);
    /// Runs inside the image, which start at `pixel` in the image and at `offset` in the matrix.
    fn pixels(
        &mut self,
        pixel: usize,
        offset: usize,
        len: usize,
        count: usize,
        steps: (usize, usize),
    );
}

struct Gather<'a> {
    image: &'a [f32],
    out: &'a mut [f32],
}

impl Gather<'_> {
    #[inline(always)]
    fn copy<const N: usize>(
        &mut self,
        pixel: usize,
        offset: usize,
        count: usize,
        steps: (usize, usize),
    ) {
        for i in 0..count {
            let (from, to) = (pixel + i * steps.0, offset + i * steps.1);
            self.out[to..to + N].copy_from_slice(&self.image[from..from + N]);
        }
    }
}

impl Visit for Gather<'_> {
    fn padding(&mut self, offset: usize, len: usize, count: usize, step: usize) {
        for i in 0..count {
            self.out[offset + i * step..offset + i * step + len].fill(0.0);
        }
    }

    fn pixels(
        &mut self,
        pixel: usize,
        offset: usize,
        len: usize,
        count: usize,
        steps: (usize, usize),
    ) {
        // Copies of constant length go through registers; calling `memcpy` for a few elements costs
        // more than the copy.
        match len {
            3 => self.copy::<3>(pixel, offset, count, steps),
            8 => self.copy::<8>(pixel, offset, count, steps),
            9 => self.copy::<9>(pixel, offset, count, steps),
            16 => self.copy::<16>(pixel, offset, count, steps),
            32 => self.copy::<32>(pixel, offset, count, steps),
            48 => self.copy::<48>(pixel, offset, count, steps),
            64 => self.copy::<64>(pixel, offset, count, steps),
            _ => {
                for i in 0..count {
                    let (from, to) = (pixel + i * steps.0, offset + i * steps.1);
                    self.out[to..to + len].copy_from_slice(&self.image[from..from + len]);
                }
            }
        }
    }
}

struct Scatter<'a> {
    patches: &'a [f32],
    image: &'a mut [f32],
}

impl Visit for Scatter<'_> {
    fn padding(&mut self, _offset: usize, _len: usize, _count: usize, _step: usize) {}

    fn pixels(
        &mut self,
        pixel: usize,
        offset: usize,
        len: usize,
        count: usize,
        steps: (usize, usize),
    ) {
        for i in 0..count {
            let (to, from) = (pixel + i * steps.0, offset + i * steps.1);
            let (to, from) = (&mut self.image[to..to + len], &self.patches[from..from + len]);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }
}
