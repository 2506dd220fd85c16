//! The models that come with the lab.
//!
//! ```
//! use epsilab::{data, nn::models};
//! # fn main() -> epsilab::Result<()> {
//! let data = data::from_vecs(vec![0.0; 2 * 784], &[1, 28, 28], vec![0, 9], 10)?;
//! let model = models::papernot_cnn(&data).seed(1).build()?;
//! assert_eq!(model.parameters(), 26_010);
//! # Ok(()) }
//! ```

use super::builder::{Activation, ModelBuilder, Recipe};
use super::layers::{Conv2dSpec, LayerSpec, LinearSpec, MaxPool2dSpec};
use super::network::shapes;
use crate::data::Dataset;
use crate::{Error, ErrorKind, Result};

pub use super::file::load;

/// The small convolutional network of Papernot et al. (2020), "Tempered sigmoid activations for
/// deep learning with differential privacy": two convolutions, each followed by an activation and
/// a maximum, then two linear layers. 26,010 parameters on 28 x 28 grey images of ten classes.
///
/// Needs images `[channels, height, width]` of at least 14 x 14 pixels.
pub fn papernot_cnn(data: &Dataset) -> ModelBuilder {
    builder("papernot_cnn", papernot_layers, data, &[])
}

/// Linear layers with an activation between them; `hidden` are the widths between the features
/// and the classes. Takes data of any shape.
pub fn mlp(data: &Dataset, hidden: &[usize]) -> ModelBuilder {
    builder("mlp", mlp_layers, data, hidden)
}

/// One linear layer: logistic regression. Takes data of any shape.
pub fn linear(data: &Dataset) -> ModelBuilder {
    builder("linear", mlp_layers, data, &[])
}

fn builder(name: &'static str, recipe: Recipe, data: &Dataset, hidden: &[usize]) -> ModelBuilder {
    ModelBuilder {
        name,
        recipe,
        input_shape: data.shape().to_vec(),
        classes: data.classes(),
        hidden: hidden.to_vec(),
        activation: Activation::default(),
        initialisation: None,
        seed: None,
    }
}

fn papernot_layers(builder: &ModelBuilder) -> Result<Vec<LayerSpec>> {
    let &[channels, _, _] = builder.input_shape.as_slice() else {
        return Err(Error::new(
            ErrorKind::Model,
            format!("papernot_cnn was given examples of shape {:?}", builder.input_shape),
            "it works on images, [channels, height, width]",
        )
        .fix("use models::mlp(&data, &[64]) or models::linear(&data)"));
    };
    let conv = |channels_in, channels_out, side, padding| {
        LayerSpec::Conv2d(Conv2dSpec {
            stride: [2; 2],
            padding: [padding; 2],
            ..Conv2dSpec::new(channels_in, channels_out, side)
        })
    };
    let pool = || LayerSpec::MaxPool2d(MaxPool2dSpec { kernel: [2; 2], stride: [1; 2] });
    let act = || builder.activation.spec();
    let mut layers = vec![
        conv(channels, 16, 8, 3),
        act(),
        pool(),
        conv(16, 32, 4, 0),
        act(),
        pool(),
        LayerSpec::Flatten,
    ];
    let shapes = shapes(&builder.input_shape, &layers)
        .map_err(|e| e.fix("papernot_cnn needs images of at least 14 x 14 pixels"))?;
    let features = shapes.last().map_or(0, |shape| shape.iter().product());
    layers.extend([linear_spec(features, 32), act(), linear_spec(32, builder.classes)]);
    Ok(layers)
}

fn mlp_layers(builder: &ModelBuilder) -> Result<Vec<LayerSpec>> {
    let mut layers = Vec::new();
    if builder.input_shape.len() != 1 {
        layers.push(LayerSpec::Flatten);
    }
    let mut width = builder.input_shape.iter().product();
    for &hidden in &builder.hidden {
        layers.extend([linear_spec(width, hidden), builder.activation.spec()]);
        width = hidden;
    }
    layers.push(linear_spec(width, builder.classes));
    Ok(layers)
}

fn linear_spec(inputs: usize, outputs: usize) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias: true })
}
