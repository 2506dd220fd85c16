//! Convolution layers, with an activation function and weight standardisation.

mod algorithm;
#[cfg(test)]
mod cost_tests;
mod norms;
mod patches;

use self::algorithm::Algorithm;
use self::patches::Patches;
use super::activation::Activation;
use super::clip::GradientClip;
use super::direct::Direct;
use super::im2col::Im2col;
use super::layout::{Layout, ParameterSlot};
use super::op::{Context, ContextMut, NormMethod, Op, Rows, Scratch};
use super::outer;
use super::packed::CoordinateWeights;
use super::pixel_gram::PixelGram;
use super::standardise::Standardise;
use super::winograd::Winograd;
use crate::nn::kernels::product::Store;

pub(super) struct Conv {
    patches: Patches,
    algorithm: Algorithm,
    activation: Activation,
    clip: Option<GradientClip>,
    slots: Vec<ParameterSlot>,
    bias: Option<Vec<f32>>,
    /// Number of weights of all groups.
    weight_len: usize,
    standardise: Option<Standardise>,
    pixel_gram: Option<PixelGram>,
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

    /// As [`new`](Self::new), with the algorithm of [`Algorithm::choosing`].
    fn choosing(
        spec: &ConvSpec,
        standardise: Option<Standardise>,
        filtering: impl Fn(&Im2col, usize) -> Option<Winograd>,
        direct: impl Fn(&Im2col, usize) -> Option<Direct>,
    ) -> Self {
        let [channels, height, width] = spec.input;
        let geometry = Im2col {
            size: [height, width],
            channels,
            kernel: spec.kernel,
            stride: spec.stride,
            padding: spec.padding,
            dilation: spec.dilation,
            output: spec.output,
            first_channel: 0,
            group_channels: channels,
        };
        let patches = Patches::new(geometry, spec.groups, spec.out);
        let weight_len = patches.weight_len();
        let layout = Layout::Kernel {
            groups: spec.groups,
            out: patches.group_out(),
            input: patches.geometry().group_channels,
            area: spec.kernel[0] * spec.kernel[1],
        };
        let mut slots = vec![ParameterSlot::large(0, layout)];
        if spec.bias {
            slots.push(ParameterSlot::small(0, spec.out));
        }
        if standardise.as_ref().is_some_and(Standardise::has_gain) {
            slots.push(ParameterSlot::large(weight_len, Layout::Plain { len: spec.out }));
        }
        Self {
            algorithm: Algorithm::choosing(&patches, filtering, direct),
            pixel_gram: PixelGram::of(patches.geometry(), spec.groups),
            patches,
            activation: spec.activation,
            clip: None,
            slots,
            bias: spec.bias.then(|| vec![0.0; spec.out]),
            weight_len,
            standardise,
        }
    }

    /// Whether the output is the product itself: no bias, no activation, one group.
    fn is_linear_output(&self) -> bool {
        self.bias.is_none()
            && self.activation == Activation::None
            && self.patches.groups().len() == 1
    }

    /// Number of weights of one group.
    fn group_len(&self) -> usize {
        self.weight_len / self.patches.groups().len()
    }

    /// Clips the gradient of the output, if there is a clip.
    pub(super) fn with_clip(self, clip: Option<GradientClip>) -> Self {
        Self { clip, ..self }
    }
}

impl Op for Conv {
    fn len(&self) -> usize {
        self.patches.output_len()
    }

    fn layout(&self) -> &[ParameterSlot] {
        &self.slots
    }

    fn describe(&self) -> String {
        let Im2col { kernel: [rows, columns], stride, channels, output, .. } =
            *self.patches.geometry();
        let stride = if stride == [1, 1] { String::new() } else { format!("/{}", stride[0]) };
        let [height, width] = output;
        let size = format!("{channels} to {}, {height}x{width}", self.patches.out());
        let algorithm = match self.algorithm.name() {
            "" => String::new(),
            name => format!(", {name}"),
        };
        format!("conv {rows}x{columns}{stride}, {size}{algorithm}")
    }

    fn multiplications(&self) -> usize {
        self.patches.positions() * self.weight_len
    }

    fn multiplications_done(&self, copies: usize) -> [usize; 3] {
        self.algorithm.multiplications(self.multiplications(), copies)
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
        self.algorithm.load(&self.patches, weight);
    }

    fn forward(&self, rows: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], scratch: &mut Scratch) {
        debug_assert_eq!(x.len(), rows.total() * self.patches.image_len());
        let images = self.algorithm.images_per_block(&self.patches, rows.total());
        let blocks = x.chunks(images * self.patches.image_len());
        for (x, y) in blocks.zip(y.chunks_mut(images * self.len())) {
            self.algorithm.convolve(&self.patches, x, y, &mut scratch.patches);
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
        if self.bias.is_some() {
            let each = small.chunks_exact_mut(self.patches.out());
            let copies = ctx.g.chunks_exact(ctx.rows.copies * self.len());
            each.zip(copies).for_each(|(bias, g)| outer::add_rows(g, bias));
        }
        if let Some((gx, store)) = gx {
            self.algorithm.input_gradient(&self.patches, ctx.g, gx, store, scratch);
        }
    }

    fn norm_method(&self, copies: usize, weighted: bool) -> NormMethod {
        if weighted || self.standardise.is_some() && !self.is_linear_output() {
            return NormMethod::Instance;
        }
        let patches = &self.patches;
        let (inputs, outputs) = (patches.patch_len(), patches.group_out());
        outer::norm_method(copies * patches.positions(), inputs, outputs)
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
        outer::sums_more_positions(rows * self.patches.positions(), self.weight_len)
    }

    fn weighted_sum(
        &self,
        ctx: Context,
        factors: Option<&[f32]>,
        sum: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let sum = &mut sum[..self.weight_len];
        let Some(gradient) = self.algorithm.weight_gradient(ctx.rows.total()) else {
            return self.patches.add_weight_gradients(ctx, factors, sum, scratch);
        };
        let g = outer::weighted(ctx.g, factors, &mut scratch.third);
        gradient.compute(ctx.x, g, sum, Store::Add, &mut scratch.patches);
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
