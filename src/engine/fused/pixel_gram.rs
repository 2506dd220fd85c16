//! Gram matrices of patches from the Gram matrix of pixels. A pixel belongs to many patches, and
//! its products with other pixels are computed only once.

use super::op::resize_buffer;
use crate::nn::Window;
use crate::nn::kernels::Im2col;
use crate::nn::kernels::product::{MatrixView, WriteMode, matmul};
use crate::nn::kernels::vectorised;

/// Gram matrix of patches for convolutions with stride 1 and one group.
pub(super) struct PixelGram {
    im2col: Im2col,
    /// Height and width with padding.
    padded: [usize; 2],
    /// Offset of each pixel of a patch from the first one.
    taps: Vec<usize>,
}

impl PixelGram {
    /// Creates the geometry; `None` if the Gram matrix of patches is as cheap to compute directly.
    pub(super) fn new_if_cheaper(im2col: &Im2col, groups: usize) -> Option<Self> {
        let padded = [0, 1].map(|i| im2col.size[i] + 2 * im2col.padding[i]);
        let (inside, positions) = (im2col.size[0] * im2col.size[1], im2col.positions());
        let area = im2col.kernel[0] * im2col.kernel[1];
        let cheap = inside * inside * im2col.channels + positions * positions * area
            < positions * positions * im2col.patch_len();
        if groups > 1 || im2col.stride != [1, 1] || !cheap {
            return None;
        }
        let Im2col { channels, kernel, stride, dilation, .. } = *im2col;
        let over = Window { channels, size: padded, kernel, stride, padding: [0, 0], dilation };
        Some(Self { im2col: *im2col, padded, taps: over.taps() })
    }

    fn pixels(&self) -> usize {
        self.padded[0] * self.padded[1]
    }

    /// Computes the Gram matrix of the patches of all copies.
    pub(super) fn gram<'a>(
        &self,
        images: &[f32],
        gram: &'a mut Vec<f32>,
        scratch: (&mut Vec<f32>, &mut Vec<f32>),
    ) -> &'a [f32] {
        let im2col = &self.im2col;
        let [height, width] = im2col.size;
        let pixels = images.len() / im2col.channels;
        let copies = pixels / (height * width);
        let inside = resize_buffer(scratch.0, pixels * pixels);
        let matrix = MatrixView::new(images, pixels, im2col.channels);
        matmul(inside, WriteMode::Overwrite, matrix, matrix.transposed());
        // Products with pixels of the padding are zero.
        let total = copies * self.pixels();
        let products = resize_buffer(scratch.1, total * total);
        products.fill(0.0);
        // Where each row of an image begins among the pixels with padding.
        let starts = (0..copies).flat_map(|copy| {
            let first = |y| (y + im2col.padding[0]) * self.padded[1] + im2col.padding[1];
            (0..height).map(move |y| copy * self.pixels() + first(y))
        });
        let starts: Vec<usize> = starts.collect();
        for (pixel, from) in inside.chunks_exact(pixels).enumerate() {
            let line = (starts[pixel / width] + pixel % width) * total;
            for (start, from) in starts.iter().zip(from.chunks_exact(width)) {
                products[line + start..][..width].copy_from_slice(from);
            }
        }
        // First pixel of the first patch of each output row; the other patches of the row follow
        // it.
        let rows = (0..copies).flat_map(|copy| {
            (0..im2col.output[0]).map(move |y| copy * self.pixels() + y * self.padded[1])
        });
        let rows: Vec<usize> = rows.collect();
        let positions = rows.len() * im2col.output[1];
        let gram = resize_buffer(gram, positions * positions);
        sum_products(products, total, &rows, im2col.output[1], &self.taps, gram);
        gram
    }
}

vectorised! {
    /// Computes `gram[t, u] = Σ products[t + tap, u + tap]` over taps, for eight adjacent `u` at a
    /// time.
    fn sum_products(
        products: &[f32],
        total: usize,
        rows: &[usize],
        width: usize,
        taps: &[usize],
        gram: &mut [f32],
    ) {
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
                            let line = (row + x + tap) * total + from + tap;
                            for (s, p) in sum.iter_mut().zip(&products[line..line + 8]) {
                                *s += p;
                            }
                        }
                        *block = sum;
                        from += 8;
                    }
                    for (i, out) in tail.iter_mut().enumerate() {
                        let line = |tap: &usize| products[(row + x + tap) * total + from + i + tap];
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
    use crate::engine::fused::outer_product;

    #[test]
    fn the_patch_gram_is_the_gram_matrix_of_the_patches() {
        for (padding, dilation, output) in
            [([0, 0], [1, 1], [3, 10]), ([1, 1], [1, 1], [5, 12]), ([2, 1], [2, 1], [5, 12])]
        {
            let im2col = Im2col::channels_last(&Window {
                channels: 40,
                size: [5, 12],
                kernel: [3, 3],
                stride: [1, 1],
                padding,
                dilation,
            });
            assert_eq!(im2col.output, output);
            let pixels =
                PixelGram::new_if_cheaper(&im2col, 1).expect("products of pixels are fewer");
            assert!(PixelGram::new_if_cheaper(&im2col, 2).is_none());
            let image = 5 * 12 * 40;
            let images: Vec<f32> =
                (0..2 * image).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
            let mut gram = Vec::new();
            pixels.gram(&images, &mut gram, (&mut Vec::new(), &mut Vec::new()));
            let mut sums = vec![0.0; 2 * im2col.positions()];
            im2col.patch_sums(&images, &mut sums);
            let each = im2col.positions() * im2col.patch_len();
            let mut patches = vec![0.0; 2 * each];
            for (image, patches) in images.chunks_exact(image).zip(patches.chunks_exact_mut(each)) {
                im2col.gather(image, patches);
            }
            let mut expected = Vec::new();
            outer_product::gram_matrix(&patches, 2 * im2col.positions(), &mut expected);
            for (a, b) in gram.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-3, "{a} {b}");
            }
            for (sum, patch) in sums.iter().zip(patches.chunks_exact(im2col.patch_len())) {
                assert!((sum - patch.iter().sum::<f32>()).abs() < 1e-3);
            }
        }
    }
}
