//! Scaled weight standardisation.

use std::fmt;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Scaled weight standardisation of a convolution, per output channel (Brock et al., 2021,
/// "Characterizing signal propagation to close the performance gap in unnormalized ResNets"; used
/// with privacy by De et al., 2022): the weight that is used is
/// gain (w - mean) / √guarded(variance · fan-in), with the biased variance over the inputs of the
/// channel. Gradients flow through it to the raw weight, which is the parameter.
///
/// # Guarantee
/// The parameter whose gradient is clipped is the raw weight. Gradients by the weight that was
/// used have another norm: an executor must pull them back first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standardisation {
    /// Whether each output channel has a trainable factor, initially 1.
    pub gain: bool,
    /// What keeps the division away from 0.
    pub guard: Guard,
}

/// What keeps the division of a weight standardisation away from 0, for a scaled variance v.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// v + e.
    Add(f64),
    /// The larger of v and e (De et al., 2022, in their code).
    AtLeast(f64),
}

impl Standardisation {
    /// The usual form: with a gain, and a variance of at least 1e-4.
    pub fn scaled() -> Self {
        Self { gain: true, guard: Guard::AtLeast(1e-4) }
    }

    pub(super) fn check(&self) -> Result<()> {
        let (Guard::Add(e) | Guard::AtLeast(e)) = self.guard;
        if e > 0.0 && e.is_finite() {
            return Ok(());
        }
        let why = "a channel whose weights are all equal would be divided by zero";
        Err(Error::setting("guard", e, why).fix("use a small positive number: 1e-4"))
    }

    /// The weight that is used: `raw` is `[channels out, channels in, height, width]`, `gain`
    /// `[channels out]`.
    pub fn apply(&self, raw: Tensor<4>, gain: Option<Tensor<1>>) -> Tensor<4> {
        let shape = raw.dims();
        let (channels, fan_in) = (shape[0], shape[1] * shape[2] * shape[3]);
        let w = raw.reshape([channels, fan_in]);
        let centred = w.clone() - w.mean_dim(1);
        let v = (centred.clone() * centred.clone()).sum_dim(1);
        let guarded_variance = match self.guard {
            Guard::Add(e) => v + e,
            Guard::AtLeast(e) => v.clamp_min(e),
        };
        let scaled = centred / guarded_variance.sqrt();
        let scaled = match gain {
            Some(gain) => scaled * gain.reshape([channels, 1]),
            None => scaled,
        };
        scaled.reshape(shape)
    }
}

impl fmt::Display for Standardisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.gain { "standardised, with gain" } else { "standardised" })
    }
}
