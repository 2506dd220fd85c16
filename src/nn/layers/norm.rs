//! Group normalisation and layer normalisation.
//!
//! Both compute their statistics within one example. Batch normalisation is not offered: its
//! statistics mix the examples of a batch, so per-example gradients are not defined.

use burn::module::{Module, Param};
use burn::nn::{self, GroupNormConfig, LayerNormConfig};
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::parameter_source::{
    ParameterInit, ParameterSource, ParameterSpec, check_epsilon, check_sizes, image_shape,
};
use crate::nn::{BatchTensor, ParameterSite, Tape};
use crate::{Error, ErrorKind, Result};

/// Specification of a [`GroupNorm`] layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupNormSpec {
    /// Number of channel groups, each with a mean and a variance of its own.
    pub groups: usize,
    /// Number of channels of the images.
    pub channels: usize,
    /// Constant that is added to the variance.
    pub epsilon: f64,
}

/// Specification of a [`LayerNorm`] layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerNormSpec {
    /// Number of features, which share a mean and a variance.
    pub features: usize,
    /// Constant that is added to the variance.
    pub epsilon: f64,
}

/// Returns the scale γ and the shift β per channel.
fn affine(channels: usize) -> Vec<ParameterSpec> {
    vec![
        ParameterSpec::new("gamma", &[channels], ParameterInit::Ones),
        ParameterSpec::new("beta", &[channels], ParameterInit::Zeros),
    ]
}

impl GroupNormSpec {
    pub(super) fn check(&self) -> Result<()> {
        check_sizes("GroupNorm", &[("groups", self.groups), ("channels", self.channels)])?;
        if !self.channels.is_multiple_of(self.groups) {
            let what = format!("a GroupNorm layer of {} channels", self.channels);
            let why = format!("the channels can't be split into {} equal groups", self.groups);
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("use a number of groups that divides the number of channels"));
        }
        check_epsilon("GroupNorm", self.epsilon)
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        let [channels, _, _] = image_shape("GroupNorm", input)?;
        if channels != self.channels {
            let what = format!("a GroupNorm layer received images of {channels} channels");
            return Err(Error::new(
                ErrorKind::Model,
                what,
                format!("the layer expects {}", self.channels),
            )
            .fix(format!("use GroupNormSpec::new(.., {channels})")));
        }
        Ok(input.to_vec())
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        affine(self.channels)
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> GroupNorm {
        let config = GroupNormConfig::new(self.groups, self.channels).with_epsilon(self.epsilon);
        let mut inner = config.with_affine(false).init(source.device());
        inner.gamma = Some(source.take_next());
        inner.beta = Some(source.take_next());
        inner.affine = true;
        GroupNorm { inner }
    }
}

impl LayerNormSpec {
    pub(super) fn check(&self) -> Result<()> {
        check_sizes("LayerNorm", &[("features", self.features)])?;
        check_epsilon("LayerNorm", self.epsilon)
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        match *input {
            [features] | [_, features] if features == self.features => Ok(input.to_vec()),
            _ => {
                let what = format!("a LayerNorm layer received examples of shape {input:?}");
                let why =
                    format!("the layer expects {0} features, [{0}] or [time, {0}]", self.features);
                Err(Error::new(ErrorKind::Model, what, why)
                    .fix("for images use GroupNorm: with one group it normalises all channels"))
            }
        }
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        affine(self.features)
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> LayerNorm {
        let config = LayerNormConfig::new(self.features).with_epsilon(self.epsilon);
        let mut inner = config.init(source.device());
        inner.gamma = source.take_next();
        inner.beta = Some(source.take_next());
        LayerNorm { inner, epsilon: self.epsilon }
    }
}

/// Group normalisation of images `[batch, channels, height, width]` (Wu & He, 2018).
///
/// Each group of channels of each image is normalised to mean 0 and variance 1. Each channel is
/// then multiplied by γ and shifted by β.
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// Burn's layer: scale γ and shift β, `[channels]` each.
    pub inner: nn::GroupNorm,
}

impl GroupNorm {
    /// Computes the normalised, scaled and shifted images, of the shape of `x`.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let nn::GroupNorm { num_groups, num_channels, epsilon, .. } = self.inner;
        let x = x.into_image();
        let shape = x.dims();
        let size = num_channels / num_groups * shape[2] * shape[3];
        let x = normalised(x.reshape([shape[0], num_groups, size]), epsilon).reshape(shape);
        let (Some(gamma), Some(beta)) = (&self.inner.gamma, &self.inner.beta) else {
            return BatchTensor::Image(x);
        };
        let per_channel = |p: &Param<Tensor<1>>| p.val().reshape([1, num_channels, 1, 1]);
        let y = x.clone() * per_channel(gamma) + per_channel(beta);
        let site = ParameterSite::Affine { gamma: gamma.id, beta: Some(beta.id) };
        tape.record_layer(site, &BatchTensor::Image(x), BatchTensor::Image(y))
    }
}

/// Layer normalisation (Ba et al., 2016) of plain features `[batch, features]` or of every step of
/// a sequence `[batch, time, features]`.
///
/// The features are normalised to mean 0 and variance 1. Each feature is then multiplied by γ and
/// shifted by β.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Burn's layer: scale γ and shift β, `[features]` each.
    pub inner: nn::LayerNorm,
    /// Constant that is added to the variance. The field of Burn's layer is private.
    pub(super) epsilon: f64,
}

impl LayerNorm {
    /// Computes the normalised, scaled and shifted features, of the shape of `x`.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let flat = matches!(x, BatchTensor::Flat(_));
        let x = normalised(x.into_sequence(), self.epsilon);
        let per_feature = |p: &Param<Tensor<1>>| p.val().reshape([1, 1, -1]);
        let mut y = x.clone() * per_feature(&self.inner.gamma);
        if let Some(beta) = &self.inner.beta {
            y = y + per_feature(beta);
        }
        let value = |x: Tensor<3>| {
            if flat { BatchTensor::Flat(x.squeeze_dim(1)) } else { BatchTensor::Sequence(x) }
        };
        let beta = self.inner.beta.as_ref().map(|beta| beta.id);
        tape.record_layer(
            ParameterSite::Affine { gamma: self.inner.gamma.id, beta },
            &value(x),
            value(y),
        )
    }
}

/// Normalises the last dimension to mean 0 and variance 1, by the biased variance plus epsilon.
fn normalised(x: Tensor<3>, epsilon: f64) -> Tensor<3> {
    let centred = x.clone() - x.mean_dim(2);
    let variance = (centred.clone() * centred.clone()).mean_dim(2);
    centred / (variance + epsilon).sqrt()
}
