//! Pooling, channels last.

use super::op::{Chunk, Op, Rows, Scratch};
use super::outer::add;
use crate::nn::kernels::product::Store;
use crate::nn::kernels::vectorised;

/// Maximum or mean under a window without padding.
pub(super) struct Pool {
    pub(super) largest: bool,
    pub(super) size: [usize; 2],
    pub(super) channels: usize,
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) output: [usize; 2],
}

impl Pool {
    fn image(&self) -> usize {
        self.size[0] * self.size[1] * self.channels
    }

    fn share(&self) -> f32 {
        1.0 / (self.kernel[0] * self.kernel[1]) as f32
    }

    /// Calls `at` for each place of the window in one image: where its corner and its output are.
    fn places(&self, mut at: impl FnMut(usize, usize)) {
        for row in 0..self.output[0] {
            for column in 0..self.output[1] {
                let pixel = row * self.stride[0] * self.size[1] + column * self.stride[1];
                at(pixel * self.channels, (row * self.output[1] + column) * self.channels);
            }
        }
    }

    /// Pixels under the window relative to its corner.
    fn offsets(&self) -> Vec<usize> {
        let [height, width] = self.kernel;
        let all = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
        all.map(|(y, x)| (y * self.size[1] + x) * self.channels).collect()
    }
}

impl Op for Pool {
    fn len(&self) -> usize {
        self.output[0] * self.output[1] * self.channels
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        let (offsets, c) = (self.offsets(), self.channels);
        for (x, y) in x.chunks_exact(self.image()).zip(y.chunks_exact_mut(self.len())) {
            self.places(|corner, out| {
                let y = &mut y[out..out + c];
                if let (true, [a, b, d, e]) = (self.largest, offsets[..].try_into().unwrap_or([0; 4])) {
                    if offsets.len() == 4 {
                        let at = |offset: usize| &x[corner + offset..corner + offset + c];
                        largest_of_four(at(a), at(b), at(d), at(e), y);
                        return;
                    }
                }
                for (i, offset) in offsets.iter().enumerate() {
                    let x = &x[corner + offset..corner + offset + c];
                    match (i, self.largest) {
                        (0, _) => y.copy_from_slice(x),
                        (_, true) => larger(x, y),
                        (_, false) => add(y, x),
                    }
                }
                if !self.largest {
                    y.iter_mut().for_each(|y| *y *= self.share());
                }
            });
        }
    }

    fn backward(&self, seen: Chunk, gx: Option<(&mut [f32], Store)>, _: &mut [f32], _: &mut Scratch) {
        let Some((gx, store)) = gx else { return };
        if store == Store::Replace {
            gx.fill(0.0);
        }
        let (offsets, c, share) = (self.offsets(), self.channels, self.share());
        let mut left = vec![0.0; c];
        let images = gx.chunks_exact_mut(self.image()).zip(seen.x.chunks_exact(self.image()));
        let outputs = seen.y.chunks_exact(self.len()).zip(seen.g.chunks_exact(self.len()));
        for ((gx, x), (y, g)) in images.zip(outputs) {
            self.places(|corner, out| {
                let (y, g) = (&y[out..out + c], &g[out..out + c]);
                left.copy_from_slice(g);
                for offset in &offsets {
                    let pixels = corner + offset..corner + offset + c;
                    match self.largest {
                        true => give(&x[pixels.clone()], y, &mut left, &mut gx[pixels]),
                        false => gx[pixels].iter_mut().zip(g).for_each(|(o, g)| *o += share * g),
                    }
                }
            });
        }
    }
}

/// NaN wins, as in Burn.
#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    if b <= a || a.is_nan() { a } else { b }
}

vectorised! {
    fn larger(x: &[f32], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = max(*y, x);
        }
    }
}

vectorised! {
    fn largest_of_four(a: &[f32], b: &[f32], c: &[f32], d: &[f32], y: &mut [f32]) {
        for ((((y, &a), &b), &c), &d) in y.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *y = max(max(a, b), max(c, d));
        }
    }
}

vectorised! {
    /// Gives what is left of each gradient to the first pixel that holds the maximum.
    fn give(x: &[f32], y: &[f32], left: &mut [f32], out: &mut [f32]) {
        for (((out, left), &x), &y) in out.iter_mut().zip(left).zip(x).zip(y) {
            let given = if x == y { *left } else { 0.0 };
            *out += given;
            *left -= given;
        }
    }
}
