//! From a recipe and a data set to a model.

use rand::rngs::SysRng;
use rand::{Rng, SeedableRng, TryRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

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
}

impl Activation {
    pub(super) fn spec(self) -> LayerSpec {
        match self {
            Self::Tanh => LayerSpec::Tanh,
            Self::Relu => LayerSpec::Relu,
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

    /// Builds the model with fresh parameters: uniform between ±1/√fan-in, weights and biases
    /// alike (PyTorch's default for linear and convolution layers). The same seed gives the same
    /// parameters on every machine.
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
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let network = Network::build(&self.input_shape, &specs, |_, shape, fan_in| {
            let bound = 1.0 / (fan_in as f64).sqrt();
            (0..shape.iter().product()).map(|_| uniform(&mut rng, bound)).collect()
        })?;
        let model = Model::new(self.name, self.classes, seed, network);
        Ok(if self.seed.is_some() { model } else { model.drawn_at_random() })
    }
}

/// Uniform between -bound and bound, from 53 random bits.
fn uniform(rng: &mut ChaCha20Rng, bound: f64) -> f32 {
    let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    ((2.0 * unit - 1.0) * bound) as f32
}

fn fresh_seed() -> Result<u64> {
    SysRng.try_next_u64().map_err(|e| {
        Error::new(ErrorKind::Io, "the operating system gave no random seed", e.to_string())
            .fix("give one: .seed(1)")
    })
}
