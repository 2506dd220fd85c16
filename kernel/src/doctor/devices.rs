//! The devices that can train.

use epsilab::device::{CudaInstallation, DEVICE_VARIABLE, DeviceSpec};
use serde_json::{Value, json};

use super::{Check, State};

/// Checks the CPU and the GPUs. A GPU that can't be used needs no action unless the environment
/// asks for it.
pub fn check() -> Check {
    let (cuda, wgpu) = (CudaInstallation::detect(), DeviceSpec::Wgpu.check());
    let mut said = vec![DeviceSpec::Cpu.describe()];
    said.push(match DeviceSpec::Cuda(0).check() {
        Ok(()) => (0..cuda.gpus.len())
            .map(|n| DeviceSpec::Cuda(n).describe())
            .collect::<Vec<_>>()
            .join("\n"),
        Err(error) => error.what().to_owned(),
    });
    said.push(wgpu.as_ref().map_or_else(|error| error.what().to_owned(), |()| "wgpu".into()));
    let version = |version: Option<(u32, u32)>| version.map(|(a, b)| format!("{a}.{b}"));
    let names: Value = (0..cuda.gpus.len()).map(|n| format!("cuda:{n}")).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let facts = json!({
        "cpu": {"threads": threads},
        "cuda": {"built_in": cuda.compiled_in, "found": names, "driver": version(cuda.driver),
            "nvrtc": version(cuda.nvrtc), "headers": cuda.headers,
            "works": DeviceSpec::Cuda(0).check().is_ok(),
            "cards": cuda.gpus.iter().map(ToString::to_string).collect::<Vec<_>>()},
        "wgpu": {"built_in": cfg!(feature = "wgpu"), "works": wgpu.is_ok()},
        "default": DeviceSpec::auto().ok().map(|place| place.to_string()),
    });
    let (what, facts) = (said.join("\n"), facts);
    match DeviceSpec::auto() {
        // The environment names a device that can't be used, so no training would start.
        Err(error) => Check::new("devices", State::Action, what).todo(format!(
            "{DEVICE_VARIABLE}: {}. {}",
            error.what(),
            error.advice()
        )),
        // There is a GPU, but part of its software is missing.
        Ok(_) if cuda.driver.is_some() => match cuda.check_gpu(0) {
            Err(error) => Check::new("devices", State::Note, what).todo(error.advice()),
            Ok(()) => Check::new("devices", State::Ok, what),
        },
        Ok(_) => Check::new("devices", State::Ok, what),
    }
    .facts(facts)
}
