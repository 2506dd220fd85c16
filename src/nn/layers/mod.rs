//! The layers, one file per kind.
//!
//! Each kind has a specification (plain data: what is written to files and checked before
//! anything is built) and a Burn module made from it.

mod activation;
mod conv2d;
mod flatten;
mod linear;
mod pool;

pub use activation::{Relu, Tanh};
pub use conv2d::{Conv2d, Conv2dSpec};
pub use flatten::Flatten;
pub use linear::{Linear, LinearSpec};
pub use pool::{AvgPool2d, AvgPool2dSpec, GlobalAvgPool, MaxPool2d, MaxPool2dSpec};

use burn::module::{Module, Param, ParamId};
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Tape, Value};
use crate::{Error, ErrorKind, Result};

/// What a layer is, without its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LayerSpec {
    /// A linear map of plain features.
    Linear(LinearSpec),
    /// A convolution of images.
    Conv2d(Conv2dSpec),
    /// The largest value under a window.
    MaxPool2d(MaxPool2dSpec),
    /// The mean under a window.
    AvgPool2d(AvgPool2dSpec),
    /// The mean of each channel.
    GlobalAvgPool,
    /// Hyperbolic tangent, value by value.
    Tanh,
    /// max(0, x), value by value.
    Relu,
    /// Images to plain features.
    Flatten,
}

/// A layer of a [`Network`](super::Network).
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Layer {
    /// A linear map of plain features.
    Linear(Linear),
    /// A convolution of images.
    Conv2d(Conv2d),
    /// The largest value under a window.
    MaxPool2d(MaxPool2d),
    /// The mean under a window.
    AvgPool2d(AvgPool2d),
    /// The mean of each channel.
    GlobalAvgPool(GlobalAvgPool),
    /// Hyperbolic tangent, value by value.
    Tanh(Tanh),
    /// max(0, x), value by value.
    Relu(Relu),
    /// Images to plain features.
    Flatten(Flatten),
}

/// Gives the numbers of a parameter: its name in the layer, its shape and its fan-in.
pub(crate) type Fill<'a> = &'a mut dyn FnMut(&str, &[usize], usize) -> Vec<f32>;

impl LayerSpec {
    /// The shape of one example after this layer.
    ///
    /// # Errors
    /// If an example of shape `input` does not fit, or a size is zero or beyond reason.
    pub fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        match self {
            Self::Linear(spec) => spec.output_shape(input),
            Self::Conv2d(spec) => spec.output_shape(input),
            Self::MaxPool2d(spec) => spec.output_shape(input),
            Self::AvgPool2d(spec) => spec.output_shape(input),
            Self::GlobalAvgPool => Ok(vec![image(self.kind(), input)?[0]]),
            Self::Tanh | Self::Relu => Ok(input.to_vec()),
            Self::Flatten => Ok(vec![input.iter().fold(1, |all, &side| all.saturating_mul(side))]),
        }
    }

    /// The parameters: name in the layer and shape. Empty for layers that learn nothing.
    pub fn parameters(&self) -> Vec<(&'static str, Vec<usize>)> {
        match self {
            Self::Linear(spec) => spec.parameters(),
            Self::Conv2d(spec) => spec.parameters(),
            _ => Vec::new(),
        }
    }

    /// The name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Linear(_) => "Linear",
            Self::Conv2d(_) => "Conv2d",
            Self::MaxPool2d(_) => "MaxPool2d",
            Self::AvgPool2d(_) => "AvgPool2d",
            Self::GlobalAvgPool => "GlobalAvgPool",
            Self::Tanh => "Tanh",
            Self::Relu => "Relu",
            Self::Flatten => "Flatten",
        }
    }

    /// How the norm of one example's gradient is found: `"ghost"` (from the sizes of input and
    /// output gradient alone), `"instantiated"` (the gradient itself is formed, for one example
    /// at a time), `"-"` without parameters.
    pub fn norms(&self) -> &'static str {
        match self {
            Self::Linear(_) => "ghost",
            Self::Conv2d(_) => "instantiated",
            _ => "-",
        }
    }

    pub(crate) fn build(&self, fill: Fill, device: &Device) -> Layer {
        match self {
            Self::Linear(spec) => Layer::Linear(spec.build(fill, device)),
            Self::Conv2d(spec) => Layer::Conv2d(spec.build(fill, device)),
            Self::MaxPool2d(spec) => Layer::MaxPool2d(spec.build()),
            Self::AvgPool2d(spec) => Layer::AvgPool2d(spec.build()),
            Self::GlobalAvgPool => Layer::GlobalAvgPool(GlobalAvgPool),
            Self::Tanh => Layer::Tanh(Tanh),
            Self::Relu => Layer::Relu(Relu),
            Self::Flatten => Layer::Flatten(Flatten),
        }
    }
}

impl Layer {
    /// The layer's output; `index` is its place in the network, for the tape.
    pub fn forward(&self, index: usize, x: Value, tape: &mut dyn Tape) -> Value {
        match self {
            Self::Linear(layer) => {
                let x = Value::Flat(x.flat());
                let y = layer.forward(x.clone());
                tape.layer(index, &x, y)
            }
            Self::Conv2d(layer) => {
                let x = Value::Image(x.image());
                let y = layer.forward(x.clone(), tape.own_kernels());
                tape.layer(index, &x, y)
            }
            Self::MaxPool2d(layer) => layer.forward(x, tape.own_kernels()),
            Self::AvgPool2d(layer) => layer.forward(x),
            Self::GlobalAvgPool(layer) => layer.forward(x),
            Self::Tanh(layer) => layer.forward(x, tape.own_kernels()),
            Self::Relu(layer) => layer.forward(x),
            Self::Flatten(layer) => layer.forward(x),
        }
    }
}

/// A parameter of `D` dimensions with numbers from the host.
fn param<const D: usize>(
    name: &str,
    shape: [usize; D],
    fan_in: usize,
    fill: Fill,
    device: &Device,
) -> Param<Tensor<D>> {
    let values = fill(name, &shape, fan_in);
    Param::initialized(ParamId::new(), Tensor::from_data(TensorData::new(values, shape), device))
}

/// The largest size of a side, a channel count or a number of features. Files can claim
/// anything; products of a few sizes below this bound can't overflow what follows.
const LARGEST: usize = 1 << 20;

fn sizes(kind: &str, sizes: &[(&str, usize)]) -> Result<()> {
    for &(name, size) in sizes {
        if size == 0 || size > LARGEST {
            let why = format!("sizes of a {kind} layer lie between 1 and {LARGEST}");
            return Err(Error::new(ErrorKind::Model, format!("{name} = {size}"), why));
        }
    }
    Ok(())
}

fn image(kind: &str, input: &[usize]) -> Result<[usize; 3]> {
    <[usize; 3]>::try_from(input).map_err(|_| {
        Error::new(
            ErrorKind::Model,
            format!("a {kind} layer was given examples of shape {input:?}"),
            "it works on images, [channels, height, width]",
        )
        .fix("put it before Flatten, or use a model for plain features: models::mlp")
    })
}

fn too_large(kind: &str, window: super::Window) -> Error {
    let super::Window { size, kernel, stride, padding, .. } = window;
    Error::new(
        ErrorKind::Model,
        format!(
            "a {kind} layer with kernel {kernel:?}, stride {stride:?} and padding {padding:?} was \
             given images of {} x {} pixels",
            size[0], size[1]
        ),
        "the kernel does not fit into the padded image",
    )
    .fix("use larger images, or a model with smaller kernels")
}
