//! Compilation of the program without notebooks, for machines without a toolchain.

use std::path::PathBuf;

use epsilab::{Error, ErrorKind, Result, program};

use super::build_env::{BuildEnv, Origin};
use super::toolchain::Toolchain;
use super::{BuildProgress, Progress, dylib};

/// Cargo's settings for the program: small, and as fast as the lab.
const PROFILE_SETTINGS: [&str; 5] =
    ["inherits=\"release\"", "opt-level=2", "debug=false", "strip=true", "codegen-units=16"];

/// Estimated seconds to compile the program from nothing.
const ESTIMATED_SECONDS: f64 = 600.0;

/// Compiles the program and returns its path in cargo's target folder. It is linked by
/// `cargo-zigbuild` for a version of `glibc`, or by the linker of this machine for its own.
///
/// # Errors
/// The sources or the toolchain are missing, it does not compile, or CUDA is asked for where the
/// lab was installed from packages.
pub fn compile(cuda: bool, glibc: Option<&str>, progress: Progress<'_>) -> Result<PathBuf> {
    let (env, toolchain) = (BuildEnv::find()?, Toolchain::find()?);
    env.check_sources()?;
    if cuda && env.origin == Origin::Packages {
        let why = "Burn's CUDA backend links LLVM, and only a clone of the repository avoids that";
        return Err(Error::new(ErrorKind::Notebook, "--cuda", why).fix(format!(
            "build the bundle in a clone: `{} bundle --cuda DIR`",
            program::CARGO_ALIAS
        )));
    }
    let mut command = dylib::cargo_command(&env, &toolchain);
    let triple = match glibc {
        None => {
            command.arg("build").args(env.target_option());
            env.triple
        }
        Some(glibc) => {
            command.args(["zigbuild", "--target", &format!("{}.{glibc}", toolchain.host)]);
            Some(toolchain.host)
        }
    };
    command.args(["-p", "epsilab-kernel", "--bin", "epsilab", "--no-default-features", "--locked"]);
    command.args(cuda.then_some(["--features", "cuda"]).into_iter().flatten());
    command.args(["--profile", "bundle"]);
    for setting in PROFILE_SETTINGS {
        command.args(["--config", &format!("profile.bundle.{setting}")]);
    }
    let action = "compiling the program without notebooks";
    progress(BuildProgress::Line(action));
    dylib::run_cargo(command, action, ESTIMATED_SECONDS, progress)?;
    Ok(env.target_dir.join(triple.unwrap_or_default()).join("bundle/epsilab"))
}
