//! Conversion of Burn's layers into the layers of this crate, where these support their options.
//!
//! It makes a model that is written for Burn trainable: `LinearConfig::new(5, 3).init(&device)
//! .into()`, `Conv2dConfig::new([1, 8], [3, 3]).init(&device).try_into()?`.
//!
//! Parameters keep their ids and values. Burn's layer becomes the field `inner`, so the records of
//! a Burn model have other paths (`fc.weight` instead of `fc.inner.weight`): load a record into the
//! Burn model first, then convert its layers.

use burn::module::{Param, ParamId};
use burn::nn::activation::Activation;
use burn::nn::{self, PaddingConfig2d, pool};
use burn::prelude::*;

use super::lstm::{BiLstmGates, LstmDirections, LstmGates};
use super::*;

/// Returns the error for an option of a layer of Burn's that the layer of this crate does not
/// support.
fn unsupported(layer: &str, option: impl std::fmt::Display, fix: &str) -> Error {
    let what = format!("a {layer} of Burn's with {option}");
    Error::new(ErrorKind::Model, what, "the lab's layer does not support this option").fix(fix)
}

impl From<nn::Linear> for Linear {
    fn from(inner: nn::Linear) -> Self {
        Self { inner }
    }
}

impl From<nn::Embedding> for Embedding {
    fn from(inner: nn::Embedding) -> Self {
        Self { inner }
    }
}

impl From<pool::MaxPool2d> for MaxPool2d {
    fn from(inner: pool::MaxPool2d) -> Self {
        Self { inner }
    }
}

impl From<pool::AvgPool2d> for AvgPool2d {
    fn from(inner: pool::AvgPool2d) -> Self {
        Self { inner }
    }
}

impl TryFrom<nn::conv::Conv2d> for Conv2d {
    type Error = Error;

    /// # Errors
    /// If the padding differs between opposite sides, or is `Same` together with an even kernel
    /// side, a stride above 1 or a dilation above 1.
    fn try_from(inner: nn::conv::Conv2d) -> Result<Self> {
        let nn::conv::Conv2d { stride, kernel_size, dilation, groups, .. } = inner;
        let odd = kernel_size.iter().all(|side| side % 2 == 1);
        let padding = match inner.padding {
            PaddingConfig2d::Valid => [0, 0],
            PaddingConfig2d::Explicit(top, left, bottom, right)
                if top == bottom && left == right =>
            {
                [top, left]
            }
            PaddingConfig2d::Same if stride == [1, 1] && dilation == [1, 1] && odd => {
                kernel_size.map(|side| side / 2)
            }
            ref other => {
                let fix = "use PaddingConfig2d::Explicit with equal padding on opposite sides";
                return Err(unsupported("Conv2d", format!("padding {other:?}"), fix));
            }
        };
        let [channels_out, per_group, ..] = inner.weight.dims();
        let spec = Conv2dSpec {
            channels_in: per_group * groups,
            channels_out,
            kernel: kernel_size,
            stride,
            padding,
            bias: inner.bias.is_some(),
            dilation,
            groups,
            standardised: None,
        };
        spec.check()?;
        Ok(Self { inner, gain: None, spec })
    }
}

impl TryFrom<nn::GroupNorm> for GroupNorm {
    type Error = Error;

    /// # Errors
    /// If it has no scale γ or no shift β.
    fn try_from(inner: nn::GroupNorm) -> Result<Self> {
        if inner.gamma.is_none() || inner.beta.is_none() {
            let fix = "build it with GroupNormConfig::new(groups, channels)";
            return Err(unsupported("GroupNorm", "affine = false", fix));
        }
        Ok(Self { inner })
    }
}

impl LayerNorm {
    /// Converts a layer of Burn's. Its epsilon is private, so it has to be given again; the default
    /// of `LayerNormConfig` is 1e-5.
    ///
    /// # Errors
    /// If epsilon is not positive and finite.
    pub fn from_burn(inner: nn::LayerNorm, epsilon: f64) -> Result<Self> {
        parameter_source::check_epsilon("LayerNorm", epsilon)?;
        Ok(Self { inner, epsilon })
    }
}

impl TryFrom<nn::Lstm> for LstmGates {
    type Error = Error;

    fn try_from(lstm: nn::Lstm) -> Result<Self> {
        let fix = "use LstmConfig::new(inputs, hidden, true) without further options";
        let options = [
            (!lstm.batch_first, "batch_first = false"),
            (lstm.clip.is_some(), "a clipped cell state"),
            (lstm.input_forget, "coupled input and forget gates"),
            (!matches!(lstm.gate_activation, Activation::Sigmoid(_)), "gates without sigmoid"),
            (!matches!(lstm.cell_activation, Activation::Tanh(_)), "a cell gate without tanh"),
            (!matches!(lstm.hidden_activation, Activation::Tanh(_)), "an output without tanh"),
        ];
        if let Some((_, option)) = options.into_iter().find(|(set, _)| *set) {
            return Err(unsupported("Lstm", option, fix));
        }
        let Some(forget_gate) = lstm.forget_gate else {
            return Err(unsupported("Lstm", "no forget gate", fix));
        };
        let nn::Lstm { input_gate, cell_gate, output_gate, .. } = lstm;
        Ok(Self { input_gate, forget_gate, cell_gate, output_gate })
    }
}

impl TryFrom<nn::Lstm> for Lstm {
    type Error = Error;

    /// # Errors
    /// If it has an option that [`Lstm`] does not support: time as the first dimension, a clipped
    /// cell state, coupled gates, other activations, no forget gate, or the backward direction
    /// only.
    fn try_from(lstm: nn::Lstm) -> Result<Self> {
        if lstm.reverse {
            let fix = "use BiLstm, which reads in both directions";
            return Err(unsupported("Lstm", "reverse = true", fix));
        }
        Ok(Self { inner: LstmDirections::Forward(lstm.try_into()?) })
    }
}

impl TryFrom<nn::BiLstm> for Lstm {
    type Error = Error;

    /// # Errors
    /// As for [`nn::Lstm`].
    fn try_from(lstm: nn::BiLstm) -> Result<Self> {
        if !lstm.batch_first {
            let fix = "use BiLstmConfig::new(inputs, hidden, true) without further options";
            return Err(unsupported("BiLstm", "batch_first = false", fix));
        }
        let (forward, reverse) = (lstm.forward.try_into()?, lstm.reverse.try_into()?);
        Ok(Self { inner: LstmDirections::Both(BiLstmGates { forward, reverse }) })
    }
}

impl TryFrom<nn::Dropout> for Dropout {
    type Error = Error;

    /// # Errors
    /// If the rate is below 0, or 1 or more.
    fn try_from(dropout: nn::Dropout) -> Result<Self> {
        Self::new(dropout.prob)
    }
}

impl Conv2d {
    /// Standardises the weight by `rule`; gains start at 1.
    ///
    /// # Errors
    /// If the rule's guard is not positive and finite.
    pub fn standardised(self, rule: Standardisation) -> Result<Self> {
        rule.check()?;
        let weight = self.inner.weight.val();
        let ones = Tensor::ones([self.spec.channels_out], &weight.device());
        let gain = rule.gain.then(|| Param::initialized(ParamId::new(), ones));
        let spec = Conv2dSpec { standardised: Some(rule), ..self.spec };
        Ok(Self { inner: self.inner, gain, spec })
    }
}
