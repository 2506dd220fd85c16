//! [`Tape`]: observes a forward pass, so that an executor can compute per-example gradients.

use burn::module::ParamId;
use burn::prelude::*;

use super::{BatchTensor, Precision, Standardisation, Window};
use crate::device::DeviceArray;

/// Observer of a forward pass: receives the input and output of every layer with parameters, like
/// the hooks that Opacus registers on PyTorch modules.
///
/// A forward pass calls [`Tape::record_layer`] once for each layer with parameters, in order, and
/// continues with the value that it returns. An executor returns the output with a hook on its
/// gradient.
pub trait Tape {
    /// Records that `site` computed `output` from `input`, both with the batch as first dimension.
    /// Returns the value that the forward pass continues with: `output`, or a tensor of its shape
    /// and values.
    fn record_layer(
        &mut self,
        site: ParameterSite,
        input: &BatchTensor,
        output: BatchTensor,
    ) -> BatchTensor {
        let _ = (site, input);
        output
    }

    /// Returns the number of calls of [`record_layer`](Self::record_layer) so far, which is the
    /// index of the next call. Tapes that implement
    /// [`record_summed_layer`](Self::record_summed_layer) must count the calls.
    fn layer_call_count(&self) -> usize {
        0
    }

    /// Records a second linear map whose result was added to the output of call number `call` of
    /// [`record_layer`](Self::record_layer), so that both have the same output gradient: the
    /// recurrent map of an LSTM gate.
    ///
    /// `input` is `[batch, time, features]` and detached; `site` is a [`ParameterSite::Linear`].
    fn record_summed_layer(&mut self, call: usize, site: ParameterSite, input: BatchTensor) {
        let _ = (call, site, input);
    }

    /// Observes the input of a layer with clips, `[batch, ...]`, before its rows are clipped to the
    /// L2 norm `max_norm`. Token ids are not clipped and not reported. The layer's call of
    /// [`clip_upstream`](Self::clip_upstream) follows.
    fn record_unclipped_input(&mut self, x: &BatchTensor, max_norm: f64) {
        let _ = (x, max_norm);
    }

    /// Clips the gradient of the loss with respect to `y` in the backward pass, one example (one
    /// row of `y`, `[batch, ...]`) at a time, and returns `y`. A tape for passes without gradients
    /// returns `y` as it is; any other must clip, because the bound on the layer's gradient depends
    /// on it.
    fn clip_upstream(&mut self, y: BatchTensor, clip: &UpstreamClip) -> BatchTensor;

    /// Returns whether layers may use the CPU kernels of this crate instead of Burn's operations.
    /// The reference executor returns `false`, so that it shares as little code as possible with
    /// the executors that are tested against it.
    fn use_cpu_kernels(&self) -> bool {
        true
    }

    /// Returns the floating-point format of the layers' matrix products.
    fn precision(&self) -> Precision {
        Precision::F32
    }

    /// Returns the mask of the next dropout layer for values of `shape` (batch first, row-major):
    /// 0 for a dropped value, 1/(1 - rate) for any other. `None` keeps everything, as in
    /// prediction.
    fn dropout_mask(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        let _ = (rate, shape);
        None
    }
}

/// A tape that records nothing: a plain forward pass without dropout.
pub struct NoTape;

impl Tape for NoTape {
    fn clip_upstream(&mut self, y: BatchTensor, _: &UpstreamClip) -> BatchTensor {
        y
    }
}

/// Rule of backpropagation clipping for the gradient g of an example's loss with respect to the
/// output of a layer. A gradient that is not finite becomes zero. An example of k augmented copies
/// has g / k in each, which is scaled down to `max_norm / k`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpstreamClip {
    /// Rule for linear maps and convolutions: g is scaled down to `max_norm` in the smaller of the
    /// norms that are used.
    LinearMap {
        /// Bound on the norm.
        max_norm: f64,
        /// Whether the norm √(Σ over channels (Σ over positions |g|)²) is used.
        l15: bool,
        /// Factor on the L2 norm, if that norm is used.
        sqrt_m: Option<f64>,
    },
    /// Rule for embeddings: the sum over time of ‖gₜ‖₂ is scaled down to `max_norm`.
    TokenLookup {
        /// Bound on the norm.
        max_norm: f64,
    },
}

impl UpstreamClip {
    /// Returns the bound on the norm.
    pub(crate) fn max_norm(&self) -> f64 {
        match *self {
            Self::LinearMap { max_norm, .. } | Self::TokenLookup { max_norm } => max_norm,
        }
    }

    /// Computes the norm that the clip bounds, in f64, of one example's gradient of `shape`:
    /// `[channels, height, width]`, `[time, features]` or `[features]`. Infinite or NaN if the
    /// gradient is not finite.
    pub(crate) fn norm(&self, gradient: &[f32], shape: &[usize]) -> f64 {
        let l2 = |row: &[f32]| row.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
        let last = shape.last().copied().unwrap_or(1).max(1);
        match *self {
            Self::TokenLookup { .. } => gradient.chunks(last).map(l2).sum(),
            Self::LinearMap { l15: false, sqrt_m, .. } => sqrt_m.unwrap_or(1.0) * l2(gradient),
            Self::LinearMap { l15: true, sqrt_m, .. } => {
                let (channels, is_image) = match *shape {
                    [channels, _, _] => (channels, true),
                    _ => (last, false),
                };
                let positions = gradient.len() / channels.max(1);
                let mut sums = vec![0.0; channels];
                for (i, g) in gradient.iter().enumerate() {
                    let channel = if is_image { i / positions } else { i % channels };
                    sums[channel] += f64::from(g.abs());
                }
                let l15 = sums.iter().map(|sum: &f64| sum * sum).sum::<f64>().sqrt();
                // Both are NaN if one is.
                sqrt_m.map_or(l15, |factor| l15.min(factor * l2(gradient)))
            }
        }
    }
}

/// Use of parameters in the forward pass. It determines how the per-example gradients of the
/// parameters follow from the recorded input and the output gradient.
///
/// Parameters are identified by Burn's id. One that occurs at several sites is tied: the gradients
/// of all its sites are added before clipping.
#[derive(Clone, Debug)]
// One value is made per layer and forward pass and soon destructured, so boxing gains nothing.
#[allow(clippy::large_enum_variant)]
pub enum ParameterSite {
    /// `y = x W + b`, on plain features or at every step of a sequence.
    Linear {
        /// Weight, `[inputs, outputs]`.
        weight: ParamId,
        /// Bias, `[outputs]`.
        bias: Option<ParamId>,
    },
    /// A two-dimensional convolution of images.
    Conv2d {
        /// Geometry of the convolution. `window.channels` is the number of input channels of all
        /// groups together.
        window: Window,
        /// Number of channel groups.
        groups: usize,
        /// Weight, `[channels out, channels in / groups, kernel height, kernel width]`.
        weight: ParamId,
        /// Bias, `[channels out]`.
        bias: Option<ParamId>,
        /// Weight standardisation; `None` unless the convolution used a standardised weight.
        /// Gradients with respect to that weight must be back-propagated to the parameters before
        /// their norms are computed.
        standardised: Option<StandardisationRecord>,
    },
    /// `y = x γ + β` per channel, the affine map of a normalisation layer. The recorded input is
    /// the normalised `x`. Channels are dimension 1 of images and the last dimension of sequences
    /// and plain features.
    Affine {
        /// Scale γ, `[channels]`.
        gamma: ParamId,
        /// Shift β, `[channels]`.
        beta: Option<ParamId>,
    },
    /// An embedding lookup. The input holds token ids `[batch, time]`, all within the vocabulary;
    /// the output is `[batch, time, features]`.
    Embedding {
        /// Embedding table, `[vocabulary, features]`.
        weight: ParamId,
    },
}

/// The weight standardisation of a convolution: the rule, the raw weight
/// `[channels out, channels in / groups, kernel height, kernel width]` and the gain
/// `[channels out]` if there is one. Both tensors are detached.
pub type StandardisationRecord = (Standardisation, Tensor<4>, Option<(ParamId, Tensor<1>)>);

impl ParameterSite {
    /// Returns the ids of the site's parameters: weight, bias and gain, as far as it has them.
    pub(crate) fn parameter_ids(&self) -> Vec<ParamId> {
        let (first, second, third) = match self {
            Self::Linear { weight, bias } => (weight, bias.as_ref(), None),
            Self::Conv2d { weight, bias, standardised, .. } => {
                let gain = standardised.as_ref().and_then(|(_, _, gain)| gain.as_ref());
                (weight, bias.as_ref(), gain.map(|(id, _)| id))
            }
            Self::Affine { gamma, beta } => (gamma, beta.as_ref(), None),
            Self::Embedding { weight } => (weight, None, None),
        };
        [Some(first), second, third].into_iter().flatten().copied().collect()
    }
}
