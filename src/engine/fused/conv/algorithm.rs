//! How a convolution, its input gradient and its weight gradient are computed: by minimal
//! filtering, by products with the pixels where they are, or by products with patches. Each
//! algorithm keeps the weights in the order that it reads them in.

use super::patches::Patches;
use crate::engine::fused::direct::Direct;
use crate::engine::fused::im2col::Im2col;
use crate::engine::fused::op::Scratch;
use crate::engine::fused::winograd::Winograd;
use crate::nn::kernels::product::{Store, transpose};

pub(super) enum Algorithm {
    /// Minimal filtering, with transformed kernels.
    Filtering { forward: Winograd, filter: Vec<f32>, gradient: Winograd, rotated: Vec<f32> },
    /// Matrix products.
    Products {
        /// Per group `[patch] x [outputs]`.
        weight: Vec<f32>,
        /// Takes the place of patches.
        direct: Option<Direct>,
        gradient: InputGradient,
    },
}

pub(super) enum InputGradient {
    /// A convolution of the output gradient with the kernel rotated by 180° and transposed,
    /// `[kernel, outputs] x [inputs]`.
    Convolved { patches: Patches, direct: Option<Direct>, rotated: Vec<f32> },
    /// Gradients of patches, added to the pixels that they came from. The weights are, per group,
    /// `[outputs] x [patch]`.
    Scattered { transposed: Vec<f32> },
}

impl Algorithm {
    /// Minimal filtering where `filtering` returns it for both the forward pass and the input
    /// gradient, from the geometry and the number of output channels; or else products, with the
    /// pixels where `direct` returns that.
    pub(super) fn choosing(
        patches: &Patches,
        filtering: impl Fn(&Im2col, usize) -> Option<Winograd>,
        direct: impl Fn(&Im2col, usize) -> Option<Direct>,
    ) -> Self {
        let (geometry, inputs, out) =
            (patches.geometry(), patches.geometry().channels, patches.out());
        let of_gradient = gradient_geometry(patches);
        let filtered = of_gradient
            .as_ref()
            .and_then(|of_gradient| filtering(geometry, out).zip(filtering(of_gradient, inputs)));
        if let Some((forward, gradient)) = filtered {
            return Self::Filtering { forward, filter: Vec::new(), gradient, rotated: Vec::new() };
        }
        let gradient = match of_gradient {
            Some(of_gradient) => InputGradient::Convolved {
                direct: direct(&of_gradient, inputs),
                patches: Patches::new(of_gradient, 1, inputs),
                rotated: Vec::new(),
            },
            None => InputGradient::Scattered { transposed: Vec::new() },
        };
        Self::Products { weight: Vec::new(), direct: direct(geometry, out), gradient }
    }

    /// What it is called, for people; empty for products with patches.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Filtering { .. } => "minimal filtering",
            Self::Products { direct: Some(_), .. } => "without patches",
            Self::Products { direct: None, .. } => "",
        }
    }

    /// Takes weights, per group `[patch] x [outputs]`.
    pub(super) fn load(&mut self, patches: &Patches, new: Vec<f32>) {
        match self {
            Self::Filtering { forward, filter, gradient, rotated } => {
                forward.filter(&new, filter);
                gradient.rotated(filter, rotated);
            }
            Self::Products { weight, gradient, .. } => {
                gradient.load(patches, &new);
                *weight = new;
            }
        }
    }

    /// Number of images that are convolved at a time, out of `images`, so that the activation
    /// function finds the output in the cache.
    pub(super) fn images_per_block(&self, patches: &Patches, images: usize) -> usize {
        match self {
            Self::Filtering { forward, .. } => forward.images_per_block(),
            Self::Products { direct: Some(_), .. } => images.max(1),
            Self::Products { direct: None, .. } => patches.images_per_block(),
        }
    }

    /// Convolution of images into `out`, `[images, positions, outputs]`.
    pub(super) fn convolve(
        &self,
        patches: &Patches,
        images: &[f32],
        out: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        let store = Store::Replace;
        match self {
            Self::Filtering { forward, filter, .. } => {
                forward.convolve(images, filter, out, store, scratch);
            }
            Self::Products { direct: Some(direct), weight, .. } => {
                direct.convolve(images, weight, out, store, scratch);
            }
            Self::Products { direct: None, weight, .. } => {
                patches.convolve(images, weight, out, store, scratch);
            }
        }
    }

    /// The gradient `gx` with respect to images from the gradient `g` with respect to the output.
    pub(super) fn input_gradient(
        &self,
        patches: &Patches,
        g: &[f32],
        gx: &mut [f32],
        store: Store,
        scratch: &mut Scratch,
    ) {
        let buffer = &mut scratch.patches;
        match self {
            Self::Filtering { gradient, rotated, .. } => {
                gradient.convolve(g, rotated, gx, store, buffer);
            }
            Self::Products { gradient, .. } => match gradient {
                InputGradient::Convolved { direct: Some(direct), rotated, .. } => {
                    direct.convolve(g, rotated, gx, store, buffer);
                }
                InputGradient::Convolved { patches, direct: None, rotated } => {
                    patches.convolve(g, rotated, gx, store, buffer);
                }
                InputGradient::Scattered { transposed } => {
                    patches.scatter_gradient(g, transposed, gx, store, scratch);
                }
            },
        }
    }

    /// The weight gradient of this many images at a time without patches, where that is faster.
    pub(super) fn weight_gradient(&self, images: usize) -> Option<WeightGradient<'_>> {
        match self {
            Self::Filtering { forward, .. } => {
                forward.pays_for_weights_of(images).then_some(WeightGradient::Filtering(forward))
            }
            Self::Products { direct, .. } => direct.as_ref().map(WeightGradient::Direct),
        }
    }

    /// Multiplications for one image in the forward pass, for the input gradient and for the weight
    /// gradient of this many images at a time, where the usual algorithm takes `usual` for each.
    pub(super) fn multiplications(&self, usual: usize, images: usize) -> [usize; 3] {
        let Self::Filtering { forward, gradient, .. } = self else { return [usual; 3] };
        let weights = match self.weight_gradient(images) {
            Some(_) => forward.multiplications(),
            None => usual,
        };
        [forward.multiplications(), gradient.multiplications(), weights]
    }
}

impl InputGradient {
    fn load(&mut self, of: &Patches, weight: &[f32]) {
        let (inputs, outputs) = (of.geometry().group_channels, of.group_out());
        match self {
            Self::Convolved { rotated, .. } => {
                rotated.resize(weight.len(), 0.0);
                let tap = inputs * outputs;
                let taps = weight.chunks_exact(tap).zip(rotated.chunks_exact_mut(tap).rev());
                taps.for_each(|(from, to)| transpose(from, inputs, to, |to, from| *to = from));
            }
            Self::Scattered { transposed } => {
                transposed.resize(weight.len(), 0.0);
                let group = of.patch_len() * outputs;
                let groups = weight.chunks_exact(group).zip(transposed.chunks_exact_mut(group));
                groups.for_each(|(from, to)| {
                    transpose(from, of.patch_len(), to, |to, from| *to = from);
                });
            }
        }
    }
}

/// A weight gradient without patches.
pub(super) enum WeightGradient<'a> {
    Filtering(&'a Winograd),
    Direct(&'a Direct),
}

impl WeightGradient<'_> {
    /// The weight gradient, `[patch] x [outputs]`, summed over images.
    pub(super) fn compute(
        &self,
        images: &[f32],
        g: &[f32],
        out: &mut [f32],
        store: Store,
        scratch: &mut Vec<f32>,
    ) {
        match self {
            Self::Filtering(plan) => plan.weight_gradient(images, g, out, store, scratch),
            Self::Direct(plan) => plan.weight_gradient(images, g, out, store, scratch),
        }
    }
}

/// The convolution of the output gradient that is the input gradient: only for stride 1 without
/// groups, and where no padding is wider than the kernel reaches.
fn gradient_geometry(patches: &Patches) -> Option<Im2col> {
    let of = *patches.geometry();
    let reach = [0, 1].map(|i| of.dilation[i] * (of.kernel[i] - 1));
    let possible = patches.groups().len() == 1
        && of.stride == [1, 1]
        && of.padding.iter().zip(reach).all(|(&padding, reach)| padding <= reach);
    possible.then(|| Im2col {
        size: of.output,
        channels: patches.out(),
        padding: [reach[0] - of.padding[0], reach[1] - of.padding[1]],
        output: of.size,
        first_channel: 0,
        group_channels: patches.out(),
        ..of
    })
}
