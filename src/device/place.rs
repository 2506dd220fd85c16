//! Which device to work on.

use std::fmt;

use burn::prelude::Device;

/// A device by its name: `cpu`, `cuda`, `cuda:1`, `wgpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// The CPU, by the lab's fused kernels.
    #[default]
    Cpu,
    /// A card of NVIDIA, counted from 0.
    Cuda(usize),
    /// Any other card, counted from 0.
    Wgpu(usize),
}

impl Place {
    /// Burn's device.
    pub(crate) fn device(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
            #[cfg(feature = "cuda")]
            Self::Cuda(number) => Device::cuda(number),
            #[cfg(feature = "wgpu")]
            Self::Wgpu(_) => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
            #[allow(unreachable_patterns)] // Reachable unless both features are on.
            _ => Device::flex(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Wgpu(number) => write!(f, "wgpu:{number}"),
        }
    }
}
