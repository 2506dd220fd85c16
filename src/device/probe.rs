//! Probe of a device: a small test computation that is compared with the CPU.
//!
//! A driver, a compiler and a GPU that are all found may still not work together, and some such
//! combinations report no failure at all. So a device is only used once it has computed something.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use burn::prelude::*;

use super::kernels::{self, NoiseParams};
use super::rehearsal::{accept_stub_device, is_rehearsal};
use super::{DeviceGuard, DeviceSpec, host};
use crate::{Error, ErrorKind, Result, program};

/// Longest wait for a device. It includes compiling the kernels.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Result of the probe that is compared with the CPU's.
struct ProbeResult {
    name: &'static str,
    values: Vec<f32>,
    /// Largest difference from the CPU's value that counts as rounding.
    tolerance: f32,
}

/// Results of the last probe of each device in this process.
static PROBE_CACHE: Mutex<Vec<(DeviceSpec, Result<()>)>> = Mutex::new(Vec::new());

/// Checks that the device computes: products and sums of Burn, norms and noise of the lab's own
/// kernels, compared with the CPU's. Probes each device once per process.
///
/// # Errors
/// `Device` with the failure, or with the result that was wrong.
pub(super) fn probe(device: DeviceSpec) -> Result<()> {
    let known =
        lock_probe_cache().iter().find(|(known, _)| *known == device).map(|(_, r)| r.clone());
    known.unwrap_or_else(|| reprobe(device))
}

/// Probes the device as [`probe`] does, whatever was found before: after a failure, a device may
/// be lost.
pub(crate) fn reprobe(device: DeviceSpec) -> Result<()> {
    if device == DeviceSpec::Cpu {
        return Ok(());
    }
    let result = run(device);
    let mut probed = lock_probe_cache();
    probed.retain(|(known, _)| *known != device);
    probed.push((device, result.clone()));
    result
}

fn lock_probe_cache() -> MutexGuard<'static, Vec<(DeviceSpec, Result<()>)>> {
    // Entries are added whole, so a poisoned lock is harmless.
    PROBE_CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(device: DeviceSpec) -> Result<()> {
    let (sender, receiver) = channel();
    // In a thread of its own, because a call of the driver may never return.
    let probing = std::thread::Builder::new().name("device probe".into()).spawn(move || {
        let computed = DeviceGuard::new(device).run(|| compute(&device.burn_device()));
        let _ = sender.send(computed);
    });
    probing.map_err(|e| Error::io("starting a thread that probes the device", &e))?;
    let computed = match receiver.recv_timeout(TIME_LIMIT) {
        Ok(computed) => computed,
        Err(RecvTimeoutError::Timeout) => {
            let why = format!("a small test did not end within {} s", TIME_LIMIT.as_secs());
            return Err(unusable(device, "the device does not answer", why));
        }
        Err(RecvTimeoutError::Disconnected) => {
            return Err(unusable(
                device,
                "the test ended without a result",
                "the cause is unknown",
            ));
        }
    };
    let parts = computed.map_err(|error| {
        let why = "a device is used only after it has passed a small test";
        unusable(device, error.what(), why)
    })?;
    let compared = compare(device, &parts, &compute(&DeviceSpec::Cpu.burn_device())?);
    if compared.is_err() && is_rehearsal() {
        accept_stub_device();
        return Ok(());
    }
    compared
}

/// Computes the results of the probe.
fn compute(device: &Device) -> Result<Vec<ProbeResult>> {
    // Small integers: their products and sums are exact in every precision that a device may use.
    let matrix = |rows: usize, columns: usize, step: usize| {
        let values = (0..rows * columns).map(|i| ((i * step) % 9) as f32 - 4.0).collect::<Vec<_>>();
        Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), device)
    };
    let (a, b) = (matrix(48, 40, 7), matrix(40, 24, 5));
    let noise = NoiseParams::new([3; 32], 1, 0, 1.0);
    let results = [
        ("product", 0.0, a.clone().matmul(b).reshape([-1])),
        ("sum", 0.0, a.clone().sum_dim(0).reshape([-1])),
        ("norm", 1e-3, kernels::row_norms(a, None)),
        ("noise", 1e-3, kernels::add_noise(Tensor::zeros([256], device), noise, None)),
    ];
    let read =
        host::try_tensors_to_vecs(results.iter().map(|(.., values)| values.clone()).collect())?;
    let parts = results.into_iter().zip(read);
    Ok(parts
        .map(|((name, tolerance, _), values)| ProbeResult { name, values, tolerance })
        .collect())
}

fn compare(device: DeviceSpec, parts: &[ProbeResult], expected: &[ProbeResult]) -> Result<()> {
    for (part, expected) in parts.iter().zip(expected) {
        let wrong = part.values.iter().zip(&expected.values).find(|(value, expected)| {
            value.is_nan() || (**value - **expected).abs() > part.tolerance
        });
        if let Some((value, expected)) = wrong {
            let why = format!("in a small test a {} was {value} instead of {expected}", part.name);
            return Err(unusable(device, "the device does not compute correctly", why));
        }
    }
    Ok(())
}

fn unusable(device: DeviceSpec, what: &str, why: impl Into<String>) -> Error {
    let what = format!("{device} can't be used: {what}");
    Error::new(ErrorKind::Device, what, why).fix(format!(
        "see `{}` and `nvidia-smi`, then restart the program or kernel, because the test runs once \
         per process; or use the device \"cpu\"",
        program::command("doctor")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_results_pass_and_each_wrong_one_is_named() {
        let device = DeviceSpec::Cuda(0);
        let results = || compute(&DeviceSpec::Cpu.burn_device()).unwrap();
        assert!(compare(device, &results(), &results()).is_ok());
        for part in 0..results().len() {
            for wrong in [f32::NAN, 0.5, f32::INFINITY] {
                let mut values = results();
                *values[part].values.last_mut().unwrap() = wrong;
                let error = compare(device, &values, &results()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Device);
                assert!(error.to_string().contains(values[part].name), "{error}");
            }
            // A device that computes nothing leaves its memory as it was.
            for memory in [0.0, f32::NAN] {
                let mut nothing = results();
                nothing[part].values.fill(memory);
                let error = compare(device, &nothing, &results()).unwrap_err();
                assert!(error.to_string().contains("does not compute"), "{error}");
            }
        }
        assert!(probe(DeviceSpec::Cpu).is_ok());
    }
}
