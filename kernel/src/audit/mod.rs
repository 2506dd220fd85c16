//! The command `audit`: attacks that test whether a method is as private as its ledger says. The
//! attacks are in `epsilab::audit`; here are the options, the exit codes, the printed report and,
//! in `progress`, the progress bar. Begin with `audit`.

mod progress;

use std::process::ExitCode;

use epsilab::audit::{self, AuditReport, Options, Verdict};
use epsilab::{Error, ErrorKind, Result};

use crate::{options, stdout};
use progress::ProgressBar;

/// Exit code of wrong usage, as in BSD's `sysexits.h`; the codes below it are verdicts.
pub const EX_USAGE: u8 = 64;
/// Exit code of an audit that failed.
const EX_SOFTWARE: u8 = 70;

/// Attack the releases of a method and compare with its ledger: refuted, consistent, inconclusive.
#[derive(clap::Args, Clone, Debug)]
pub struct AuditArgs {
    // The table lists them.
    #[arg(value_name = "METHOD", help = method_help())]
    method: String,
    /// Probability that an example is in a step [default: 1]
    #[arg(long, value_name = "Q", allow_hyphen_values = true)]
    sampling_rate: Option<f64>,
    /// Standard deviation of the noise over the clip norm [default: 1]
    #[arg(long, value_name = "SIGMA", allow_hyphen_values = true)]
    noise_multiplier: Option<f64>,
    /// Steps of one trial [default: 1; decaying-clip 4]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    steps: Option<i64>,
    /// Trials with the canary, and as many without it [default: 20000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    trials: Option<i64>,
    /// Norm of the canary's gradient, as a multiple of the clip norm [default: 10]
    #[arg(long, value_name = "NORM", allow_hyphen_values = true)]
    canary_norm: Option<f64>,
    /// Coordinates of a gradient, an even number [default: 256]
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    dimension: Option<i64>,
    /// Delta of all epsilons [default: 1e-5]
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    delta: Option<f64>,
    /// Seed of the trials [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON object on one line of stdout and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs `audit`. Exit codes: 0 consistent, 1 refuted, 2 inconclusive, 64 for wrong usage, 70 for an
/// audit that failed.
pub fn audit(args: &AuditArgs) -> ExitCode {
    match run_audit(args).and_then(|report| print(&report, args.json).map(|()| report)) {
        Ok(report) => ExitCode::from(match report.verdict {
            Verdict::Consistent => 0,
            Verdict::Refuted => 1,
            Verdict::Inconclusive => 2,
        }),
        Err(error) => {
            eprintln!("error: {error}");
            let misuse = error.kind() == ErrorKind::Setting;
            ExitCode::from(if misuse { EX_USAGE } else { EX_SOFTWARE })
        }
    }
}

fn run_audit(args: &AuditArgs) -> Result<AuditReport> {
    let default = Options::default();
    let options = Options {
        sampling_rate: args.sampling_rate.unwrap_or(default.sampling_rate),
        noise_multiplier: args.noise_multiplier.unwrap_or(default.noise_multiplier),
        steps: options::non_negative_count("--steps", args.steps)?,
        trials: options::non_negative_count("--trials", args.trials)?.unwrap_or(default.trials),
        canary_norm: args.canary_norm.unwrap_or(default.canary_norm),
        dimension: options::non_negative_count("--dimension", args.dimension)?
            .unwrap_or(default.dimension),
        delta: args.delta.unwrap_or(default.delta),
        seed: args.seed.unwrap_or(default.seed),
    };
    let bar = ProgressBar::new(&args.method);
    let audit = audit::by_name(&args.method, &options)?;
    let report = audit.on_progress(move |done, trials| bar.show(done, trials)).run();
    progress::replace("");
    report
}

/// Prints the report in words, or as JSON.
fn print(report: &AuditReport, json: bool) -> Result<()> {
    if !json {
        return stdout::print_line(&report.to_string());
    }
    let failed = |error: serde_json::Error| {
        Error::new(ErrorKind::Io, "the report can't be written as JSON", error.to_string())
    };
    stdout::print_line(&serde_json::to_string(report).map_err(failed)?)
}

/// Returns the help of METHOD: the names of the methods and of the deliberately wrong controls.
fn method_help() -> String {
    let names = |is_control: bool| {
        let all =
            audit::targets().into_iter().filter(move |subject| subject.is_control == is_control);
        all.map(|subject| subject.name).collect::<Vec<_>>().join(", ")
    };
    format!("{}; wrong on purpose: {}", names(false), names(true))
}
