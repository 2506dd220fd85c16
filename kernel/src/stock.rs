//! Starts evcxr's own kernel with the lab in its cells: the fallback if this kernel fails.
//!
//! Cells are linked to the same library. Figures are static, progress is text, and what this kernel
//! adds (interrupts that keep variables, live figures, commands) is missing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use epsilab::{Error, Result};

use crate::prebuilt::{self, Lab, StockConfig, environment};

/// Serve one notebook by evcxr's own kernel (started by Jupyter).
#[derive(Args, Debug)]
pub struct StockArgs {
    /// The connection file that Jupyter wrote.
    #[arg(short = 'f', long, value_name = "FILE")]
    connection_file: PathBuf,
}

/// Replaces this process by evcxr's kernel.
///
/// # Errors
/// The lab can't be built, or the program can't be started.
pub fn serve(args: &StockArgs) -> Result<()> {
    let lab = prebuilt::ensure(&mut prebuilt::to_terminal())?;
    let program = prebuilt::stock_program(false, &mut prebuilt::to_terminal())?;
    lab.keep_in_use();
    let mut command = Command::new(&program);
    command.arg("--control_file").arg(&args.connection_file);
    for name in environment::unwanted() {
        command.env_remove(name);
    }
    command.envs(variables(&lab)?);
    hand_over(command, &program)
}

fn variables(lab: &Lab) -> Result<Vec<(&'static str, OsString)>> {
    let config = StockConfig::in_lab(&lab.dir);
    let mut set = environment::of_toolchain(&lab.toolchain);
    let folder = lab.library.parent().unwrap_or(&lab.dir).to_owned();
    let old = std::env::var_os("LD_LIBRARY_PATH");
    let search = [folder, lab.toolchain.std_dir()]
        .into_iter()
        .chain(old.iter().flat_map(std::env::split_paths));
    let search = std::env::join_paths(search).map_err(|e| {
        Error::setting("LD_LIBRARY_PATH", format!("{old:?}"), e.to_string())
            .fix("a folder with the lab or Rust has a colon in its name: move it")
    })?;
    set.extend([
        ("LD_LIBRARY_PATH", search),
        ("EVCXR_CONFIG_DIR", config.config.into()),
        ("JUPYTER_PATH", config.jupyter.into()),
        ("RUST_SRC_PATH", lab.std_sources().into()),
        (environment::RUST_ANALYZER.0, environment::RUST_ANALYZER.1.into()),
    ]);
    Ok(set)
}

#[cfg(unix)]
fn hand_over(mut command: Command, program: &std::path::Path) -> Result<()> {
    use std::os::unix::process::CommandExt;
    Err(Error::io(format!("starting {}", program.display()), &command.exec()))
}

#[cfg(not(unix))]
fn hand_over(mut command: Command, program: &std::path::Path) -> Result<()> {
    let starting = |e| Error::io(format!("starting {}", program.display()), &e);
    command.status().map(|_| ()).map_err(starting)
}
