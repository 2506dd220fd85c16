//! Detection of CUDA: driver, NVRTC and headers are looked for at run time, never linked.

mod alias;
mod driver;
mod headers;
mod library;
mod nvrtc;

use super::installation::CudaInstallation;

/// Looks for the driver, GPUs, NVRTC and headers, and makes CubeCL use what was found.
pub(super) fn detect() -> CudaInstallation {
    let mut found = CudaInstallation { compiled_in: true, ..CudaInstallation::default() };
    let Some(driver) = driver::query() else { return found };
    found.driver = Some(driver.version);
    found.gpus = driver.gpus;
    let Some(nvrtc) = nvrtc::find(driver.version) else { return found };
    found.nvrtc = Some(nvrtc.version);
    found.nvrtc_path = Some(nvrtc.path.clone());
    found.headers = headers::find(&nvrtc.path);
    if let (Some(headers), Some(arch)) = (&found.headers, driver.architecture) {
        headers::announce(headers);
        found.compile_error = nvrtc.compile_test(headers, arch).err();
    }
    found
}
