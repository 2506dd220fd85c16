//! The command `bench`: time and memory of training steps with and without privacy, and of the
//! Jupyter kernel.
//!
//! Measurements run in processes of their own (this program, started again; see [`child`]), so that
//! memory is that of one model and mode and the thread pools have the requested size. The steps
//! that are compared take turns in one process, so that other load on the machine affects all of
//! them.

mod check;
mod child;
mod data;
#[cfg(feature = "notebook")]
mod kernel;
mod memory;
mod results;
mod roofline;
mod step;
mod times;
mod variants;
mod zoo;

use std::process::ExitCode;

use epsilab::device::{DeviceSpec, REHEARSAL_MARK, is_rehearsal};
use epsilab::{Error, Result};

use crate::stdout;
use results::{BenchResult, PeakMemory};
use step::{ExecutorChoice, MeasureMode};
use variants::VariantArgs;
use zoo::{Entry, ZOO};

/// Upper limits for the number of threads and the batch size.
const MAX_THREADS: usize = 1024;
const MAX_BATCH_SIZE: usize = 1 << 20;

/// Measure training steps of the models of the zoo, with and without privacy.
#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[cfg(feature = "notebook")]
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// Models, separated by commas; all but the largest if not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub models: Vec<String>,
    /// Device: cpu, cuda, cuda:1 (the second GPU), wgpu
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: String,
    /// Examples in a batch; the usual number for each model if not given
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,
    /// Number of measured steps
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub steps: usize,
    /// Number of steps before the measurement
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warmup: usize,
    #[command(flatten)]
    pub variants: VariantArgs,
    /// Instead of measuring, compare the device with the CPU (exit code 1 if they differ)
    #[arg(long, conflicts_with_all = ["masked", "clip_rule", "method", "train_only", "measure"])]
    pub check: bool,
    /// Instead of comparing steps, print how close each layer of each model comes to the peak
    /// performance of this CPU
    #[arg(
        long,
        conflicts_with_all = [
            "check", "masked", "clip_rule", "method", "train_only", "measure", "executor",
        ]
    )]
    pub roofline: bool,
    /// Print a JSON list on stdout and nothing else
    #[arg(long)]
    pub json: bool,
    /// Executor for per-example gradients; `auto` is the one that training uses
    #[arg(long, value_enum, default_value_t, hide = true)]
    pub executor: ExecutorChoice,
    /// Measure one mode in this process
    #[arg(long, value_enum, hide = true)]
    pub measure: Option<MeasureMode>,
}

/// What to measure instead of training steps.
#[cfg(feature = "notebook")]
#[derive(clap::Subcommand, Clone, Debug)]
pub enum BenchCommand {
    Kernel(kernel::KernelArgs),
}

/// One model with its settings.
#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    entry: &'static Entry,
    device: DeviceSpec,
    batch: usize,
    threads: usize,
    steps: usize,
    warmup: usize,
    executor: ExecutorChoice,
    variants: &'a VariantArgs,
}

/// Runs `bench`. The exit code is 1 if a check found a difference.
///
/// # Errors
/// `Setting` for an unknown model, a missing device or a number out of range, before anything is
/// measured; errors of the measured steps.
pub fn bench(args: &BenchArgs) -> Result<ExitCode> {
    #[cfg(feature = "notebook")]
    if let Some(BenchCommand::Kernel(args)) = &args.command {
        return kernel::bench(args).map(|()| ExitCode::SUCCESS);
    }
    let cases = cases(args)?;
    if args.check {
        return check::run(&cases, args.json);
    }
    if args.roofline {
        return roofline::run(&cases, args.json).map(|()| ExitCode::SUCCESS);
    }
    let measured = match args.measure {
        Some(mode) => cases.iter().try_for_each(|case| child::serve(case, mode)),
        None => measure(args, &cases),
    };
    measured.map(|()| ExitCode::SUCCESS)
}

fn measure(args: &BenchArgs, cases: &[Case<'_>]) -> Result<()> {
    let mut all = Vec::new();
    if !args.json {
        if is_rehearsal() {
            stdout::print_line(REHEARSAL_MARK)?;
        }
        stdout::print_line(&results::heading(cases))?;
    }
    for case in cases {
        let times = child::ask(case, MeasureMode::Steps)?;
        // The memory of a GPU is not measured.
        let peak = |mode| match case.device {
            DeviceSpec::Cpu => child::ask(case, mode),
            _ => Ok(None),
        };
        let peaks = PeakMemory {
            private: peak(MeasureMode::Private)?,
            nonprivate: peak(MeasureMode::NonPrivate)?,
        };
        let figures = BenchResult::new(case, &times, peaks);
        if !args.json {
            // Printed at once, so that an interrupt loses nothing.
            stdout::print_line(&figures.row(cases))?;
        }
        all.push(figures);
    }
    if args.json {
        stdout::print_line(&results::json(&all))
    } else {
        stdout::print_line(&results::legend(cases))
    }
}

/// The checked options.
fn cases(args: &BenchArgs) -> Result<Vec<Case<'_>>> {
    let whole = |name: &str, value: usize, least: usize, most: usize| {
        let why = format!("must be a whole number from {least} to {most}");
        if (least..=most).contains(&value) { Ok(()) } else { Err(Error::setting(name, value, why)) }
    };
    whole("--threads", args.threads, 1, MAX_THREADS)?;
    whole("--steps", args.steps, 1, 1_000_000)?;
    whole("--warmup", args.warmup, 0, 1_000_000)?;
    if let Some(batch) = args.batch {
        whole("--batch", batch, 1, MAX_BATCH_SIZE)?;
    }
    args.variants.check()?;
    // Each measuring process tests the device itself.
    let device = args.device.parse::<DeviceSpec>()?;
    device.check_installed()?;
    let entries: Vec<&Entry> = match args.models.as_slice() {
        [] => ZOO.iter().filter(|entry| !entry.large).collect(),
        names => names.iter().map(|name| zoo::find(name)).collect::<Result<_>>()?,
    };
    let case = |entry: &'static Entry| Case {
        entry,
        device,
        batch: args.batch.unwrap_or(entry.batch),
        threads: args.threads,
        steps: args.steps,
        warmup: args.warmup,
        executor: args.executor,
        variants: &args.variants,
    };
    Ok(entries.into_iter().map(case).collect())
}
