//! What a convolution looks at, channels last: patches as rows of a matrix.

/// How a kernel walks over an image `[height, width, channels]`, seen by one group of channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub(super) size: [usize; 2],
    pub(super) channels: usize,
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) output: [usize; 2],
    /// The group's first channel and how many it has.
    pub(super) first: usize,
    pub(super) part: usize,
}

impl Walk {
    /// Numbers in one patch: kernel height x kernel width x the group's channels.
    pub(super) fn patch(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.part
    }

    /// Places the kernel can be in.
    pub(super) fn positions(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// Writes every patch of one image as a row of `[positions, patch]`.
    pub(super) fn gather(&self, image: &[f32], out: &mut [f32]) {
        let patch = self.patch();
        self.lines(|at, line, pixels| {
            let out = &mut out[at.0 * patch + line.0..at.0 * patch + line.0 + line.1];
            match pixels {
                Some(from) => copy(&image[from..from + line.1], out),
                None => out.fill(0.0),
            }
        });
    }

    /// The way back: adds every row of `[positions, patch]` to the pixels it came from.
    pub(super) fn scatter(&self, patches: &[f32], image: &mut [f32]) {
        let patch = self.patch();
        self.lines(|at, line, pixels| {
            let Some(from) = pixels else { return };
            let row = &patches[at.0 * patch + line.0..at.0 * patch + line.0 + line.1];
            image[from..from + line.1].iter_mut().zip(row).for_each(|(i, p)| *i += p);
        });
    }

    /// Calls `line` for every run of numbers that are neighbours in the image and in a patch: the
    /// position, the run's place in the patch and its length, where it begins in the image (`None`
    /// outside).
    #[inline(always)]
    fn lines(&self, mut line: impl FnMut((usize,), (usize, usize), Option<usize>)) {
        let [height, width] = self.size;
        let [kernel_height, kernel_width] = self.kernel;
        // Neighbouring pixels are neighbours in the patch too if all channels are taken.
        let whole = self.part == self.channels && self.dilation[1] == 1;
        let (taps, run) = if whole { (1, kernel_width) } else { (kernel_width, 1) };
        for row in 0..self.output[0] {
            for y in 0..kernel_height {
                let top = (row * self.stride[0] + y * self.dilation[0]) as isize
                    - self.padding[0] as isize;
                let inside = top >= 0 && top < height as isize;
                for tap in 0..taps {
                    let place = (y * kernel_width + tap) * self.part;
                    for column in 0..self.output[1] {
                        let at = (row * self.output[1] + column,);
                        let left = (column * self.stride[1] + tap * self.dilation[1]) as isize
                            - self.padding[1] as isize;
                        if !inside {
                            line(at, (place, run * self.part), None);
                            continue;
                        }
                        // The run's part inside the image, in pixels.
                        let first = (-left).clamp(0, run as isize) as usize;
                        let end = (width as isize - left).clamp(first as isize, run as isize) as usize;
                        if first > 0 {
                            line(at, (place, first * self.part), None);
                        }
                        if end > first {
                            let pixel = top as usize * width + (left + first as isize) as usize;
                            let from = pixel * self.channels + self.first;
                            let place = place + first * self.part;
                            line(at, (place, (end - first) * self.part), Some(from));
                        }
                        if end < run {
                            line(at, (place + end * self.part, (run - end) * self.part), None);
                        }
                    }
                }
            }
        }
    }
}

/// Copies a short run. Below 64 numbers a call of `memcpy` costs more than the copying.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    match from.len() {
        3 => fixed::<3>(from, to),
        8 => fixed::<8>(from, to),
        9 => fixed::<9>(from, to),
        16 => fixed::<16>(from, to),
        48 => fixed::<48>(from, to),
        64 => fixed::<64>(from, to),
        _ => to.copy_from_slice(from),
    }
}

#[inline(always)]
fn fixed<const N: usize>(from: &[f32], to: &mut [f32]) {
    to[..N].copy_from_slice(&from[..N]);
}
