//! The command line: what there is, and how errors reach the user.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use epsilab::Result;

use crate::accounting::{self, EpsilonArgs, SigmaArgs};
use crate::bench::{self, BenchArgs};
use crate::doctor::{self, DoctorArgs};
use crate::grid::{self, GridArgs};
#[cfg(feature = "notebook")]
use crate::notebook::{self, JupyterArgs};

/// How the program is called: from a clone by cargo's alias, elsewhere by its own name.
const CALLED: &str = if cfg!(feature = "notebook") { "cargo lab" } else { "epsilab" };

#[cfg(feature = "notebook")]
const EXAMPLES: &str = "\
Examples:
  cargo lab                                               open JupyterLab on notebooks/
  cargo lab run notebooks/01_first_private_model.ipynb    run a notebook without Jupyter or Python
  cargo lab doctor                                        what is there, what is missing
  cargo lab epsilon --sampling-rate 0.01 --noise-multiplier 1.1 --steps 10000 --delta 1e-5";

const EPSILON_EXAMPLES: &str = "\
Examples:
  cargo lab epsilon --sampling-rate 0.01 --noise-multiplier 1.1 --steps 10000 --delta 1e-5 --json
  cargo lab epsilon --sampling-rate 0.01 --noise-multiplier 1.1 --epochs 15 --delta 1e-5 --curve
  cargo lab epsilon --sampling-rate 0.001 --noise-multiplier 1.5 --epochs 100 \\
                    --schedule linear:0.99 --delta 1e-5
  cargo lab epsilon --event-file ledger.json --data-set 1 --delta 1e-5 --accountant pld

Without --accountant all are asked: the first line is the smallest epsilon that is proved, values
that are only approximate are labelled and never chosen. With --json the keys are always the same:
`epsilon` is the answer, then one key per accountant, null for one that refuses or was not asked. A
refusal is an answer too: `epsilon` is null, `why` says why, and the exit code is 0.";

const SIGMA_EXAMPLES: &str = "\
Examples:
  cargo lab sigma --epsilon 3 --delta 1e-5 --sampling-rate 0.034 --steps 879 --json
  cargo lab sigma --epsilon 3 --delta 1e-5 --sampling-rate 0.034 --epochs 30 --accountant rdp
  cargo lab sigma --epsilon 2 --delta 1e-5 --sampling-rate 0.001 --epochs 100 --schedule exp:0.01

The noise that is found meets the target when it is put back into the same accountant. With
--schedule it is the noise of the first epoch.";

const BENCH_EXAMPLES: &str = "\
Examples:
  cargo lab bench                                     all models, two threads
  cargo lab bench --models papernot_cnn --batch 1024 --threads 1 --steps 30 --json
  cargo lab bench --device cuda --models resnet18     on a card, if the program was built for it
  cargo lab bench --device cuda --check               does the card compute what the CPU does?

Each step is a whole training step on made-up data: per-example norms, clipping at 1, noise of
multiplier 1, an SGD update; without privacy the plain gradient and the update. Measure on an idle
machine. Ctrl-C keeps the lines that are printed.

With --check the same numbers are computed on the device and by the CPU's fused kernels: sums,
norms, noise, choices of coordinates and what each method releases. The exit code is 1 if one
differs by more than rounding: of a parameter's gradient a hundredth (cards may round to ten bits;
between the CPU's own executors 1e-4), of norms a thousandth, of noise 1e-4 of a standard
deviation; of choices, and of what a mask leaves out, nothing at all.";

const GRID_EXAMPLES: &str = "\
Examples:
  cargo lab grid --pre-prune 0,0.3,0.6,0.9 --drop 0,0.3,0.6,0.9 --epsilon 1,3 --seeds 3
  cargo lab grid --method dp-sgd,non-private --data glyphs --epochs 2 --out results
  cargo lab grid --plan plan.json --json > grid.json

A plan file is JSON; its keys are the names of the options above from --data to --device (with _
or -), its values what the option takes: a name, a number, or a list of them. All keys may be left
out, others are refused. Options on the command line replace what the file says, key by key.

  {
    \"data\": [\"glyphs\", \"mnist\"],
    \"method\": \"dp-ssgd\",
    \"mask\": \"random\",
    \"pre_prune\": [0, 0.5, 0.9],
    \"drop\": [0, 0.5],
    \"epsilon\": [1, 3],
    \"seeds\": 3,
    \"epochs\": 5
  }

Every run is kept in the project's run store and charged to its ledger: the same command again
trains nothing and prints the same, and one that was stopped or killed goes on where it was. A cell
with both rates 0 is plain DP-SGD, dp-sgd alone has no rates, and non-private has no epsilon. A cell
that can't be made (a target out of its reach, say) is told in `errors` and the others go on.

With --json stdout is one list with an object per cell: data, model, method, mask, drop_rule,
pre_prune, drop, epsilon, delta, epsilon_spent, accuracy_mean, accuracy_std, accuracies, runs,
run_numbers, errors. Shares are fractions; accuracy_std is null for one seed. epsilon is the target that
the noise was made for, epsilon_spent the most that a run of the cell has truly spent: null means
that no epsilon covers the runs (without privacy, or with masks by snip), whatever epsilon says.
Runs are numbered, from 1, here and in grid.csv: the names of their folders in the run store are
made of the data and not for others. Progress goes to stderr with these names, and what other runs
on record cost as well.

The exit code is 0, 1 for a plan that can't be run (nothing is trained then) or if no run could be
made, 2 for wrong usage (an option that does not exist, a value that is no number), and 130 after
Ctrl-C: finished runs are kept, --json prints nothing then.";

/// Private, sparse learning in a notebook.
#[cfg_attr(feature = "notebook", doc = "")]
#[cfg_attr(
    feature = "notebook",
    doc = "Without a command: opens JupyterLab on the notebooks (see also --no-browser; what follows \
           `--` goes to JupyterLab)."
)]
#[derive(Parser, Debug)]
#[command(name = "epsilab", bin_name = CALLED, version)]
#[cfg_attr(feature = "notebook", command(after_help = EXAMPLES))]
#[cfg_attr(feature = "notebook", command(args_conflicts_with_subcommands = true))]
#[cfg_attr(not(feature = "notebook"), command(arg_required_else_help = true))]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[cfg(feature = "notebook")]
    #[command(flatten)]
    jupyter: JupyterArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
    #[cfg(feature = "notebook")]
    #[command(flatten)]
    Notebook(notebook::Command),
    Doctor(DoctorArgs),
    #[command(after_help = EPSILON_EXAMPLES)]
    Epsilon(EpsilonArgs),
    #[command(after_help = SIGMA_EXAMPLES)]
    Sigma(SigmaArgs),
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    #[command(after_help = GRID_EXAMPLES)]
    Grid(Box<GridArgs>),
}

/// Parses, dispatches, and turns an error into `error: …` and exit code 1 (2 for wrong usage).
pub fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match cli.command {
        #[cfg(feature = "notebook")]
        None => notebook::open(&cli.jupyter),
        // Not reached: who says nothing gets the help.
        #[cfg(not(feature = "notebook"))]
        None => Ok(ExitCode::from(2)),
        #[cfg(feature = "notebook")]
        Some(Command::Notebook(command)) => command.run(),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Epsilon(args)) => accounting::epsilon(args).map(done),
        Some(Command::Sigma(args)) => accounting::sigma(args).map(done),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Grid(args)) => grid::grid(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[cfg(feature = "notebook")]
    #[test]
    fn jupyter_gets_what_follows_the_dashes() {
        let cli = Cli::try_parse_from(["epsilab", "--no-browser", "--", "--port", "9999"]);
        let cli = cli.expect("valid");
        assert!(cli.jupyter.no_browser && cli.command.is_none());
        assert_eq!(cli.jupyter.rest, ["--port", "9999"]);
        assert!(Cli::try_parse_from(["epsilab", "--no-browser", "list"]).is_err());
    }
}
