//! [`BatchTensor`]: a batch of activations.

use burn::prelude::*;

/// A batch of activations: the input or output of a layer. The first dimension is the batch.
#[derive(Clone, Debug)]
pub enum BatchTensor {
    /// Plain features, `[batch, features]`, or token ids, `[batch, time]`. An `f32` represents
    /// every token id below 2^24 exactly.
    Flat(Tensor<2>),
    /// Sequences, `[batch, time, features]`.
    Sequence(Tensor<3>),
    /// Images, `[batch, channels, height, width]`.
    Image(Tensor<4>),
}

impl BatchTensor {
    /// Creates a batch of `n` examples of the given shape from row-major values.
    ///
    /// Examples with three dimensions become images, with two sequences, all others plain features.
    ///
    /// # Panics
    /// If the number of values is not `n` times the size of an example.
    pub fn new(values: Vec<f32>, n: usize, shape: &[usize], device: &Device) -> Self {
        let size: usize = shape.iter().product();
        Self::from_flat(Tensor::from_data(TensorData::new(values, [n, size]), device), shape)
    }

    /// Creates a batch as [`new`](Self::new) does, from a tensor `[batch, features]`.
    pub(crate) fn from_flat(values: Tensor<2>, shape: &[usize]) -> Self {
        let [n, _] = values.dims();
        match *shape {
            [channels, height, width] => Self::Image(values.reshape([n, channels, height, width])),
            [time, features] => Self::Sequence(values.reshape([n, time, features])),
            _ => Self::Flat(values),
        }
    }

    /// Returns the activations as `[batch, features]`, flattened in row-major order.
    pub fn into_flat(self) -> Tensor<2> {
        match self {
            Self::Flat(x) => x,
            Self::Sequence(x) => x.flatten(1, 2),
            Self::Image(x) => x.flatten(1, 3),
        }
    }

    /// Returns the activations as images, `[batch, channels, height, width]`.
    ///
    /// Plain features become images of one pixel with `features` channels, and sequences images of
    /// one channel with a row per step. The layers of a [`Network`](super::Network) never need
    /// these conversions.
    pub fn into_image(self) -> Tensor<4> {
        match self {
            Self::Image(x) => x,
            Self::Sequence(x) => x.unsqueeze_dim(1),
            Self::Flat(x) => {
                let [n, features] = x.dims();
                x.reshape([n, features, 1, 1])
            }
        }
    }

    /// Converts the activations to sequences `[batch, time, features]`.
    ///
    /// Plain features become sequences of one step, and images sequences of their pixels with
    /// `channels` features.
    pub fn into_sequence(self) -> Tensor<3> {
        match self {
            Self::Sequence(x) => x,
            Self::Flat(x) => x.unsqueeze_dim(1),
            Self::Image(x) => x.flatten::<3>(2, 3).swap_dims(1, 2),
        }
    }

    /// Returns the size of every dimension, the batch first.
    pub fn dims(&self) -> Vec<usize> {
        match self {
            Self::Flat(x) => x.dims().to_vec(),
            Self::Sequence(x) => x.dims().to_vec(),
            Self::Image(x) => x.dims().to_vec(),
        }
    }

    /// Returns the device of the activations.
    pub fn device(&self) -> Device {
        match self {
            Self::Flat(x) => x.device(),
            Self::Sequence(x) => x.device(),
            Self::Image(x) => x.device(),
        }
    }

    /// Returns the same activations outside autodiff.
    pub(crate) fn detach(&self) -> Self {
        self.clone().map(Tensor::inner, Tensor::inner, Tensor::inner)
    }

    /// Returns whether the activations are on Burn's CPU backend, which the custom CPU kernels
    /// need.
    pub(crate) fn is_on_cpu(&self) -> bool {
        // Devices with and without autodiff compare equal.
        self.device() == Device::flex()
    }

    /// Applies the operation for the rank of the tensor.
    pub(crate) fn map(
        self,
        flat: impl FnOnce(Tensor<2>) -> Tensor<2>,
        sequence: impl FnOnce(Tensor<3>) -> Tensor<3>,
        image: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> Self {
        match self {
            Self::Flat(x) => Self::Flat(flat(x)),
            Self::Sequence(x) => Self::Sequence(sequence(x)),
            Self::Image(x) => Self::Image(image(x)),
        }
    }

    /// Computes the element-wise sum. Values of different ranks are added as plain features; the
    /// layers of a [`Network`](super::Network) never need that.
    pub(crate) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Image(a), Self::Image(b)) => Self::Image(a + b),
            (Self::Sequence(a), Self::Sequence(b)) => Self::Sequence(a + b),
            (a, b) => Self::Flat(a.into_flat() + b.into_flat()),
        }
    }
}
