//! Max pooling, average pooling and global average pooling.

use burn::module::Module;
use burn::nn::PaddingConfig2d;
use burn::nn::pool::{self, AvgPool2dConfig, MaxPool2dConfig};
use serde::{Deserialize, Serialize};

use super::kernel_too_large_error;
use super::parameter_source::{check_sizes, image_shape};
use crate::Result;
use crate::nn::{BatchTensor, Tape, Window, kernels};

/// Specification of a [`MaxPool2d`] layer. Pairs are (vertical, horizontal), in pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaxPool2dSpec {
    /// Height and width of the window.
    pub kernel: [usize; 2],
    /// Stride of the window.
    pub stride: [usize; 2],
}

/// Specification of an [`AvgPool2d`] layer. Pairs are (vertical, horizontal), in pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AvgPool2dSpec {
    /// Height and width of the window.
    pub kernel: [usize; 2],
    /// Stride of the window.
    pub stride: [usize; 2],
}

impl MaxPool2dSpec {
    pub(super) fn check(&self) -> Result<()> {
        check("MaxPool2d", self.kernel, self.stride)
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        output_shape("MaxPool2d", self.kernel, self.stride, input)
    }

    pub(super) fn build(&self) -> MaxPool2d {
        let inner = MaxPool2dConfig::new(self.kernel).with_strides(self.stride).init();
        MaxPool2d { inner }
    }
}

impl AvgPool2dSpec {
    pub(super) fn check(&self) -> Result<()> {
        check("AvgPool2d", self.kernel, self.stride)
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        output_shape("AvgPool2d", self.kernel, self.stride, input)
    }

    pub(super) fn build(&self) -> AvgPool2d {
        let inner = AvgPool2dConfig::new(self.kernel).with_strides(self.stride).init();
        AvgPool2d { inner }
    }
}

fn check(kind: &str, kernel: [usize; 2], stride: [usize; 2]) -> Result<()> {
    check_sizes(
        kind,
        &[
            ("window height", kernel[0]),
            ("window width", kernel[1]),
            ("vertical stride", stride[0]),
            ("horizontal stride", stride[1]),
        ],
    )
}

fn output_shape(
    kind: &str,
    kernel: [usize; 2],
    stride: [usize; 2],
    input: &[usize],
) -> Result<Vec<usize>> {
    let image = image_shape(kind, input)?;
    check(kind, kernel, stride)?;
    let window = Window::pooling(image, kernel, stride);
    match window.output() {
        Some([rows, columns]) => Ok(vec![window.channels, rows, columns]),
        None => Err(kernel_too_large_error(kind, window)),
    }
}

/// Max pooling of images `[batch, channels, height, width]`: the maximum of each window, per
/// channel.
#[derive(Module, Debug)]
pub struct MaxPool2d {
    /// Burn's layer.
    pub inner: pool::MaxPool2d,
}

impl MaxPool2d {
    /// Computes the maximum of each window.
    pub fn forward(&self, x: BatchTensor, tape: &dyn Tape) -> BatchTensor {
        // Layers converted from Burn's can have options that the CPU kernel does not support.
        let supported = matches!(self.inner.padding, PaddingConfig2d::Valid)
            && self.inner.dilation == [1, 1]
            && !self.inner.ceil_mode;
        let cpu_kernel = supported && tape.use_cpu_kernels() && x.is_on_cpu();
        let x = x.into_image();
        if !cpu_kernel {
            return BatchTensor::Image(self.inner.forward(x));
        }
        let [_, channels, height, width] = x.dims();
        let image = [channels, height, width];
        let window = Window::pooling(image, self.inner.kernel_size, self.inner.stride);
        BatchTensor::Image(kernels::max_pool(x, window))
    }
}

/// Average pooling of images `[batch, channels, height, width]`: the mean of each window, per
/// channel.
#[derive(Module, Debug)]
pub struct AvgPool2d {
    /// Burn's layer.
    pub inner: pool::AvgPool2d,
}

impl AvgPool2d {
    /// Computes the mean of each window.
    pub fn forward(&self, x: BatchTensor) -> BatchTensor {
        BatchTensor::Image(self.inner.forward(x.into_image()))
    }
}

/// Global average pooling: the mean of each channel. Maps images `[batch, channels, height, width]`
/// to plain features `[batch, channels]`.
#[derive(Module, Debug)]
pub struct GlobalAvgPool;

impl GlobalAvgPool {
    /// Computes the mean of each channel.
    pub fn forward(&self, x: BatchTensor) -> BatchTensor {
        let x = x.into_image();
        let [n, channels, height, width] = x.dims();
        BatchTensor::Flat(
            x.reshape([n, channels, height * width]).mean_dim(2).reshape([n, channels]),
        )
    }
}
