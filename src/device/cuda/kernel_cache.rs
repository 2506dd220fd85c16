//! Cache of compiled kernels and the choices among them, shared by successive processes.
//!
//! A first step compiles hundreds of kernels, because every candidate for an operation is compiled
//! and measured. CubeCL can keep the results in a database, but puts it into the `target` folder
//! of the nearest Cargo project, and does not keep compiled kernels unless told to.

use std::path::PathBuf;

use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

use super::super::installation::Gpu;
use super::super::rehearsal::is_rehearsal;
use super::user_cache;

/// Makes CubeCL keep its results in the user's cache, in a database for these GPUs. A `cubecl.toml`
/// and CubeCL's own variables still decide everything else.
///
/// The compiled kernels belong to one build of the program. A cache that can't be read or written
/// costs time and nothing else.
pub(super) fn keep(gpus: &[Gpu]) {
    let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
    config.compilation.cache = true;
    config.environment.path = CacheConfig::Directory(folder());
    config.environment.name = name(gpus);
    // False if a program that uses the library has configured CubeCL itself.
    CubeClRuntimeConfig::try_set(config);
}

fn folder() -> PathBuf {
    user_cache().join("kernels")
}

/// Returns the name of the database for these GPUs: what is fastest on one GPU need not be so on
/// another, and home directories are shared between machines. The choices of a rehearsal, which
/// measures nothing, stay apart.
fn name(gpus: &[Gpu]) -> String {
    let mut names = gpus.iter().map(|gpu| gpu.name.as_str()).collect::<Vec<_>>();
    names.dedup();
    let start = if is_rehearsal() { "rehearsal " } else { "" };
    let all = format!("{start}{}", names.join(" "));
    let letters = all.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    letters.collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_for_each_kind_of_gpu() {
        let gpu = |name: &str| Gpu { name: name.into(), memory: 0 };
        let (h100, a100) = (gpu("NVIDIA H100 80GB HBM3"), gpu("NVIDIA A100-SXM4/40GB"));
        let alone = name(std::slice::from_ref(&h100));
        assert_eq!(alone, "nvidia-h100-80gb-hbm3");
        assert_eq!(alone, name(&[h100.clone(), h100.clone()]));
        assert_eq!(name(std::slice::from_ref(&a100)), "nvidia-a100-sxm4-40gb");
        assert_ne!(alone, name(&[h100, a100]));
    }
}
