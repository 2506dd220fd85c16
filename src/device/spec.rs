//! [`DeviceSpec`]: the name of a device, whether it can be used, and the default device.

use std::fmt;
use std::str::FromStr;

use burn::prelude::Device;
use burn::tensor::FloatDType;

use super::installation::{self, CudaInstallation};
use super::{memory_budget, probe, with_rehearsal_mark};
use crate::{Error, ErrorKind, Result};

/// The environment variable that names the default device.
pub const DEVICE_VARIABLE: &str = "EPSILAB_DEVICE";

/// Name of a device: `cpu`, `cuda` (the same as `cuda:0`), `cuda:1`, `wgpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceSpec {
    /// The CPU.
    #[default]
    Cpu,
    /// The NVIDIA GPU of this number, in CUDA's order from 0.
    Cuda(usize),
    /// The default GPU of WGPU.
    Wgpu,
}

impl DeviceSpec {
    /// Returns the default device, for plans that name none: the one that the environment variable
    /// `EPSILAB_DEVICE` names, else the first usable CUDA GPU, else the CPU.
    ///
    /// WGPU is used only if it is named.
    ///
    /// # Errors
    /// `Device` if the variable names no device or one that can't be used: there is no silent
    /// fallback to the CPU.
    pub fn auto() -> Result<Self> {
        match std::env::var_os(DEVICE_VARIABLE) {
            Some(name) if !name.is_empty() && name != "auto" => {
                name.to_string_lossy().parse::<Self>()?.checked()
            }
            _ if Self::Cuda(0).check().is_ok() => Ok(Self::Cuda(0)),
            _ => Ok(Self::Cpu),
        }
    }

    /// Returns whether the device is the CPU.
    pub(crate) fn is_cpu(self) -> bool {
        self == Self::Cpu
    }

    /// Returns this device, if it can be used.
    ///
    /// # Errors
    /// `Device` with what is missing and where to get it, or with what failed in the test.
    pub fn checked(self) -> Result<Self> {
        self.check().map(|()| self)
    }

    /// Checks that the device can be used: the lab was built for it; GPU, driver and kernel
    /// compiler are present and compatible; and the device has computed: products, sums, norms and
    /// noise of a small test, compared with the CPU's. The test runs once per process and takes a
    /// few seconds, because it compiles its kernels.
    ///
    /// # Errors
    /// `Device` with what is missing and where to get it, or with what failed in the test.
    pub fn check(self) -> Result<()> {
        self.check_installed()?;
        probe::probe(self)
    }

    /// Checks the requirements of [`check`](Self::check) that start nothing on the device.
    ///
    /// # Errors
    /// `Device` with what is missing and where to get it.
    pub fn check_installed(self) -> Result<()> {
        match self {
            Self::Cpu => Ok(()),
            Self::Cuda(number) => CudaInstallation::current().check_gpu(number),
            Self::Wgpu => installation::check_wgpu(),
        }
    }

    /// Checks that a run can use the device: the memory budget is valid, and the device supports
    /// bf16 if the run asks for it. Called before anything is charged.
    ///
    /// # Errors
    /// `Setting` if `EPSILAB_DEVICE_MEMORY` is invalid, `Device` if the device has no bf16.
    pub(crate) fn check_run(self, bf16: bool) -> Result<()> {
        if self == Self::Cpu {
            return Ok(());
        }
        memory_budget(&self.burn_device())?;
        if bf16 && !self.burn_device().supports_dtype(FloatDType::BF16) {
            let what = format!("{self} has no bf16, which .precision(…) asks for");
            let why = "the device's matrix products do not support this type";
            Err(Error::new(ErrorKind::Device, what, why)
                .fix("remove .precision(…) to train in f32"))
        } else {
            Ok(())
        }
    }

    /// Returns Burn's device. Call [`check`](Self::check) first: for a device that the lab was not
    /// built for, this is the CPU.
    pub fn burn_device(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
            #[cfg(feature = "cuda")]
            Self::Cuda(number) => Device::cuda(number),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
            #[allow(unreachable_patterns)] // Unless the lab was built without either.
            _ => Device::flex(),
        }
    }

    /// Returns the name of one of Burn's devices.
    pub(crate) fn from_device(device: &Device) -> Self {
        if *device == Device::flex() {
            return Self::Cpu;
        }
        let cuda = (0..CudaInstallation::current().gpus.len()).map(Self::Cuda);
        cuda.into_iter().find(|spec| spec.burn_device() == *device).unwrap_or(Self::Wgpu)
    }

    /// Returns a description for display, such as `cuda:0, NVIDIA H200 (140 GiB)` or
    /// `cpu, 16 threads`. In a rehearsal, for which `EPSILAB_REHEARSAL` is 1, it says so.
    pub fn describe(self) -> String {
        let gpu = match self {
            Self::Cpu => {
                let threads = std::thread::available_parallelism().map_or(1, usize::from);
                return format!("cpu, {threads} threads");
            }
            Self::Cuda(number) => CudaInstallation::current().gpus.get(number),
            Self::Wgpu => None,
        };
        with_rehearsal_mark(&gpu.map_or_else(|| self.to_string(), |gpu| format!("{self}, {gpu}")))
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Wgpu => f.write_str("wgpu"),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let lower = name.trim().to_ascii_lowercase();
        let number = |text: &str| text.parse().ok();
        let spec = match lower.split_once(':') {
            None if lower == "cpu" => Some(Self::Cpu),
            None if lower == "cuda" => Some(Self::Cuda(0)),
            None if lower == "wgpu" => Some(Self::Wgpu),
            Some(("cuda", index)) => number(index).map(Self::Cuda),
            _ => None,
        };
        spec.ok_or_else(|| {
            Error::new(ErrorKind::Device, format!("device = {name:?}"), "unknown device")
                .fix("use cpu, cuda, cuda:1 (the second GPU) or wgpu")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip_and_others_are_refused() {
        for spec in [DeviceSpec::Cpu, DeviceSpec::Cuda(0), DeviceSpec::Cuda(3), DeviceSpec::Wgpu] {
            assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
        }
        assert_eq!("CUDA".parse::<DeviceSpec>().unwrap(), DeviceSpec::Cuda(0));
        for invalid in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", "tpu"] {
            let error = invalid.parse::<DeviceSpec>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Device, "{invalid}");
            assert!(error.to_string().contains("cuda:1"), "{error}");
        }
    }

    #[test]
    fn an_unusable_device_has_a_reason_and_the_cpu_is_always_usable() {
        assert!(DeviceSpec::Cpu.check().is_ok());
        assert!(DeviceSpec::Cpu.describe().starts_with("cpu, "));
        let error = DeviceSpec::Cuda(4711).check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(!error.advice().is_empty(), "{error}");
    }
}
