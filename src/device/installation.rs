//! Installation for GPU computing of this machine: driver, kernel compiler, headers and GPUs.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::{Error, ErrorKind, Result};

/// A version as (major, minor).
pub type Version = (u32, u32);

/// The CUDA installation of this machine. Detecting it compiles a small kernel but runs nothing on
/// a GPU.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CudaInstallation {
    /// Whether the lab was built with the feature `cuda`. If not, all other fields are empty.
    pub compiled_in: bool,
    /// The newest CUDA version that the driver supports, if there is a driver.
    pub driver: Option<Version>,
    /// The version of NVRTC, which compiles kernels at their first use.
    pub nvrtc: Option<Version>,
    /// The file of NVRTC.
    pub nvrtc_path: Option<PathBuf>,
    /// The folder with CUDA's headers.
    pub headers: Option<PathBuf>,
    /// Error of NVRTC if it could not compile a small kernel with these headers.
    pub compile_error: Option<String>,
    /// The GPUs, in CUDA's order.
    pub gpus: Vec<Gpu>,
}

/// Description of one GPU.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// The name, such as `NVIDIA H200`.
    pub name: String,
    /// The total memory in bytes.
    pub memory: u64,
}

impl std::fmt::Display for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} GiB)", self.name, self.memory >> 30)
    }
}

impl CudaInstallation {
    /// Returns the installation of this machine, detected at the first call.
    pub fn current() -> &'static Self {
        static INSTALLATION: OnceLock<CudaInstallation> = OnceLock::new();
        INSTALLATION.get_or_init(|| {
            #[cfg(feature = "cuda")]
            return super::cuda::detect_installation();
            #[cfg(not(feature = "cuda"))]
            Self::default()
        })
    }

    /// Checks that everything that GPU `number` needs is there. Whether the GPU computes is known
    /// only after [`DeviceSpec::check`](super::DeviceSpec::check).
    ///
    /// # Errors
    /// `Device` with the first missing component, why it is needed, and where to get it.
    pub(crate) fn check_gpu(&self, number: usize) -> Result<()> {
        let missing = |what: &str, why: &str, fix: &str| {
            let what = format!("cuda:{number} can't be used: {what}");
            Err(Error::new(ErrorKind::Device, what, why).fix(fix))
        };
        if !self.compiled_in {
            return missing(
                "this lab was built without CUDA",
                "GPU support is a Cargo feature",
                "build in a clone with --features cuda (`cargo run -p epsilab-kernel --features \
                 cuda --bin epsilab -- doctor`), or use the device \"cpu\"",
            );
        }
        let Some(driver) = self.driver else {
            return missing(
                "no driver was found (libcuda.so.1)",
                "every computation on the GPU goes through the driver",
                "install the NVIDIA driver (`nvidia-smi` shows whether it works), or use the \
                 device \"cpu\"",
            );
        };
        if number >= self.gpus.len() {
            let what = format!("the driver sees {} GPU(s)", self.gpus.len());
            let fix = "check the number (GPUs are counted from 0) and CUDA_VISIBLE_DEVICES, which \
                       may hide GPUs, or use the device \"cpu\"";
            return missing(&what, "no GPU has this number", fix);
        }
        let packages = match driver.0 {
            ..=12 => {
                "nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12 \
                      nvidia-cuda-cccl-cu12"
            }
            _ => "nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl",
        };
        let install_fix = format!(
            "install the CUDA toolkit, or in the active Python environment: pip install \
             {packages}, of a version up to {}.{}, which this driver supports. For another folder, \
             set CUDA_PATH (SITE-PACKAGES/nvidia/cu13; CUDA 12: SITE-PACKAGES/nvidia/cuda_runtime)",
            driver.0, driver.1
        );
        let Some(nvrtc) = self.nvrtc else {
            return missing(
                "libnvrtc was not found",
                "NVRTC compiles the kernels at their first use",
                &install_fix,
            );
        };
        if nvrtc > driver {
            let what = format!(
                "NVRTC has CUDA version {}.{}, the driver supports up to {}.{}",
                nvrtc.0, nvrtc.1, driver.0, driver.1
            );
            return missing(&what, "the driver refuses kernels of a newer version", &install_fix);
        }
        if self.headers.is_none() {
            return missing(
                "CUDA's headers were not found",
                "the kernels include cuda_fp16.h, mma.h, cuda/barrier and others",
                &install_fix,
            );
        }
        if let Some(error) = &self.compile_error {
            let what = format!("NVRTC compiles no kernel: {error}");
            let why = "the kernels are compiled at their first use";
            return missing(&what, why, &install_fix);
        }
        Ok(())
    }
}

/// Checks that WGPU finds a GPU.
///
/// # Errors
/// `Device` if it finds none, or if the lab was built without the feature `wgpu`.
pub(super) fn check_wgpu() -> Result<()> {
    #[cfg(feature = "wgpu")]
    {
        use burn::tensor::{Device, DeviceType};
        let gpus = std::panic::catch_unwind(|| Device::enumerate(DeviceType::Wgpu).len());
        if gpus.is_ok_and(|gpus| gpus > 0) {
            return Ok(());
        }
        let why = "WGPU found no graphics driver";
        Err(Error::new(ErrorKind::Device, "wgpu can't be used: it finds no GPU", why).fix(
            "install a Vulkan driver (Debian: mesa-vulkan-drivers), or use the device \"cpu\"",
        ))
    }
    #[cfg(not(feature = "wgpu"))]
    {
        let why = "GPU support is a Cargo feature";
        Err(Error::new(ErrorKind::Device, "wgpu can't be used: this lab was built without it", why)
            .fix("build with --features wgpu, or use the device \"cpu\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> CudaInstallation {
        CudaInstallation {
            compiled_in: true,
            driver: Some((13, 0)),
            nvrtc: Some((12, 8)),
            nvrtc_path: Some("/usr/local/cuda/lib64/libnvrtc.so.12".into()),
            headers: Some("/usr/local/cuda/include".into()),
            compile_error: None,
            gpus: vec![Gpu { name: "NVIDIA H200".into(), memory: 140 << 30 }],
        }
    }

    #[test]
    fn the_error_names_the_first_missing_component_and_where_to_get_it() {
        let full = complete();
        assert!(full.check_gpu(0).is_ok());
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
            (
                CudaInstallation {
                    driver: Some((12, 8)),
                    compile_error: Some("cannot open source file".into()),
                    ..full.clone()
                },
                "cannot open source file",
                "nvidia-cuda-nvcc-cu12",
            ),
        ];
        for (installation, what, fix) in cases {
            let error = installation.check_gpu(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.advice().contains(fix), "{error}");
        }
        assert!(full.check_gpu(1).unwrap_err().to_string().contains("cuda:1"));
        assert_eq!(full.gpus[0].to_string(), "NVIDIA H200 (140 GiB)");
    }
}
