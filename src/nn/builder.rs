//! From a recipe and a data set to a model.

use serde::{Deserialize, Serialize};

use super::init::{Draws, Initialisation, fresh_seed};
use super::{LayerSpec, Model, Network};
use crate::{Error, ErrorKind, Result};

/// The activation between layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Hyperbolic tangent: bounded, the usual choice for private training.
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
    pub(super) fn initialisation(self) -> Initialisation {
        match self {
            Self::Tanh | Self::Relu => Initialisation::Uniform,
            Self::Selu => Initialisation::LecunNormal,
        }
    }
}

/// Which layers a model gets once its data and its activation are known.
pub(super) type Recipe = fn(&ModelBuilder) -> Result<Vec<LayerSpec>>;

/// A model about to be built. Made by the functions of [`models`](super::models).
#[derive(Clone, Debug)]
pub struct ModelBuilder {
    pub(super) name: &'static str,
    pub(super) recipe: Recipe,
    pub(super) input_shape: Vec<usize>,
    pub(super) classes: usize,
    pub(super) hidden: Vec<usize>,
    pub(super) activation: Activation,
    pub(super) initialisation: Option<Initialisation>,
    pub(super) seed: Option<u64>,
}

impl ModelBuilder {
    /// The seed of the initial parameters; taken from the operating system if not given.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The activation between layers; tanh if not given.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// How the first parameters are drawn; if not given, as suits the activation:
    /// [`Initialisation::LecunNormal`] for SELU, [`Initialisation::Uniform`] for the others.
    pub fn initialisation(mut self, initialisation: Initialisation) -> Self {
        self.initialisation = Some(initialisation);
        self
    }

    /// Builds the model with fresh parameters; the same seed gives the same ones.
    ///
    /// # Errors
    /// If the data's shape does not suit the model, or the operating system gives no randomness.
    pub fn build(self) -> Result<Model> {
        if self.classes < 2 {
            let what = format!("classes = {}", self.classes);
            return Err(Error::new(ErrorKind::Model, what, "a classifier needs at least two"));
        }
        let specs = (self.recipe)(&self)?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => fresh_seed()?,
        };
        let how = self.initialisation.unwrap_or_else(|| self.activation.initialisation());
        let mut draws = Draws::new(seed, how);
        let network = Network::build_by(&self.input_shape, &specs, &mut |spec| draws.of(spec))?;
        let model = Model::new(self.name, self.classes, seed, network);
        Ok(if self.seed.is_some() { model } else { model.drawn_at_random() })
    }
}
