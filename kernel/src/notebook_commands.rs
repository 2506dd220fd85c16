//! The commands of the feature `notebook`: Jupyter and notebooks.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use epsilab::Result;

use crate::bundle::{self, BundleArgs};
use crate::evcxr_launcher;
use crate::help::Help;
use crate::install::{self, InstallArgs, ListArgs};
use crate::kernel;
use crate::notebooks::{self, NotebooksArgs};
use crate::redact::{self, RedactArgs};
use crate::run::{self, RunArgs};

pub use crate::jupyter::{JupyterArgs, open};

const RUN: Help = Help(
    "\
run notebooks/01_first_private_model.ipynb
run notebooks/*.ipynb --out results --profile tiny
run NB.ipynb --interactive                   figures with tooltips and sliders
run NB.ipynb --params epochs=3 --params data=mnist --params 'rates=[0.1, 0.3]'

run NB.ipynb --inplace                       save small outputs in the notebook
run NB.ipynb --compare                       are the saved outputs still right?",
    "\
--params needs a cell with the tag `parameters` that defines the variables, as for papermill. A cell
inserted after it gives them the new values, in the types that they have there: integers, floats,
bool, strings, and lists (Vec) and Option of these.

Runs are stored, and their privacy cost is recorded in the ledger, in .epsilab/ of the project or in
the folder named by EPSILAB_HOME; `doctor` says which is used.

--compare runs the notebook and compares texts with those that --inplace saved: equal but for the last
digit of a number. A cell with the tag `noisy-output` may have other numbers (percentages within 15
points), one with `ignore-output` other texts. Durations and paths are not compared; with another
profile than the saved one only the kinds of outputs are. Both options want a home without earlier
runs: EPSILAB_HOME=$(mktemp -d), unless the data are those of real people.

The exit code is 0 if every cell succeeded, 1 if a cell failed (its code and error are printed, and
the results so far are written; the next notebook runs) and 130 after Ctrl-C, 143 after a request to
terminate, 129 at the end of the terminal. A cell with the tag `raises-exception` may fail.",
);

const REDACT: Help = Help(
    "\
redact NB.ipynb                      write NB.redacted.ipynb
redact NB.ipynb --html --out public  and a page, in another folder
redact --check NB.redacted.ipynb     exit with 1 if something is left",
    "\
A saved notebook is published with all its outputs. Those of this kernel say what they reveal: only
public data, releases that the ledger covers, an evaluation on the test part, or private data that
no epsilon covers. What is not covered is removed: whole outputs, or the panels of a figure. Outputs
that are not marked (printed text, plain values, errors, other kernels) are removed too; --keep-text
keeps their text. A note marks each removal. The notebook itself is not changed.

Text and code of the notebook stay as they are; cells that set a seed are named.
book/src/how-to/sharing.md says more.",
);

const INSTALL: Help = Help(
    "\
install                     for all Jupyter installations of this user
install --sys-prefix        only for the active virtual or conda environment
install --prefix DIR        in DIR/share/jupyter/kernels
install --stock             evcxr's own kernel with the lab, in addition to this one",
    "\
--stock is a fallback: notebooks run there with text for progress and static figures; an interrupt
loses all variables, and the first cell takes longer. It is compiled once.",
);

const BUNDLE: Help = Help(
    "\
bundle /shared/me/epsilab                   for nodes with a system like this one's
bundle --glibc 2.28 /shared/me/epsilab      for older systems, such as RHEL 8
bundle --cuda gpu                           for machines with an NVIDIA GPU",
    "\
The folder gets one program, which needs neither Rust nor Python nor Jupyter: every command but
those for notebooks. It reports which glibc it needs (`getconf GNU_LIBC_VERSION` on the node shows
the installed one). --glibc below the version here needs `pip install cargo-zigbuild ziglang`.

The first bundle compiles Burn again, because the program is optimized as a release.",
);

/// The commands, in the order of the help text.
#[derive(Subcommand, Debug)]
pub enum Command {
    #[command(after_help = RUN.text())]
    Run(RunArgs),
    #[command(after_help = REDACT.text())]
    Redact(RedactArgs),
    /// Register the kernel with Jupyter.
    #[command(after_help = INSTALL.text())]
    Install(InstallArgs),
    /// Remove the kernel from Jupyter (only what `install` created).
    Uninstall(InstallArgs),
    List(ListArgs),
    Notebooks(NotebooksArgs),
    #[command(after_help = BUNDLE.text())]
    Bundle(BundleArgs),
    /// Serve one notebook (started by Jupyter).
    #[command(hide = true)]
    Kernel(ConnectionArgs),
    /// Serve one notebook by evcxr's own kernel (started by Jupyter).
    #[command(hide = true)]
    Stock(ConnectionArgs),
}

/// Connection of a kernel to its clients.
#[derive(Args, Debug)]
pub struct ConnectionArgs {
    /// The connection file that Jupyter wrote.
    #[arg(short = 'f', long, value_name = "FILE")]
    connection_file: PathBuf,
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// As the command that is run.
    pub fn run(self) -> Result<ExitCode> {
        let done = |()| ExitCode::SUCCESS;
        match self {
            Self::Run(args) => run::run(&args),
            Self::Redact(args) => redact::redact(&args),
            Self::Install(args) => install::install(&args).map(done),
            Self::Uninstall(args) => install::uninstall(&args).map(done),
            Self::List(args) => install::list(&args).map(done),
            Self::Notebooks(args) => notebooks::notebooks(&args).map(done),
            Self::Bundle(args) => bundle::bundle(&args).map(done),
            Self::Kernel(args) => kernel::serve(&args.connection_file).map(done),
            Self::Stock(args) => evcxr_launcher::serve(&args.connection_file).map(done),
        }
    }
}
