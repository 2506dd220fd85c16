//! What flows between layers.

use burn::prelude::*;

/// A batch of activations; the first dimension counts the examples.
#[derive(Clone, Debug)]
pub enum Value {
    /// Plain features, `[batch, features]`.
    Flat(Tensor<2>),
    /// Images, `[batch, channels, height, width]`.
    Image(Tensor<4>),
}

impl Value {
    /// A batch of `n` examples of the given shape from row-major numbers.
    ///
    /// Shapes of three dimensions become images, all others plain features.
    pub fn new(values: Vec<f32>, n: usize, shape: &[usize], device: &Device) -> Self {
        match *shape {
            [channels, height, width] => Self::Image(Tensor::from_data(
                TensorData::new(values, [n, channels, height, width]),
                device,
            )),
            _ => {
                let features: usize = shape.iter().product();
                Self::Flat(Tensor::from_data(TensorData::new(values, [n, features]), device))
            }
        }
    }

    /// The activations as `[batch, features]`; images are flattened row by row.
    pub fn flat(self) -> Tensor<2> {
        match self {
            Self::Flat(x) => x,
            Self::Image(x) => x.flatten(1, 3),
        }
    }

    /// The activations as images. Plain features become images of one pixel per channel, the
    /// only reading that needs no further knowledge; a checked network never asks for it.
    pub fn image(self) -> Tensor<4> {
        match self {
            Self::Image(x) => x,
            Self::Flat(x) => {
                let [n, features] = x.dims();
                x.reshape([n, features, 1, 1])
            }
        }
    }

    /// The same numbers outside autodiff: no graph, no gradient.
    pub fn detached(&self) -> Self {
        match self {
            Self::Flat(x) => Self::Flat(x.clone().inner()),
            Self::Image(x) => Self::Image(x.clone().inner()),
        }
    }

    /// Whether the numbers are on Burn's CPU backend, where the lab has kernels of its own.
    pub(crate) fn on_cpu(&self) -> bool {
        // Devices compare equal with and without autodiff.
        let device = match self {
            Self::Flat(x) => x.device(),
            Self::Image(x) => x.device(),
        };
        device == Device::flex()
    }

    /// Applies one tensor operation whatever the shape.
    pub(crate) fn map(
        self,
        flat: impl FnOnce(Tensor<2>) -> Tensor<2>,
        image: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> Self {
        match self {
            Self::Flat(x) => Self::Flat(flat(x)),
            Self::Image(x) => Self::Image(image(x)),
        }
    }
}
