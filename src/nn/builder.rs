//! [`ModelBuilder`]: builds a model of a family for a data set.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::init::{Initialisation, Initialiser, os_random_seed};
use super::{LayerSpec, Model, Network};
use crate::data::Dataset;
use crate::{Error, ErrorKind, Result};

/// The activation function between layers.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(2, 0, 1)?;
/// let model = models::mlp(&data, &[16]).activation(Activation::Relu).build()?;
/// assert!(model.layers().iter().any(|layer| layer.kind == "Relu"));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Hyperbolic tangent. It is bounded, which suits private training of small networks (Papernot
    /// et al., 2020, "Tempered sigmoid activations for deep learning with differential privacy").
    #[default]
    Tanh,
    /// max(0, x).
    Relu,
    /// Scaled exponential linear unit (Klambauer et al., 2017, "Self-normalizing neural
    /// networks"). It keeps mean 0 and variance 1 without normalisation layers.
    Selu,
}

impl Activation {
    pub(super) fn spec(self) -> LayerSpec {
        match self {
            Self::Tanh => LayerSpec::Tanh,
            Self::Relu => LayerSpec::Relu,
            Self::Selu => LayerSpec::Selu,
        }
    }

    /// Returns the default initialisation of models with this activation.
    fn initialisation(self) -> Initialisation {
        match self {
            Self::Tanh | Self::Relu => Initialisation::Uniform,
            Self::Selu => Initialisation::LecunNormal,
        }
    }
}

/// Shape, classes and activation from which a model family chooses its layers.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The shape of one example.
    pub input_shape: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
    /// The activation between layers.
    pub activation: Activation,
}

/// A model family: chooses the layers for a data set and an activation.
pub trait ModelFamily: Clone {
    /// Returns the layers of the model, from one example to one logit per class.
    ///
    /// # Errors
    /// If the shape of the examples does not suit the family, or an option is out of range.
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerSpec>>;
}

/// Model family whose only options are a list of sizes.
#[derive(Clone, Debug)]
pub struct SizedFamily {
    layers: fn(&ModelConfig, &[usize]) -> Result<Vec<LayerSpec>>,
    sizes: Vec<usize>,
}

impl ModelFamily for SizedFamily {
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerSpec>> {
        (self.layers)(config, &self.sizes)
    }
}

/// Builder of a [`Model`]. The functions of [`models`](super::models) return one.
#[derive(Clone, Debug)]
pub struct ModelBuilder<F = SizedFamily> {
    name: String,
    pub(super) family: F,
    config: ModelConfig,
    initialisation: Option<Initialisation>,
    seed: Option<u64>,
}

/// Factory of the initial model of each seed: a [`ModelBuilder`], or a function of the seed. The
/// model of a seed must be the same in every call.
///
/// ```
/// use epsilab::nn::ModelFactory;
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(100, 20, 1)?;
/// let by_function = |seed| models::mlp(&data, &[8]).seed(seed).build();
/// let by_builder = models::mlp(&data, &[8]);
/// assert_eq!(by_function.model(3)?.num_parameters(), by_builder.model(3)?.num_parameters());
/// # Ok::<(), Error>(())
/// ```
pub trait ModelFactory {
    /// Returns the model of a seed.
    ///
    /// # Errors
    /// As building the model.
    fn model(&self, seed: u64) -> Result<Model>;
}

impl<F: ModelFamily> ModelFactory for ModelBuilder<F> {
    fn model(&self, seed: u64) -> Result<Model> {
        self.clone().seed(seed).build()
    }
}

impl<F: Fn(u64) -> Result<Model>> ModelFactory for F {
    fn model(&self, seed: u64) -> Result<Model> {
        self(seed)
    }
}

impl<F> fmt::Display for ModelBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<_> = self.config.input_shape.iter().map(ToString::to_string).collect();
        let (name, shape, classes) = (&self.name, shape.join("x"), self.config.classes);
        write!(f, "{name} for examples of {shape} and {classes} classes; `.build()?` makes it")
    }
}

impl ModelBuilder<SizedFamily> {
    /// Creates a builder of the layers that `layers` returns for the data's shape and `sizes`.
    pub(super) fn sized(
        name: &str,
        data: &Dataset,
        sizes: &[usize],
        layers: fn(&ModelConfig, &[usize]) -> Result<Vec<LayerSpec>>,
    ) -> Self {
        Self::new(name, data, SizedFamily { layers, sizes: sizes.to_vec() })
    }
}

impl<F: ModelFamily> ModelBuilder<F> {
    pub(super) fn new(name: &str, data: &Dataset, family: F) -> Self {
        let config = ModelConfig {
            input_shape: data.shape().to_vec(),
            classes: data.classes(),
            activation: Activation::default(),
        };
        Self { name: name.to_owned(), family, config, initialisation: None, seed: None }
    }

    /// Sets the seed of the initial parameters. The default is a seed from the operating system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the activation between layers. The default depends on the family.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.config.activation = activation;
        self
    }

    /// Sets the distribution of the initial parameters. The default depends on the activation:
    /// [`Initialisation::LecunNormal`] for SELU, [`Initialisation::Uniform`] for the others.
    pub fn initialisation(mut self, initialisation: Initialisation) -> Self {
        self.initialisation = Some(initialisation);
        self
    }

    /// Returns the layers of the model that [`build`](Self::build) makes.
    ///
    /// # Errors
    /// If the data's shape does not suit the model, or an option is out of range.
    pub fn layers(&self) -> Result<Vec<LayerSpec>> {
        self.family.layers(&self.config)
    }

    /// Builds the model on the CPU with initial parameters. Equal seeds give equal parameters.
    ///
    /// # Errors
    /// If the data has fewer than two classes, if its shape does not suit the model, if an option
    /// is out of range, or if the operating system gives no random seed.
    pub fn build(self) -> Result<Model> {
        let ModelConfig { classes, ref input_shape, activation } = self.config;
        if classes < 2 {
            let what = format!("classes = {classes}");
            return Err(Error::new(ErrorKind::Model, what, "a classifier needs at least two")
                .fix("use data with labels of two or more classes"));
        }
        let specs = self.layers()?;
        let seed = self.seed.map_or_else(os_random_seed, Ok)?;
        let initialisation = self.initialisation.unwrap_or_else(|| activation.initialisation());
        let mut initialiser = Initialiser::new(seed, initialisation);
        let network =
            Network::build_from_specs(input_shape, &specs, &mut |spec| initialiser.draw(spec))?;
        if network.outputs() != classes {
            let what = format!("{} with {} outputs", self.name, network.outputs());
            let why = format!("the data has {classes} classes");
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("end in a linear layer with one output per class"));
        }
        let model = Model::new(&self.name, classes, seed, network);
        Ok(model.with_initial_provenance(self.seed.is_some(), initialisation))
    }
}
