//! Layers, one file per kind.
//!
//! Each kind has a specification and a Burn module that is built from it. A specification is plain
//! data: it is checked before anything is allocated, and stored with a model.

mod activation;
mod backprop_clipped;
mod block;
mod constructors;
mod conv2d;
mod dropout;
mod embedding;
mod flatten;
mod from_burn;
mod linear;
mod lstm;
mod mean_over_time;
mod norm;
mod parameter_source;
mod pool;
mod standardisation;
mod zero_pad;

pub use activation::{Relu, Selu, Tanh};
pub use backprop_clipped::{BackpropClipped, BackpropClippedSpec, LayerClips, UpstreamNorm};
pub use block::{Group, GroupSpec, Residual, ResidualSpec};
pub use conv2d::{Conv2d, Conv2dSpec};
pub use dropout::{Dropout, DropoutSpec};
pub use embedding::{Embedding, EmbeddingSpec};
pub use flatten::Flatten;
pub use linear::{Linear, LinearSpec};
pub use lstm::{BiLstmGates, Lstm, LstmDirections, LstmGates, LstmSpec};
pub use mean_over_time::MeanOverTime;
pub use norm::{GroupNorm, GroupNormSpec, LayerNorm, LayerNormSpec};
pub use pool::{AvgPool2d, AvgPool2dSpec, GlobalAvgPool, MaxPool2d, MaxPool2dSpec};
pub use standardisation::{Standardisation, VarianceGuard};
pub use zero_pad::{ZeroPad2d, ZeroPad2dSpec};

pub(crate) use block::forward_all;
pub(crate) use parameter_source::{
    IMAGES, ParameterInit, ParameterSource, ParameterSpec, parameter_specs, shape_of,
};

use burn::module::Module;
use serde::{Deserialize, Serialize};

use super::{BatchTensor, Tape};
use crate::{Error, ErrorKind, Result};

/// Specification of a layer: its kind and settings, without its parameters.
///
/// The number of dimensions of an example determines its type: `[features]` are plain features or
/// token ids, `[time, features]` is a sequence, `[channels, height, width]` an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LayerSpec {
    /// Linear layer on plain features or on every step of a sequence.
    Linear(LinearSpec),
    /// Two-dimensional convolution of images.
    Conv2d(Conv2dSpec),
    /// Max pooling: the maximum of each window.
    MaxPool2d(MaxPool2dSpec),
    /// Average pooling: the mean of each window.
    AvgPool2d(AvgPool2dSpec),
    /// Global average pooling: the mean of each channel.
    GlobalAvgPool,
    /// Zero padding of images.
    ZeroPad2d(ZeroPad2dSpec),
    /// Element-wise hyperbolic tangent.
    Tanh,
    /// Rectified linear unit: element-wise max(0, x).
    Relu,
    /// Element-wise scaled exponential linear unit.
    Selu,
    /// Flattening of images and sequences to plain features.
    Flatten,
    /// Dropout during training.
    Dropout(DropoutSpec),
    /// Group normalisation of images.
    GroupNorm(GroupNormSpec),
    /// Layer normalisation of plain features or of every step of a sequence.
    LayerNorm(LayerNormSpec),
    /// Embedding of token ids.
    Embedding(EmbeddingSpec),
    /// Long short-term memory (LSTM) on sequences.
    Lstm(LstmSpec),
    /// Mean over time of sequences.
    MeanOverTime,
    /// Residual block: body(x) + shortcut(x).
    Residual(ResidualSpec),
    /// Named group of layers.
    Group(GroupSpec),
    /// A layer between the clips of backpropagation clipping.
    BackpropClipped(BackpropClippedSpec),
}

/// A layer of a [`Network`](super::Network), with its parameters.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Layer {
    /// Linear layer on plain features or on every step of a sequence.
    Linear(Linear),
    /// Two-dimensional convolution of images.
    Conv2d(Conv2d),
    /// Max pooling: the maximum of each window.
    MaxPool2d(MaxPool2d),
    /// Average pooling: the mean of each window.
    AvgPool2d(AvgPool2d),
    /// Global average pooling: the mean of each channel.
    GlobalAvgPool(GlobalAvgPool),
    /// Zero padding of images.
    ZeroPad2d(ZeroPad2d),
    /// Element-wise hyperbolic tangent.
    Tanh(Tanh),
    /// Rectified linear unit: element-wise max(0, x).
    Relu(Relu),
    /// Element-wise scaled exponential linear unit.
    Selu(Selu),
    /// Flattening of images and sequences to plain features.
    Flatten(Flatten),
    /// Dropout during training.
    Dropout(Dropout),
    /// Group normalisation of images.
    GroupNorm(GroupNorm),
    /// Layer normalisation of plain features or of every step of a sequence.
    LayerNorm(LayerNorm),
    /// Embedding of token ids.
    Embedding(Embedding),
    /// Long short-term memory (LSTM) on sequences.
    Lstm(Lstm),
    /// Mean over time of sequences.
    MeanOverTime(MeanOverTime),
    /// Residual block: body(x) + shortcut(x).
    Residual(Residual),
    /// Named group of layers.
    Group(Group),
    /// A layer between the clips of backpropagation clipping.
    BackpropClipped(BackpropClipped),
}

impl LayerSpec {
    /// Returns the shape of one example after this layer.
    ///
    /// # Errors
    /// If an example of shape `input` does not fit, or a setting is out of its range.
    pub fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        match self {
            Self::Linear(spec) => spec.output_shape(input),
            Self::Conv2d(spec) => spec.output_shape(input),
            Self::MaxPool2d(spec) => spec.output_shape(input),
            Self::AvgPool2d(spec) => spec.output_shape(input),
            Self::GlobalAvgPool => Ok(vec![parameter_source::image_shape(self.kind(), input)?[0]]),
            Self::ZeroPad2d(spec) => spec.output_shape(input),
            Self::Tanh | Self::Relu | Self::Selu => Ok(input.to_vec()),
            Self::Flatten => Ok(vec![input.iter().fold(1, |all, &side| all.saturating_mul(side))]),
            Self::Dropout(spec) => spec.check().map(|()| input.to_vec()),
            Self::GroupNorm(spec) => spec.output_shape(input),
            Self::LayerNorm(spec) => spec.output_shape(input),
            Self::Embedding(spec) => spec.output_shape(input),
            Self::Lstm(spec) => spec.output_shape(input),
            Self::MeanOverTime => {
                Ok(vec![parameter_source::sequence_shape(self.kind(), input)?[1]])
            }
            Self::Residual(spec) => spec.output_shape(input),
            Self::Group(spec) => spec.output_shape(input),
            Self::BackpropClipped(spec) => spec.output_shape(input),
        }
    }

    /// Returns the path within the layer and the shape of each parameter, in the order of
    /// [`Network::parameters`](super::Network::parameters). Empty for layers without parameters.
    pub fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        self.parameter_specs().into_iter().map(|spec| (spec.path, spec.shape)).collect()
    }

    pub(crate) fn parameter_specs(&self) -> Vec<ParameterSpec> {
        match self {
            Self::Linear(spec) => spec.parameters(),
            Self::Conv2d(spec) => spec.parameters(),
            Self::GroupNorm(spec) => spec.parameters(),
            Self::LayerNorm(spec) => spec.parameters(),
            Self::Embedding(spec) => spec.parameters(),
            Self::Lstm(spec) => spec.parameters(),
            Self::Residual(spec) => spec.parameters(),
            Self::Group(spec) => parameter_specs(&spec.layers),
            Self::BackpropClipped(spec) => spec.layer.parameter_specs(),
            _ => Vec::new(),
        }
    }

    /// Returns the name of the layer kind, such as `"Conv2d"`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Linear(_) => "Linear",
            Self::Conv2d(_) => "Conv2d",
            Self::MaxPool2d(_) => "MaxPool2d",
            Self::AvgPool2d(_) => "AvgPool2d",
            Self::GlobalAvgPool => "GlobalAvgPool",
            Self::ZeroPad2d(_) => "ZeroPad2d",
            Self::Tanh => "Tanh",
            Self::Relu => "Relu",
            Self::Selu => "Selu",
            Self::Flatten => "Flatten",
            Self::Dropout(_) => "Dropout",
            Self::GroupNorm(_) => "GroupNorm",
            Self::LayerNorm(_) => "LayerNorm",
            Self::Embedding(_) => "Embedding",
            Self::Lstm(_) => "Lstm",
            Self::MeanOverTime => "MeanOverTime",
            Self::Residual(_) => "Residual",
            Self::Group(_) => "Group",
            // The layer between the clips.
            Self::BackpropClipped(spec) => spec.layer.kind(),
        }
    }

    /// Returns the reason why the clips of backpropagation clipping do not bound the layer's
    /// gradient; `None` if they do.
    pub(crate) fn backprop_clip_obstacle(&self) -> Option<&'static str> {
        backprop_clipped::unsupported_reason(self)
    }

    /// Returns the path segment of layer `index` of a list: its index, or the name of a group.
    pub(crate) fn path_segment(&self, index: usize) -> String {
        match self {
            Self::Group(group) => group.name.clone(),
            _ => index.to_string(),
        }
    }

    /// Builds the layer with parameters from `source`.
    pub(crate) fn build(&self, source: &mut ParameterSource) -> Layer {
        match self {
            Self::Linear(spec) => Layer::Linear(spec.build(source)),
            Self::Conv2d(spec) => Layer::Conv2d(spec.build(source)),
            Self::MaxPool2d(spec) => Layer::MaxPool2d(spec.build()),
            Self::AvgPool2d(spec) => Layer::AvgPool2d(spec.build()),
            Self::GlobalAvgPool => Layer::GlobalAvgPool(GlobalAvgPool),
            Self::ZeroPad2d(spec) => Layer::ZeroPad2d(spec.build()),
            Self::Tanh => Layer::Tanh(Tanh),
            Self::Relu => Layer::Relu(Relu),
            Self::Selu => Layer::Selu(Selu),
            Self::Flatten => Layer::Flatten(Flatten),
            Self::Dropout(spec) => Layer::Dropout(spec.build()),
            Self::GroupNorm(spec) => Layer::GroupNorm(spec.build(source)),
            Self::LayerNorm(spec) => Layer::LayerNorm(spec.build(source)),
            Self::Embedding(spec) => Layer::Embedding(spec.build(source)),
            Self::Lstm(spec) => Layer::Lstm(spec.build(source)),
            Self::MeanOverTime => Layer::MeanOverTime(MeanOverTime),
            Self::Residual(spec) => Layer::Residual(spec.build(source)),
            Self::Group(spec) => Layer::Group(spec.build(source)),
            Self::BackpropClipped(spec) => Layer::BackpropClipped(spec.build(source)),
        }
    }
}

impl Layer {
    /// Computes the layer's output. Every map with parameters is reported to `tape`.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        match self {
            Self::Linear(layer) => layer.forward(x, tape),
            Self::Conv2d(layer) => layer.forward(x, tape),
            Self::MaxPool2d(layer) => layer.forward(x, tape),
            Self::AvgPool2d(layer) => layer.forward(x),
            Self::GlobalAvgPool(layer) => layer.forward(x),
            Self::ZeroPad2d(layer) => layer.forward(x),
            Self::Tanh(layer) => layer.forward(x, tape),
            Self::Relu(layer) => layer.forward(x),
            Self::Selu(layer) => layer.forward(x),
            Self::Flatten(layer) => layer.forward(x),
            Self::Dropout(layer) => layer.forward(x, tape),
            Self::GroupNorm(layer) => layer.forward(x, tape),
            Self::LayerNorm(layer) => layer.forward(x, tape),
            Self::Embedding(layer) => layer.forward(x, tape),
            Self::Lstm(layer) => layer.forward(x, tape),
            Self::MeanOverTime(layer) => layer.forward(x),
            Self::Residual(layer) => layer.forward(x, tape),
            Self::Group(layer) => layer.forward(x, tape),
            Self::BackpropClipped(layer) => layer.forward(x, tape),
        }
    }
}

/// Returns the error for a kernel that does not fit into the padded image.
fn kernel_too_large_error(kind: &str, window: super::Window) -> Error {
    let super::Window { size, kernel, stride, padding, .. } = window;
    Error::new(
        ErrorKind::Model,
        format!(
            "a {kind} layer with kernel {kernel:?}, stride {stride:?} and padding {padding:?} \
             received images of {} x {} pixels",
            size[0], size[1]
        ),
        "the kernel does not fit into the padded image",
    )
    .fix("use larger images, or a model with smaller kernels")
}
