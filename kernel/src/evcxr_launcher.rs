//! Launcher of evcxr's own kernel with the lab in its cells: the fallback if this kernel fails.
//!
//! Cells are linked to the same library. Figures are static, progress is text, and what this kernel
//! adds (interrupts that keep variables, live figures, commands) is missing.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use epsilab::{Error, Result};

use crate::prebuilt::{self, PrebuiltLibrary, environment};
use crate::programs;

/// Replaces this process by evcxr's kernel, which serves the notebook of the connection file.
///
/// # Errors
/// The lab can't be built, or the program can't be started.
pub fn serve(connection: &Path) -> Result<()> {
    let lab = prebuilt::ensure_built(&mut prebuilt::terminal_progress())?;
    let program = prebuilt::stock_program(false, &mut prebuilt::terminal_progress())?;
    lab.keep_in_use();
    let mut command = Command::new(program);
    command.arg("--control_file").arg(connection);
    for name in environment::variables_to_remove() {
        command.env_remove(name);
    }
    command.envs(environment_variables(&lab)?);
    Err(programs::replace_process(command))
}

fn environment_variables(lab: &PrebuiltLibrary) -> Result<Vec<(&'static str, OsString)>> {
    let [config, jupyter] = prebuilt::stock_folders(&lab.dir);
    let mut set = environment::toolchain_variables(&lab.toolchain);
    let old = std::env::var_os("LD_LIBRARY_PATH");
    let search = lab.search_path(old.as_deref()).map_err(|e| {
        Error::setting("LD_LIBRARY_PATH", format!("{old:?}"), e.to_string())
            .fix("a folder with the lab or Rust has a colon in its name: move it")
    })?;
    set.extend([
        ("LD_LIBRARY_PATH", search),
        ("EVCXR_CONFIG_DIR", config.into()),
        ("JUPYTER_PATH", jupyter.into()),
        ("RUST_SRC_PATH", lab.std_sources().into()),
        (environment::RUST_ANALYZER_FLAGS.0, environment::RUST_ANALYZER_FLAGS.1.into()),
    ]);
    Ok(set)
}
