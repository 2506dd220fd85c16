//! The convolution.

use burn::module::Module;
use burn::nn::{self, PaddingConfig2d};
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Fill, image, param, sizes, too_large};
use crate::nn::{Value, Window, kernels};
use crate::{Error, ErrorKind, Result};

/// A convolution without its parameters. Pairs are (vertical, horizontal).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conv2dSpec {
    /// Channels that go in.
    pub channels_in: usize,
    /// Channels that come out.
    pub channels_out: usize,
    /// Height and width of the kernel, in pixels.
    pub kernel: [usize; 2],
    /// Step of the kernel, in pixels.
    pub stride: [usize; 2],
    /// Zeros around the image, in pixels, on both sides.
    pub padding: [usize; 2],
    /// Whether a bias is added.
    pub bias: bool,
}

impl Conv2dSpec {
    /// How this convolution walks over images of the given size.
    pub fn window(&self, size: [usize; 2]) -> Window {
        Window {
            channels: self.channels_in,
            size,
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
        }
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let [channels, height, width] = image("Conv2d", input)?;
        sizes(
            "Conv2d",
            &[
                ("channels_in", self.channels_in),
                ("channels_out", self.channels_out),
                ("kernel height", self.kernel[0]),
                ("kernel width", self.kernel[1]),
                ("vertical stride", self.stride[0]),
                ("horizontal stride", self.stride[1]),
            ],
        )?;
        if channels != self.channels_in {
            let what = format!("a Conv2d layer was given images of {channels} channels");
            let why = format!("it takes {}", self.channels_in);
            return Err(Error::new(ErrorKind::Model, what, why));
        }
        let window = self.window([height, width]);
        let Some([rows, columns]) = window.output() else {
            return Err(too_large("Conv2d", window));
        };
        Ok(vec![self.channels_out, rows, columns])
    }

    pub(super) fn parameters(&self) -> Vec<(&'static str, Vec<usize>)> {
        let [height, width] = self.kernel;
        let bias = self.bias.then(|| ("bias", vec![self.channels_out]));
        let weight = ("weight", vec![self.channels_out, self.channels_in, height, width]);
        [weight].into_iter().chain(bias).collect()
    }

    pub(super) fn build(&self, fill: Fill, device: &Device) -> Conv2d {
        let [height, width] = self.kernel;
        let fan_in = self.channels_in * height * width;
        let shape = [self.channels_out, self.channels_in, height, width];
        let weight = param("weight", shape, fan_in, &mut *fill, device);
        let bias = self.bias.then(|| param("bias", [self.channels_out], fan_in, fill, device));
        let [vertical, horizontal] = self.padding;
        Conv2d {
            inner: nn::conv::Conv2d {
                weight,
                bias,
                stride: self.stride,
                kernel_size: self.kernel,
                dilation: [1, 1],
                groups: 1,
                padding: PaddingConfig2d::Explicit(vertical, horizontal, vertical, horizontal),
            },
            spec: self.clone(),
        }
    }
}

/// A convolution of images `[batch, channels, height, width]`.
#[derive(Module, Debug)]
pub struct Conv2d {
    /// Burn's layer: weight `[channels out, channels in, kernel height, kernel width]`.
    pub inner: nn::conv::Conv2d,
    #[module(skip)]
    spec: Conv2dSpec,
}

impl Conv2d {
    /// What the layer is.
    pub fn spec(&self) -> &Conv2dSpec {
        &self.spec
    }

    pub(super) fn forward(&self, x: Value, own_kernel: bool) -> Value {
        let own = own_kernel && x.on_cpu() && !self.inner.weight.val().is_autodiff();
        let x = x.image();
        if !own {
            return Value::Image(self.inner.forward(x));
        }
        let [_, _, height, width] = x.dims();
        let bias = match &self.inner.bias {
            Some(bias) => bias.val(),
            None => Tensor::zeros([self.spec.channels_out], &x.device().without_autodiff()),
        };
        let window = self.spec.window([height, width]);
        Value::Image(kernels::conv2d(x, self.inner.weight.val(), bias, window))
    }
}
