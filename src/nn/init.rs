//! The first numbers of parameters.

use rand::rngs::SysRng;
use rand::{Rng, SeedableRng, TryRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

use super::layers::{Init, ParameterSpec};
use crate::{Error, ErrorKind, Result};

/// How the first weights and biases are drawn. Whatever the choice, factors of normalisations and
/// gains start at 1, their shifts at 0, and rows of embeddings are standard normal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Initialisation {
    /// Uniform between ±1/√fan-in, weights and biases alike: PyTorch's default for linear and
    /// convolution layers.
    #[default]
    Uniform,
    /// Weights from N(0, 1/fan-in), biases 0 (LeCun et al., 1998): what SELU needs.
    LecunNormal,
    /// Weights from N(0, 2/fan-in), biases 0 (He et al., 2015): keeps the scale through ReLU.
    HeNormal,
}

/// Draws parameters one after the other. The same seed gives the same parameters.
pub(super) struct Draws {
    rng: ChaCha20Rng,
    how: Initialisation,
}

impl Draws {
    pub(super) fn new(seed: u64, how: Initialisation) -> Self {
        Self { rng: ChaCha20Rng::seed_from_u64(seed), how }
    }

    /// The first numbers of a parameter.
    pub(super) fn of(&mut self, spec: &ParameterSpec) -> Vec<f32> {
        let count = spec.shape.iter().product();
        let deviation = |fan_in: usize, gain: f64| (gain / fan_in as f64).sqrt();
        match (spec.init, self.how) {
            (Init::Weight { fan_in } | Init::Bias { fan_in }, Initialisation::Uniform) => {
                self.uniform(count, deviation(fan_in, 1.0))
            }
            (Init::Weight { fan_in }, Initialisation::LecunNormal) => {
                self.normal(count, deviation(fan_in, 1.0))
            }
            (Init::Weight { fan_in }, Initialisation::HeNormal) => {
                self.normal(count, deviation(fan_in, 2.0))
            }
            (Init::Bias { .. } | Init::Zeros, _) => vec![0.0; count],
            (Init::Ones, _) => vec![1.0; count],
            (Init::Normal, _) => self.normal(count, 1.0),
        }
    }

    /// Uniform between -bound and bound.
    fn uniform(&mut self, count: usize, bound: f64) -> Vec<f32> {
        (0..count).map(|_| ((2.0 * self.unit() - 1.0) * bound) as f32).collect()
    }

    /// Normal around 0 (Box & Muller, 1958).
    fn normal(&mut self, count: usize, deviation: f64) -> Vec<f32> {
        let draw = |_| {
            // 1 - unit lies in (0, 1]: its logarithm is finite.
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            (radius * (std::f64::consts::TAU * self.unit()).cos() * deviation) as f32
        };
        (0..count).map(draw).collect()
    }

    /// From [0, 1), 53 random bits.
    fn unit(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub(crate) fn fresh_seed() -> Result<u64> {
    SysRng.try_next_u64().map_err(|e| {
        Error::new(ErrorKind::Io, "the operating system gave no random seed", e.to_string())
            .fix("give one: .seed(1)")
    })
}
