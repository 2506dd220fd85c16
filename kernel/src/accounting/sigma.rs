//! The command `sigma`: noise multiplier for a target epsilon.

use epsilab::privacy::{
    CalibratedNoise, Delta, Epsilon, SamplingRate, noise_multiplier_for_stages,
};
use epsilab::{Error, ErrorKind, Result, privacy};
use serde_json::json;

use super::accounting_options::{AccountantChoice, AccountingArgs, AccountingOptions};
use super::training_spec::{TrainingSpec, TrainingSpecArgs};
use crate::stdout;

/// Compute the noise multiplier for a target epsilon, rounded to the safe side.
#[derive(clap::Args, Clone, Debug)]
pub struct SigmaArgs {
    /// Target epsilon
    #[arg(long, allow_negative_numbers = true)]
    pub epsilon: f64,
    /// Failure probability, well below 1 / number of examples
    #[arg(long, allow_negative_numbers = true)]
    pub delta: f64,
    /// Probability that an example is in a step: expected batch size / number of examples
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    pub sampling_rate: f64,
    #[command(flatten)]
    pub run: TrainingSpecArgs,
    #[command(flatten)]
    pub accounting: AccountingArgs,
    /// Print one line of JSON on stdout and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Runs `sigma`: prints the noise multiplier for a target epsilon.
///
/// # Errors
/// Kind `Setting` for options that contradict each other or are out of range; `Accounting` if the
/// accountant can't prove that some noise reaches the target, and for `gdp` with sampled steps;
/// `Io` if stdout is closed.
pub fn sigma(args: SigmaArgs) -> Result<()> {
    stdout::print_line(&sigma_output(&args)?)
}

pub(super) fn sigma_output(args: &SigmaArgs) -> Result<String> {
    let options = AccountingOptions::from_args(&args.accounting, None)?;
    let run = TrainingSpec::from_args(&args.run)?;
    let found = calibrate(args, &options, &run)?;
    if args.json {
        Ok(to_json(args, &options, &run, &found))
    } else {
        to_text(args, &options, &run, &found)
    }
}

/// Finds the noise multiplier with an accountant that gives proved bounds.
fn calibrate(
    args: &SigmaArgs,
    options: &AccountingOptions,
    run: &TrainingSpec,
) -> Result<CalibratedNoise> {
    let (target, delta) = (Epsilon(args.epsilon).check()?, Delta(args.delta).check()?);
    let rate = SamplingRate(args.sampling_rate).check()?;
    let accountant = options.accountant();
    if options.choice == AccountantChoice::Gdp
        && let Err(error) = accountant.epsilon(&[run.event(rate.0, 1.0)?], delta)
        && error.kind() == privacy::ErrorKind::Accounting
    {
        return Err(Error::new(
            ErrorKind::Accounting,
            "--accountant gdp can't find the noise of sampled steps",
            "the GDP value of sampled steps is an approximation that may be too low, and must not \
             set the noise",
        )
        .fix("use --accountant headline, pld or rdp"));
    }
    let relative = run.stages(rate.0, 1.0)?;
    Ok(noise_multiplier_for_stages(&[], &relative, target, delta, rate, &*accountant)?)
}

/// Returns one line of JSON with keys in alphabetical order; `schedule` only if there is one.
fn to_json(
    args: &SigmaArgs,
    options: &AccountingOptions,
    run: &TrainingSpec,
    found: &CalibratedNoise,
) -> String {
    let mut line = json!({
        "accountant": found.accountant, "delta": args.delta, "epsilon": found.epsilon,
        "neighbouring": options.neighbouring, "noise_multiplier": found.noise_multiplier.0,
    });
    if let Some(schedule) = &run.schedule {
        line["schedule"] = schedule.to_string().into();
    }
    line.to_string()
}

fn to_text(
    args: &SigmaArgs,
    options: &AccountingOptions,
    run: &TrainingSpec,
    found: &CalibratedNoise,
) -> Result<String> {
    let description = run.describe_calibrated(args.sampling_rate, found.noise_multiplier.0)?;
    let beginning = if run.schedule.is_some() { "initial " } else { "" };
    Ok(format!(
        "{beginning}{found}, at delta = {}\n  {description}\n  neighbouring data sets: {} training \
         example",
        Delta(args.delta),
        options.neighbouring,
    ))
}
