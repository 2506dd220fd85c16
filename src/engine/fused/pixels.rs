//! Gram matrices of patches from those of pixels: a pixel is in many patches, its products with
//! the others need to be formed only once.

use super::op::room;
use super::patches::Walk;
use crate::nn::kernels::product::{Matrix, Store, product};
use crate::nn::kernels::vectorised;

/// For convolutions in one group with steps of one pixel.
pub(super) struct Pixels {
    walk: Walk,
    /// Height and width with the zeros around.
    padded: [usize; 2],
    /// Each pixel of a patch relative to the patch's first, and the patches' first pixels by row.
    taps: Vec<usize>,
}

impl Pixels {
    /// `None` where products of patches are as cheap.
    pub(super) fn of(walk: &Walk, groups: usize) -> Option<Self> {
        let padded = [0, 1].map(|i| walk.size[i] + 2 * walk.padding[i]);
        let (pixels, positions) = (padded[0] * padded[1], walk.positions());
        let area = walk.kernel[0] * walk.kernel[1];
        let cheap = pixels * pixels * walk.channels + positions * positions * area
            < positions * positions * walk.patch();
        if groups > 1 || walk.stride != [1, 1] || !cheap {
            return None;
        }
        let [height, width] = walk.kernel;
        let all = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
        let place = |(y, x)| y * walk.dilation[0] * padded[1] + x * walk.dilation[1];
        Some(Self { walk: *walk, padded, taps: all.map(place).collect() })
    }

    fn pixels(&self) -> usize {
        self.padded[0] * self.padded[1]
    }

    /// The Gram matrix of the patches of all copies, and the sum of each patch.
    pub(super) fn gram(
        &self,
        images: &[f32],
        gram: &mut Vec<f32>,
        sums: &mut Vec<f32>,
        spare: (&mut Vec<f32>, &mut Vec<f32>),
    ) {
        let walk = &self.walk;
        let [height, width] = walk.size;
        let copies = images.len() / (height * width * walk.channels);
        let all = copies * self.pixels();
        let padded = room(spare.0, all * walk.channels);
        padded.fill(0.0);
        let each = padded.chunks_exact_mut(self.pixels() * walk.channels);
        for (to, from) in each.zip(images.chunks_exact(height * width * walk.channels)) {
            for (y, row) in from.chunks_exact(width * walk.channels).enumerate() {
                let first = (y + walk.padding[0]) * self.padded[1] + walk.padding[1];
                to[first * walk.channels..][..row.len()].copy_from_slice(row);
            }
        }
        let products = room(spare.1, all * all);
        let matrix = Matrix::new(padded, all, walk.channels);
        product(products, Store::Replace, matrix, matrix.transposed());
        // The first pixels of each row of patches; the row's others follow them.
        let rows = (0..copies).flat_map(|copy| {
            (0..walk.output[0]).map(move |y| copy * self.pixels() + y * self.padded[1])
        });
        let rows: Vec<usize> = rows.collect();
        let positions = rows.len() * walk.output[1];
        let gram = room(gram, positions * positions);
        add_up(products, all, &rows, walk.output[1], &self.taps, gram);
        let totals: Vec<f32> =
            padded.chunks_exact(walk.channels).map(|pixel| pixel.iter().sum()).collect();
        let sums = room(sums, positions);
        for (row, sums) in rows.iter().zip(sums.chunks_exact_mut(walk.output[1])) {
            for (x, sum) in sums.iter_mut().enumerate() {
                *sum = self.taps.iter().map(|tap| totals[row + x + tap]).sum();
            }
        }
    }
}

vectorised! {
    /// `gram[t, u] = Σ over taps of products[t + tap, u + tap]`, eight neighbours `u` at a time.
    fn add_up(products: &[f32], all: usize, rows: &[usize], width: usize, taps: &[usize], gram: &mut [f32]) {
        let mut out = gram.chunks_exact_mut(rows.len() * width);
        for row in rows {
            for x in 0..width {
                let Some(out) = out.next() else { return };
                for (other, out) in rows.iter().zip(out.chunks_exact_mut(width)) {
                    let (blocks, tail) = out.as_chunks_mut::<8>();
                    let mut from = *other;
                    for block in blocks {
                        let mut sum = [0.0f32; 8];
                        for tap in taps {
                            let line = (row + x + tap) * all + from + tap;
                            for (s, p) in sum.iter_mut().zip(&products[line..line + 8]) {
                                *s += p;
                            }
                        }
                        *block = sum;
                        from += 8;
                    }
                    for (i, out) in tail.iter_mut().enumerate() {
                        let line = |tap: &usize| products[(row + x + tap) * all + from + i + tap];
                        *out = taps.iter().map(line).sum();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fused::outer;

    #[test]
    fn it_is_the_gram_matrix_of_the_patches() {
        for (padding, dilation, output) in
            [([0, 0], [1, 1], [3, 10]), ([1, 1], [1, 1], [5, 12]), ([2, 1], [2, 1], [5, 12])]
        {
            let walk = Walk {
                size: [5, 12],
                channels: 40,
                kernel: [3, 3],
                stride: [1, 1],
                padding,
                dilation,
                output,
                first: 0,
                part: 40,
            };
            let pixels = Pixels::of(&walk, 1).expect("products of pixels are fewer");
            assert!(Pixels::of(&walk, 2).is_none());
            let image = 5 * 12 * 40;
            let images: Vec<f32> =
                (0..2 * image).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
            let (mut gram, mut sums) = (Vec::new(), Vec::new());
            pixels.gram(&images, &mut gram, &mut sums, (&mut Vec::new(), &mut Vec::new()));
            let each = walk.positions() * walk.patch();
            let mut patches = vec![0.0; 2 * each];
            for (image, patches) in images.chunks_exact(image).zip(patches.chunks_exact_mut(each)) {
                walk.gather(image, patches);
            }
            let mut right = Vec::new();
            outer::gram(&patches, 2 * walk.positions(), &mut right);
            for (a, b) in gram.iter().zip(&right) {
                assert!((a - b).abs() < 1e-3, "{a} {b}");
            }
            for (sum, patch) in sums.iter().zip(patches.chunks_exact(walk.patch())) {
                assert!((sum - patch.iter().sum::<f32>()).abs() < 1e-3);
            }
        }
    }
}
