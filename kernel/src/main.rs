//! Epsilab's one program: the Jupyter kernel and everything around it. Without the feature
//! `notebook` only what measures, accounts and trains.

mod accounting;
mod bench;
mod cli;
mod doctor;
mod grid;
mod stdout;

#[cfg(feature = "notebook")]
mod html;
#[cfg(feature = "notebook")]
mod install;
#[cfg(feature = "notebook")]
mod jupyter;
#[cfg(feature = "notebook")]
mod kernel;
#[cfg(feature = "notebook")]
mod kernelspec;
#[cfg(feature = "notebook")]
mod notebook;
#[cfg(feature = "notebook")]
mod prebuilt;
#[cfg(feature = "notebook")]
mod programs;
#[cfg(feature = "notebook")]
mod run;
#[cfg(feature = "notebook")]
mod temp;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The process of a kernel's cells is this program started again.
    #[cfg(feature = "notebook")]
    kernel::child_hook();
    cli::main()
}
