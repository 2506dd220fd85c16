//! Files for evcxr's own kernel to run notebooks of the lab: its program, and a configuration that
//! adds the lab to every session.

use std::path::{Path, PathBuf};

use epsilab::{Error, ErrorKind, Result};

use super::build_env::{BuildEnv, Origin};
use super::toolchain::Toolchain;
use super::{BuildProgress, Progress, dylib};

/// Name of the program, and of the kernel in Jupyter.
pub const STOCK_NAME: &str = "epsilab-stock";

/// Estimated seconds to compile the program.
const ESTIMATED_SECONDS: f64 = 90.0;

/// Returns the folders of a lab for evcxr's kernel: `EVCXR_CONFIG_DIR` with the commands for the
/// start of a session, and `JUPYTER_PATH`, which is empty, because the program renews the
/// kernelspec `rust` that it finds there.
pub fn stock_folders(lab: &Path) -> [PathBuf; 2] {
    [lab.join("stock/config"), lab.join("stock/jupyter")]
}

/// Creates the folders of [`stock_folders`]. `shim` is the package that cells depend on.
///
/// # Errors
/// The folders can't be written.
pub fn write_stock(lab: &Path, shim: &Path) -> Result<()> {
    let io = |e: std::io::Error| Error::io("writing the configuration of evcxr's kernel", &e);
    let folders = stock_folders(lab);
    folders.iter().try_for_each(std::fs::create_dir_all).map_err(io)?;
    let shim = shim.to_string_lossy();
    let start = format!(":dep epsilab = {{ path = {shim:?} }}\n");
    std::fs::write(folders[0].join("init.evcxr"), start).map_err(io)
}

/// Returns the program with evcxr's own kernel. In a clone, it is compiled if it is not there or
/// if `build` is true.
///
/// # Errors
/// It does not compile, or was not installed.
pub fn stock_program(build: bool, progress: Progress<'_>) -> Result<PathBuf> {
    let exe = std::env::current_exe().map_err(|e| Error::io("finding this binary", &e))?;
    let sibling = exe.with_file_name(STOCK_NAME);
    if sibling.is_file() && !build {
        return Ok(sibling);
    }
    let env = BuildEnv::find()?;
    match env.origin {
        Origin::Packages if sibling.is_file() => Ok(sibling),
        Origin::Packages => Err(Error::new(
            ErrorKind::Notebook,
            format!("{} is missing", sibling.display()),
            "evcxr's own kernel is an optional part of the installation",
        )
        .fix(format!("`{} --features stock`", env.origin.install()))),
        Origin::Clone => compile(&env, progress),
    }
}

fn compile(env: &BuildEnv, progress: Progress<'_>) -> Result<PathBuf> {
    let mut command = dylib::cargo_command(env, &Toolchain::find()?);
    command.args(["build", "-p", "epsilab-kernel", "--bin", STOCK_NAME, "--features", "stock"]);
    command.args(["--locked", "--profile", &env.profile]).args(env.target_option());
    let action = "compiling evcxr's own kernel";
    progress(BuildProgress::Line(action));
    dylib::run_cargo(command, action, ESTIMATED_SECONDS, progress)?;
    let [folder, _] = env.artifact_dirs();
    Ok(folder.join(STOCK_NAME))
}
