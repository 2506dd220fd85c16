//! Two-dimensional convolution.

use burn::module::{Module, Param};
use burn::nn::{self, PaddingConfig2d};
use burn::prelude::*;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use serde::{Deserialize, Serialize};

use super::parameter_source::{
    ParameterInit, ParameterSource, ParameterSpec, check_parameter_size, check_sizes, image_shape,
};
use super::{Standardisation, kernel_too_large_error};
use crate::nn::{BatchTensor, ParameterSite, Tape, Window, kernels};
use crate::{Error, ErrorKind, Result};

/// Specification of a [`Conv2d`] layer. All pairs are (vertical, horizontal).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conv2dSpec {
    /// Number of input channels.
    pub channels_in: usize,
    /// Number of output channels.
    pub channels_out: usize,
    /// Height and width of the kernel, in pixels.
    pub kernel: [usize; 2],
    /// Stride of the kernel, in pixels.
    pub stride: [usize; 2],
    /// Zero padding on both sides, in pixels.
    pub padding: [usize; 2],
    /// Whether a bias is added.
    pub bias: bool,
    /// Dilation: the distance between neighbouring kernel elements, in pixels.
    #[serde(default = "kernels::no_dilation")]
    pub dilation: [usize; 2],
    /// Number of channel groups. Each group of output channels reads one group of input channels.
    #[serde(default = "one_group")]
    pub groups: usize,
    /// The standardisation of the weight, if there is one.
    #[serde(default)]
    pub standardised: Option<Standardisation>,
}

/// Returns the number of groups for files that do not state one: 1.
fn one_group() -> usize {
    1
}

impl Conv2dSpec {
    /// Creates a convolution with a square kernel, stride 1, no padding and a bias.
    pub fn new(channels_in: usize, channels_out: usize, kernel: usize) -> Self {
        Self {
            channels_in,
            channels_out,
            kernel: [kernel; 2],
            stride: [1; 2],
            padding: [0; 2],
            bias: true,
            dilation: [1; 2],
            groups: 1,
            standardised: None,
        }
    }

    /// Returns the geometry of this convolution on images of this height and width.
    pub fn geometry(&self, size: [usize; 2]) -> Window {
        Window {
            channels: self.channels_in,
            size,
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
        }
    }

    fn weight_shape(&self) -> [usize; 4] {
        let [height, width] = self.kernel;
        [self.channels_out, self.channels_in / self.groups, height, width]
    }

    pub(super) fn check(&self) -> Result<()> {
        check_sizes(
            "Conv2d",
            &[
                ("channels_in", self.channels_in),
                ("channels_out", self.channels_out),
                ("kernel height", self.kernel[0]),
                ("kernel width", self.kernel[1]),
                ("vertical stride", self.stride[0]),
                ("horizontal stride", self.stride[1]),
                ("vertical dilation", self.dilation[0]),
                ("horizontal dilation", self.dilation[1]),
                ("groups", self.groups),
            ],
        )?;
        let Self { channels_in, channels_out, groups, .. } = *self;
        if !channels_in.is_multiple_of(groups) || !channels_out.is_multiple_of(groups) {
            let what = format!("a Conv2d layer of {channels_in} to {channels_out} channels");
            let why = format!("the channels can't be split into {groups} equal groups");
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("use a number of groups that divides both numbers"));
        }
        check_parameter_size("Conv2d", &self.weight_shape())?;
        self.standardised.map_or(Ok(()), |rule| rule.check())
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let [channels, height, width] = image_shape("Conv2d", input)?;
        self.check()?;
        if channels != self.channels_in {
            let what = format!("a Conv2d layer received images of {channels} channels");
            let why = format!("the layer expects {}", self.channels_in);
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix(format!("use Conv2dSpec::new({channels}, ..)")));
        }
        let window = self.geometry([height, width]);
        let Some([rows, columns]) = window.output() else {
            return Err(kernel_too_large_error("Conv2d", window));
        };
        Ok(vec![self.channels_out, rows, columns])
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        let shape = self.weight_shape();
        let fan_in = shape[1..].iter().product();
        let weight = ParameterSpec::new("weight", &shape, ParameterInit::Weight { fan_in });
        let bias =
            || ParameterSpec::new("bias", &[self.channels_out], ParameterInit::Bias { fan_in });
        let gain = || ParameterSpec::new("gain", &[self.channels_out], ParameterInit::Ones);
        let has_gain = self.standardised.is_some_and(|rule| rule.gain);
        [Some(weight), self.bias.then(bias), has_gain.then(gain)].into_iter().flatten().collect()
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> Conv2d {
        let weight = source.take_next();
        let bias = self.bias.then(|| source.take_next());
        let gain = self.standardised.is_some_and(|rule| rule.gain).then(|| source.take_next());
        let [vertical, horizontal] = self.padding;
        Conv2d {
            inner: nn::conv::Conv2d {
                weight,
                bias,
                stride: self.stride,
                kernel_size: self.kernel,
                dilation: self.dilation,
                groups: self.groups,
                padding: PaddingConfig2d::Explicit(vertical, horizontal, vertical, horizontal),
            },
            gain,
            spec: self.clone(),
        }
    }
}

/// Two-dimensional convolution (cross-correlation) of images `[batch, channels, height, width]`.
#[derive(Module, Debug)]
pub struct Conv2d {
    /// Burn's layer: weight `[channels out, channels in / groups, kernel height, kernel width]`.
    pub inner: nn::conv::Conv2d,
    /// The gain per output channel of a standardised weight, `[channels out]`.
    pub gain: Option<Param<Tensor<1>>>,
    #[module(skip)]
    pub(super) spec: Conv2dSpec,
}

impl Conv2d {
    /// Returns the specification of the layer.
    pub fn spec(&self) -> &Conv2dSpec {
        &self.spec
    }

    /// Returns the weight that the convolution multiplies with: the parameter, standardised if the
    /// layer has a [`Standardisation`].
    pub(crate) fn effective_weight(&self) -> Tensor<4> {
        let raw = self.inner.weight.val();
        match self.spec.standardised {
            Some(rule) => rule.apply(raw, self.gain.as_ref().map(Param::val)),
            None => raw,
        }
    }

    /// Computes the convolution of `x`, `[batch, channels out, rows, columns]`.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let x = x.into_image();
        let [_, _, height, width] = x.dims();
        let window = self.spec.geometry([height, width]);
        let weight = self.effective_weight();
        let bias = self.inner.bias.as_ref().map(Param::val);
        let x = BatchTensor::Image(x);
        // The CPU kernel has no gradient with respect to weight and bias, and supports neither
        // groups nor bf16.
        let cpu_kernel = tape.use_cpu_kernels()
            && tape.precision().is_default()
            && x.is_on_cpu()
            && self.spec.groups == 1
            && !weight.is_autodiff()
            && !bias.as_ref().is_some_and(Tensor::is_autodiff);
        let y = if cpu_kernel {
            let zeros = || Tensor::zeros([self.spec.channels_out], &weight.device());
            let bias = bias.unwrap_or_else(zeros);
            kernels::conv2d(x.clone().into_image(), weight, bias, window)
        } else {
            let Conv2dSpec { stride, padding, dilation, groups, .. } = self.spec;
            let options = ConvOptions::new(stride, padding, dilation, groups);
            let (precision, x) = (tape.precision(), x.clone().into_image());
            if precision.is_default() {
                conv2d(x, weight, bias, options)
            } else {
                let (x, weight) = (precision.cast_operand(x), precision.cast_operand(weight));
                let y = precision.cast_result(conv2d(x, weight, None, options));
                match bias {
                    Some(bias) => y + bias.reshape([1, self.spec.channels_out, 1, 1]),
                    None => y,
                }
            }
        };
        tape.record_layer(self.site(window), &x, BatchTensor::Image(y))
    }

    fn site(&self, window: Window) -> ParameterSite {
        let standardised = self.spec.standardised.map(|rule| {
            let gain = self.gain.as_ref().map(|gain| (gain.id, gain.val().inner()));
            (rule, self.inner.weight.val().inner(), gain)
        });
        ParameterSite::Conv2d {
            window,
            groups: self.spec.groups,
            weight: self.inner.weight.id,
            bias: self.inner.bias.as_ref().map(|bias| bias.id),
            standardised,
        }
    }
}
