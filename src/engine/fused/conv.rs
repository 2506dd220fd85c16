//! Convolution layers, with an activation function and weight standardisation.

mod algorithm;
#[cfg(test)]
mod cost_tests;
mod im2col_conv;
mod norms;

use self::algorithm::ConvAlgorithm;
use self::im2col_conv::Im2colConv;
use super::activation::FusedActivation;
use super::conv_standardisation::ConvStandardisation;
use super::direct_conv::DirectConv;
use super::op::{Backward, Forward, Large, Op};
use super::outer_product;
use super::packed_layout::{PackedLayout, ParameterSlot};
use super::pixel_gram::PixelGram;
use super::winograd::Winograd;
use crate::nn::Conv2dSpec;
use crate::nn::kernels::Im2col;

pub(super) struct Conv {
    patches: Im2colConv,
    algorithm: ConvAlgorithm,
    slots: Vec<ParameterSlot>,
    /// Bias per output channel; empty without a bias.
    bias: Vec<f32>,
    /// Whether the output is the matrix product itself: no bias, no activation, one group.
    is_linear_output: bool,
    /// Number of weights of all groups.
    weight_len: usize,
    standardise: Option<ConvStandardisation>,
    pixel_gram: Option<PixelGram>,
}

impl Conv {
    /// Creates the convolution of `spec` for images of height and width `size`, with this
    /// activation.
    pub(super) fn new(spec: &Conv2dSpec, size: [usize; 2], activation: FusedActivation) -> Self {
        Self::with_selectors(
            spec,
            size,
            activation,
            Winograd::new_if_faster,
            DirectConv::new_if_faster,
        )
    }

    /// Creates the convolution as [`new`](Self::new) does, with the algorithm of
    /// [`ConvAlgorithm::select`].
    fn with_selectors(
        spec: &Conv2dSpec,
        size: [usize; 2],
        activation: FusedActivation,
        filtering: impl Fn(&Im2col, usize) -> Option<Winograd>,
        direct: impl Fn(&Im2col, usize) -> Option<DirectConv>,
    ) -> Self {
        let out = spec.channels_out;
        let geometry = Im2col::channels_last(&spec.geometry(size));
        let patches = Im2colConv::new(geometry, spec.groups, out);
        let weight_len = patches.weight_len();
        let layout = PackedLayout::ConvKernel {
            groups: spec.groups,
            out: patches.group_out_channels(),
            input: patches.geometry().group_channels,
            area: spec.kernel[0] * spec.kernel[1],
        };
        let mut slots = vec![ParameterSlot::large(0, layout)];
        if spec.bias {
            slots.push(ParameterSlot::small(0, out));
        }
        let rule = spec.standardised.as_ref();
        if rule.is_some_and(|rule| rule.gain) {
            slots.push(ParameterSlot::large(weight_len, PackedLayout::Plain { len: out }));
        }
        let patch = patches.patch_len();
        Self {
            algorithm: ConvAlgorithm::select(&patches, filtering, direct),
            pixel_gram: PixelGram::new_if_cheaper(patches.geometry(), spec.groups),
            patches,
            slots,
            bias: vec![0.0; if spec.bias { out } else { 0 }],
            is_linear_output: !spec.bias && activation == FusedActivation::None && spec.groups == 1,
            weight_len,
            standardise: rule.map(|rule| {
                ConvStandardisation::new(rule.guard, rule.gain, spec.groups, patch, out)
            }),
        }
    }

    /// Returns the number of weights of one group.
    fn group_len(&self) -> usize {
        self.weight_len / self.patches.groups().len()
    }
}

impl Op for Conv {
    fn len(&self) -> usize {
        self.patches.output_len()
    }

    fn parameter_slots(&self) -> &[ParameterSlot] {
        &self.slots
    }

    fn describe(&self) -> String {
        let Im2col { kernel: [rows, columns], stride, channels, output, .. } =
            *self.patches.geometry();
        let stride = if stride == [1, 1] { String::new() } else { format!("/{}", stride[0]) };
        let [height, width] = output;
        let size = format!("{channels} to {}, {height}x{width}", self.patches.out_channels());
        let algorithm = match self.algorithm.name() {
            "" => String::new(),
            name => format!(", {name}"),
        };
        format!("conv {rows}x{columns}{stride}, {size}{algorithm}")
    }

    fn load(&mut self, small: &[f32], large: &[f32]) {
        self.bias.copy_from_slice(small);
        let (weight, gain) = large.split_at(self.weight_len);
        let mut weight = weight.to_vec();
        if let Some(standardise) = &mut self.standardise {
            standardise.load(&mut weight, gain);
        }
        self.algorithm.load(&self.patches, weight);
    }

    fn forward(&self, pass: Forward) {
        debug_assert_eq!(pass.x.len(), pass.rows.total() * self.patches.image_len());
        let images = self.algorithm.images_per_block(pass.rows.total());
        let blocks = pass.x.chunks(images * self.patches.image_len());
        for (x, y) in blocks.zip(pass.y.chunks_mut(images * self.len())) {
            self.algorithm.convolve(x, y, &mut pass.scratch.patches);
            pass.activation.apply(y, &self.bias);
        }
    }

    fn backward(&self, pass: Backward) {
        outer_product::add_bias_gradients(pass.g, pass.rows.examples, pass.small);
        if let Some(gx) = pass.gx {
            self.algorithm.input_gradient(&self.patches, pass.g, gx, pass.scratch);
        }
    }

    fn large(&self) -> Option<Large<'_>> {
        Some(Large::Matrices(self))
    }
}
