//! Convolutions as matrix products with patches, for one group of channels after the other.

use crate::engine::fused::op::{Context, Convolution, Scratch, resize_buffer};
use crate::engine::fused::outer_product;
use crate::nn::kernels::Im2col;
use crate::nn::kernels::product::{MatrixView, WriteMode, matmul, matmul_strided};

/// Rows of a product that saturate the vector units. Larger blocks only exceed the caches.
const MIN_BLOCK_ROWS: usize = 96;

/// Convolution of channels-last images, `[height, width, channels]`, by im2col.
#[derive(Clone)]
pub(super) struct Im2colConv {
    groups: Vec<Im2col>,
    /// Number of output channels of all groups.
    out: usize,
}

impl Im2colConv {
    pub(super) fn new(geometry: Im2col, groups: usize, out: usize) -> Self {
        let channels = geometry.channels / groups;
        let group_geometry = |group| Im2col {
            first_channel: group * channels,
            group_channels: channels,
            ..geometry
        };
        Self { groups: (0..groups).map(group_geometry).collect(), out }
    }

    /// Returns one geometry for each group.
    pub(super) fn groups(&self) -> &[Im2col] {
        &self.groups
    }

    /// Returns the geometry of the first group.
    pub(super) fn geometry(&self) -> &Im2col {
        &self.groups[0]
    }

    /// Returns the number of output channels of all groups.
    pub(super) fn out_channels(&self) -> usize {
        self.out
    }

    /// Returns the number of output channels of one group.
    pub(super) fn group_out_channels(&self) -> usize {
        self.out / self.groups.len()
    }

    pub(super) fn positions(&self) -> usize {
        self.geometry().positions()
    }

    pub(super) fn patch_len(&self) -> usize {
        self.geometry().patch_len()
    }

    /// Returns the number of weights of all groups.
    pub(super) fn weight_len(&self) -> usize {
        self.patch_len() * self.out
    }

    pub(super) fn image_len(&self) -> usize {
        let Im2col { size: [height, width], channels, .. } = *self.geometry();
        height * width * channels
    }

    /// Returns the number of values of one image's output.
    pub(super) fn output_len(&self) -> usize {
        self.positions() * self.out
    }

    /// Returns the number of images per matrix product.
    pub(super) fn images_per_block(&self) -> usize {
        MIN_BLOCK_ROWS.div_ceil(self.positions())
    }

    /// Returns whether the patches are the pixels: a 1x1 convolution with stride 1.
    fn is_pointwise(&self) -> bool {
        self.geometry().are_pixels() && self.groups.len() == 1
    }

    /// Gathers the patches of images, `[images, positions, patch]`.
    pub(super) fn gather<'a>(
        &self,
        group: usize,
        images: &'a [f32],
        buffer: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        if self.is_pointwise() {
            return images;
        }
        let im2col = &self.groups[group];
        let images = images.chunks_exact(self.image_len());
        let len = im2col.positions() * im2col.patch_len();
        let out = resize_buffer(buffer, images.len() * len);
        for (image, out) in images.zip(out.chunks_exact_mut(len)) {
            im2col.gather(image, out);
        }
        out
    }

    /// Returns the output channels of one group, `[positions, outputs of the group]`.
    pub(super) fn group_outputs<'a>(
        &self,
        group: usize,
        g: &'a [f32],
        buffer: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        if self.groups.len() == 1 {
            return g;
        }
        let outputs = self.group_out_channels();
        let out = resize_buffer(buffer, g.len() / self.groups.len());
        for (to, from) in out.chunks_exact_mut(outputs).zip(g.chunks_exact(self.out)) {
            to.copy_from_slice(&from[group * outputs..(group + 1) * outputs]);
        }
        out
    }

    /// Convolves images into `out`, `[images, positions, outputs]`, with weights, per group
    /// `[patch] x [outputs]`.
    pub(super) fn convolve(&self, convolution: Convolution) {
        let Convolution { images, with: weight, out, store, scratch } = convolution;
        let block = self.images_per_block();
        let images = images.chunks(block * self.image_len());
        for (images, out) in images.zip(out.chunks_mut(block * self.output_len())) {
            let (positions, patch) = (out.len() / self.out, self.patch_len());
            let weights = weight.chunks_exact(patch * self.group_out_channels());
            for (group, weight) in weights.enumerate() {
                let patches =
                    MatrixView::new(self.gather(group, images, scratch), positions, patch);
                let weight = MatrixView::new(weight, patch, self.group_out_channels());
                let out = &mut out[group * self.group_out_channels()..];
                matmul_strided(out, self.out, store, patches, weight);
            }
        }
    }

    /// Adds the gradient with respect to images from that with respect to the output: gradients of
    /// patches, which are added to the pixels that they came from. The weights are, per group,
    /// `[outputs] x [patch]`.
    pub(super) fn col2im_gradient(
        &self,
        g: &[f32],
        transposed: &[f32],
        gx: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let (block, outputs) = (self.images_per_block(), self.group_out_channels());
        let blocks = gx.chunks_mut(block * self.image_len());
        for (gx, g) in blocks.zip(g.chunks(block * self.output_len())) {
            let weights = transposed.chunks_exact(self.patch_len() * outputs);
            for ((group, weight), im2col) in weights.enumerate().zip(&self.groups) {
                let g = self.group_outputs(group, g, &mut scratch.group_outputs);
                let positions = g.len() / outputs;
                let patches = resize_buffer(&mut scratch.patches, positions * self.patch_len());
                let weight = MatrixView::new(weight, outputs, self.patch_len());
                matmul(
                    patches,
                    WriteMode::Overwrite,
                    MatrixView::new(g, positions, outputs),
                    weight,
                );
                let each = patches.chunks_exact(self.positions() * self.patch_len());
                for (gx, patches) in gx.chunks_exact_mut(self.image_len()).zip(each) {
                    im2col.scatter(patches, gx);
                }
            }
        }
    }

    /// Adds Σ factor · gradient of the weights over the examples to `sum`, per group
    /// `[patch] x [outputs]`.
    pub(super) fn add_weight_gradients(
        &self,
        ctx: Context,
        sum: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let copies = ctx.rows.copies;
        let images = if sum.len() < outer_product::LARGE_SUM {
            self.images_per_block()
        } else {
            // Each block reads and writes the whole sum.
            4 * self.images_per_block()
        };
        // Blocks hold whole examples, so that each block has its own clipping factors.
        let block = images.div_ceil(copies);
        let xs = ctx.x.chunks(block * copies * self.image_len());
        let gs = ctx.g.chunks(block * copies * self.output_len());
        for (at, (x, g)) in xs.zip(gs).enumerate() {
            let rows = g.len() / self.out;
            let factors = ctx.factors.map(|f| &f[at * block..f.len().min((at + 1) * block)]);
            let sums = sum.chunks_exact_mut(self.patch_len() * self.group_out_channels());
            for (group, sum) in sums.enumerate() {
                let patches = self.gather(group, x, &mut scratch.patches);
                let g = self.group_outputs(group, g, &mut scratch.group_outputs);
                outer_product::add_weighted_product(
                    patches,
                    g,
                    rows,
                    factors,
                    sum,
                    &mut scratch.weighted,
                );
            }
        }
    }
}
