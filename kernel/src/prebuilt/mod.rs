//! The lab as cells link it: one dylib built once, the shim package around it, and the stamp that
//! says for which toolchain and sources it was built.

use std::path::PathBuf;

use epsilab::Result;

/// The very toolchain that built this binary: cells, rust-analyzer and the dylib all use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// `<sysroot>/bin/rustc`.
    pub rustc: PathBuf,
    /// `<sysroot>/bin/cargo`.
    pub cargo: PathBuf,
    /// The folder that `rustc --print sysroot` names.
    pub sysroot: PathBuf,
    /// Full commit hash of rustc.
    pub commit: String,
    /// Release, such as `1.95.0`.
    pub version: String,
    /// Host triple.
    pub host: String,
}

/// A prebuilt lab that matches this binary.
#[derive(Clone, Debug)]
pub struct Lab {
    /// `<target>/lab`: `lib/`, `shim/`, `stamp.json`.
    pub dir: PathBuf,
    /// The toolchain it was built with.
    pub toolchain: Toolchain,
    /// What a kernelspec has to set so that the kernel starts wherever Jupyter is.
    pub env: Vec<(String, String)>,
}

/// How things stand, for `doctor`: looks, never builds.
#[derive(Clone, Debug)]
pub struct Status {
    /// `<target>/lab`, whether it exists or not.
    pub dir: PathBuf,
    /// The toolchain that built this binary, if it is still there.
    pub toolchain: Option<Toolchain>,
    /// A lab was built.
    pub built: bool,
    /// It was built by the toolchain of this binary.
    pub matches_toolchain: bool,
    /// It was built from the library sources as they are now.
    pub matches_sources: bool,
    /// The sources of the standard library are there (rust-analyzer needs them).
    pub rust_src: bool,
    /// What is wrong and what to do, one sentence per trouble; empty when all is in order.
    pub troubles: Vec<String>,
}

/// Makes sure that the lab is built and matches this binary; `progress` gets one line per long step.
///
/// # Errors
/// No toolchain, no rust-src to be had, or the build failed: each says what to do.
pub fn ensure(progress: &mut dyn FnMut(&str)) -> Result<Lab> {
    let _ = progress;
    Err(epsilab::Error::new(epsilab::ErrorKind::Notebook, "the lab", "can't be built yet"))
}

/// How things stand, without building anything.
///
/// # Errors
/// Only if the folder of this binary can't be found.
pub fn status() -> Result<Status> {
    Err(epsilab::Error::new(epsilab::ErrorKind::Notebook, "the lab", "can't be looked at yet"))
}
