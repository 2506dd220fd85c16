//! Epsilab's one program: the Jupyter kernel and everything around it.

mod accounting;
mod bench;
mod cli;
mod doctor;
mod grid;
mod html;
mod install;
mod jupyter;
mod kernel;
mod kernelspec;
mod prebuilt;
mod programs;
mod run;
mod stdout;
mod temp;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The process of a kernel's cells is this program started again.
    kernel::child_hook();
    cli::main()
}
