//! The program `epsilab`: the Jupyter kernel, the notebook runner and the command line. Without the
//! feature `notebook` it only measures, accounts and trains.

/// A clean environment for the unit tests.
#[cfg(test)]
#[macro_use]
#[path = "../../tests/support/mod.rs"]
mod support;

mod accounting;
mod audit;
#[path = "../benches/commands/mod.rs"]
mod bench;
mod cli;
mod doctor;
mod experiment;
mod folder;
mod help;
mod ledger;
mod options;
mod report;
mod runs;
mod stdout;
mod train;

#[cfg(feature = "notebook")]
mod bundle;
#[cfg(feature = "notebook")]
mod edits;
#[cfg(feature = "notebook")]
mod evcxr_launcher;
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
mod notebook_commands;
#[cfg(feature = "notebook")]
mod notebooks;
#[cfg(feature = "notebook")]
mod pattern;
#[cfg(feature = "notebook")]
mod prebuilt;
#[cfg(feature = "notebook")]
mod programs;
#[cfg(feature = "notebook")]
mod redact;
#[cfg(feature = "notebook")]
mod root;
#[cfg(feature = "notebook")]
mod run;
#[cfg(feature = "notebook")]
mod temp;

use std::process::ExitCode;

use epsilab::program;

fn main() -> ExitCode {
    // The kernel starts this program again as its cell process and as a compiler wrapper.
    #[cfg(feature = "notebook")]
    kernel::run_child_process();
    set_program_name();
    cli::main()
}

/// Sets the name of the program as users call it, for messages, also those of the processes that
/// it starts. No other thread may run yet.
fn set_program_name() {
    #[cfg(feature = "notebook")]
    let is_in_a_clone = !prebuilt::is_installed();
    // A bundle for machines without a toolchain.
    #[cfg(not(feature = "notebook"))]
    let is_in_a_clone = false;
    let name = if is_in_a_clone { program::CARGO_ALIAS } else { program::INSTALLED };
    // SAFETY: this is the only thread.
    unsafe { std::env::set_var(program::NAME_ENV_VAR, name) };
}
