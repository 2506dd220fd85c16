//! Dropout.

use burn::module::Module;
use burn::prelude::*;
use serde::{Deserialize, Serialize};

use crate::device::DeviceArray;
use crate::nn::{Tape, Value};
use crate::{Error, Result};

/// Dropout: the share of values set to 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DropoutSpec {
    /// The probability of each value to be dropped, in [0, 1).
    pub rate: f64,
}

impl DropoutSpec {
    pub(super) fn check(&self) -> Result<()> {
        if (0.0..1.0).contains(&self.rate) {
            return Ok(());
        }
        let why = "it is the probability of a value to be dropped, at least 0 and below 1";
        Err(Error::setting("rate", self.rate, why).fix("try 0.1, or 0.5"))
    }

    pub(super) fn build(&self) -> Dropout {
        Dropout { rate: self.rate }
    }
}

/// Sets each value to 0 with probability `rate` and divides the others by 1 - `rate` while
/// training; does nothing when predicting (Srivastava et al., 2014).
///
/// The masks come from the tape: they belong to the batch, one for each example, and never
/// depend on who else is in it.
#[derive(Module, Debug)]
pub struct Dropout {
    /// The probability of each value to be dropped.
    pub rate: f64,
}

impl Dropout {
    /// Dropout at this rate.
    ///
    /// # Errors
    /// If the rate is below 0, or 1 or more.
    pub fn new(rate: f64) -> Result<Self> {
        let spec = DropoutSpec { rate };
        spec.check()?;
        Ok(spec.build())
    }

    /// The values that are kept.
    pub fn forward(&self, x: Value, tape: &mut dyn Tape) -> Value {
        let Some(mask) = tape.dropout(self.rate, &x.dims()) else { return x };
        let device = x.device().without_autodiff();
        x.map(|x| keep(x, &mask, &device), |x| keep(x, &mask, &device), |x| keep(x, &mask, &device))
    }
}

fn keep<const D: usize>(x: Tensor<D>, mask: &DeviceArray, device: &Device) -> Tensor<D> {
    let mask = mask.tensor(device).reshape(x.dims());
    x * mask
}
