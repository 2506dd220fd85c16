//! Memory budgets, and waiting for a device.

use burn::prelude::*;

use crate::{Error, Result};

/// Memory budget of each CPU thread, in bytes: fits the caches and a small machine.
const CPU_BUDGET: usize = 1 << 26;
/// The default memory budget of a GPU, in bytes.
const DEFAULT_GPU_BUDGET: usize = 8 << 30;
/// The environment variable that sets the memory budget of a GPU, in MiB.
const MEMORY_VARIABLE: &str = "EPSILAB_DEVICE_MEMORY";

/// Returns the memory, in bytes, that one chunk of examples may use on this device.
///
/// For a GPU it is the environment variable `EPSILAB_DEVICE_MEMORY` (in MiB) if set, else 8 GiB.
/// Parameters, optimizer state and data need further memory on the GPU.
///
/// # Errors
/// `Setting` if the variable is not a positive integer.
pub(crate) fn memory_budget(device: &Device) -> Result<usize> {
    if *device == Device::flex() {
        return Ok(CPU_BUDGET);
    }
    let set = std::env::var_os(MEMORY_VARIABLE);
    set.map_or(Ok(DEFAULT_GPU_BUDGET), |text| parse_mebibytes(&text.to_string_lossy()))
}

fn parse_mebibytes(mebibytes: &str) -> Result<usize> {
    let count = mebibytes.trim().parse::<usize>().ok().filter(|&count| count > 0);
    count.and_then(|count| count.checked_mul(1 << 20)).ok_or_else(|| {
        let why = "the memory budget of a GPU must be a positive whole number of MiB";
        Error::setting(MEMORY_VARIABLE, mebibytes, why).fix("try 8192 for 8 GiB, or unset it")
    })
}

/// Waits until the device has computed these values. Counts as one of
/// [`host_sync_count`](super::host_sync_count).
///
/// GPU work is asynchronous: a failed allocation or kernel launch marks its output buffers, and all
/// buffers computed from them, as failed. The failure is reported when such a buffer is read.
/// Waiting for the device alone does not report it.
///
/// # Errors
/// The device's error message.
pub(crate) fn synchronize(values: Vec<Tensor<1>>) -> std::result::Result<(), String> {
    super::host::try_tensors_to_vecs(values).map(drop).map_err(|error| error.what().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_in_mebibytes() {
        assert_eq!(parse_mebibytes(" 3 ").unwrap(), 3 << 20);
        for invalid in ["", "0", "-1", "8 GiB", "1e3", "99999999999999999999"] {
            let error = parse_mebibytes(invalid).unwrap_err().to_string();
            assert!(error.contains(MEMORY_VARIABLE) && error.contains("8192"), "{error}");
        }
        assert_eq!(memory_budget(&Device::flex()).unwrap(), CPU_BUDGET);
    }
}
