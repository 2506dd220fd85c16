//! Built-in models, one file per family.
//!
//! ```
//! use epsilab::{data, nn::models};
//! # fn main() -> epsilab::Result<()> {
//! let data = data::from_vecs(vec![0.0; 2 * 784], &[1, 28, 28], vec![0, 9], 10)?;
//! let model = models::papernot_cnn(&data).seed(1).build()?;
//! assert_eq!(model.num_parameters(), 26_010);
//! # Ok(()) }
//! ```
//!
//! By default, weights and biases are drawn from U(-1/√fan-in, 1/√fan-in), PyTorch's default. With
//! SELU, weights are drawn from N(0, 1/fan-in) and biases are 0. `.initialisation(..)` selects
//! another distribution. Every model is a list of layers; [`sequential`] makes a model of a list.

mod feed_forward;
mod resnet;
mod text;
mod torchvision;
mod wide_resnet;

pub use super::model_file::load;
pub use feed_forward::{
    Sequential, linear, mlp, papernot_cnn, sequential, simple_vgg, stevens_cifar_cnn,
    stevens_mnist_cnn,
};
pub use resnet::{Resnet, Stem, bit_resnet, bit_resnet50, resnet18, resnet50};
pub use text::{Bilstm, bilstm};
pub use torchvision::{
    TorchvisionResnet, torchvision_resnet18, torchvision_resnet34, torchvision_resnet50,
};
pub use wide_resnet::{WideResnet, wide_resnet};

use super::builder::ModelConfig;
use super::layers::{IMAGES, LayerSpec, shape_of};
use super::network::output_shapes;
use crate::Result;

/// Returns the shape of the images, `[channels, height, width]`, or an error that names the model.
fn image_shape(model: &str, config: &ModelConfig) -> Result<[usize; 3]> {
    let fix = "use models::mlp(&data, &[64]) or models::linear(&data)";
    shape_of(model, &config.input_shape, IMAGES, fix)
}

/// Returns the number of features of an example after the layers.
fn features(config: &ModelConfig, layers: &[LayerSpec]) -> Result<usize> {
    let shapes = output_shapes(&config.input_shape, layers)?;
    Ok(shapes.last().unwrap_or(&config.input_shape).iter().product())
}
