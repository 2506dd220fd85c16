//! The models that come with the lab, one file per family.
//!
//! ```
//! use epsilab::{data, nn::models};
//! # fn main() -> epsilab::Result<()> {
//! let data = data::from_vecs(vec![0.0; 2 * 784], &[1, 28, 28], vec![0, 9], 10)?;
//! let model = models::papernot_cnn(&data).seed(1).build()?;
//! assert_eq!(model.parameters(), 26_010);
//! # Ok(()) }
//! ```
//!
//! Weights and biases start uniform between ±1/√fan-in (PyTorch's default), with SELU from
//! N(0, 1/fan-in) and 0; `.initialisation(..)` says otherwise. Every model is a list of layers and
//! can be written as one: see [`sequential`].

mod plain;
mod resnet;
mod text;
mod wide_resnet;

pub use super::file::load;
pub use plain::{Given, linear, mlp, papernot_cnn, sequential, simple_vgg, stevens_cifar_cnn};
pub use resnet::{Resnet, Stem, resnet18, resnet50};
pub use text::{Bilstm, bilstm};
pub use wide_resnet::{WideResnet, wide_resnet};

use super::builder::Frame;
use super::layers::LayerSpec;
use super::network::shapes;
use crate::{Error, ErrorKind, Result};

/// The shape of the images, or an error that names the model.
fn images(model: &str, frame: &Frame) -> Result<[usize; 3]> {
    <[usize; 3]>::try_from(frame.input_shape.as_slice()).map_err(|_| {
        Error::new(
            ErrorKind::Model,
            format!("{model} was given examples of shape {:?}", frame.input_shape),
            "it works on images, [channels, height, width]",
        )
        .fix("use models::mlp(&data, &[64]) or models::linear(&data)")
    })
}

/// How many numbers an example has after the layers.
fn features(frame: &Frame, layers: &[LayerSpec]) -> Result<usize> {
    let shapes = shapes(&frame.input_shape, layers)?;
    Ok(shapes.last().unwrap_or(&frame.input_shape).iter().product())
}
