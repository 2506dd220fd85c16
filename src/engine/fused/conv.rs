//! Convolution layers: im2col patches, then one matrix product per block of images; or, where it is
//! faster, minimal filtering, or products with the pixels where they are.

#[cfg(test)]
mod cost_tests;
mod norms;

use super::activation::Activation;
use super::clip::GradientClip;
use super::direct::Direct;
use super::im2col::Im2col;
use super::layout::{Layout, ParameterSlot};
use super::op::{Context, ContextMut, NormMethod, Op, Rows, Scratch, resize_buffer};
use super::outer;
use super::packed::CoordinateWeights;
use super::pixel_gram::PixelGram;
use super::standardise::Standardise;
use super::winograd::Winograd;
use crate::nn::kernels::product::{Matrix, Store, product, transpose};

/// Rows of a product that saturate the vector units. Larger blocks only exceed the caches.
const MIN_BLOCK_ROWS: usize = 96;

pub(super) struct Conv {
    /// Patch extraction, one per group.
    im2col: Vec<Im2col>,
    out: usize,
    /// Patch extraction from the output gradient. Its patches times `flipped` are the input
    /// gradient. Only for stride 1 without groups.
    input_gradient: Option<Im2col>,
    activation: Activation,
    clip: Option<GradientClip>,
    slots: Vec<ParameterSlot>,
    bias: Option<Vec<f32>>,
    /// Number of weights of all groups.
    weight_len: usize,
    /// Weights that the convolution multiplies with, per group `[patch] x [outputs]`; empty, if it
    /// multiplies with transformed ones.
    weight: Vec<f32>,
    /// The kernel rotated by 180° and transposed, `[kernel, outputs] x [inputs]`; empty as
    /// `weight` is.
    flipped: Vec<f32>,
    /// `[outputs] x [patch]`, for the input gradient of convolutions with a stride; otherwise
    /// empty.
    transposed: Vec<f32>,
    /// Minimal filtering in place of patches.
    filtering: Option<Filtering>,
    /// Forward pass and weight gradient without patches.
    direct: Option<Direct>,
    /// The input gradient without patches.
    direct_gradient: Option<Direct>,
    standardise: Option<Standardise>,
    pixel_gram: Option<PixelGram>,
}

/// A convolution and its input gradient by minimal filtering, with their transformed weights.
struct Filtering {
    forward: Winograd,
    filter: Vec<f32>,
    gradient: Winograd,
    rotated: Vec<f32>,
}

/// Sizes and settings of a convolution.
pub(super) struct ConvSpec {
    pub(super) input: [usize; 3],
    pub(super) out: usize,
    pub(super) output: [usize; 2],
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) groups: usize,
    pub(super) bias: bool,
    pub(super) activation: Activation,
}

impl Conv {
    pub(super) fn new(spec: &ConvSpec, standardise: Option<Standardise>) -> Self {
        Self::choosing(spec, standardise, Winograd::of, Direct::of)
    }

    /// The convolution with minimal filtering where `filtering` returns it for both the forward
    /// pass and the input gradient, from the geometry and the number of output channels; or else
    /// with products with the pixels where `direct` returns that.
    fn choosing(
        spec: &ConvSpec,
        standardise: Option<Standardise>,
        filtering: impl Fn(&Im2col, usize) -> Option<Winograd>,
        direct: impl Fn(&Im2col, usize) -> Option<Direct>,
    ) -> Self {
        let [channels, height, width] = spec.input;
        let group_channels = channels / spec.groups;
        let geometry = Im2col {
            size: [height, width],
            channels,
            kernel: spec.kernel,
            stride: spec.stride,
            padding: spec.padding,
            dilation: spec.dilation,
            output: spec.output,
            first_channel: 0,
            group_channels,
        };
        let im2col: Vec<Im2col> = (0..spec.groups)
            .map(|group| Im2col { first_channel: group * group_channels, ..geometry })
            .collect();
        let extent = |i: usize| spec.dilation[i] * (spec.kernel[i] - 1);
        let stride_one = spec.groups == 1
            && spec.stride == [1, 1]
            && (0..2).all(|i| spec.padding[i] <= extent(i));
        let input_gradient = stride_one.then(|| Im2col {
            size: spec.output,
            channels: spec.out,
            kernel: spec.kernel,
            stride: [1, 1],
            padding: [extent(0) - spec.padding[0], extent(1) - spec.padding[1]],
            dilation: spec.dilation,
            output: [height, width],
            first_channel: 0,
            group_channels: spec.out,
        });
        let area = spec.kernel[0] * spec.kernel[1];
        let len = area * group_channels * spec.out;
        let layout = Layout::Kernel {
            groups: spec.groups,
            out: spec.out / spec.groups,
            input: group_channels,
            area,
        };
        let mut slots = vec![ParameterSlot::large(0, layout)];
        if spec.bias {
            slots.push(ParameterSlot::small(0, spec.out));
        }
        if standardise.as_ref().is_some_and(Standardise::has_gain) {
            slots.push(ParameterSlot::large(len, Layout::Plain { len: spec.out }));
        }
        let pixel_gram = PixelGram::of(&geometry, spec.groups);
        let filtering = input_gradient.and_then(|of_gradient| {
            Some(Filtering {
                forward: filtering(&geometry, spec.out)?,
                filter: Vec::new(),
                gradient: filtering(&of_gradient, channels)?,
                rotated: Vec::new(),
            })
        });
        let is_filtered = filtering.is_some();
        let direct = |geometry, out| if is_filtered { None } else { direct(geometry, out) };
        let direct_gradient = input_gradient.as_ref().and_then(|of| direct(of, channels));
        let direct = direct(&geometry, spec.out);
        let flipped = if is_filtered || !stride_one { 0 } else { len };
        Self {
            im2col,
            pixel_gram,
            out: spec.out,
            input_gradient,
            activation: spec.activation,
            clip: None,
            slots,
            bias: spec.bias.then(|| vec![0.0; spec.out]),
            weight_len: len,
            weight: Vec::new(),
            flipped: vec![0.0; flipped],
            transposed: vec![0.0; if stride_one || spec.groups > 1 { 0 } else { len }],
            filtering,
            direct,
            direct_gradient,
            standardise,
        }
    }

    fn positions(&self) -> usize {
        self.im2col[0].positions()
    }

    fn patch_len(&self) -> usize {
        self.im2col[0].patch_len()
    }

    fn image_len(&self) -> usize {
        let first_group = &self.im2col[0];
        first_group.size[0] * first_group.size[1] * first_group.channels
    }

    /// Whether this is a 1x1 convolution with stride 1, whose patches are the pixels.
    fn is_pointwise(&self) -> bool {
        let first_group = &self.im2col[0];
        first_group.kernel == [1, 1]
            && first_group.stride == [1, 1]
            && first_group.padding == [0, 0]
            && first_group.group_channels == first_group.channels
    }

    /// Whether the output is the product itself: no bias, no activation, one group.
    fn is_linear_output(&self) -> bool {
        self.bias.is_none() && self.activation == Activation::None && self.im2col.len() == 1
    }

    /// The patches of a block of images, `[images, positions, patch]`.
    fn patches<'a>(&self, group: usize, x: &'a [f32], buffer: &'a mut Vec<f32>) -> &'a [f32] {
        if self.is_pointwise() {
            return x;
        }
        let im2col = &self.im2col[group];
        let images = x.chunks_exact(self.image_len());
        let out = resize_buffer(buffer, images.len() * im2col.positions() * im2col.patch_len());
        for (image, out) in
            images.zip(out.chunks_exact_mut(im2col.positions() * im2col.patch_len()))
        {
            im2col.gather(image, out);
        }
        out
    }

    /// The channels of one group, `[positions, outputs of the group]`.
    fn group_outputs<'a>(&self, group: usize, g: &'a [f32], buffer: &'a mut Vec<f32>) -> &'a [f32] {
        let groups = self.im2col.len();
        if groups == 1 {
            return g;
        }
        let outputs = self.out / groups;
        let out = resize_buffer(buffer, g.len() / groups);
        for (to, from) in out.chunks_exact_mut(outputs).zip(g.chunks_exact(self.out)) {
            to.copy_from_slice(&from[group * outputs..(group + 1) * outputs]);
        }
        out
    }

    /// Number of images per matrix product.
    fn images_per_block(&self) -> usize {
        MIN_BLOCK_ROWS.div_ceil(self.positions())
    }

    /// Minimal filtering for the weight gradient of this many images, where it is faster.
    fn filtered_gradient(&self, images: usize) -> Option<&Winograd> {
        let forward = &self.filtering.as_ref()?.forward;
        forward.pays_for_weights_of(images).then_some(forward)
    }

    /// Whether [`weight_gradient`](Self::weight_gradient) computes the weight gradient of this many
    /// images.
    fn gradient_without_patches(&self, images: usize) -> bool {
        self.direct.is_some() || self.filtered_gradient(images).is_some()
    }

    /// The weight gradient for these gradients `g` of the output, summed over images, without
    /// patches.
    fn weight_gradient(
        &self,
        ctx: Context,
        g: &[f32],
        out: &mut [f32],
        store: Store,
        scratch: &mut Vec<f32>,
    ) {
        if let Some(direct) = &self.direct {
            direct.weight_gradient(ctx.x, g, out, store, scratch);
        } else if let Some(forward) = self.filtered_gradient(ctx.rows.total()) {
            forward.weight_gradient(ctx.x, g, out, store, scratch);
        }
    }

    /// Number of weights of one group.
    fn group_len(&self) -> usize {
        self.weight_len / self.im2col.len()
    }

    /// Clips the gradient of the output, if there is a clip.
    pub(super) fn with_clip(self, clip: Option<GradientClip>) -> Self {
        Self { clip, ..self }
    }
}

impl Op for Conv {
    fn len(&self) -> usize {
        self.positions() * self.out
    }

    fn layout(&self) -> &[ParameterSlot] {
        &self.slots
    }

    fn describe(&self) -> String {
        let Im2col { kernel: [rows, columns], stride, channels, output, .. } = self.im2col[0];
        let stride = if stride == [1, 1] { String::new() } else { format!("/{}", stride[0]) };
        let [height, width] = output;
        let algorithm = match (&self.filtering, &self.direct) {
            (Some(_), _) => ", minimal filtering",
            (None, Some(_)) => ", without patches",
            (None, None) => "",
        };
        let size = format!("{channels} to {}, {height}x{width}", self.out);
        format!("conv {rows}x{columns}{stride}, {size}{algorithm}")
    }

    fn multiplications(&self) -> usize {
        self.positions() * self.weight_len
    }

    fn multiplications_done(&self, copies: usize) -> [usize; 3] {
        let direct = self.multiplications();
        let Some(Filtering { forward, gradient, .. }) = &self.filtering else {
            return [direct; 3];
        };
        let weights = self.filtered_gradient(copies).map_or(direct, Winograd::multiplications);
        [forward.multiplications(), gradient.multiplications(), weights]
    }

    fn load(&mut self, small: &[f32], large: &[f32]) {
        if let Some(bias) = &mut self.bias {
            bias.copy_from_slice(small);
        }
        let (weight, gain) = large.split_at(self.weight_len);
        let mut weight = weight.to_vec();
        if let Some(standardise) = &mut self.standardise {
            standardise.load(&mut weight, gain);
        }
        let (out, input) = (self.out, self.im2col[0].group_channels);
        let area = self.im2col[0].kernel[0] * self.im2col[0].kernel[1];
        if let Some(Filtering { forward, filter, gradient, rotated }) = &mut self.filtering {
            forward.filter(&weight, filter);
            return gradient.rotated(filter, rotated);
        }
        let taps = if self.flipped.is_empty() { 0 } else { area };
        for (a, tap) in weight.chunks_exact(input * out).enumerate().take(taps) {
            let start = (area - 1 - a) * input * out;
            let flipped = &mut self.flipped[start..start + input * out];
            transpose(tap, input, flipped, |to, from| *to = from);
        }
        if !self.transposed.is_empty() {
            transpose(&weight, area * input, &mut self.transposed, |to, from| *to = from);
        }
        self.weight = weight;
    }

    fn forward(&self, rows: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], scratch: &mut Scratch) {
        debug_assert_eq!(x.len(), rows.total() * self.image_len());
        if let Some(direct) = &self.direct {
            direct.convolve(x, &self.weight, y, Store::Replace, &mut scratch.patches);
            return self.activation.apply(y, self.bias.as_deref());
        }
        let images = match &self.filtering {
            Some(filtering) => filtering.forward.images_per_block(),
            None => self.images_per_block(),
        };
        let blocks = x.chunks(images * self.image_len()).zip(y.chunks_mut(images * self.len()));
        for (x, y) in blocks {
            if let Some(Filtering { forward, filter, .. }) = &self.filtering {
                forward.convolve(x, filter, y, Store::Replace, &mut scratch.patches);
                self.activation.apply(y, self.bias.as_deref());
                continue;
            }
            let positions = y.len() / self.out;
            for (group, weight) in self.weight.chunks_exact(self.group_len()).enumerate() {
                let outputs = self.out / self.im2col.len();
                let patches = self.patches(group, x, &mut scratch.patches);
                let patches = Matrix::new(patches, positions, self.patch_len());
                let weight = Matrix::new(weight, self.patch_len(), outputs);
                if self.im2col.len() == 1 {
                    product(y, Store::Replace, patches, weight);
                    continue;
                }
                let group_y = resize_buffer(&mut scratch.second, positions * outputs);
                product(group_y, Store::Replace, patches, weight);
                for (to, from) in y.chunks_exact_mut(self.out).zip(group_y.chunks_exact(outputs)) {
                    to[group * outputs..(group + 1) * outputs].copy_from_slice(from);
                }
            }
            self.activation.apply(y, self.bias.as_deref());
        }
    }

    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        small: &mut [f32],
        scratch: &mut Scratch,
    ) {
        self.activation.backward(ctx.y, ctx.g);
        if let Some(clip) = &self.clip {
            clip.apply(ctx.rows.copies, ctx.g);
        }
        let g = &*ctx.g;
        if self.bias.is_some() {
            let each = small.chunks_exact_mut(self.out);
            let copies = g.chunks_exact(ctx.rows.copies * self.len());
            each.zip(copies).for_each(|(bias, g)| outer::add_rows(g, bias));
        }
        let Some((gx, store)) = gx else { return };
        if let Some(Filtering { gradient, rotated, .. }) = &self.filtering {
            return gradient.convolve(g, rotated, gx, store, &mut scratch.patches);
        }
        if let Some(direct) = &self.direct_gradient {
            return direct.convolve(g, &self.flipped, gx, store, &mut scratch.patches);
        }
        if let Some(im2col) = &self.input_gradient {
            let images = MIN_BLOCK_ROWS.div_ceil(im2col.positions());
            let blocks =
                gx.chunks_mut(images * self.image_len()).zip(g.chunks(images * self.len()));
            for (gx, g) in blocks {
                let positions = gx.len() / self.im2col[0].channels;
                let patches = if self.is_pointwise() {
                    g
                } else {
                    let len = im2col.positions() * im2col.patch_len();
                    let out = resize_buffer(&mut scratch.patches, g.len() / self.len() * len);
                    for (g, out) in g.chunks_exact(self.len()).zip(out.chunks_exact_mut(len)) {
                        im2col.gather(g, out);
                    }
                    &*out
                };
                let patches = Matrix::new(patches, positions, im2col.patch_len());
                let flipped =
                    Matrix::new(&self.flipped, im2col.patch_len(), self.im2col[0].channels);
                product(gx, store, patches, flipped);
            }
            return;
        }
        if store == Store::Replace {
            gx.fill(0.0);
        }
        let (images, outputs) = (self.images_per_block(), self.out / self.im2col.len());
        let blocks = gx.chunks_mut(images * self.image_len()).zip(g.chunks(images * self.len()));
        for (gx, g) in blocks {
            for (group, weight) in self.weight.chunks_exact(self.group_len()).enumerate() {
                let g = self.group_outputs(group, g, &mut scratch.second);
                let positions = g.len() / outputs;
                let patches = resize_buffer(&mut scratch.patches, positions * self.patch_len());
                let weight = match self.transposed.is_empty() {
                    true => Matrix::new(weight, self.patch_len(), outputs).transposed(),
                    false => Matrix::new(&self.transposed, outputs, self.patch_len()),
                };
                let g = Matrix::new(g, positions, outputs);
                product(patches, Store::Replace, g, weight);
                let each = patches.chunks_exact(self.positions() * self.patch_len());
                for (gx, patches) in gx.chunks_exact_mut(self.image_len()).zip(each) {
                    self.im2col[group].scatter(patches, gx);
                }
            }
        }
    }

    fn norm_method(&self, copies: usize, weighted: bool) -> NormMethod {
        let outputs = self.out / self.im2col.len();
        if weighted || self.standardise.is_some() && !self.is_linear_output() {
            return NormMethod::Instance;
        }
        outer::norm_method(copies * self.positions(), self.patch_len(), outputs)
    }

    fn add_squared_norms(
        &self,
        ctx: Context,
        _: Option<&CoordinateWeights>,
        squares: &mut [f64],
        recomputed: &mut Vec<usize>,
        scratch: &mut Scratch,
    ) {
        for (i, square) in squares.iter_mut().enumerate() {
            match self.ghost_squared_norm(ctx.example(i), scratch) {
                Some(found) => *square += found,
                None => recomputed.push(i),
            }
        }
    }

    fn instance_gradient(
        &self,
        ctx: Context,
        weights: Option<&[f32]>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> f64 {
        self.weighted_instance(ctx, weights, out, scratch)
    }

    fn transformed_instance(
        &self,
        ctx: Context,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Option<f64> {
        self.standardised_instance(ctx, out, scratch)
    }

    fn sums_more_rows(&self, rows: usize) -> bool {
        outer::sums_more_positions(rows * self.positions(), self.weight_len)
    }

    fn weighted_sum(
        &self,
        ctx: Context,
        factors: Option<&[f32]>,
        sum: &mut [f32],
        scratch: &mut Scratch,
    ) {
        if self.gradient_without_patches(ctx.rows.total()) {
            let Scratch { patches, third, .. } = scratch;
            let g = outer::weighted(ctx.g, factors, third);
            let sum = &mut sum[..self.weight_len];
            return self.weight_gradient(ctx, g, sum, Store::Add, patches);
        }
        let outputs = self.out / self.im2col.len();
        let copies = ctx.rows.copies;
        // Blocks hold whole examples, so that each block has its own clipping factors.
        let images = match self.weight_len < outer::LARGE_SUM {
            true => self.images_per_block(),
            // Each block reads and writes the whole sum.
            false => 4 * self.images_per_block(),
        };
        let block = images.div_ceil(copies);
        let xs = ctx.x.chunks(block * copies * self.image_len());
        let gs = ctx.g.chunks(block * copies * self.len());
        for (at, (x, g)) in xs.zip(gs).enumerate() {
            let rows = g.len() / self.out;
            let factors = factors.map(|f| &f[at * block..f.len().min((at + 1) * block)]);
            for (group, sum) in
                sum[..self.weight_len].chunks_exact_mut(self.group_len()).enumerate()
            {
                let patches = self.patches(group, x, &mut scratch.patches);
                let g = self.group_outputs(group, g, &mut scratch.second);
                debug_assert_eq!(g.len(), rows * outputs);
                outer::add_weighted_product(patches, g, rows, factors, sum, &mut scratch.third);
            }
        }
    }

    /// With weight standardisation, sums are taken over gradients of the standardised weights.
    fn transformed_len(&self) -> Option<usize> {
        self.standardise.as_ref().map(|_| self.weight_len)
    }

    fn gradient_of_transformed(&self, transformed: &[f32]) -> Vec<f32> {
        let mut gradient = transformed.to_vec();
        if let Some(standardise) = &self.standardise {
            gradient.resize(self.large_len(), 0.0);
            let (weight, gain) = gradient.split_at_mut(self.weight_len);
            standardise.backward(weight, gain);
        }
        gradient
    }
}
