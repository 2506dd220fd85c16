//! Which device to work on: its name, whether it can work, and the choice where none is named.

use std::env::VarError;
use std::fmt;
use std::str::FromStr;

use burn::prelude::Device;
use burn::tensor::FloatDType;

use super::installation::{self, CudaInstallation};
use super::memory_budget;
use crate::{Error, ErrorKind, Result};

/// The variable that names the device where nothing else does.
pub const VARIABLE: &str = "EPSILAB_DEVICE";

/// A device by its name: `cpu`, `cuda`, `cuda:1`, `wgpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceSpec {
    /// The CPU, by the lab's fused kernels.
    #[default]
    Cpu,
    /// A GPU of NVIDIA, counted from 0 as CUDA counts them.
    Cuda(usize),
    /// The best other GPU that WGPU finds.
    Wgpu,
}

impl DeviceSpec {
    /// The device to work on where a plan names none: what the variable `EPSILAB_DEVICE` names,
    /// else the first CUDA GPU that can work, else the CPU. A GPU of another make is only taken
    /// when it is named.
    ///
    /// # Errors
    /// If the variable names no device, or one that can't work here: whoever names a GPU does not
    /// want to wait for the CPU by mistake.
    pub fn best() -> Result<Self> {
        match std::env::var(VARIABLE) {
            Ok(name) if !name.is_empty() && name != "auto" => name.parse::<Self>()?.checked(),
            Err(VarError::NotUnicode(name)) => name.to_string_lossy().parse::<Self>()?.checked(),
            _ if Self::Cuda(0).check().is_ok() => Ok(Self::Cuda(0)),
            _ => Ok(Self::Cpu),
        }
    }

    /// Itself, if it can work here.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn checked(self) -> Result<Self> {
        self.check().map(|()| self)
    }

    /// Whether the device can work here: the lab was built for it, and GPU, driver and what
    /// compiles kernels are there and fit together.
    ///
    /// # Errors
    /// `Device`, with what is missing and where to get it.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Cpu => Ok(()),
            Self::Cuda(number) => CudaInstallation::here().cuda(number),
            Self::Wgpu => installation::wgpu(),
        }
    }

    /// Whether a plan can be followed there: how much memory to use can be read, and the numbers that
    /// products are to be made of exist. Asked before anything is charged.
    ///
    /// # Errors
    /// `Setting` for a variable that is no number of MiB, `Device` if the GPU has no bf16.
    pub(crate) fn can_take(self, bf16: bool) -> Result<()> {
        if self == Self::Cpu {
            return Ok(());
        }
        memory_budget(&self.device())?;
        match bf16 && !self.device().supports_dtype(FloatDType::BF16) {
            false => Ok(()),
            true => {
                let what = format!("{self} has no bf16, which .precision(…) asks for");
                let why = "its products can't be made of such numbers";
                Err(Error::new(ErrorKind::Device, what, why).fix("leave it out, for f32"))
            }
        }
    }

    /// Burn's device. For one that can't work that is the CPU: [`check`](Self::check) first.
    pub fn device(self) -> Device {
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

    /// The device for a reader: `cuda:0, NVIDIA H200 (140 GiB)`, `cpu, 16 threads`.
    pub fn describe(self) -> String {
        match self {
            Self::Cpu => {
                let threads = std::thread::available_parallelism().map_or(1, usize::from);
                format!("cpu, {threads} threads")
            }
            Self::Cuda(number) => match CudaInstallation::here().gpus.get(number) {
                Some(gpu) => format!("{self}, {gpu}"),
                None => self.to_string(),
            },
            Self::Wgpu => self.to_string(),
        }
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
        let place = match lower.split_once(':') {
            None if lower == "cpu" => Some(Self::Cpu),
            None if lower == "cuda" => Some(Self::Cuda(0)),
            None if lower == "wgpu" => Some(Self::Wgpu),
            Some(("cuda", which)) => number(which).map(Self::Cuda),
            _ => None,
        };
        place.ok_or_else(|| {
            Error::new(ErrorKind::Device, format!("device = {name:?}"), "no device has this name")
                .fix("cpu, cuda, cuda:1 (the second GPU) or wgpu")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for place in [DeviceSpec::Cpu, DeviceSpec::Cuda(0), DeviceSpec::Cuda(3), DeviceSpec::Wgpu] {
            assert_eq!(place.to_string().parse::<DeviceSpec>().unwrap(), place);
        }
        assert_eq!("CUDA".parse::<DeviceSpec>().unwrap(), DeviceSpec::Cuda(0));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", "tpu"] {
            let error = wrong.parse::<DeviceSpec>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Device, "{wrong}");
            assert!(error.to_string().contains("cuda:1"), "{error}");
        }
    }

    #[test]
    fn a_device_that_cannot_work_says_why_and_the_cpu_always_works() {
        assert!(DeviceSpec::Cpu.check().is_ok());
        assert!(DeviceSpec::Cpu.describe().starts_with("cpu, "));
        let error = DeviceSpec::Cuda(4711).check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(!error.advice().is_empty(), "{error}");
    }
}
