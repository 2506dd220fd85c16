//! NVRTC and headers from the packages of PyPI, for CUDA 12 and 13. The variable
//! `EPSILAB_CUDA_PACKAGES` names folders with the packages `nvidia`, separated by colons; without
//! it these tests are skipped and say so.

use std::path::{Path, PathBuf};

use crate::machine::Machine;

fn packages(library: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("EPSILAB_CUDA_PACKAGES").unwrap_or_default();
    let found = std::env::split_paths(&folders).find(|folder| folder.join(library).exists());
    if found.is_none() {
        println!("skipped: EPSILAB_CUDA_PACKAGES names no folder with {library}");
    }
    found
}

/// Checks that `doctor` finds this NVRTC and compiles with it, and that the device is then refused
/// for what it is: one that computes nothing.
fn finds(cuda_path: &Path, driver: u32, version: &str, file: &str) {
    let machine = Machine::with_driver().set("CUDA_PATH", cuda_path.display());
    let machine = machine.set("STAND_IN_CUDA", driver);
    let doctor = machine.run_for(300, "doctor --json");
    let report: serde_json::Value = serde_json::from_str(&doctor.stdout).expect(&doctor.stderr);
    let cuda = &report["devices"]["cuda"];
    let error = cuda["error"].as_str().expect("an error");
    assert!(error.contains("does not compute correctly"), "{error}");
    assert!(cuda["nvrtc"].as_str().is_some_and(|found| found.starts_with(version)), "{cuda}");
    assert!(cuda["nvrtc_path"].as_str().is_some_and(|path| path.ends_with(file)), "{cuda}");
}

#[test]
fn packages_of_cuda_13_are_found_and_compile() {
    let file = "cu13/lib/libnvrtc.so.13";
    if let Some(packages) = packages(file) {
        finds(&packages.join("cu13"), 13090, "13.", file);
    }
}

#[test]
fn packages_of_cuda_12_are_found_and_compile() {
    let file = "cuda_nvrtc/lib/libnvrtc.so.12";
    if let Some(packages) = packages(file) {
        finds(&packages.join("cuda_runtime"), 12090, "12.", file);
    }
}
