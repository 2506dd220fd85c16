//! How much memory there is to work in.

use std::env::VarError;

use burn::prelude::*;

use crate::{Error, Result};

/// Of each thread on the CPU, in bytes: what its caches and a small machine hold.
const CPU: usize = 1 << 26;
/// Of a GPU, in bytes, unless somebody says otherwise: 8 GiB.
const GPU: usize = 8 << 30;
/// Where somebody says otherwise, in MiB.
const VARIABLE: &str = "EPSILAB_DEVICE_MEMORY";

/// The memory, in bytes, that one chunk of examples may take on this device. For a GPU that is
/// the environment variable `EPSILAB_DEVICE_MEMORY` (in MiB) if it is set, else 8 GiB: parameters,
/// the optimiser, the data and other programs are on the GPU too.
///
/// # Errors
/// If the variable is no positive whole number.
pub fn memory_budget(device: &Device) -> Result<usize> {
    if *device == Device::flex() {
        return Ok(CPU);
    }
    match std::env::var(VARIABLE) {
        Ok(mebibytes) => parsed(&mebibytes),
        Err(VarError::NotUnicode(text)) => parsed(&text.to_string_lossy()),
        Err(VarError::NotPresent) => Ok(GPU),
    }
}

fn parsed(mebibytes: &str) -> Result<usize> {
    let number = mebibytes.trim().parse::<usize>().ok().filter(|&number| number > 0);
    number.and_then(|number| number.checked_mul(1 << 20)).ok_or_else(|| {
        let why = "it is the memory of the GPU to work in, a positive number of MiB";
        Error::setting(VARIABLE, mebibytes, why).fix("try 8192 for 8 GiB, or unset it")
    })
}

/// Waits until the device has made these numbers. Counts as one of [`host_syncs`](super::host_syncs).
///
/// A GPU is told what to do and does it later: an allocation or a launch that failed is
/// remembered with the numbers it was to write, and with all that were to be made of them, and
/// comes to light when such numbers are read. Waiting for the device alone does not tell.
///
/// # Errors
/// What the device says went wrong, in its own words.
pub(crate) fn synchronize(numbers: Tensor<1>) -> std::result::Result<(), String> {
    if numbers.device() != Device::flex() {
        super::host_syncs::count();
    }
    numbers.try_into_data().map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_counts_in_mebibytes() {
        assert_eq!(parsed(" 3 ").unwrap(), 3 << 20);
        for wrong in ["", "0", "-1", "8 GiB", "1e3", "99999999999999999999"] {
            let error = parsed(wrong).unwrap_err().to_string();
            assert!(error.contains(VARIABLE) && error.contains("8192"), "{error}");
        }
        assert_eq!(memory_budget(&Device::flex()).unwrap(), CPU);
    }
}
