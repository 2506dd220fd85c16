//! The models to measure. The first four are those of the benchmarks of other libraries.

use epsilab::data::{self, Dataset};
use epsilab::nn::{Activation, AvgPool2dSpec, LayerSpec, MaxPool2dSpec, Model, models};
use epsilab::{Error, Result};

use crate::options::suggest_names;

/// Vocabulary size of the text model.
const VOCABULARY: u32 = 20_000;

/// Kind of features.
#[derive(Clone, Copy, Debug)]
pub enum Features {
    /// Standard normal numbers.
    Pixels,
    /// Whole numbers below the size of the vocabulary.
    Tokens(u32),
}

/// A model and its input.
#[derive(Debug)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// The usual batch size.
    pub batch: usize,
    /// Shape of one example.
    pub shape: &'static [usize],
    pub features: Features,
    pub classes: u32,
    /// Too large for most CPUs: measured only if named.
    pub large: bool,
    activation: Activation,
    build: fn(&Dataset, Activation, seed: u64) -> Result<Model>,
}

/// All models, in the order of measurement.
pub const ZOO: &[Entry] = &[
    Entry {
        name: "papernot_cnn",
        batch: 256,
        shape: &[1, 28, 28],
        features: Features::Pixels,
        classes: 10,
        large: false,
        activation: Activation::Relu,
        build: |data, act, seed| models::papernot_cnn(data).activation(act).seed(seed).build(),
    },
    Entry {
        name: "simple_vgg",
        batch: 256,
        shape: &[3, 32, 32],
        features: Features::Pixels,
        classes: 10,
        large: false,
        activation: Activation::Tanh,
        build: |data, act, seed| {
            models::simple_vgg(data, &[32, 64, 128], 2).activation(act).seed(seed).build()
        },
    },
    Entry {
        name: "wide_resnet_16_4",
        batch: 64,
        shape: &[3, 32, 32],
        features: Features::Pixels,
        classes: 10,
        large: false,
        activation: Activation::Relu,
        build: |data, act, seed| {
            models::wide_resnet(data, 16, 4).activation(act).seed(seed).build()
        },
    },
    Entry {
        name: "bilstm",
        batch: 256,
        shape: &[64],
        features: Features::Tokens(VOCABULARY),
        classes: 4,
        large: false,
        // An LSTM has fixed activations.
        activation: Activation::Tanh,
        build: |data, _, seed| models::bilstm(data, VOCABULARY as usize, 64, 64).seed(seed).build(),
    },
    Entry {
        name: "mlp",
        batch: 256,
        shape: &[784],
        features: Features::Pixels,
        classes: 10,
        large: false,
        activation: Activation::Relu,
        build: |data, act, seed| models::mlp(data, &[512, 256]).activation(act).seed(seed).build(),
    },
    Entry {
        name: "resnet18",
        batch: 256,
        shape: &[3, 32, 32],
        features: Features::Pixels,
        classes: 10,
        large: true,
        activation: Activation::Relu,
        build: |data, act, seed| models::resnet18(data).activation(act).seed(seed).build(),
    },
    Entry {
        name: "resnet50",
        batch: 16,
        shape: &[3, 64, 64],
        features: Features::Pixels,
        classes: 10,
        large: true,
        activation: Activation::Relu,
        build: |data, act, seed| models::resnet50(data).activation(act).seed(seed).build(),
    },
    Entry {
        name: "stevens_mnist_cnn",
        batch: 256,
        shape: &[1, 28, 28],
        features: Features::Pixels,
        classes: 10,
        large: false,
        activation: Activation::Relu,
        build: |data, act, seed| models::stevens_mnist_cnn(data).activation(act).seed(seed).build(),
    },
    Entry {
        name: "stevens_cifar_cnn",
        batch: 64,
        shape: &[3, 32, 32],
        features: Features::Pixels,
        classes: 10,
        large: true,
        activation: Activation::Relu,
        build: |data, act, seed| models::stevens_cifar_cnn(data).activation(act).seed(seed).build(),
    },
];

/// Wide ResNets of several depths and widths, measured only if named.
macro_rules! wide_resnets {
    ($($name:literal: $depth:literal, $width:literal;)*) => {
        &[$(Entry {
            name: $name,
            batch: 32,
            shape: &[3, 32, 32],
            features: Features::Pixels,
            classes: 10,
            large: true,
            activation: Activation::Relu,
            build: |data, act, seed| {
                models::wide_resnet(data, $depth, $width).activation(act).seed(seed).build()
            },
        }),*]
    };
}

/// Models of which only a size differs, to see how the time of a step grows.
const SIZE_VARIANTS: &[Entry] = wide_resnets! {
    "wide_resnet_10_2": 10, 2;
    "wide_resnet_16_1": 16, 1;
    "wide_resnet_16_2": 16, 2;
    "wide_resnet_16_8": 16, 8;
    "wide_resnet_22_2": 22, 2;
    "wide_resnet_28_2": 28, 2;
};

/// The entry with this name.
pub fn find(name: &str) -> Result<&'static Entry> {
    ZOO.iter().chain(SIZE_VARIANTS).find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = ZOO.iter().map(|entry| entry.name).collect();
        Error::setting("--models", name, "no model of this name is measured")
            .fix(suggest_names(name, &names))
    })
}

impl Entry {
    /// Builds the model, with the same parameters every time.
    pub fn model(&self) -> Result<Model> {
        self.with(self.activation)
    }

    /// Builds the model with a smooth activation and average pooling, to compare gradients.
    ///
    /// Rounding decides the sign of a ReLU input near 0 and which of two almost equal values is the
    /// maximum of a window, and either changes gradients by far more than rounding: by up to 1/100
    /// and 1/20.
    pub fn smooth_model(&self) -> Result<Model> {
        let model = self.with(Activation::Tanh)?;
        let layers = with_average_pooling(model.network().specs());
        models::sequential(&self.example()?, layers).seed(model.seed()).build()
    }

    /// Builds the model with this activation.
    pub fn with(&self, activation: Activation) -> Result<Model> {
        (self.build)(&self.example()?, activation, 1)
    }

    /// A data set of one example: a model only needs the shape and the classes of its data.
    fn example(&self) -> Result<Dataset> {
        let size = self.shape.iter().product();
        data::from_vecs(vec![0.0; size], self.shape, vec![0], self.classes as usize)
    }
}

/// These layers with average pooling instead of max pooling.
fn with_average_pooling(layers: &[LayerSpec]) -> Vec<LayerSpec> {
    let layers = layers.iter().cloned().map(|layer| match layer {
        LayerSpec::MaxPool2d(MaxPool2dSpec { kernel, stride }) => {
            AvgPool2dSpec { kernel, stride }.into()
        }
        LayerSpec::Group(mut group) => {
            group.layers = with_average_pooling(&group.layers);
            group.into()
        }
        LayerSpec::Residual(mut block) => {
            block.body = with_average_pooling(&block.body);
            block.shortcut = with_average_pooling(&block.shortcut);
            block.into()
        }
        other => other,
    });
    layers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_the_expected_size() {
        // The first four are the parameter counts of the same models in other benchmarks.
        let expected = [
            26_010, 550_570, 2_748_890, 1_347_076, 535_818, 11_172_170, 23_513_162, 18_752,
            29_424_512,
        ];
        assert_eq!(ZOO.len(), expected.len());
        for (entry, parameters) in ZOO.iter().zip(expected) {
            assert_eq!(entry.model().unwrap().num_parameters(), parameters, "{}", entry.name);
        }
        // Their names say what they are.
        let wider = |name| find(name).unwrap().model().unwrap().num_parameters() as f64;
        let ratio = wider("wide_resnet_16_8") / wider("wide_resnet_16_4");
        assert!((3.8..4.0).contains(&ratio), "{ratio}");
        let ratio = wider("wide_resnet_28_2") / wider("wide_resnet_16_2");
        assert!((2.0..2.2).contains(&ratio), "{ratio}");
    }
}
