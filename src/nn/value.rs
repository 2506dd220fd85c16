//! What flows between layers.

use burn::prelude::*;

/// A batch of activations; the first dimension counts the examples.
#[derive(Clone, Debug)]
pub enum Value {
    /// Plain features, `[batch, features]`. Token ids travel as whole numbers in plain features
    /// `[batch, time]`: an `f32` holds every whole number below 2^24 exactly.
    Flat(Tensor<2>),
    /// Sequences, `[batch, time, features]`.
    Sequence(Tensor<3>),
    /// Images, `[batch, channels, height, width]`.
    Image(Tensor<4>),
}

impl Value {
    /// A batch of `n` examples of the given shape from row-major numbers.
    ///
    /// Shapes of three dimensions become images, of two sequences, all others plain features.
    pub fn new(values: Vec<f32>, n: usize, shape: &[usize], device: &Device) -> Self {
        match *shape {
            [channels, height, width] => Self::Image(Tensor::from_data(
                TensorData::new(values, [n, channels, height, width]),
                device,
            )),
            [time, features] => Self::Sequence(Tensor::from_data(
                TensorData::new(values, [n, time, features]),
                device,
            )),
            _ => {
                let features: usize = shape.iter().product();
                Self::Flat(Tensor::from_data(TensorData::new(values, [n, features]), device))
            }
        }
    }

    /// The same from numbers that are on a device, `[batch, features]`.
    pub(crate) fn of(values: Tensor<2>, shape: &[usize]) -> Self {
        let [n, _] = values.dims();
        match *shape {
            [channels, height, width] => Self::Image(values.reshape([n, channels, height, width])),
            [time, features] => Self::Sequence(values.reshape([n, time, features])),
            _ => Self::Flat(values),
        }
    }

    /// The activations as `[batch, features]`; images are flattened row by row, sequences step
    /// by step.
    pub fn flat(self) -> Tensor<2> {
        match self {
            Self::Flat(x) => x,
            Self::Sequence(x) => x.flatten(1, 2),
            Self::Image(x) => x.flatten(1, 3),
        }
    }

    /// The activations as images. Plain features become images of one pixel per channel, and
    /// sequences images of one channel: the only readings that need no further knowledge. A
    /// checked network never asks for them.
    pub fn image(self) -> Tensor<4> {
        match self {
            Self::Image(x) => x,
            Self::Sequence(x) => x.unsqueeze_dim(1),
            Self::Flat(x) => {
                let [n, features] = x.dims();
                x.reshape([n, features, 1, 1])
            }
        }
    }

    /// The activations as sequences. Plain features become sequences of one step, images
    /// sequences of their pixels: a checked network never asks for either.
    pub fn sequence(self) -> Tensor<3> {
        match self {
            Self::Sequence(x) => x,
            Self::Flat(x) => x.unsqueeze_dim(1),
            Self::Image(x) => x.flatten::<3>(2, 3).swap_dims(1, 2),
        }
    }

    /// The size of every dimension, the batch first.
    pub fn dims(&self) -> Vec<usize> {
        match self {
            Self::Flat(x) => x.dims().to_vec(),
            Self::Sequence(x) => x.dims().to_vec(),
            Self::Image(x) => x.dims().to_vec(),
        }
    }

    /// Where the numbers are.
    pub fn device(&self) -> Device {
        match self {
            Self::Flat(x) => x.device(),
            Self::Sequence(x) => x.device(),
            Self::Image(x) => x.device(),
        }
    }

    /// The same numbers outside autodiff: no graph, no gradient.
    pub fn detached(&self) -> Self {
        self.clone().map(Tensor::inner, Tensor::inner, Tensor::inner)
    }

    /// Whether the numbers are on Burn's CPU backend, where the lab has kernels of its own.
    pub(crate) fn on_cpu(&self) -> bool {
        // Devices compare equal with and without autodiff.
        self.device() == Device::flex()
    }

    /// Applies one tensor operation whatever the shape.
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

    /// The sum, value by value. Values of different kinds are added as plain features, which a
    /// checked network never does.
    pub(crate) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Image(a), Self::Image(b)) => Self::Image(a + b),
            (Self::Sequence(a), Self::Sequence(b)) => Self::Sequence(a + b),
            (a, b) => Self::Flat(a.flat() + b.flat()),
        }
    }
}
