//! Feed-forward models without residual connections: CNNs, MLPs and lists of layers.

use super::{features, image_shape};
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Activation, Family, ModelBuilder, ModelConfig};
use crate::nn::{
    AvgPool2dSpec, Conv2dSpec, Flatten, GlobalAvgPool, LayerSpec, LinearSpec, MaxPool2dSpec,
};
use crate::{Error, ErrorKind, Result};

/// The MNIST CNN of Papernot et al. (2020), "Tempered sigmoid activations for deep learning with
/// differential privacy".
///
/// Two convolutions, each followed by an activation and max pooling, then two linear layers. It has
/// 26,010 parameters on 28 x 28 grey-scale images of ten classes. Images
/// `[channels, height, width]` must have at least 14 x 14 pixels.
pub fn papernot_cnn(data: &Dataset) -> ModelBuilder {
    ModelBuilder::sized("papernot_cnn", data, &[], |config, _| {
        let [channels, _, _] = image_shape("papernot_cnn", config)?;
        let act = || config.activation.spec();
        let mut layers = layers![
            Conv2dSpec::new(channels, 16, 8).stride(2).padding(3),
            act(),
            MaxPool2dSpec::new(2).stride(1),
            Conv2dSpec::new(16, 32, 4).stride(2),
            act(),
            MaxPool2dSpec::new(2).stride(1),
            Flatten,
        ];
        let features = features(config, &layers)
            .map_err(|e| e.fix("papernot_cnn needs images of at least 14 x 14 pixels"))?;
        let classes = config.classes;
        layers.extend(layers![LinearSpec::new(features, 32), act(), LinearSpec::new(32, classes)]);
        Ok(layers)
    })
}

/// A CIFAR-10 CNN after Stevens et al. (2022), "Backpropagation clipping for deep learning with
/// differential privacy": eight 2 x 2 convolutions without biases. NOT the paper's exact network.
///
/// The paper states only that its CIFAR-10 network has eight such convolutions. The rest is filled
/// in as follows, so accuracies are not exactly comparable with the paper's:
///
/// - Widths and pooling are those of the CIFAR-10 network of Papernot et al. (2020): 32, 32,
///   average pooling, 64, 64, average pooling, 128, 128, average pooling, 256, classes, global
///   average pooling.
/// - The activation is ReLU, as in the paper's other networks.
/// - Every convolution has a padding of one pixel. The paper's bounds are for convolutions without
///   padding, but eight of them and three pooling layers do not fit into 32 x 32 pixels.
pub fn stevens_cifar_cnn(data: &Dataset) -> ModelBuilder {
    ModelBuilder::sized("stevens_cifar_cnn", data, &[], |config, _| {
        let [channels, _, _] = image_shape("stevens_cifar_cnn", config)?;
        let act = || config.activation.spec();
        let conv = |from, to| Conv2dSpec::new(from, to, 2).padding(1).without_bias();
        let (mut layers, mut width) = (Vec::new(), channels);
        for wider in [32, 64, 128] {
            let mean = AvgPool2dSpec::new(2);
            layers.extend(layers![conv(width, wider), act(), conv(wider, wider), act(), mean]);
            width = wider;
        }
        let last = conv(256, config.classes);
        layers.extend(layers![conv(width, 256), act(), last, GlobalAvgPool]);
        Ok(layers)
    })
    .activation(Activation::Relu)
}

/// A small VGG network (after Simonyan & Zisserman, 2015, "Very deep convolutional networks for
/// large-scale image recognition").
///
/// For each width in `channels`, `depth` convolutions of 3 x 3 pixels and 2 x 2 max pooling; then a
/// linear layer with 128 outputs and the linear output layer. An activation follows every
/// convolution and linear layer but the last. `simple_vgg(&data, &[32, 64, 128], 2)` has 550,570
/// parameters on CIFAR-10.
pub fn simple_vgg(data: &Dataset, channels: &[usize], depth: usize) -> ModelBuilder {
    let sizes: Vec<usize> = std::iter::once(depth).chain(channels.iter().copied()).collect();
    ModelBuilder::sized("simple_vgg", data, &sizes, |config, sizes| {
        let [mut width, _, _] = image_shape("simple_vgg", config)?;
        let act = || config.activation.spec();
        let (depth, mut layers) = (sizes[0], Vec::new());
        for &wider in &sizes[1..] {
            for _ in 0..depth {
                layers.extend(layers![Conv2dSpec::new(width, wider, 3).padding(1), act()]);
                width = wider;
            }
            layers.push(MaxPool2dSpec::new(2).into());
        }
        layers.push(Flatten.into());
        let features = features(config, &layers)
            .map_err(|e| e.fix("each group halves the image: use fewer groups"))?;
        let classes = config.classes;
        layers.extend(layers![
            LinearSpec::new(features, 128),
            act(),
            LinearSpec::new(128, classes)
        ]);
        Ok(layers)
    })
}

/// A multilayer perceptron for data of any shape: linear layers with an activation between them.
/// `hidden` are the widths of the hidden layers.
pub fn mlp(data: &Dataset, hidden: &[usize]) -> ModelBuilder {
    ModelBuilder::sized("mlp", data, hidden, mlp_layers)
}

/// One linear layer, i.e. multinomial logistic regression, for data of any shape.
pub fn linear(data: &Dataset) -> ModelBuilder {
    ModelBuilder::sized("linear", data, &[], mlp_layers)
}

fn mlp_layers(config: &ModelConfig, hidden: &[usize]) -> Result<Vec<LayerSpec>> {
    let mut layers = Vec::new();
    if config.input_shape.len() != 1 {
        layers.push(Flatten.into());
    }
    let mut width = config.input_shape.iter().product();
    for &hidden in hidden {
        layers.extend(layers![LinearSpec::new(width, hidden), config.activation.spec()]);
        width = hidden;
    }
    layers.push(LinearSpec::new(width, config.classes).into());
    Ok(layers)
}

/// A model made of a list of layers, usually written with [`layers!`](crate::layers).
///
/// ```
/// use epsilab::layers;
/// use epsilab::nn::{Conv2dSpec, Flatten, LinearSpec, MaxPool2dSpec, Relu, models};
/// # fn main() -> epsilab::Result<()> {
/// # let data = epsilab::data::from_vecs(vec![0.0; 2 * 784], &[1, 28, 28], vec![0, 9], 10)?;
/// let model = models::sequential(&data, layers![
///     Conv2dSpec::new(1, 8, 3).padding(1),
///     Relu,
///     MaxPool2dSpec::new(2),
///     Flatten,
///     LinearSpec::new(8 * 14 * 14, 10),
/// ])
/// .seed(1)
/// .build()?;
/// assert_eq!(model.parameters(), 80 + 15_690);
/// # Ok(()) }
/// ```
pub fn sequential(data: &Dataset, layers: Vec<LayerSpec>) -> ModelBuilder<Sequential> {
    ModelBuilder::new("sequential", data, Sequential(layers))
}

/// The family of [`sequential`]: a given list of layers.
#[derive(Clone, Debug)]
pub struct Sequential(Vec<LayerSpec>);

impl Family for Sequential {
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerSpec>> {
        if self.0.is_empty() {
            let why = format!("it does not map shape {:?} to classes", config.input_shape);
            return Err(Error::new(ErrorKind::Model, "a model with no layers", why)
                .fix("give it at least Flatten and a LinearSpec"));
        }
        Ok(self.0.clone())
    }
}
