//! From a recipe and a data set to a model.

use serde::{Deserialize, Serialize};

use super::init::{Draws, Initialisation, fresh_seed};
use super::{LayerSpec, Model, Network};
use crate::data::Dataset;
use crate::{Error, ErrorKind, Result};

/// The activation between layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Hyperbolic tangent: bounded, the usual choice for private training of small networks.
    #[default]
    Tanh,
    /// max(0, x).
    Relu,
    /// Scaled exponential linear unit: keeps mean 0 and variance 1 without normalisation.
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

    /// What models with this activation start from unless they are told otherwise.
    fn initialisation(self) -> Initialisation {
        match self {
            Self::Tanh | Self::Relu => Initialisation::Uniform,
            Self::Selu => Initialisation::LecunNormal,
        }
    }
}

/// What a recipe is told.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The shape of one example.
    pub input_shape: Vec<usize>,
    /// Classes to tell apart.
    pub classes: usize,
    /// The activation between layers.
    pub activation: Activation,
}

/// A recipe: which layers a model of the family gets, once data and activation are known.
pub trait Family: Clone {
    /// The layers, from the examples to one number per class.
    ///
    /// # Errors
    /// If the data does not suit the family.
    fn layers(&self, frame: &Frame) -> Result<Vec<LayerSpec>>;
}

/// A recipe without options of its own.
#[derive(Clone, Debug)]
pub struct Plain {
    recipe: fn(&Frame, &[usize]) -> Result<Vec<LayerSpec>>,
    sizes: Vec<usize>,
}

impl Family for Plain {
    fn layers(&self, frame: &Frame) -> Result<Vec<LayerSpec>> {
        (self.recipe)(frame, &self.sizes)
    }
}

/// A model about to be built. Made by the functions of [`models`](super::models).
#[derive(Clone, Debug)]
pub struct ModelBuilder<F = Plain> {
    name: String,
    pub(super) family: F,
    frame: Frame,
    initialisation: Option<Initialisation>,
    seed: Option<u64>,
}

impl ModelBuilder<Plain> {
    /// A recipe that needs the data's shape and a few sizes.
    pub(super) fn plain(
        name: &str,
        data: &Dataset,
        sizes: &[usize],
        recipe: fn(&Frame, &[usize]) -> Result<Vec<LayerSpec>>,
    ) -> Self {
        Self::new(name, data, Plain { recipe, sizes: sizes.to_vec() })
    }
}

impl<F: Family> ModelBuilder<F> {
    pub(super) fn new(name: &str, data: &Dataset, family: F) -> Self {
        let frame = Frame {
            input_shape: data.shape().to_vec(),
            classes: data.classes(),
            activation: Activation::default(),
        };
        Self { name: name.to_owned(), family, frame, initialisation: None, seed: None }
    }

    /// The seed of the initial parameters; taken from the operating system if not given.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The activation between layers, instead of the family's own.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.frame.activation = activation;
        self
    }

    /// How the first parameters are drawn; if not given, as suits the activation:
    /// [`Initialisation::LecunNormal`] for SELU, [`Initialisation::Uniform`] for the others.
    pub fn initialisation(mut self, initialisation: Initialisation) -> Self {
        self.initialisation = Some(initialisation);
        self
    }

    /// The layers that [`build`](Self::build) will make.
    ///
    /// # Errors
    /// If the data's shape does not suit the model.
    pub fn layers(&self) -> Result<Vec<LayerSpec>> {
        self.family.layers(&self.frame)
    }

    /// Builds the model with fresh parameters; the same seed gives the same ones.
    ///
    /// # Errors
    /// If the data's shape does not suit the model, or the operating system gives no randomness.
    pub fn build(self) -> Result<Model> {
        let Frame { classes, ref input_shape, activation } = self.frame;
        if classes < 2 {
            let what = format!("classes = {classes}");
            return Err(Error::new(ErrorKind::Model, what, "a classifier needs at least two"));
        }
        let specs = self.layers()?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => fresh_seed()?,
        };
        let how = self.initialisation.unwrap_or_else(|| activation.initialisation());
        let mut draws = Draws::new(seed, how);
        let network = Network::build_by(input_shape, &specs, &mut |spec| draws.of(spec))?;
        if network.outputs() != classes {
            let what = format!("{} with {} outputs", self.name, network.outputs());
            let why = format!("the data has {classes} classes");
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("end in a linear layer with one output per class"));
        }
        Ok(Model::new(&self.name, classes, seed, network).drawn(self.seed.is_some()))
    }
}
