//! Options that describe a training run: steps or epochs, and a noise schedule.

use epsilab::privacy::{
    ClipSchedule, Event, NoiseMultiplier, NoiseSchedule, SamplingRate, Stages, TrainingLength,
};
use epsilab::{Error, ErrorKind, Result};

/// Length of the run and noise schedule.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TrainingSpecArgs {
    /// Number of training steps
    #[arg(long, allow_negative_numbers = true, value_parser = parse_whole_number)]
    pub steps: Option<u64>,
    /// Instead of --steps: passes over the data, epochs / sampling rate steps, rounded up
    #[arg(long, allow_negative_numbers = true)]
    pub epochs: Option<f64>,
    /// Schedule of the noise; step t is in epoch e = floor(t * sampling rate): linear:R multiplies
    /// the variance by R every epoch, time:K divides it by 1 + K e, step:R:D multiplies it by R
    /// every D epochs, exp:K by exp(-K) every epoch; decay:R multiplies the noise multiplier by
    /// R^(t / T) in step t of T; constant keeps it, piecewise:10x1,5x0.8 multiplies it by 1 for 10
    /// epochs, then by 0.8
    #[arg(long, value_name = "FORM")]
    pub schedule: Option<String>,
}

fn parse_whole_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "must be a whole number, 0 or more, for example 10000".to_string())
}

/// A run of known length.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingSpec {
    length: TrainingLength,
    pub schedule: Option<NoiseSchedule>,
}

impl TrainingSpec {
    /// Checks the arguments and derives the length of the run.
    ///
    /// # Errors
    /// Kind `Setting` unless exactly one of `--steps` and `--epochs` is given, and for a schedule
    /// that can't be read.
    pub fn from_args(args: &TrainingSpecArgs) -> Result<Self> {
        let wrong = |what: &str, why: &str, fix: &str| {
            Err(Error::new(ErrorKind::Setting, what, why).fix(fix))
        };
        let length = match (args.steps, args.epochs) {
            (Some(_), Some(_)) => {
                return wrong(
                    "--steps with --epochs",
                    "both set the length of the run and may disagree",
                    "leave out one of them",
                );
            }
            (None, None) => {
                return wrong(
                    "neither --steps nor --epochs",
                    "the cost of a run depends on its length",
                    "add for example --steps 10000 or --epochs 15",
                );
            }
            (Some(steps), None) => TrainingLength::Steps(steps),
            (None, Some(epochs)) => TrainingLength::Epochs(epochs),
        };
        let schedule = args.schedule.as_deref().map(str::parse).transpose()?;
        Ok(Self { length, schedule })
    }

    /// Returns the stages of the run.
    ///
    /// # Errors
    /// Kind `Setting` for a number out of range.
    pub fn stages(&self, sampling_rate: f64, noise_multiplier: f64) -> Result<Stages> {
        let (rate, initial) = (SamplingRate(sampling_rate), NoiseMultiplier(noise_multiplier));
        let noise = self.schedule.clone().unwrap_or_default();
        let steps = self.length.steps(rate)?;
        Ok(Stages::from_schedules(&noise, &ClipSchedule::constant(), initial, rate, steps)?)
    }

    /// Returns the event of the run. Zero steps are allowed and cost nothing.
    ///
    /// # Errors
    /// Kind `Setting` for a number out of range.
    pub fn event(&self, sampling_rate: f64, noise_multiplier: f64) -> Result<Event> {
        if self.length == TrainingLength::Steps(0) {
            let no_steps = Event::poisson(sampling_rate, noise_multiplier, 0);
            return Ok(no_steps.check().cloned()?);
        }
        let stages = self.stages(sampling_rate, noise_multiplier)?;
        Ok(stages.event(SamplingRate(sampling_rate), stages.steps()))
    }

    /// Describes the run without its first noise multiplier.
    ///
    /// # Errors
    /// As [`TrainingSpec::stages`].
    pub fn describe_calibrated(&self, sampling_rate: f64, noise: f64) -> Result<String> {
        let stages = self.stages(sampling_rate, noise)?;
        let end = match &self.schedule {
            None => String::new(),
            Some(schedule) if stages.is_constant() => format!(" (schedule {schedule})"),
            Some(schedule) => {
                let last = format_noise(stages.at(u64::MAX).noise_multiplier);
                format!("; {last} in the last step (schedule {schedule})")
            }
        };
        Ok(format!(
            "{} with Gaussian noise of that multiplier on Poisson samples (sampling rate {}){end}",
            pluralise_steps(stages.steps()),
            rounded_rate(sampling_rate),
        ))
    }

    /// Describes the run in words.
    ///
    /// # Errors
    /// As [`TrainingSpec::event`].
    pub fn describe(&self, sampling_rate: f64, noise_multiplier: f64) -> Result<String> {
        let event = self.event(sampling_rate, noise_multiplier)?;
        let Some(schedule) = &self.schedule else { return Ok(event.to_string()) };
        let stages = self.stages(sampling_rate, noise_multiplier)?;
        Ok(format!(
            "{} with Gaussian noise on Poisson samples (sampling rate {}), noise multiplier from \
             {} to {} (schedule {schedule})",
            pluralise_steps(stages.steps()),
            rounded_rate(sampling_rate),
            format_noise(stages.at(0).noise_multiplier),
            format_noise(stages.at(u64::MAX).noise_multiplier),
        ))
    }
}

fn pluralise_steps(steps: u64) -> String {
    format!("{steps} step{}", if steps == 1 { "" } else { "s" })
}

/// Formats a number with four decimals, or with four digits if it is small.
fn format_noise(noise_multiplier: f64) -> String {
    if (0.01..1e6).contains(&noise_multiplier) {
        format!("{noise_multiplier:.4}")
    } else {
        format!("{noise_multiplier:.3e}")
    }
}

/// Formats a rate with four digits.
fn rounded_rate(rate: f64) -> SamplingRate {
    SamplingRate(format!("{rate:.3e}").parse().unwrap_or(rate))
}
