//! The networks of "Backpropagation clipping for deep learning with differential privacy".

use super::super::layers::parameter_specs;
use super::super::network::output_shapes;
use super::*;

/// Kind, output shape and number of parameters of each layer with parameters or pooling.
type Rows = Vec<(String, Vec<usize>, usize)>;

fn rows(data: &Dataset, layers: &[LayerSpec]) -> Rows {
    let shapes = output_shapes(data.shape(), layers).unwrap();
    let row = |(layer, shape): (&LayerSpec, Vec<usize>)| {
        let specs = parameter_specs(std::slice::from_ref(layer));
        assert!(specs.len() < 2, "{} has a bias", layer.kind());
        let parameters = specs.iter().map(|spec| spec.shape.iter().product::<usize>()).sum();
        (layer.kind().to_owned(), shape, parameters)
    };
    layers
        .iter()
        .zip(shapes)
        .map(row)
        .filter(|row| !["Relu", "Flatten"].contains(&&*row.0))
        .collect()
}

fn expected(rows: &[(&str, &[usize], usize)]) -> Rows {
    rows.iter().map(|&(kind, shape, parameters)| (kind.into(), shape.into(), parameters)).collect()
}

fn total(rows: &Rows) -> usize {
    rows.iter().map(|row| row.2).sum()
}

#[test]
fn stevens_mnist_cnn_has_the_layers_of_figure_3() {
    let data = images(2, &[1, 28, 28], 10);
    let found = rows(&data, &models::stevens_mnist_cnn(&data).layers().unwrap());
    let figure = [
        ("Conv2d", &[16, 11, 11][..], 16 * 8 * 8),
        ("MaxPool2d", &[16, 10, 10], 0),
        ("Conv2d", &[32, 4, 4], 16 * 32 * 4 * 4),
        ("MaxPool2d", &[32, 3, 3], 0),
        ("Linear", &[32], 32 * 3 * 3 * 32),
        ("Linear", &[10], 32 * 10),
    ];
    assert_eq!(found, expected(&figure));
    assert_eq!(total(&found), 18_752);
    let model = models::stevens_mnist_cnn(&data).seed(1).build().unwrap();
    assert_eq!((model.num_parameters(), model.name()), (18_752, "stevens_mnist_cnn"));
}

#[test]
fn stevens_cifar_cnn_has_the_layers_of_figure_4() {
    let data = images(2, &[3, 32, 32], 10);
    let found = rows(&data, &models::stevens_cifar_cnn(&data).layers().unwrap());
    let figure = [
        ("Conv2d", &[32, 31, 31][..], 3 * 32 * 4),
        ("Conv2d", &[32, 30, 30], 32 * 32 * 4),
        ("AvgPool2d", &[32, 29, 29], 0),
        ("Conv2d", &[64, 28, 28], 32 * 64 * 4),
        ("Conv2d", &[64, 27, 27], 64 * 64 * 4),
        ("AvgPool2d", &[64, 26, 26], 0),
        ("Conv2d", &[128, 25, 25], 64 * 128 * 4),
        ("Conv2d", &[128, 24, 24], 128 * 128 * 4),
        ("AvgPool2d", &[128, 23, 23], 0),
        ("Conv2d", &[256, 22, 22], 128 * 256 * 4),
        ("Conv2d", &[256, 21, 21], 256 * 256 * 4),
        ("Linear", &[256], 256 * 21 * 21 * 256),
        ("Linear", &[10], 256 * 10),
    ];
    assert_eq!(found, expected(&figure));
    assert_eq!(total(&found), 29_424_512);
    // Images of as many channels as the first convolution has filters get the same layers.
    let wide = images(1, &[32, 12, 12], 10);
    let wide = rows(&wide, &models::stevens_cifar_cnn(&wide).layers().unwrap());
    assert_eq!(wide[2].0, "AvgPool2d");
}

#[test]
fn every_convolution_and_hidden_layer_is_followed_by_a_relu() {
    let (grey, colour) = (images(1, &[1, 20, 20], 10), images(1, &[3, 12, 12], 10));
    for (layers, relus) in [
        (models::stevens_mnist_cnn(&grey).layers().unwrap(), 3),
        (models::stevens_cifar_cnn(&colour).layers().unwrap(), 9),
    ] {
        let kinds: Vec<&str> = layers.iter().map(LayerSpec::kind).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "Relu").count(), relus);
        let trained = |kind: &str| ["Conv2d", "Linear"].contains(&kind);
        for pair in kinds.windows(2) {
            assert_eq!(trained(pair[0]), pair[1] == "Relu", "{kinds:?}");
        }
    }
}

#[test]
fn images_that_are_too_small_are_refused_with_the_smallest_size() {
    for (side, built) in [(20, true), (19, false)] {
        let result = models::stevens_mnist_cnn(&images(1, &[1, side, side], 10)).seed(1).build();
        assert_eq!(result.is_ok(), built);
        assert!(built || kind(result).1.contains("20 x 20"));
    }
    for (side, built) in [(12, true), (11, false)] {
        let result = models::stevens_cifar_cnn(&images(1, &[3, side, side], 10)).seed(1).build();
        assert_eq!(result.is_ok(), built);
        assert!(built || kind(result).1.contains("12 x 12"));
    }
}

/// An image, or features as an image of one pixel: channels, side, values.
struct Image(usize, usize, Vec<f64>);

impl Image {
    fn at(&self, channel: usize, row: usize, column: usize) -> f64 {
        self.2[(channel * self.1 + row) * self.1 + column]
    }

    /// The image of `channels` channels whose values are `value` of the channel and the corner of a
    /// window of `kernel` pixels.
    fn windows(
        &self,
        channels: usize,
        (kernel, stride): (usize, usize),
        value: impl Fn(usize, usize, usize) -> f64,
    ) -> Image {
        let side = (self.1 - kernel) / stride + 1;
        let coordinates = |i: usize| (i / side / side, i / side % side * stride, i % side * stride);
        let values = (0..channels * side * side)
            .map(|i| value(coordinates(i).0, coordinates(i).1, coordinates(i).2));
        Image(channels, side, values.collect())
    }

    /// Convolution with `weight`, `[filters, channels, kernel, kernel]`, and ReLU.
    fn conv(&self, weight: &[f32], (kernel, stride): (usize, usize)) -> Image {
        let filters = weight.len() / self.0 / kernel / kernel;
        self.windows(filters, (kernel, stride), |filter, row, column| {
            let weight = weight.chunks(weight.len() / filters).nth(filter).unwrap();
            let term = |(i, &w): (usize, &f32)| {
                let (channel, y, x) = (i / kernel / kernel, i / kernel % kernel, i % kernel);
                f64::from(w) * self.at(channel, row + y, column + x)
            };
            weight.iter().enumerate().map(term).sum::<f64>().max(0.0)
        })
    }

    /// `pool` of the four pixels of each 2 x 2 window, stride 1.
    fn pool(&self, pool: fn([f64; 4]) -> f64) -> Image {
        self.windows(self.0, (2, 1), |c, y, x| {
            pool([
                self.at(c, y, x),
                self.at(c, y, x + 1),
                self.at(c, y + 1, x),
                self.at(c, y + 1, x + 1),
            ])
        })
    }

    /// The product with `weight`, `[inputs, outputs]`.
    fn linear(&self, weight: &[f32], outputs: usize) -> Image {
        let sum = |output| {
            let column = weight.iter().skip(output).step_by(outputs);
            self.2.iter().zip(column).map(|(x, &w)| x * f64::from(w)).sum()
        };
        Image(outputs, 1, (0..outputs).map(sum).collect())
    }

    fn relu(self) -> Image {
        Image(self.0, self.1, self.2.into_iter().map(|x| x.max(0.0)).collect())
    }
}

/// The largest difference of the model's logits from `formula` of an image and the weights in
/// order, relative to the largest logit. (Deep networks without biases have small logits.)
fn difference<F: ModelFamily>(
    builder: ModelBuilder<F>,
    data: &Dataset,
    formula: impl Fn(Image, &[Vec<f32>]) -> Image,
) -> f64 {
    let model = builder.seed(3).build().unwrap();
    let weights: Vec<Vec<f32>> = model.network().values().into_iter().map(|(_, w)| w).collect();
    let features = data.train().features_flat().to_vec();
    let (n, shape) = (data.train().len(), data.shape());
    let image = |x: &[f32]| Image(shape[0], shape[1], x.iter().map(|&x| f64::from(x)).collect());
    let examples = features.chunks(features.len() / n);
    let wanted: Vec<f64> = examples.flat_map(|x| formula(image(x), &weights).2).collect();
    let found = crate::device::host::tensor_to_vec(model.network().logits(features, n));
    assert_eq!(found.len(), wanted.len());
    let most = |all: &mut dyn Iterator<Item = f64>| all.fold(0.0, |most: f64, x| most.max(x.abs()));
    let pairs = found.iter().zip(&wanted);
    most(&mut pairs.map(|(&found, wanted)| f64::from(found) - wanted))
        / most(&mut wanted.iter().copied())
}

fn max(window: [f64; 4]) -> f64 {
    window.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

fn mean(window: [f64; 4]) -> f64 {
    window.iter().sum::<f64>() / 4.0
}

#[test]
fn stevens_mnist_cnn_matches_its_formula() {
    let data = images(2, &[1, 28, 28], 10);
    let with = |pool: fn([f64; 4]) -> f64| {
        difference(models::stevens_mnist_cnn(&data), &data, |image, w| {
            let image = image.conv(&w[0], (8, 2)).pool(pool).conv(&w[1], (4, 2)).pool(pool);
            image.linear(&w[2], 32).relu().linear(&w[3], 10)
        })
    };
    assert!(with(max) < 1e-5, "{}", with(max));
    assert!(with(mean) > 1e-2, "another pooling: {}", with(mean));
}

#[test]
fn stevens_cifar_cnn_matches_its_formula() {
    let data = images(2, &[3, 13, 13], 10);
    let with = |pool: fn([f64; 4]) -> f64| {
        difference(models::stevens_cifar_cnn(&data), &data, |image, w| {
            let pair = |image: Image, i: usize| image.conv(&w[i], (2, 1)).conv(&w[i + 1], (2, 1));
            let image = pair(pair(pair(image, 0).pool(pool), 2).pool(pool), 4).pool(pool);
            pair(image, 6).linear(&w[8], 256).relu().linear(&w[9], 10)
        })
    };
    assert!(with(mean) < 1e-5, "{}", with(mean));
    assert!(with(max) > 1e-2, "another pooling: {}", with(max));
}

/// Models are read from their list of layers, so a name says nothing about the layers.
#[test]
fn a_file_of_the_former_stevens_cifar_cnn_keeps_its_layers() {
    let data = images(2, &[3, 8, 8], 10);
    let conv = |from, to| Conv2dSpec::new(from, to, 2).padding(1).without_bias();
    let former = crate::layers![
        conv(3, 4),
        Relu,
        conv(4, 4),
        Relu,
        AvgPool2dSpec::new(2),
        conv(4, 10),
        GlobalAvgPool,
    ];
    let family = models::sequential(&data, former.clone()).family;
    let model = ModelBuilder::new("stevens_cifar_cnn", &data, family).seed(1).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model.save(&path).unwrap();
    let back = models::load(&path).unwrap();
    assert_eq!((back.name(), back.network().specs()), ("stevens_cifar_cnn", &former[..]));
    assert_eq!(back.predict(&data).unwrap(), model.predict(&data).unwrap());
}
