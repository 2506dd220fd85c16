//! A layer with the clips of backpropagation clipping.

use std::fmt;

use burn::module::Module;
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::parameter_source::ParameterSource;
use super::{Conv2dSpec, Layer, LayerSpec};
use crate::device::kernels;
use crate::nn::{BatchTensor, Tape, UpstreamClip};
use crate::{Error, ErrorKind, Result};

/// The clips of backpropagation clipping around a layer with parameters (Stevens et al., 2022,
/// algorithm 2). They bound the layer's gradient without forming it per example.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerClips {
    /// Largest L2 norm of an example's input to the layer, over all its features.
    pub max_input_norm: f64,
    /// Largest norm of the gradient of an example's loss with respect to the layer's output.
    pub max_upstream_norm: f64,
    /// Norm of the upstream gradient that is bounded.
    #[serde(default)]
    pub norm: UpstreamNorm,
}

/// The norm of the gradient g with respect to the output of a layer, `[channels, positions]`, that
/// backpropagation clipping bounds. Each is an upper bound on the norm of the layer's gradient,
/// divided by the norm of its input. On a single position all of them are the L2 norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamNorm {
    /// √(Σ over channels (Σ over positions |g|)²), which the paper's code names `l15`.
    L15,
    /// √m ‖g‖₂, where m is the largest number of patches that contain one input value.
    SqrtM,
    /// The smaller of the two, which clips least.
    #[default]
    Either,
}

/// Accepted bounds of the clip norms. Their squares are far from the limits of f32.
const BOUNDS: std::ops::RangeInclusive<f64> = 1e-12..=1e12;

impl LayerClips {
    /// Creates clips at these norms, by the smaller of the two norms of [`UpstreamNorm`].
    pub fn new(max_input_norm: f64, max_upstream_norm: f64) -> Self {
        Self { max_input_norm, max_upstream_norm, norm: UpstreamNorm::default() }
    }

    /// Checks the bounds.
    ///
    /// # Errors
    /// `Setting` for a bound that is not between 1e-12 and 1e12.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, bound) in
            [("max_input_norm", self.max_input_norm), ("max_upstream_norm", self.max_upstream_norm)]
        {
            if !BOUNDS.contains(&bound) {
                let why = "inputs and gradients are scaled down to it, as f32 numbers";
                return Err(Error::setting(name, bound, why).fix("use a number from 1e-12 to 1e12"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for LayerClips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_input_norm, max_upstream_norm, norm } = self;
        write!(f, "inputs clipped to {max_input_norm}, upstream gradients to {max_upstream_norm}")?;
        f.write_str(match norm {
            UpstreamNorm::L15 => " (l15)",
            UpstreamNorm::SqrtM => " (sqrt_m)",
            UpstreamNorm::Either => " (either norm)",
        })
    }
}

/// Specification of a [`BackpropClipped`] layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackpropClippedSpec {
    /// The layer between the clips.
    pub layer: Box<LayerSpec>,
    /// Clips around the layer.
    pub clip: LayerClips,
}

impl BackpropClippedSpec {
    /// Returns the L2 sensitivity of the sum of the layer's gradients; infinite for a convolution
    /// with a standardised weight, whose gradient the clips bound with respect to the standardised
    /// weight only. The mechanism of the method releases that one and computes the parameters'
    /// from it.
    ///
    /// # Guarantee
    /// Neighbours: one example added, removed or zeroed out. Let C and D be the bounds on the input
    /// x and on the upstream gradient g. A layer that applies one linear map to `positions` patches
    /// p' of x and of k further inputs of at most 1 has the gradient G = Σ gₛ pₛ'ᵀ. Row by row, its
    /// norm is at most ‖g‖₁₂ max ‖pₛ'‖ ≤ ‖g‖₁₂ (C² + k)^½, as every patch is a part of the input
    /// (zero padding adds zeros). It is also at most ‖g‖₂ (Σ ‖pₛ'‖²)^½ ≤
    /// ‖g‖₂ (m C² + k positions)^½, as at most m patches contain one value of the input. The clip
    /// keeps each that it uses below D (C² + k)^½, which is the result.
    ///
    /// - Linear and convolution: k = 1 for the bias, else 0.
    /// - LSTM: the pre-activations of the gates at step t are one linear map, the same at all
    ///   steps, of xₜ, the previous hidden state and a 1 for each of the two biases. A hidden state
    ///   is a sigmoid times a tanh, so k = hidden + 2, and m = 1. g is the gradient with respect to
    ///   the pre-activations after back-propagation through time, clipped over all steps and both
    ///   directions. The bounds hold for each direction with its part of g, and the squares of
    ///   these parts add up.
    /// - Embedding: the gradient is bounded by the sum over time of ‖gₜ‖₂, at most D.
    pub fn sensitivity(&self) -> f64 {
        match self.layer.as_ref() {
            LayerSpec::Embedding(_) => self.clip.max_upstream_norm,
            LayerSpec::Conv2d(spec) if spec.standardised.is_some() => f64::INFINITY,
            layer => self.clip.max_upstream_norm * self.input_bound(layer),
        }
    }

    /// Returns the largest norm of an input with the constant inputs.
    fn input_bound(&self, layer: &LayerSpec) -> f64 {
        self.clip.max_input_norm.hypot(constant_input_count(layer).sqrt())
    }

    /// Returns the clip of the gradient with respect to an output of shape `output` (batch first);
    /// for an LSTM, with respect to the pre-activations of its gates.
    pub(crate) fn upstream_clip(&self, output: &[usize]) -> UpstreamClip {
        let max_norm = self.clip.max_upstream_norm;
        let (positions, patches) = match self.layer.as_ref() {
            LayerSpec::Embedding(_) => return UpstreamClip::TokenLookup { max_norm },
            LayerSpec::Conv2d(spec) => (output[2] * output[3], patches_per_value(spec)),
            _ if output.len() == 3 => (output[1], 1),
            _ => (1, 1),
        };
        let input = self.clip.max_input_norm;
        let constant = constant_input_count(&self.layer) * positions as f64;
        let sqrt_m = (patches as f64 * input * input + constant).sqrt();
        let sqrt_m = Some(sqrt_m / self.input_bound(&self.layer));
        let (l15, sqrt_m) = match self.clip.norm {
            // On one position both are the L2 norm.
            _ if positions == 1 => (false, Some(1.0)),
            UpstreamNorm::L15 => (true, None),
            UpstreamNorm::SqrtM => (false, sqrt_m),
            UpstreamNorm::Either => (true, sqrt_m),
        };
        UpstreamClip::LinearMap { max_norm, l15, sqrt_m }
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.clip.check()?;
        let nested = matches!(*self.layer, LayerSpec::BackpropClipped(_));
        let nested = nested.then_some("the layer has clips already");
        if let Some(why) = nested.or_else(|| unsupported_reason(&self.layer)) {
            let what = format!("backpropagation clipping around a {} layer", self.layer.kind());
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("clip Linear, Conv2d, Embedding and LSTM layers"));
        }
        self.layer.output_shape(input)
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> BackpropClipped {
        BackpropClipped { layer: vec![self.layer.build(source)], spec: self.clone() }
    }
}

impl LayerSpec {
    /// Returns the layer with its clips, if it has some.
    pub(crate) fn clipped(&self) -> Option<&BackpropClippedSpec> {
        match self {
            Self::BackpropClipped(clipped) => Some(clipped),
            _ => None,
        }
    }
}

/// Returns the reason why backpropagation clipping has no bound for a layer; `None` if it has one.
pub(super) fn unsupported_reason(layer: &LayerSpec) -> Option<&'static str> {
    match layer {
        LayerSpec::BackpropClipped(clipped) => unsupported_reason(&clipped.layer),
        LayerSpec::Linear(_) | LayerSpec::Embedding(_) => None,
        LayerSpec::Conv2d(_) | LayerSpec::Lstm(_) => None,
        LayerSpec::GroupNorm(_) | LayerSpec::LayerNorm(_) => {
            Some("the clips do not bound the gradient of a trained normalisation layer")
        }
        _ => Some("only single layers with parameters have clips"),
    }
}

/// Returns the number k of inputs of the layer's linear map besides its patch: constants of 1 for
/// biases, and the previous hidden state of an LSTM, each value of which is at most 1.
fn constant_input_count(layer: &LayerSpec) -> f64 {
    let count = match layer {
        LayerSpec::Linear(spec) => usize::from(spec.bias),
        LayerSpec::Conv2d(spec) => usize::from(spec.bias),
        LayerSpec::Lstm(spec) => spec.hidden + 2,
        _ => 0,
    };
    count as f64
}

/// Returns the largest number of patches that contain one value of the input. Along an axis, the
/// pixel i is in the patch that begins at i - j · dilation for some j below the kernel size, and
/// patches begin at multiples of the stride. That leaves one j in stride / gcd(stride, dilation),
/// so at most ⌈kernel · gcd / stride⌉ patches.
fn patches_per_value(spec: &Conv2dSpec) -> usize {
    let axis = |i: usize| {
        let common = gcd(spec.stride[i], spec.dilation[i]);
        (spec.kernel[i] * common).div_ceil(spec.stride[i])
    };
    axis(0) * axis(1)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Layer with clips: its input is clipped in the forward pass, and the gradient with respect to
/// its output in the backward pass. Both clips are per example. Prediction clips the input too.
/// The layer's parameters keep their paths.
#[derive(Module, Debug)]
pub struct BackpropClipped {
    /// The layer: one element.
    pub layer: Vec<Layer>,
    #[module(skip)]
    spec: BackpropClippedSpec,
}

impl BackpropClipped {
    /// Computes the output of the layer for the clipped input.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let x = match self.spec.layer.as_ref() {
            // Token ids.
            LayerSpec::Embedding(_) => x,
            _ => {
                let max = self.spec.clip.max_input_norm;
                tape.record_unclipped_input(&x, max);
                x.map(|x| clip_rows(x, max), |x| clip_rows(x, max), |x| clip_rows(x, max))
            }
        };
        self.layer.iter().fold(x, |x, layer| match layer {
            Layer::Lstm(lstm) => {
                let clip = self.spec.upstream_clip(&x.dims());
                lstm.forward_clipped(x, &clip, tape)
            }
            layer => {
                let y = layer.forward(x, tape);
                // After the layer has reported its output, so that the gradient that it records,
                // and that flows on to earlier layers, is the clipped one.
                let clip = self.spec.upstream_clip(&y.dims());
                tape.clip_upstream(y, &clip)
            }
        })
    }
}

/// Scales the rows of `x` with an L2 norm above `max` down to it. A row that is not finite becomes
/// zero.
fn clip_rows<const D: usize>(x: Tensor<D>, max: f64) -> Tensor<D> {
    let shape = x.shape();
    let n = shape[0];
    let len = shape.num_elements() / n.max(1);
    if n == 0 {
        return x;
    }
    let rows = x.reshape([n, len]);
    let finite = kernels::finite_rows(rows.clone().inner());
    let excluded = finite.equal_elem(0.0).reshape([n, 1]).expand([n, len]);
    let rows = rows.mask_fill(excluded, 0.0);
    // Relative to the largest value, so that no square overflows; then the sum is at least 1
    // unless the row is zero.
    let largest = rows.clone().detach().abs().max_dim(1).clamp_min(f32::MIN_POSITIVE);
    let relative = rows.clone() / largest.clone();
    let norms = (relative.clone() * relative).sum_dim(1).clamp_min(1.0).sqrt() * largest;
    // A factor near the smallest normal f32 becomes 0: rounding could double a subnormal one.
    let factors = norms.clamp_min(max).recip() * max - 2.0 * f32::MIN_POSITIVE;
    (rows * factors.clamp_min(0.0)).reshape(shape)
}
