//! What a machine has for GPUs: driver, compiler of kernels, headers, the GPUs themselves.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::{Error, ErrorKind, Result};

/// A version as (major, minor).
pub type Version = (u32, u32);

/// What there is for CUDA on this machine. Looking starts nothing and compiles nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CudaInstallation {
    /// Whether the lab was built with the feature `cuda`; nothing else was looked for if not.
    pub built: bool,
    /// The newest CUDA that the driver can run, if there is a driver.
    pub driver: Option<Version>,
    /// The version of NVRTC, which compiles kernels when they are first used.
    pub nvrtc: Option<Version>,
    /// The folder with CUDA's headers.
    pub headers: Option<PathBuf>,
    /// The GPUs, in CUDA's order.
    pub gpus: Vec<Gpu>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its name: `NVIDIA H200`.
    pub name: String,
    /// Its memory in bytes.
    pub memory: u64,
}

impl std::fmt::Display for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} GiB)", self.name, self.memory >> 30)
    }
}

impl CudaInstallation {
    /// Looks once; later calls have the same answer.
    pub fn here() -> &'static Self {
        static FOUND: OnceLock<CudaInstallation> = OnceLock::new();
        FOUND.get_or_init(|| {
            #[cfg(feature = "cuda")]
            return super::cuda::look();
            #[cfg(not(feature = "cuda"))]
            Self::default()
        })
    }

    /// Whether GPU `number` can work.
    ///
    /// # Errors
    /// `Device`: the first thing that is missing, why it is needed, where to get it.
    pub fn cuda(&self, number: usize) -> Result<()> {
        let missing = |what: &str, why: &str, fix: &str| {
            let what = format!("cuda:{number} can't be used: {what}");
            Err(Error::new(ErrorKind::Device, what, why).fix(fix))
        };
        if !self.built {
            return missing(
                "this lab was built without CUDA",
                "GPUs are a feature of the build",
                "build with --features cuda (`cargo lab` and `cargo build -p epsilab-kernel` take \
                 it), or use --device cpu",
            );
        }
        let Some(driver) = self.driver else {
            return missing(
                "there is no driver (libcuda.so.1)",
                "the driver runs what the GPU computes",
                "install NVIDIA's driver, or use --device cpu; `nvidia-smi` shows whether it works",
            );
        };
        if number >= self.gpus.len() {
            let what = format!("the driver sees {} GPU(s)", self.gpus.len());
            let fix = "GPUs are counted from 0; CUDA_VISIBLE_DEVICES may hide some; or use \
                       --device cpu";
            return missing(&what, "there is nothing to compute on", fix);
        }
        let wheel = format!(
            "install the CUDA toolkit; or pip install nvidia-cuda-nvrtc nvidia-cuda-runtime \
             nvidia-cuda-crt nvidia-cuda-cccl (for CUDA 12 the same names with -cu12) of a version \
             up to {}.{}, which this driver runs, and export CUDA_PATH=SITE-PACKAGES/nvidia/cu13 \
             (12: nvidia/cuda_runtime)",
            driver.0, driver.1
        );
        let Some(nvrtc) = self.nvrtc else {
            return missing(
                "libnvrtc was not found",
                "kernels are compiled by NVRTC when they are first used",
                &wheel,
            );
        };
        if nvrtc > driver {
            let what = format!(
                "NVRTC is of CUDA {}.{}, the driver runs up to {}.{}",
                nvrtc.0, nvrtc.1, driver.0, driver.1
            );
            return missing(&what, "the driver would refuse what NVRTC compiles", &wheel);
        }
        if self.headers.is_none() {
            return missing(
                "CUDA's headers were not found",
                "the kernels include cuda_fp16.h and others",
                &wheel,
            );
        }
        Ok(())
    }
}

/// Whether WGPU finds a GPU.
pub(super) fn wgpu() -> Result<()> {
    #[cfg(feature = "wgpu")]
    {
        use burn::tensor::{Device, DeviceType};
        let gpus = std::panic::catch_unwind(|| Device::enumerate(DeviceType::Wgpu).len());
        if gpus.is_ok_and(|gpus| gpus > 0) {
            return Ok(());
        }
        let why = "WGPU found no graphics driver";
        Err(Error::new(ErrorKind::Device, "wgpu can't be used: there is no GPU for it", why)
            .fix("install a Vulkan driver (Debian: mesa-vulkan-drivers), or use --device cpu"))
    }
    #[cfg(not(feature = "wgpu"))]
    {
        let why = "GPUs are a feature of the build";
        Err(Error::new(ErrorKind::Device, "wgpu can't be used: this lab was built without it", why)
            .fix("build with --features wgpu, or use --device cpu"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> CudaInstallation {
        CudaInstallation {
            built: true,
            driver: Some((13, 0)),
            nvrtc: Some((12, 8)),
            headers: Some("/usr/local/cuda/include".into()),
            gpus: vec![Gpu { name: "NVIDIA H200".into(), memory: 140 << 30 }],
        }
    }

    #[test]
    fn the_first_thing_that_is_missing_is_named_with_where_to_get_it() {
        let full = complete();
        assert!(full.cuda(0).is_ok());
        let cases = [
            (CudaInstallation::default(), "built without CUDA", "--features cuda"),
            (CudaInstallation { driver: None, ..full.clone() }, "no driver", "nvidia-smi"),
            (
                CudaInstallation { gpus: vec![], ..full.clone() },
                "sees 0 GPU",
                "CUDA_VISIBLE_DEVICES",
            ),
            (CudaInstallation { nvrtc: None, ..full.clone() }, "libnvrtc", "nvidia-cuda-nvrtc"),
            (
                CudaInstallation { nvrtc: Some((13, 1)), ..full.clone() },
                "up to 13.0",
                "nvidia-cuda-nvrtc",
            ),
            (CudaInstallation { headers: None, ..full.clone() }, "headers", "CUDA_PATH"),
        ];
        for (found, what, fix) in cases {
            let error = found.cuda(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.advice().contains(fix), "{error}");
        }
        assert!(full.cuda(1).unwrap_err().to_string().contains("cuda:1"));
        assert_eq!(full.gpus[0].to_string(), "NVIDIA H200 (140 GiB)");
    }
}
