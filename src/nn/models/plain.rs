//! Layers one after the other.

use super::{features, images};
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Activation, Family, Frame, ModelBuilder};
use crate::nn::{
    AvgPool2dSpec, Conv2dSpec, Flatten, GlobalAvgPool, LayerSpec, LinearSpec, MaxPool2dSpec,
};
use crate::{Error, ErrorKind, Result};

/// The small convolutional network of Papernot et al. (2020), "Tempered sigmoid activations for
/// deep learning with differential privacy": two convolutions, each followed by an activation and
/// a maximum, then two linear layers. 26,010 parameters on 28 x 28 grey images of ten classes.
///
/// Needs images `[channels, height, width]` of at least 14 x 14 pixels.
pub fn papernot_cnn(data: &Dataset) -> ModelBuilder {
    ModelBuilder::plain("papernot_cnn", data, &[], |frame, _| {
        let [channels, _, _] = images("papernot_cnn", frame)?;
        let act = || frame.activation.spec();
        let mut layers = layers![
            Conv2dSpec::new(channels, 16, 8).stride(2).padding(3),
            act(),
            MaxPool2dSpec::new(2).stride(1),
            Conv2dSpec::new(16, 32, 4).stride(2),
            act(),
            MaxPool2dSpec::new(2).stride(1),
            Flatten,
        ];
        let features = features(frame, &layers)
            .map_err(|e| e.fix("papernot_cnn needs images of at least 14 x 14 pixels"))?;
        let classes = frame.classes;
        layers.extend(layers![LinearSpec::new(features, 32), act(), LinearSpec::new(32, classes)]);
        Ok(layers)
    })
}

/// A convolutional network after Stevens et al. (2022), "Backpropagation clipping for deep learning
/// with differential privacy": eight convolutions of 2 x 2 pixels without biases, for small colour
/// images. NOT the paper's exact network.
///
/// All that the paper tells of its CIFAR-10 network is that it has eight such convolutions. Widths
/// and pools follow the CIFAR-10 network of Papernot et al. (2020): 32, 32, mean, 64, 64, mean, 128,
/// 128, mean, 256, classes, mean of each channel; ReLU is that of the paper's other networks. The padding, one pixel everywhere, is ours:
/// without it, as the paper states its bounds, eight of them and three pools don't fit into 32 x 32
/// pixels. Don't compare accuracies with the paper's to the digit.
pub fn stevens_cifar_cnn(data: &Dataset) -> ModelBuilder {
    ModelBuilder::plain("stevens_cifar_cnn", data, &[], |frame, _| {
        let [channels, _, _] = images("stevens_cifar_cnn", frame)?;
        let act = || frame.activation.spec();
        let conv = |from, to| Conv2dSpec::new(from, to, 2).padding(1).without_bias();
        let (mut layers, mut width) = (Vec::new(), channels);
        for wider in [32, 64, 128] {
            let mean = AvgPool2dSpec::new(2);
            layers.extend(layers![conv(width, wider), act(), conv(wider, wider), act(), mean]);
            width = wider;
        }
        let last = conv(256, frame.classes);
        layers.extend(layers![conv(width, 256), act(), last, GlobalAvgPool]);
        Ok(layers)
    })
    .activation(Activation::Relu)
}

/// Groups of `depth` convolutions of 3 x 3 pixels, one group for each width in `channels`, each
/// group followed by a maximum that halves the image; then a linear layer of 128 and one per
/// class, with an activation after every layer but the last (after Simonyan & Zisserman, 2015).
///
/// `simple_vgg(&data, &[32, 64, 128], 2)` has 550,570 parameters on CIFAR-10.
pub fn simple_vgg(data: &Dataset, channels: &[usize], depth: usize) -> ModelBuilder {
    let sizes: Vec<usize> = std::iter::once(depth).chain(channels.iter().copied()).collect();
    ModelBuilder::plain("simple_vgg", data, &sizes, |frame, sizes| {
        let [mut width, _, _] = images("simple_vgg", frame)?;
        let act = || frame.activation.spec();
        let (depth, mut layers) = (sizes[0], Vec::new());
        for &wider in &sizes[1..] {
            for _ in 0..depth {
                layers.extend(layers![Conv2dSpec::new(width, wider, 3).padding(1), act()]);
                width = wider;
            }
            layers.push(MaxPool2dSpec::new(2).into());
        }
        layers.push(Flatten.into());
        let features = features(frame, &layers)
            .map_err(|e| e.fix("each group halves the image: use fewer groups"))?;
        let classes = frame.classes;
        layers.extend(layers![
            LinearSpec::new(features, 128),
            act(),
            LinearSpec::new(128, classes)
        ]);
        Ok(layers)
    })
}

/// Linear layers with an activation between them; `hidden` are the widths between the features
/// and the classes. Takes data of any shape.
pub fn mlp(data: &Dataset, hidden: &[usize]) -> ModelBuilder {
    ModelBuilder::plain("mlp", data, hidden, mlp_layers)
}

/// One linear layer: logistic regression. Takes data of any shape.
pub fn linear(data: &Dataset) -> ModelBuilder {
    ModelBuilder::plain("linear", data, &[], mlp_layers)
}

fn mlp_layers(frame: &Frame, hidden: &[usize]) -> Result<Vec<LayerSpec>> {
    let mut layers = Vec::new();
    if frame.input_shape.len() != 1 {
        layers.push(Flatten.into());
    }
    let mut width = frame.input_shape.iter().product();
    for &hidden in hidden {
        layers.extend(layers![LinearSpec::new(width, hidden), frame.activation.spec()]);
        width = hidden;
    }
    layers.push(LinearSpec::new(width, frame.classes).into());
    Ok(layers)
}

/// A list of layers of one's own, best written with [`layers!`](crate::layers).
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
pub fn sequential(data: &Dataset, layers: Vec<LayerSpec>) -> ModelBuilder<Given> {
    ModelBuilder::new("sequential", data, Given(layers))
}

/// A list of layers of the user's own.
#[derive(Clone, Debug)]
pub struct Given(Vec<LayerSpec>);

impl Family for Given {
    fn layers(&self, frame: &Frame) -> Result<Vec<LayerSpec>> {
        if self.0.is_empty() {
            let why = format!("examples of shape {:?} are no classes", frame.input_shape);
            return Err(Error::new(ErrorKind::Model, "a model of no layers", why)
                .fix("give it at least Flatten and a LinearSpec"));
        }
        Ok(self.0.clone())
    }
}
