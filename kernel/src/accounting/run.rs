//! Options that describe a training run: steps, epochs or a noise schedule.

use epsilab::privacy::{Event, Length, NoiseMultiplier, NoiseSchedule, SamplingRate};
use epsilab::{Error, ErrorKind, Result};

/// Length of the run and noise schedule.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// Number of training steps
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub steps: Option<u64>,
    /// Instead of --steps: passes over the data, epochs / sampling rate steps, rounded up; with
    /// --schedule every epoch has 1 / sampling rate steps, rounded up
    #[arg(long, allow_negative_numbers = true)]
    pub epochs: Option<f64>,
    /// Noise that changes from epoch to epoch e (needs --epochs): linear:R multiplies its variance
    /// by R every epoch, time:K divides it by 1 + K e, step:R:D multiplies it by R every D epochs,
    /// exp:K by exp(-K) every epoch; constant leaves it as it is, piecewise:10x1,5x0.8 takes the
    /// noise multiplier times 1 for 10 epochs, then times 0.8
    #[arg(long, value_name = "FORM")]
    pub schedule: Option<String>,
}

fn whole_number(text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| "it must be a whole number, 0 or more, for example 10000".to_string())
}

/// A run of known length.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    /// Constant noise.
    Plain(Length),
    /// Noise that changes from epoch to epoch.
    Scheduled(NoiseSchedule, u64),
}

impl Run {
    /// # Errors
    /// Kind `Setting` if the arguments contradict each other or do not determine the length.
    pub fn of(args: &RunArgs) -> Result<Self> {
        let wrong = |what: &str, why: &str, fix: &str| {
            Err(Error::new(ErrorKind::Setting, what, why).fix(fix))
        };
        let schedule = args.schedule.as_deref().map(str::parse).transpose()?;
        match (schedule, args.steps, args.epochs) {
            (Some(_), Some(_), _) => wrong(
                "--schedule together with --steps",
                "a schedule changes the noise from epoch to epoch, and a number of steps does not \
                 say where an epoch ends",
                "say how many epochs there are: --epochs E instead of --steps",
            ),
            (Some(_), None, None) => wrong(
                "--schedule without --epochs",
                "the noise of every epoch counts, so it must be known how many there are",
                "add for example --epochs 100",
            ),
            (Some(schedule), None, Some(epochs)) => {
                // Exact in f64; larger numbers are refused by the schedule.
                if epochs.fract() != 0.0 || !(1.0..1e15).contains(&epochs) {
                    let why = "a schedule runs for a whole number of epochs, at least 1";
                    return Err(Error::setting("epochs", epochs, why)
                        .fix("take a whole number, for example --epochs 100"));
                }
                Ok(Run::Scheduled(schedule, epochs as u64))
            }
            (None, Some(_), Some(_)) => wrong(
                "--steps together with --epochs",
                "both say how long the run is, and they may not agree",
                "leave one of them out",
            ),
            (None, Some(steps), None) => Ok(Run::Plain(Length::Steps(steps))),
            (None, None, Some(epochs)) => Ok(Run::Plain(Length::Epochs(epochs))),
            (None, None, None) => wrong(
                "neither --steps nor --epochs",
                "what a run costs depends on how long it is",
                "add for example --steps 10000 or --epochs 15",
            ),
        }
    }

    /// The events of the run.
    ///
    /// # Errors
    /// Kind `Setting` for a number out of range.
    pub fn events(&self, sampling_rate: f64, noise_multiplier: f64) -> Result<Vec<Event>> {
        let (rate, noise) = (SamplingRate(sampling_rate), NoiseMultiplier(noise_multiplier));
        match self {
            Run::Scheduled(schedule, epochs) => schedule.events(noise, rate, *epochs),
            Run::Plain(length) => {
                let steps = steps(*length, rate)?;
                let event = Event::PoissonGaussian { sampling_rate, noise_multiplier, steps };
                event.check()?;
                Ok(vec![event])
            }
        }
    }

    /// Description of the run without the noise multiplier.
    ///
    /// # Errors
    /// As [`Run::events`].
    pub fn words_with_that_noise(&self, sampling_rate: f64, noise: f64) -> Result<String> {
        let events = self.events(sampling_rate, noise)?;
        let steps = events.first().map_or(0, Event::releases);
        let (epochs, end) = match self {
            Run::Plain(_) => (String::new(), String::new()),
            Run::Scheduled(schedule, epochs) => {
                let last = schedule.noise_multiplier(NoiseMultiplier(noise), epochs - 1)?.0;
                let falls = if last == noise {
                    String::new()
                } else {
                    format!("; {} in the last epoch", short(last))
                };
                (format!("{epochs} epochs of "), format!("{falls} (schedule {schedule})"))
            }
        };
        let s = if steps == 1 { "" } else { "s" };
        Ok(format!(
            "{epochs}{steps} step{s} with Gaussian noise of that multiplier on Poisson samples \
             (sampling rate {}){end}",
            short_rate(sampling_rate),
        ))
    }

    /// Description of the run.
    ///
    /// # Errors
    /// As [`Run::events`].
    pub fn words(&self, sampling_rate: f64, noise_multiplier: f64) -> Result<String> {
        let events = self.events(sampling_rate, noise_multiplier)?;
        let Run::Scheduled(schedule, epochs) = self else {
            return Ok(events.first().map_or_else(String::new, Event::to_string));
        };
        let noise = |epoch| schedule.noise_multiplier(NoiseMultiplier(noise_multiplier), epoch);
        let (first, last) = (noise(0)?.0, noise(epochs - 1)?.0);
        let steps = events.first().map_or(0, Event::releases);
        Ok(format!(
            "{epochs} epochs of {steps} steps with Gaussian noise on Poisson samples (sampling rate \
             {}), noise multiplier from {} to {} (schedule {schedule})",
            short_rate(sampling_rate),
            short(first),
            short(last),
        ))
    }

    /// The schedule, if there is one.
    pub fn schedule(&self) -> Option<&NoiseSchedule> {
        match self {
            Run::Scheduled(schedule, _) => Some(schedule),
            Run::Plain(_) => None,
        }
    }
}

/// Formats a number with four decimals, or with four digits if it is small.
fn short(noise_multiplier: f64) -> String {
    if (0.01..1e6).contains(&noise_multiplier) {
        format!("{noise_multiplier:.4}")
    } else {
        format!("{noise_multiplier:.3e}")
    }
}

/// Formats a rate with four digits.
fn short_rate(rate: f64) -> SamplingRate {
    SamplingRate(format!("{rate:.3e}").parse().unwrap_or(rate))
}

/// Converts the number of steps. Zero is allowed and costs nothing.
pub fn steps(length: Length, sampling_rate: SamplingRate) -> Result<u64> {
    match length {
        Length::Steps(0) => Ok(0),
        length => length.steps(sampling_rate),
    }
}
