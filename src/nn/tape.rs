//! Who listens while a network computes.

use burn::module::ParamId;
use burn::prelude::*;

use super::{Precision, Standardisation, Value, Window};
use crate::device::DeviceArray;

/// Told, for every layer with parameters, what went in and what came out.
///
/// A forward pass calls [`Tape::layer`] once per map with parameters, in order, and goes on with
/// the value it gets back: that is where an executor hooks into the backward pass.
pub trait Tape {
    /// The parameters of `site` made `output` of `input`. Returns the value to go on with.
    fn layer(&mut self, site: Site, input: &Value, output: Value) -> Value {
        let _ = (site, input);
        output
    }

    /// How many times [`layer`](Self::layer) was called so far: the place of the next call.
    /// Tapes that use [`shares`](Self::shares) count.
    fn places(&self) -> usize {
        0
    }

    /// Another linear map was added to the output of call number `place` of
    /// [`layer`](Self::layer), so the gradient by its output is the same: the recurrent half of
    /// an LSTM gate. `input` is detached, `[batch, time, features]`, and `site` a
    /// [`Site::Linear`].
    fn shares(&mut self, place: usize, site: Site, input: Value) {
        let _ = (place, site, input);
    }

    /// Whether layers may use the lab's own kernels instead of Burn's operations. The reference
    /// executor says no, so that the two ways of computing share as little as possible.
    fn own_kernels(&self) -> bool {
        true
    }

    /// In which numbers layers compute their products.
    fn precision(&self) -> Precision {
        Precision::F32
    }

    /// The keep-mask of the next dropout layer, for a value of `shape` (batch first, row-major):
    /// 0 or 1/(1 - rate) for each number. `None` keeps everything, as when predicting.
    fn dropout(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        let _ = (rate, shape);
        None
    }
}

/// Nobody listens: a plain forward pass, without dropout.
pub struct NoTape;

impl Tape for NoTape {}

/// How a layer's parameter gradients follow from its input and its output gradient.
///
/// Parameters go by Burn's id; one that occurs at two sites is tied, and the gradients of both
/// sites add up before anything is clipped.
#[derive(Clone, Debug)]
// One is made per layer and pass, and soon taken apart: a box would only be in the way.
#[allow(clippy::large_enum_variant)]
pub enum Site {
    /// `y = x W + b` on plain features or at every step of a sequence.
    Linear {
        /// `[inputs, outputs]`.
        weight: ParamId,
        /// `[outputs]`.
        bias: Option<ParamId>,
    },
    /// A convolution of images.
    Conv2d {
        /// How the kernel walks. `window.channels` counts the channels of all groups.
        window: Window,
        /// Groups of channels that do not see each other.
        groups: usize,
        /// `[channels out, channels in / groups, kernel height, kernel width]`.
        weight: ParamId,
        /// `[channels out]`.
        bias: Option<ParamId>,
        /// The weight that was used is a function of the parameters: gradients by it must be
        /// pulled back before their norm means anything.
        standardised: Option<Standardised>,
    },
    /// `y = x γ + β` per channel. The recorded input is the normalised `x`. Channels are
    /// dimension 1 of images and the last of sequences and plain features.
    Affine {
        /// `[channels]`.
        gamma: ParamId,
        /// `[channels]`.
        beta: Option<ParamId>,
    },
    /// Rows of a table. The input holds token ids `[batch, time]`, all within the vocabulary; the
    /// output is `[batch, time, features]`.
    Embedding {
        /// `[vocabulary, features]`.
        weight: ParamId,
    },
}

/// What a weight-standardised convolution used: the rule, the raw weight, and the gain per output
/// channel if there is one. Both tensors are detached.
pub type Standardised = (Standardisation, Tensor<4>, Option<(ParamId, Tensor<1>)>);

impl Site {
    /// The parameters of the site.
    pub fn parameters(&self) -> Vec<ParamId> {
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
