//! Algorithms of a convolution, its input gradient and its weight gradient: minimal filtering,
//! products with the pixels in place, or products with patches.

use super::im2col_conv::Im2colConv;
use crate::engine::fused::direct_conv::DirectConv;
use crate::engine::fused::op::{self, Convolution, Scratch};
use crate::engine::fused::winograd::Winograd;
use crate::nn::kernels::Im2col;
use crate::nn::kernels::product::{WriteMode, transpose};

/// Convolution by one of three methods. Each reads weights in an order of its own.
pub(super) enum Method {
    /// Minimal filtering, with transformed kernels.
    Filtering(Winograd),
    /// Products with the pixels in place, with weights `[patch] x [outputs]`.
    Direct(DirectConv),
    /// Products with patches, with weights, per group, `[patch] x [outputs]`.
    Patches(Im2colConv),
}

impl Method {
    /// Creates products, with the pixels in place where `direct` returns that.
    fn products(
        patches: Im2colConv,
        direct: impl Fn(&Im2col, usize) -> Option<DirectConv>,
    ) -> Self {
        match direct(patches.geometry(), patches.out_channels()) {
            Some(direct) => Self::Direct(direct),
            None => Self::Patches(patches),
        }
    }

    /// Convolves images into `out`, `[images, positions, outputs]`.
    fn convolve(&self, convolution: Convolution) {
        match self {
            Self::Filtering(plan) => plan.convolve(convolution),
            Self::Direct(plan) => plan.convolve(convolution),
            Self::Patches(plan) => plan.convolve(convolution),
        }
    }
}

pub(super) struct ConvAlgorithm {
    pub(super) forward: Method,
    weights: Vec<f32>,
    pub(super) gradient: InputGradient,
}

pub(super) enum InputGradient {
    /// Convolution of the output gradient with the kernel rotated by 180° and transposed,
    /// `[kernel, outputs] x [inputs]`.
    TransposedConv { method: Method, rotated: Vec<f32> },
    /// Gradients of patches, added to the pixels that the patches were read from. The weights are,
    /// per group, `[outputs] x [patch]`.
    Col2im { transposed: Vec<f32> },
}

impl ConvAlgorithm {
    /// Creates minimal filtering where `filtering` returns it for both the forward pass and the
    /// input gradient, from the geometry and the number of output channels; or else products, with
    /// the pixels in place where `direct` returns that.
    pub(super) fn select(
        patches: &Im2colConv,
        filtering: impl Fn(&Im2col, usize) -> Option<Winograd>,
        direct: impl Fn(&Im2col, usize) -> Option<DirectConv>,
    ) -> Self {
        let inputs = patches.geometry().channels;
        let of_gradient = gradient_geometry(patches);
        let filtered = of_gradient.as_ref().and_then(|of_gradient| {
            filtering(patches.geometry(), patches.out_channels())
                .zip(filtering(of_gradient, inputs))
        });
        let (forward, gradient) = match (filtered, of_gradient) {
            (Some((forward, gradient)), _) => {
                (Method::Filtering(forward), Some(Method::Filtering(gradient)))
            }
            (None, of_gradient) => {
                let gradient = of_gradient.map(|geometry| {
                    Method::products(Im2colConv::new(geometry, 1, inputs), &direct)
                });
                (Method::products(patches.clone(), &direct), gradient)
            }
        };
        let gradient = match gradient {
            Some(method) => InputGradient::TransposedConv { method, rotated: Vec::new() },
            None => InputGradient::Col2im { transposed: Vec::new() },
        };
        Self { forward, weights: Vec::new(), gradient }
    }

    /// Returns the name of the algorithm for display; empty for products with patches.
    pub(super) fn name(&self) -> &'static str {
        match self.forward {
            Method::Filtering(_) => "minimal filtering",
            Method::Direct(_) => "without patches",
            Method::Patches(_) => "",
        }
    }

    /// Takes weights, per group `[patch] x [outputs]`.
    pub(super) fn load(&mut self, patches: &Im2colConv, new: Vec<f32>) {
        let Self { forward, weights, gradient } = self;
        if let Method::Filtering(forward) = forward {
            forward.transform_filter(&new, weights);
        } else {
            *weights = new;
        }
        gradient.load(patches, weights);
    }

    /// Returns the number of images that are convolved at a time, out of `images`, so that the
    /// activation function finds the output in the cache.
    pub(super) fn images_per_block(&self, images: usize) -> usize {
        match &self.forward {
            Method::Filtering(plan) => plan.images_per_block(),
            Method::Direct(_) => images.max(1),
            Method::Patches(plan) => plan.images_per_block(),
        }
    }

    /// Convolves images into `out`, `[images, positions, outputs]`.
    pub(super) fn convolve(&self, images: &[f32], out: &mut [f32], scratch: &mut Vec<f32>) {
        let (with, store) = (&self.weights, WriteMode::Overwrite);
        self.forward.convolve(Convolution { images, with, out, store, scratch });
    }

    /// Computes the gradient `gx` with respect to images from the gradient `g` with respect to the
    /// output.
    pub(super) fn input_gradient(
        &self,
        patches: &Im2colConv,
        g: &[f32],
        gx: op::InputGradient,
        scratch: &mut Scratch,
    ) {
        match &self.gradient {
            InputGradient::TransposedConv { method, rotated } => {
                let (op::InputGradient { values: out, store }, scratch) =
                    (gx, &mut scratch.patches);
                method.convolve(Convolution { images: g, with: rotated, out, store, scratch });
            }
            InputGradient::Col2im { transposed } => {
                patches.col2im_gradient(g, transposed, gx.zeroed(), scratch);
            }
        }
    }

    /// Returns the weight gradient of this many images at a time without patches, where that is
    /// faster.
    pub(super) fn weight_gradient_kernel(&self, images: usize) -> Option<WeightGradientKernel<'_>> {
        match &self.forward {
            Method::Filtering(plan) => plan
                .is_weight_gradient_faster(images)
                .then_some(WeightGradientKernel::ByWinograd(plan)),
            Method::Direct(plan) => Some(WeightGradientKernel::ByDirectConv(plan)),
            Method::Patches(_) => None,
        }
    }

    /// Returns the multiplications for one image in the forward pass, for the input gradient and
    /// for the weight gradient of this many images at a time, where the usual algorithm takes
    /// `usual` for each.
    pub(super) fn multiplications(&self, usual: usize, images: usize) -> [usize; 3] {
        let cost = |method: &Method| match method {
            Method::Filtering(plan) => plan.multiplications(),
            _ => usual,
        };
        let (forward, gradient) = match &self.gradient {
            InputGradient::TransposedConv { method, .. } => (cost(&self.forward), cost(method)),
            InputGradient::Col2im { .. } => (usual, usual),
        };
        let weights = if self.weight_gradient_kernel(images).is_some() { forward } else { usual };
        [forward, gradient, weights]
    }
}

impl InputGradient {
    /// Takes the weights of the convolution, in the order of its method.
    fn load(&mut self, patches: &Im2colConv, weights: &[f32]) {
        let (inputs, outputs) = (patches.geometry().group_channels, patches.group_out_channels());
        match self {
            Self::TransposedConv { method: Method::Filtering(plan), rotated } => {
                plan.rotate_filter(weights, rotated);
            }
            Self::TransposedConv { rotated, .. } => {
                rotated.resize(weights.len(), 0.0);
                let tap = inputs * outputs;
                let taps = weights.chunks_exact(tap).zip(rotated.chunks_exact_mut(tap).rev());
                taps.for_each(|(from, to)| transpose(from, inputs, to, |to, from| *to = from));
            }
            Self::Col2im { transposed } => {
                transposed.resize(weights.len(), 0.0);
                let group = patches.patch_len() * outputs;
                let groups = weights.chunks_exact(group).zip(transposed.chunks_exact_mut(group));
                groups.for_each(|(from, to)| {
                    transpose(from, patches.patch_len(), to, |to, from| *to = from);
                });
            }
        }
    }
}

/// Weight gradient that is computed without patches.
pub(super) enum WeightGradientKernel<'a> {
    ByWinograd(&'a Winograd),
    ByDirectConv(&'a DirectConv),
}

impl WeightGradientKernel<'_> {
    /// Computes the weight gradient, `[patch] x [outputs]`, summed over images.
    pub(super) fn compute(&self, convolution: Convolution) {
        match self {
            Self::ByWinograd(plan) => plan.weight_gradient(convolution),
            Self::ByDirectConv(plan) => plan.weight_gradient(convolution),
        }
    }
}

/// Returns the geometry of the convolution of the output gradient that is the input gradient: only
/// for stride 1 without groups, and where no padding is wider than the kernel reaches.
fn gradient_geometry(patches: &Im2colConv) -> Option<Im2col> {
    let geometry = *patches.geometry();
    let reach = [0, 1].map(|i| geometry.dilation[i] * (geometry.kernel[i] - 1));
    let possible = patches.groups().len() == 1
        && geometry.stride == [1, 1]
        && geometry.padding.iter().zip(reach).all(|(&padding, reach)| padding <= reach);
    possible.then(|| Im2col {
        size: geometry.output,
        channels: patches.out_channels(),
        padding: [reach[0] - geometry.padding[0], reach[1] - geometry.padding[1]],
        output: geometry.size,
        first_channel: 0,
        group_channels: patches.out_channels(),
        ..geometry
    })
}
