//! The command line: commands, help texts and exit codes.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use epsilab::program;
use epsilab::train::interrupt;
use epsilab::{Error, ErrorKind, Result};

use crate::accounting::{self, EpsilonArgs, SigmaArgs};
use crate::audit::{self, AuditArgs};
use crate::bench::{self, BenchArgs};
use crate::doctor::{self, DoctorArgs};
use crate::experiment::grid::{self, GridArgs};
use crate::experiment::sweep::{self, SweepArgs};
use crate::experiment::worker::{self, WorkerArgs};
use crate::help::Help;
use crate::ledger::{self, LedgerArgs};
#[cfg(feature = "notebook")]
use crate::notebook_commands::{self, JupyterArgs};
use crate::options;
use crate::report::{self, ReportArgs};
use crate::runs::{self, RunsArgs};
use crate::train::{self, TrainArgs};

#[cfg(feature = "notebook")]
const PROGRAM: Help = Help(
    "                                              open JupyterLab on notebooks/
run notebooks/01_first_private_model.ipynb    run a notebook without Jupyter or Python
doctor                                        check the installation
epsilon --sampling-rate 0.01 --noise-multiplier 1.1 --steps 10000 --delta 1e-5",
    "`cargo install --path kernel --locked --profile dev` in a clone installs this as `epsilab`.",
);

const DEFAULT_EPSILON: Help = Help(
    "\
epsilon --sampling-rate 0.01 --noise-multiplier 1.1 --steps 10000 --delta 1e-5 --json
epsilon --sampling-rate 0.01 --noise-multiplier 1.1 --epochs 15 --delta 1e-5 --curve
epsilon --sampling-rate 0.001 --noise-multiplier 1.5 --epochs 100 \\
        --schedule linear:0.99 --delta 1e-5
epsilon --event-file ledger.json --data-set 1 --delta 1e-5 --accountant pld",
    "\
Without --accountant all accountants run. The first line is the smallest proved epsilon; values that
are only approximate are labelled and never chosen. With --json the keys are always the same:
`epsilon` is the result, then one key per accountant, null if it refused or was not run. If all
refuse, `epsilon` is null, `why` gives the reason, and the exit code is 0.",
);

const SIGMA: Help = Help(
    "\
sigma --epsilon 3 --delta 1e-5 --sampling-rate 0.034 --steps 879 --json
sigma --epsilon 3 --delta 1e-5 --sampling-rate 0.034 --epochs 30 --accountant rdp
sigma --epsilon 2 --delta 1e-5 --sampling-rate 0.001 --epochs 100 --schedule exp:0.01",
    "\
The same accountant confirms that the result meets the target. With --schedule the result is the
initial noise multiplier.",
);

const BENCH: Help = Help(
    "\
bench                                     all models, two threads
bench --models papernot_cnn --batch 1024 --threads 1 --steps 30 --json
bench --device cuda --models resnet18     on a GPU, if the program was built for it
bench --device cuda --check               does the GPU compute what the CPU does?",
    "\
Each step is a full training step on synthetic data: per-example norms, clipping at 1, noise with
multiplier 1, an SGD update; without privacy the plain gradient and the update. Measure on an idle
machine. Ctrl-C keeps the lines printed so far.

--check computes the same values on the device and with the CPU's fused kernels: sums, norms, noise,
selected coordinates and what each method releases. The exit code is 1 if one differs by more than
rounding: 1/100 for the gradient of a parameter (GPUs may round to ten bits; 1e-4 between executors
on the CPU), 1/1000 for norms, 1e-4 standard deviations for noise. Selected and masked coordinates
must be equal.",
);

const GRID: Help = Help(
    "\
grid --pre-prune 0,0.3,0.6,0.9 --drop 0,0.3,0.6,0.9 --epsilon 1,3 --seeds 3
grid --method dp-sgd,non-private --learning-rate 0.1,1,4 --epochs 2 --out results
grid --plan plan.json --json > grid.json",
    "\
The options are those of `train`. Comma-separated values of an option make one case each; a
method takes the options that it has. --freeze and --train-only may be given several times for one
case. A plan file is JSON. Its keys are the names of these options (with _ or -); a value is a name,
a number or a list. Every key is optional; unknown keys are refused. Options on the command line
replace keys of the file.

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

Every run is stored in the project's run store and charged to its ledger. Both are in .epsilab/ of
the project, or in the folder named by EPSILAB_HOME; `doctor` says which is used. So the same
command trains nothing the second time, and a command that was stopped continues. A case with both
rates 0 is plain DP-SGD; dp-sgd has no rates, and non-private has no epsilon. If a case can't be
trained (a target out of reach, for example), `errors` says why, and the others are trained.

--preview trains nothing and shows steps, noise multiplier and epsilon of every case.

With --json stdout is a list with one object per case: data, model, method, settings (others that
differ), mask, drop_rule, pre_prune, drop, epsilon, delta, epsilon_spent, badge (proved, assumption,
none), accuracy_mean, accuracy_std, accuracies, runs, run_labels, errors; claimed_epsilon and
mean_threshold where a method has them. Rates and accuracies are fractions; accuracy_std is null for
one seed. epsilon is the target, epsilon_spent the largest epsilon of a run of the case; null means
that no epsilon covers the runs (without privacy, or with masks by snip). Labels of runs, here and in
grid.csv, are random, because the names of their folders in the run store are derived from the data;
`runs --json` has both. Progress, with these names, and the cost of other recorded runs go to stderr.

Exit codes: 0; 1 for a plan that can't be run (nothing is trained) or if no run succeeded; 2 for
an unknown option; 130 after Ctrl-C, 143 after a request to terminate, 129 at the end of the terminal
(finished runs are kept and shown, --json prints nothing). A second Ctrl-C ends the program at once.",
);

const TRAIN: Help = Help(
    "\
train --data glyphs --epsilon 3 --epochs 1 --json
train --data mnist --epsilon 3 --noise-schedule linear:0.99 --optimizer adam \\
      --lr-schedule cosine --warm-up 0.1 --average ema --preview
train --data photos/ --model resnet18 --train-only head --split 0.8 --out result
train --method dp-ssgd --mask synflow --pre-prune 0.7 --drop 0.3 --save-plan plan.json
train --plan plan.json --json
train --preview --population 1281167 --batch-size 65536 --epochs 70 --epsilon 10 \\
      --delta 1e-6              what it costs with as many examples, without data",
    "\
The run is stored in the project's run store and charged to its ledger. Both are in .epsilab/ of the
project, or in the folder named by EPSILAB_HOME; `doctor` says which is used. So the same command
trains nothing the second time; --fresh trains and spends again.

With --checkpoint-every 500 (steps) or 10min, a run that is killed or stopped resumes from its last
checkpoint when the same command is given again, or by `runs resume`.

A plan file holds all settings but data, model and device; give these as options. The file may be
edited: epsilon and everything else is computed from its settings.

With --json stdout is one line: method, badge (proved, assumption, none), epsilon, delta,
noise_multiplier (the initial one), steps, accuracy, trained_parameters, seconds, run (its random
label, by which `report` finds it). epsilon is null if no epsilon covers the run; delta and
noise_multiplier are null without privacy, accuracy without a test part. trained_parameters counts
the coordinates that mask and freezing leave. Where examples are read from files, wait_share is the
fraction of the seconds in which training waited for them. Progress and errors go to stderr.

Exit codes: 0 for a finished run (and a preview); 1 for an error; 2 for an unknown option; 130 after
Ctrl-C, 143 after a request to terminate, 129 at the end of the terminal (nothing is printed; the
steps taken are charged). A second Ctrl-C ends the program at once; the whole plan stays charged
then.",
);

const SWEEP: Help = Help(
    "\
sweep book/src/evidence/auto-dp-sgd.plan.json --list
sweep book/src/evidence/auto-dp-sgd.plan.json --only table-10 --out results
sweep experiments.json --seeds 1 --data glyphs --epochs 1
sweep book/src/evidence/imagenet/table-9.experiments.json --preview",
    "\
A file of experiments is JSON. Its options are those of `train --help`, without the dashes. A list
of values makes one case of each, several lists all combinations. `cases` are groups with further
options. --freeze and --train-only may be given several times to one run: a list inside the list is
one such value. Unknown keys are refused, and the options of every case are checked before anything
is trained; what depends on the data is checked when the case begins. Options on the command line
replace those of the file in every case; comma-separated values of an option make one case each.

  {
    \"experiments\": [
      {
        \"name\": \"clips\",
        \"title\": \"Accuracy over clip norm and method\",
        \"seeds\": 3,
        \"options\": {\"data\": \"glyphs\", \"batch-size\": 256, \"epochs\": 2},
        \"cases\": [
          {\"method\": \"dp-sgd\", \"clip\": [0.1, 1, 10], \"epsilon\": 3},
          {\"method\": \"auto-dp-sgd\", \"gradient-scale\": [1, 0.5], \"noise-multiplier\": 1.5}
        ]
      }
    ]
  }

Runs are stored and charged as those of `train`, so the same command trains nothing the second time,
and a command that was stopped continues. If a case can't be trained, its errors say why, and the
others are trained. Below each table are the cost of all its runs together and the differences that
are within the noise of the seeds.

With --json each object has the keys of `grid --json`, and experiment, options, seconds_per_epoch
(the mean over seeds) and paper (if it has results; its accuracy is in percent). epsilon is the
target and epsilon_spent that of one run: the ledger counts all of them. --out writes sweep.json,
sweep.md, and a CSV file and figures of each experiment.

`paper` is what a paper reports for an experiment or a group of cases. Its results are shown beside
ours where the experiment is the same: not if options of the command change it (other than --data
and --device), and not on data of another size.

    \"paper\": {\"examples\": 1281167, \"orders\": \"tf_legacy\", \"accuracy %\": 57.2,
              \"epsilon\": 6.7e4, \"s per epoch\": 555.05}

--preview trains nothing and shows steps, noise multiplier and epsilon of every case, beside those
by RDP with the `orders` of the paper. Its plans are for as many `examples`, so it reads no data;
where the file does not state how many, or where --data is given, it reads them. Cases that
differ only in options that change no cost, such as learning-rate, are one row.

With --preview and --json the objects have experiment, options, examples, steps, epochs,
noise_multiplier, delta, target, epsilon, accountant, epsilon_rdp, noise_multiplier_rdp, paper.

Exit codes: 0; 1 for a file that can't be run (nothing is trained) or if no run succeeded; 2 for
wrong usage; 130 after Ctrl-C, 143 after a request to terminate, 129 at the end of the terminal
(finished runs are kept and shown, --json prints nothing).",
);

const RUNS: Help = Help(
    "\
runs
train --data mnist --epochs 40 --checkpoint-every 10min
runs resume 3f09
runs remove 3f09",
    "\
Runs are named by hashes of their settings and data; the first characters suffice. A run with the
state `checkpoint` was killed or stopped. It resumes with `resume`, or with the command, cell or
program that started it: nothing is charged twice, and on the CPU the result is the same bit for
bit.

A checkpoint holds the seeds of its run's batches and noise. It is readable by its owner only and
removed when the run is finished. Without it the run can't resume; its charge stays in the ledger.

With --json stdout is a list with one object per run: id, state (finished, ended_early, checkpoint,
damaged), method, data, steps, planned_steps, epsilon, accuracy, at, command.",
);

const LEDGER: Help = Help(
    "\
ledger
ledger --json > ledger.json",
    "\
For each data set: the epsilon of all private runs together, the budget and what is left of it, runs
without privacy, and every charged run. The total is stated at the delta of the budget (1e-5 without
one) and for one neighbouring relation, which is named unless it is add or remove one.

With --json stdout is one object: format, exported_at, data_sets, each with name, runs (run, at,
note, event, closed, stopped_early, closing_note), events, epsilon (null if a run has no guarantee;
why says so), delta, accountant, neighbouring, runs_without_privacy, epsilon_of_private_runs,
budget. `epsilon --event-file` reads it. There are no hashes of the data.

Exit codes: 0; 1 if a ledger is damaged, was cut or replaced, or is missing although one of its runs
is stored. book/src/understanding/security.md explains what this detects and what it can't.",
);

const REPORT: Help = Help(
    "\
report 3f09                                 a stored run: report.html
report 3f09 --covered --out public/run.md   without what no epsilon covers
grid --pre-prune 0,0.9 --seeds 3 --out results
report results --html --latex --out results/report",
    "\
`runs` lists the runs; the first characters of a name suffice. A grid is given as the
folder of `grid --out`, or as its plan file. Nothing is trained: runs that are not stored are named
as missing.

A report has the guarantee in words, results, figures, settings, the entries of the ledger, software
and how to repeat it. An HTML page is one file that loads nothing. Markdown and LaTeX have their
figures in a folder beside them. A grid over several data sets or models has one report for each.

Parts that no epsilon covers carry a badge: the training loss, runs in study mode (all runs of a
grid), runs without privacy. --covered leaves them out. The command does not know whether the data
of a run are public; `run.report()` in a notebook does. book/src/how-to/sharing.md says more.",
);

const AUDIT: Help = Help(
    "\
audit dp-sgd
audit half-noise --json
audit dp-sgd --sampling-rate 0.05 --steps 200 --trials 4000 --json",
    "\
The training mechanism runs many times, with and without an example whose gradient the
attacker chooses (a canary). If the attacker tells the two apart more often than the trade-off curve
of the ledger allows, the claim is refuted. No data are read and nothing is charged to a ledger.

With --json stdout is one line: method, verdict (refuted, consistent, inconclusive), claimed_epsilon
(null if no accountant has one; why says so), compared_epsilon (the claimed one, or that of clipped
steps with the same noise), delta, lower_bound, mu_lower_bound and its epsilon (if the releases are
Gaussian), confidence, trials, statistic, false_positive_rate, true_positive_rate, bounds of both,
true_positive_rate_allowed, refuted_by, sampling_rate, noise_multiplier, steps, canary_norm,
dimension, seed, seconds.

Exit codes: 0 consistent; 1 refuted; 2 inconclusive (the attack was too weak to tell); 64 for wrong
usage; 70 if the audit failed. No exit code means \"private\": an attack can't show that.",
);

/// Private, sparse learning in a notebook.
#[cfg_attr(feature = "notebook", doc = "")]
#[cfg_attr(
    feature = "notebook",
    doc = "Without a command: opens JupyterLab on the notebooks (see also --no-browser; \
           arguments after `--` go to JupyterLab)."
)]
#[derive(Parser, Debug)]
#[command(name = "epsilab", version)]
#[cfg_attr(feature = "notebook", command(after_help = PROGRAM.text()))]
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
    Notebook(notebook_commands::Command),
    Doctor(DoctorArgs),
    #[command(after_help = DEFAULT_EPSILON.text())]
    Epsilon(EpsilonArgs),
    #[command(after_help = SIGMA.text())]
    Sigma(SigmaArgs),
    #[command(after_help = AUDIT.text())]
    Audit(AuditArgs),
    #[command(after_help = BENCH.text())]
    Bench(BenchArgs),
    #[command(after_help = GRID.text())]
    Grid(Box<GridArgs>),
    GridWorker(WorkerArgs),
    #[command(after_help = TRAIN.text())]
    Train(Box<TrainArgs>),
    #[command(after_help = SWEEP.text())]
    Sweep(Box<SweepArgs>),
    #[command(after_help = RUNS.text())]
    Runs(RunsArgs),
    #[command(after_help = LEDGER.text())]
    Ledger(LedgerArgs),
    #[command(after_help = REPORT.text())]
    Report(ReportArgs),
}

/// Runs the command line. An error is printed as `error: …`; the exit code is 1, or 2 for wrong
/// usage. The verdicts of `audit` take the lower exit codes, so its wrong usage is 64.
pub fn main() -> ExitCode {
    let parsed = build_command().try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error, std::env::args().nth(1).as_deref()),
    };
    interrupt::in_program();
    dispatch(cli).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Returns the command line, with the name of the program as users call it.
fn build_command() -> clap::Command {
    Cli::command().bin_name(program::name().into_owned())
}

/// Prints a usage error, or a help text, of the command with this name.
fn report_usage_error(error: &clap::Error, command: Option<&str>) -> ExitCode {
    match command.and_then(|typed| unknown_command_error(error, typed)) {
        Some(unknown) => eprintln!("error: {unknown}"),
        None => drop(error.print()),
    }
    match (error.use_stderr(), command) {
        (false, _) => ExitCode::SUCCESS,
        (true, Some("audit")) => ExitCode::from(audit::EX_USAGE),
        (true, _) => ExitCode::from(2),
    }
}

/// Returns the error for a first word that is no command, if that is what the parser refused.
/// Where a command is not required, the parser reports such a word as an unexpected argument.
fn unknown_command_error(error: &clap::Error, name: &str) -> Option<Error> {
    let root_command = build_command();
    let mut known = root_command.get_subcommands();
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_unknown = matches!(
        error.kind(),
        clap::error::ErrorKind::UnknownArgument | clap::error::ErrorKind::InvalidSubcommand
    );
    let is_first = is_unknown && is_word && known.all(|command| command.get_name() != name);
    let names = root_command.get_subcommands().filter(|command| !command.is_hide_set());
    let nearest = options::closest_match(name, names.map(clap::Command::get_name));
    let help = format!("`{}` lists all commands", program::command("--help"));
    is_first.then(|| {
        let what = format!("unknown command {name}");
        Error::new(ErrorKind::Setting, what, "`epsilab` has no such command").fix(match nearest {
            Some(nearest) => format!("did you mean `{nearest}`? {help}"),
            None => help,
        })
    })
}

fn dispatch(cli: Cli) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match cli.command {
        #[cfg(feature = "notebook")]
        None => notebook_commands::open(&cli.jupyter),
        // Not reached: without a command the help is printed.
        #[cfg(not(feature = "notebook"))]
        None => Ok(ExitCode::from(2)),
        #[cfg(feature = "notebook")]
        Some(Command::Notebook(command)) => command.run(),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Epsilon(args)) => accounting::epsilon(args).map(done),
        Some(Command::Sigma(args)) => accounting::sigma(args).map(done),
        Some(Command::Audit(args)) => Ok(audit::audit(&args)),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Grid(args)) => grid::grid(&args),
        Some(Command::GridWorker(args)) => worker::worker(&args),
        Some(Command::Train(args)) => train::train(&args),
        Some(Command::Sweep(args)) => sweep::sweep(&args),
        Some(Command::Ledger(args)) => ledger::ledger(&args),
        Some(Command::Report(args)) => report::report(&args).map(done),
        Some(Command::Runs(args)) => runs::runs(&args, resume),
    }
}

/// Runs the command of a checkpoint, which resumes the run `id`.
fn resume(id: String, command: Vec<OsString>) -> Result<ExitCode> {
    let program = std::iter::once(OsString::from("epsilab"));
    match Cli::try_parse_from(program.chain(command)) {
        Ok(Cli { command: Some(Command::Train(args)), .. }) => train::train(&args.resuming(id)),
        _ => {
            let why = "the checkpoint's command is not a valid `train` command in this version";
            Err(Error::new(
                ErrorKind::CorruptData,
                "cannot resume from the command in the checkpoint",
                why,
            )
            .fix("run `train` again with the same options"))
        }
    }
}

#[cfg(all(test, feature = "notebook"))]
mod page_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        build_command().debug_assert();
    }

    #[test]
    fn help_texts_name_the_program_that_is_running() {
        let name = program::name();
        let mut command = build_command();
        command.build();
        let all = std::iter::once(&command).chain(command.get_subcommands());
        for command in all.filter(|command| !command.is_hide_set()) {
            let help = command.clone().render_long_help().to_string();
            let other = match name.as_ref() {
                program::CARGO_ALIAS => "epsilab ",
                _ => program::CARGO_ALIAS,
            };
            let is_foreign = |line: &str| {
                line.trim_start().starts_with(other) || line.contains(&format!("`{other}"))
            };
            assert!(help.contains(&format!("Usage: {name}")), "{help}");
            assert!(!help.lines().any(is_foreign), "{help}");
        }
        #[cfg(feature = "notebook")]
        assert!(command.render_long_help().to_string().contains(program::INSTALL));
    }

    #[test]
    fn a_command_that_is_mistyped_is_named_with_the_nearest() {
        let advice = |args: &[&str]| {
            let error = Cli::try_parse_from([&["epsilab"], args].concat()).unwrap_err();
            unknown_command_error(&error, args[0]).map(|error| format!("{error}"))
        };
        assert!(advice(&["reprot", "x"]).unwrap().contains("did you mean `report`?"));
        assert!(!advice(&["zzz"]).unwrap().contains("did you mean"));
        assert_eq!(advice(&["report", "--htlm"]), None);
        assert_eq!(advice(&["--htlm"]), None);
    }

    #[cfg(feature = "notebook")]
    #[test]
    fn arguments_after_the_dashes_go_to_jupyter() {
        let cli = Cli::try_parse_from(["epsilab", "--no-browser", "--", "--port", "9999"]);
        let cli = cli.expect("valid");
        assert!(cli.jupyter.no_browser && cli.command.is_none());
        assert_eq!(cli.jupyter.jupyter_args, ["--port", "9999"]);
        assert!(Cli::try_parse_from(["epsilab", "--no-browser", "list"]).is_err());
    }
}
