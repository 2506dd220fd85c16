//! The commands `epsilon` and `sigma`: privacy accounting on the command line. `training_spec` has
//! the options of a training run, `accounting_options` those of accountant and neighbouring
//! relation, `event_file` reads events, and `epsilon_report` and `curve` write the results. Begin
//! with `epsilon`, and with `sigma` in the file of that name.

mod accounting_options;
mod curve;
mod epsilon_report;
mod event_file;
mod sigma;
#[cfg(test)]
mod tests;
mod training_spec;

use std::path::PathBuf;

use epsilab::privacy::{Delta, Event};
use epsilab::{Error, ErrorKind, Result};

use crate::stdout;
use accounting_options::{AccountingArgs, AccountingOptions};
use epsilon_report::EpsilonReport;
use event_file::EventFile;
pub use sigma::{SigmaArgs, sigma};
use training_spec::{TrainingSpec, TrainingSpecArgs};

/// Compute the epsilon of a training run (Poisson-sampled Gaussian steps) or of events in a file.
#[derive(clap::Args, Clone, Debug)]
pub struct EpsilonArgs {
    /// Probability that an example is in a step: expected batch size / number of examples
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    #[arg(required_unless_present = "event_file")]
    pub sampling_rate: Option<f64>,
    /// Standard deviation of the noise on the sum of clipped gradients / clip norm; with
    /// --schedule the initial one
    #[arg(long, value_name = "SIGMA", allow_negative_numbers = true)]
    #[arg(required_unless_present = "event_file")]
    pub noise_multiplier: Option<f64>,
    #[command(flatten)]
    pub run: TrainingSpecArgs,
    /// Failure probability, well below 1 / number of examples
    #[arg(long, allow_negative_numbers = true)]
    pub delta: f64,
    /// Read the events from a JSON file instead: an exported ledger, a list of events or one event
    #[arg(long, value_name = "FILE")]
    pub event_file: Option<PathBuf>,
    /// Number of the data set in an exported ledger, from 1
    #[arg(long, value_name = "N", requires = "event_file")]
    pub data_set: Option<usize>,
    /// Also print the epsilon at deltas from 1e-10 to 1e-2
    #[arg(long)]
    pub curve: bool,
    #[command(flatten)]
    pub accounting: AccountingArgs,
    /// Print one line of JSON on stdout and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Runs `epsilon`.
///
/// With `--json`, a refusal by the chosen accountant is part of the output (`null` and `why`).
///
/// # Errors
///
/// `Accounting` for such a refusal without `--json`; `Setting` for a number out of range; as
/// reading the event file.
pub fn epsilon(args: EpsilonArgs) -> Result<()> {
    stdout::print_line(&epsilon_output(&args)?)
}

fn epsilon_output(args: &EpsilonArgs) -> Result<String> {
    let delta = Delta(args.delta).check()?;
    let (EventFile { events, neighbouring }, description) = load_events(args)?;
    let options = AccountingOptions::from_args(&args.accounting, neighbouring)?;
    let answered = EpsilonReport::compute(&options, &events, delta)?;
    let curve = args.curve.then(|| curve::epsilon_curve(&options, &events)).transpose()?;
    if args.json {
        Ok(answered.to_json(curve.as_deref()))
    } else {
        answered.to_text(&description, curve.as_deref())
    }
}

/// Returns the events of the file or of the described run, and their description.
fn load_events(args: &EpsilonArgs) -> Result<(EventFile, String)> {
    let Some(file) = &args.event_file else {
        let missing = |name: &str| {
            Error::new(ErrorKind::Setting, format!("{name} is missing"), "the cost depends on it")
        };
        let rate = args.sampling_rate.ok_or_else(|| missing("--sampling-rate"))?;
        let noise = args.noise_multiplier.ok_or_else(|| missing("--noise-multiplier"))?;
        let run = TrainingSpec::from_args(&args.run)?;
        let events = vec![run.event(rate, noise)?];
        return Ok((EventFile { events, neighbouring: None }, run.describe(rate, noise)?));
    };
    let given = [
        ("--sampling-rate", args.sampling_rate.is_some()),
        ("--noise-multiplier", args.noise_multiplier.is_some()),
        ("--steps", args.run.steps.is_some()),
        ("--epochs", args.run.epochs.is_some()),
        ("--schedule", args.run.schedule.is_some()),
    ];
    let given: Vec<&str> =
        given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if !given.is_empty() {
        return Err(Error::new(
            ErrorKind::Setting,
            format!("--event-file with {}", given.join(", ")),
            "the file already states what was released, and how often",
        )
        .fix("leave out the file or the settings of a run"));
    }
    let file = event_file::read(file, args.data_set)?;
    let description = match &file.events[..] {
        [event] => event.to_string(),
        events => Event::Composed { events: events.to_vec() }.to_string(),
    };
    Ok((file, description))
}
