//! Feed-forward models without residual connections: CNNs, MLPs and lists of layers.

use super::{features, image_shape};
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Activation, ModelBuilder, ModelConfig, ModelFamily};
use crate::nn::{AvgPool2dSpec, Conv2dSpec, Flatten, LayerSpec, LinearSpec, MaxPool2dSpec};
use crate::{Error, ErrorKind, Result};

/// Builds the MNIST CNN of Papernot et al. (2020), "Tempered sigmoid activations for deep learning
/// with differential privacy".
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

/// Builds the MNIST and Fashion-MNIST CNN of Stevens et al. (2022), "Backpropagation clipping for
/// deep learning with differential privacy", Figure 3.
///
/// The layers of [`papernot_cnn`] without padding and biases: a convolution of 16 filters of 8 x 8
/// and one of 32 filters of 4 x 4 pixels, both with stride 2 and followed by 2 x 2 max pooling,
/// then two linear layers with 32 outputs and one output per class. It has 18,752 parameters on 28
/// x 28 grey-scale images of ten classes. The default activation is ReLU, as in the paper.
///
/// Figure 3 gives no stride for the pooling. It is 1, as in [`papernot_cnn`]: with stride 2 the
/// second pooling would get a single pixel. Images `[channels, height, width]` must have at least
/// 20 x 20 pixels.
pub fn stevens_mnist_cnn(data: &Dataset) -> ModelBuilder {
    ModelBuilder::sized("stevens_mnist_cnn", data, &[], |config, _| {
        let [channels, _, _] = image_shape("stevens_mnist_cnn", config)?;
        let act = || config.activation.spec();
        let conv = |from, to, kernel| Conv2dSpec::new(from, to, kernel).stride(2).without_bias();
        let pool = || MaxPool2dSpec::new(2).stride(1);
        let body = layers![conv(channels, 16, 8), act(), pool(), conv(16, 32, 4), act(), pool()];
        stevens_head(config, body, 32)
            .map_err(|e| e.fix("stevens_mnist_cnn needs images of at least 20 x 20 pixels"))
    })
    .activation(Activation::Relu)
}

/// Builds the CIFAR-10 CNN of Stevens et al. (2022), "Backpropagation clipping for deep learning
/// with differential privacy", Figure 4.
///
/// Four pairs of 2 x 2 convolutions with 32, 64, 128 and 256 filters and stride 1, with 2 x 2
/// average pooling of stride 1 between the pairs, then two linear layers with 256 outputs and one
/// output per class. No layer has padding or a bias. It has 29,424,512 parameters on 32 x 32 colour
/// images of ten classes, 28,901,376 of them in the first linear layer. The default activation is
/// ReLU, as in the paper. Images `[channels, height, width]` must have at least 12 x 12 pixels.
pub fn stevens_cifar_cnn(data: &Dataset) -> ModelBuilder {
    ModelBuilder::sized("stevens_cifar_cnn", data, &[], |config, _| {
        let [channels, _, _] = image_shape("stevens_cifar_cnn", config)?;
        let act = || config.activation.spec();
        let (mut body, mut width) = (Vec::new(), channels);
        for wider in [32, 64, 128, 256] {
            if !body.is_empty() {
                body.push(AvgPool2dSpec::new(2).stride(1).into());
            }
            for from in [width, wider] {
                body.extend(layers![Conv2dSpec::new(from, wider, 2).without_bias(), act()]);
            }
            width = wider;
        }
        stevens_head(config, body, 256)
            .map_err(|e| e.fix("stevens_cifar_cnn needs images of at least 12 x 12 pixels"))
    })
    .activation(Activation::Relu)
}

/// Returns `body` followed by two linear layers without biases, with `hidden` outputs and one per
/// class.
fn stevens_head(
    config: &ModelConfig,
    mut body: Vec<LayerSpec>,
    hidden: usize,
) -> Result<Vec<LayerSpec>> {
    let (features, act) = (features(config, &body)?, config.activation.spec());
    let linear = |from, to| LinearSpec::new(from, to).without_bias();
    body.extend(layers![Flatten, linear(features, hidden), act, linear(hidden, config.classes)]);
    Ok(body)
}

/// Builds a small VGG network (after Simonyan & Zisserman, 2015, "Very deep convolutional networks
/// for large-scale image recognition"), as in Kurakin et al. (2022), "Toward training at ImageNet
/// scale with differential privacy", appendix H.
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

/// Creates a multilayer perceptron for data of any shape: linear layers with an activation between
/// them. `hidden` are the widths of the hidden layers.
pub fn mlp(data: &Dataset, hidden: &[usize]) -> ModelBuilder {
    ModelBuilder::sized("mlp", data, hidden, mlp_layers)
}

/// Creates one linear layer, i.e. multinomial logistic regression, for data of any shape.
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

/// Creates a model of a list of layers, usually written with [`layers!`](crate::layers).
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
/// assert_eq!(model.num_parameters(), 80 + 15_690);
/// # Ok(()) }
/// ```
pub fn sequential(data: &Dataset, layers: Vec<LayerSpec>) -> ModelBuilder<Sequential> {
    ModelBuilder::new("sequential", data, Sequential(layers))
}

/// Model family of [`sequential`]: a given list of layers.
#[derive(Clone, Debug)]
pub struct Sequential(Vec<LayerSpec>);

impl ModelFamily for Sequential {
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerSpec>> {
        if self.0.is_empty() {
            let why = format!("the model does not map shape {:?} to classes", config.input_shape);
            return Err(Error::new(ErrorKind::Model, "a model with no layers", why)
                .fix("give it at least Flatten and a LinearSpec"));
        }
        Ok(self.0.clone())
    }
}
