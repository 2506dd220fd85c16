//! Pooling layers, channels last.

use super::op::{Backward, Forward, Op, resize_buffer};
use crate::nn::Window;
use crate::nn::kernels::pool::max;
use crate::nn::kernels::vectorised;

/// Max or average pooling without padding.
pub(super) struct Pool {
    is_max: bool,
    window: Window,
    /// Offset of each window's first pixel in an image, and the distances of its pixels from
    /// there.
    corners: Vec<usize>,
    taps: Vec<usize>,
}

impl Pool {
    pub(super) fn new(is_max: bool, window: Window) -> Self {
        let values = |pixels: Vec<usize>| pixels.iter().map(|p| p * window.channels).collect();
        Self { is_max, corners: values(window.corners()), taps: values(window.taps()), window }
    }
}

impl Op for Pool {
    fn describe(&self) -> String {
        let Window { kernel: [rows, columns], channels, .. } = self.window;
        format!("pool {rows}x{columns}, {channels} channels")
    }

    fn len(&self) -> usize {
        self.corners.len() * self.window.channels
    }

    fn forward(&self, pass: Forward) {
        let Self { is_max, window, corners, taps } = self;
        let images = pass.x.chunks_exact(window.image());
        for (x, y) in images.zip(pass.y.chunks_exact_mut(self.len())) {
            if *is_max {
                max_forward(x, corners, taps, window.channels, y)
            } else {
                mean_forward(x, corners, taps, window.channels, y)
            }
        }
    }

    fn backward(&self, pass: Backward) {
        let Some(gx) = pass.gx else { return };
        let Self { is_max, window, corners, taps } = self;
        let remaining = resize_buffer(&mut pass.scratch.channels, window.channels);
        let images = gx.zeroed().chunks_exact_mut(window.image());
        let images = images.zip(pass.x.chunks_exact(window.image()));
        let outputs = pass.y.chunks_exact(self.len()).zip(pass.g.chunks_exact(self.len()));
        for ((gx, x), (y, g)) in images.zip(outputs) {
            if *is_max {
                max_backward(x, y, g, corners, taps, remaining, gx)
            } else {
                mean_backward(g, corners, taps, window.channels, gx)
            }
        }
    }
}

vectorised! {
    fn max_forward(x: &[f32], corners: &[usize], offsets: &[usize], c: usize, y: &mut [f32]) {
        for (corner, y) in corners.iter().zip(y.chunks_exact_mut(c)) {
            if let [a, b, d, e] = *offsets {
                let at = |offset: usize| &x[corner + offset..corner + offset + c];
                let (a, b, d, e) = (at(a), at(b), at(d), at(e));
                for i in 0..c {
                    y[i] = max(max(a[i], b[i]), max(d[i], e[i]));
                }
                continue;
            }
            y.copy_from_slice(&x[*corner..corner + c]);
            for offset in &offsets[1..] {
                for (y, &x) in y.iter_mut().zip(&x[corner + offset..corner + offset + c]) {
                    *y = max(*y, x);
                }
            }
        }
    }
}

vectorised! {
    /// Routes each gradient to the first pixel that holds the maximum.
    fn max_backward(
        x: &[f32],
        y: &[f32],
        g: &[f32],
        corners: &[usize],
        offsets: &[usize],
        remaining: &mut [f32],
        gx: &mut [f32],
    ) {
        let c = remaining.len();
        let outputs = y.chunks_exact(c).zip(g.chunks_exact(c));
        for (corner, (y, g)) in corners.iter().zip(outputs) {
            remaining.copy_from_slice(g);
            for offset in offsets {
                let (x, gx) = (&x[corner + offset..][..c], &mut gx[corner + offset..][..c]);
                for i in 0..c {
                    let routed = if x[i] == y[i] { remaining[i] } else { 0.0 };
                    gx[i] += routed;
                    remaining[i] -= routed;
                }
            }
        }
    }
}

vectorised! {
    fn mean_forward(x: &[f32], corners: &[usize], offsets: &[usize], c: usize, y: &mut [f32]) {
        let weight = 1.0 / offsets.len() as f32;
        for (corner, y) in corners.iter().zip(y.chunks_exact_mut(c)) {
            y.fill(0.0);
            for offset in offsets {
                for (y, x) in y.iter_mut().zip(&x[corner + offset..][..c]) {
                    *y += x;
                }
            }
            y.iter_mut().for_each(|y| *y *= weight);
        }
    }
}

vectorised! {
    fn mean_backward(g: &[f32], corners: &[usize], offsets: &[usize], c: usize, gx: &mut [f32]) {
        let weight = 1.0 / offsets.len() as f32;
        for (corner, g) in corners.iter().zip(g.chunks_exact(c)) {
            for offset in offsets {
                for (gx, g) in gx[corner + offset..][..c].iter_mut().zip(g) {
                    *gx += weight * g;
                }
            }
        }
    }
}
