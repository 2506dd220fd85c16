//! Scaled weight standardisation.

use std::fmt;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Scaled weight standardisation of a convolution (Brock et al., 2021, "Characterizing signal
/// propagation to close the performance gap in unnormalized ResNets"; used with differential
/// privacy by De et al., 2022).
///
/// For each output channel, the convolution uses gain · (w - mean) / √guard(variance · fan-in)
/// instead of the raw weight w, with the biased variance over the inputs of the channel. The
/// parameters are the raw weight and the gain.
///
/// # Guarantee
/// Per-example gradients are clipped with respect to the parameters. The gradient with respect to
/// the standardised weight has another norm, so an executor must back-propagate it to the
/// parameters before it computes norms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standardisation {
    /// Whether each output channel has a trainable gain, initially 1.
    pub gain: bool,
    /// The guard against division by 0.
    pub guard: Guard,
}

/// The guard of a weight standardisation against division by 0, for a scaled variance
/// v = variance · fan-in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// v + e.
    Add(f64),
    /// max(v, e), as in the code of De et al. (2022).
    AtLeast(f64),
}

impl Standardisation {
    /// The form of De et al. (2022): with a gain, and a scaled variance of at least 1e-4.
    pub fn scaled() -> Self {
        Self { gain: true, guard: Guard::AtLeast(1e-4) }
    }

    pub(super) fn check(&self) -> Result<()> {
        let (Guard::Add(e) | Guard::AtLeast(e)) = self.guard;
        if e > 0.0 && e.is_finite() {
            return Ok(());
        }
        let why = "a channel whose weights are all equal would be divided by zero";
        Err(Error::setting("guard", e, why).fix("use a small positive number, such as 1e-4"))
    }

    /// The standardised weight, `[channels out, channels in / groups, height, width]`, of the raw
    /// weight of this shape and the gain `[channels out]`.
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
