//! Initialisation of parameters.

use rand::rngs::SysRng;
use rand::{Rng, SeedableRng, TryRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

use super::layers::{ParameterInit, ParameterSpec};
use crate::{Error, ErrorKind, Result};

/// Distribution of the initial weights and biases.
///
/// It applies to linear layers, convolutions and LSTMs. With every choice, scales of normalisation
/// layers and gains start at 1, shifts of normalisation layers at 0, and embeddings are drawn from
/// N(0, 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Initialisation {
    /// Weights and biases from U(-1/√fan-in, 1/√fan-in): PyTorch's default for linear and
    /// convolution layers. The fan-in of an LSTM's parameters is its hidden size, as in PyTorch.
    #[default]
    Uniform,
    /// Weights from N(0, 1/fan-in), biases 0 (LeCun et al., 1998, "Efficient backprop"). SELU
    /// needs it.
    LecunNormal,
    /// Weights from N(0, 2/fan-in), biases 0 (He et al., 2015, "Delving deep into rectifiers").
    /// It keeps the scale of activations through ReLU layers.
    HeNormal,
}

/// Source of initial parameters, drawn from one seeded random stream in the order of the calls.
pub(super) struct Initialiser {
    rng: ChaCha20Rng,
    initialisation: Initialisation,
}

impl Initialiser {
    pub(super) fn new(seed: u64, initialisation: Initialisation) -> Self {
        Self { rng: ChaCha20Rng::seed_from_u64(seed), initialisation }
    }

    /// Draws the initial values of a parameter, row-major.
    pub(super) fn draw(&mut self, spec: &ParameterSpec) -> Vec<f32> {
        let count = spec.shape.iter().product();
        let scale = |fan_in: usize, gain: f64| (gain / fan_in as f64).sqrt();
        match (spec.init, self.initialisation) {
            (
                ParameterInit::Weight { fan_in } | ParameterInit::Bias { fan_in },
                Initialisation::Uniform,
            ) => self.uniform(count, scale(fan_in, 1.0)),
            (ParameterInit::Weight { fan_in }, Initialisation::LecunNormal) => {
                self.normal(count, scale(fan_in, 1.0))
            }
            (ParameterInit::Weight { fan_in }, Initialisation::HeNormal) => {
                self.normal(count, scale(fan_in, 2.0))
            }
            (ParameterInit::Bias { .. } | ParameterInit::Zeros, _) => vec![0.0; count],
            (ParameterInit::Ones, _) => vec![1.0; count],
            (ParameterInit::Normal, _) => self.normal(count, 1.0),
        }
    }

    /// Draws samples of U(-bound, bound).
    fn uniform(&mut self, count: usize, bound: f64) -> Vec<f32> {
        (0..count).map(|_| ((2.0 * self.unit() - 1.0) * bound) as f32).collect()
    }

    /// Draws samples of N(0, std²) by the Box-Muller transform (Box & Muller, 1958).
    fn normal(&mut self, count: usize, std: f64) -> Vec<f32> {
        let draw = |_| {
            // 1 - unit lies in (0, 1], so its logarithm is finite.
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            (radius * (std::f64::consts::TAU * self.unit()).cos() * std) as f32
        };
        (0..count).map(draw).collect()
    }

    /// Draws a sample of U[0, 1) with 53 random bits.
    fn unit(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws a random seed from the operating system.
///
/// # Errors
/// If the operating system gives none.
pub(crate) fn os_random_seed() -> Result<u64> {
    SysRng.try_next_u64().map_err(|e| {
        Error::new(ErrorKind::Io, "the operating system provided no random seed", e.to_string())
            .fix("choose one with .seed(1)")
    })
}
