//! The devices that can train.

use epsilab::Result;
use epsilab::device::{CudaInstallation, DEVICE_VARIABLE, DeviceSpec, is_rehearsal};
use serde_json::{Value, json};

use super::{Check, CheckStatus};

/// Checks the CPU and the GPUs. A GPU that can't be used needs no action unless the environment
/// asks for it.
pub fn check() -> Check {
    let (cuda, wgpu) = (CudaInstallation::current(), DeviceSpec::Wgpu.check());
    let gpus: Vec<DeviceSpec> = (0..cuda.gpus.len().max(1)).map(DeviceSpec::Cuda).collect();
    let works: Vec<Result<()>> = gpus.iter().map(|gpu| gpu.check()).collect();
    let mut devices = vec![DeviceSpec::Cpu.describe()];
    devices.extend(gpus.iter().zip(&works).map(|(gpu, works)| match works {
        Ok(()) if is_rehearsal() => gpu.describe(),
        Ok(()) => format!("{}, computes correctly", gpu.describe()),
        Err(error) => error.what().to_owned(),
    }));
    devices.push(wgpu.as_ref().map_or_else(|error| error.what().to_owned(), |()| "wgpu".into()));
    let version = |version: Option<(u32, u32)>| version.map(|(a, b)| format!("{a}.{b}"));
    let names: Value = (0..cuda.gpus.len()).map(|n| format!("cuda:{n}")).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let facts = json!({
        "cpu": {"threads": threads},
        "cuda": {"built_in": cuda.compiled_in, "found": names, "driver": version(cuda.driver),
            "nvrtc": version(cuda.nvrtc), "nvrtc_path": cuda.nvrtc_path, "headers": cuda.headers,
            "works": works[0].is_ok(),
            "error": works[0].as_ref().err().map(ToString::to_string),
            "cards": cuda.gpus.iter().map(ToString::to_string).collect::<Vec<_>>()},
        "wgpu": {"built_in": cfg!(feature = "wgpu"), "works": wgpu.is_ok()},
        "default": DeviceSpec::auto().ok().map(|device| device.to_string()),
        "rehearsal": is_rehearsal(),
    });
    let what = devices.join("\n");
    let (state, todo) = match (DeviceSpec::auto(), &works[0]) {
        // The environment names a device that can't be used, so no training would start.
        (Err(error), _) => (
            CheckStatus::Action,
            format!("{DEVICE_VARIABLE}: {}. {}", error.what(), error.advice()),
        ),
        // There is a GPU, but it does not work.
        (Ok(_), Err(error)) if cuda.driver.is_some() => {
            (CheckStatus::Note, error.advice().to_owned())
        }
        (Ok(_), _) => (CheckStatus::Ok, String::new()),
    };
    Check::new("devices", state, what).with_advice(todo).with_details(facts)
}
