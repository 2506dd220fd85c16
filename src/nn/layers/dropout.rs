//! Dropout.

use burn::module::Module;
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use crate::device::DeviceArray;
use crate::nn::{BatchTensor, Tape};
use crate::{Error, Result};

/// Specification of a [`Dropout`] layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DropoutSpec {
    /// The probability that a value is dropped, in \[0, 1).
    pub rate: f64,
}

impl DropoutSpec {
    pub(super) fn check(&self) -> Result<()> {
        if (0.0..1.0).contains(&self.rate) {
            return Ok(());
        }
        let why = "the probability of dropping a value must be at least 0 and below 1";
        Err(Error::setting("rate", self.rate, why).fix("try 0.1, or 0.5"))
    }

    pub(super) fn build(&self) -> Dropout {
        Dropout { rate: self.rate }
    }
}

/// Dropout (Srivastava et al., 2014, "Dropout: a simple way to prevent neural networks from
/// overfitting"): during training, sets each value to 0 with probability `rate` and divides the
/// others by 1 - `rate`. It is the identity in prediction.
///
/// The masks come from the tape. The mask of an example does not depend on the other examples of
/// its batch.
#[derive(Module, Debug)]
pub struct Dropout {
    /// The probability that a value is dropped.
    pub rate: f64,
}

impl Dropout {
    /// Creates dropout with probability `rate`.
    ///
    /// # Errors
    /// If the rate is not in \[0, 1).
    pub fn new(rate: f64) -> Result<Self> {
        let spec = DropoutSpec { rate };
        spec.check()?;
        Ok(spec.build())
    }

    /// Computes `x` times the mask of the tape; `x` if the tape returns none.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let Some(mask) = tape.dropout_mask(self.rate, &x.dims()) else { return x };
        let device = x.device().without_autodiff();
        x.map(
            |x| masked(x, &mask, &device),
            |x| masked(x, &mask, &device),
            |x| masked(x, &mask, &device),
        )
    }
}

fn masked<const D: usize>(x: Tensor<D>, mask: &DeviceArray, device: &Device) -> Tensor<D> {
    let mask = mask.to_tensor(device).reshape(x.dims());
    x * mask
}
