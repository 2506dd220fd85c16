//! Detection of CUDA: driver, NVRTC and headers are looked for at run time, never linked.

mod driver;
mod headers;
#[cfg(feature = "autotune")]
mod kernel_cache;
mod library;
mod library_alias;
mod nvrtc;

use std::path::{Path, PathBuf};

use super::installation::CudaInstallation;

/// Looks for the driver, GPUs, NVRTC and headers, and configures CubeCL to use them (sets
/// `CUDA_PATH`).
pub(super) fn detect_installation() -> CudaInstallation {
    let mut found = CudaInstallation { compiled_in: true, ..CudaInstallation::default() };
    let Some(driver) = driver::query() else { return found };
    found.driver = Some(driver.version);
    found.gpus = driver.gpus;
    #[cfg(feature = "autotune")]
    kernel_cache::keep(&found.gpus);
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

/// Returns the lab's folder in the user's cache.
fn user_cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    cache.or_else(home).unwrap_or_else(std::env::temp_dir).join("epsilab")
}
