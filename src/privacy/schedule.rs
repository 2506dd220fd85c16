//! Noise schedules: public noise multipliers that change from epoch to epoch.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::digits::Readable;
use super::{Event, Length, NoiseMultiplier, SamplingRate};
use crate::{Error, Result};

/// Maximum number of epochs, because every epoch becomes an event of its own.
const MAX_EPOCHS: u64 = 100_000;

/// The noise multiplier of every epoch e = 0, 1, 2, …, relative to its initial value sigma_0.
///
/// The forms are those of Auto DP-SGD, Table 1. The rate acts on the *variance*; only this reading
/// reproduces the published sums. The text forms are `constant`, `linear:0.99`, `time:0.01`,
/// `step:0.99:10`, `exp:0.1` and `piecewise:10x1,5x0.8`.
///
/// # Guarantee
/// A schedule is public. It is fixed before training and must not depend on the data, that is,
/// neither on examples nor on losses or gradients that were not released. Every epoch is then a
/// subsampled Gaussian mechanism with a known noise multiplier, and every accountant that composes
/// different multipliers accounts it ([`events`](NoiseSchedule::events)). With a decreasing
/// schedule later epochs cost more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoiseSchedule {
    /// A constant noise multiplier.
    #[default]
    Constant,
    /// sigma_e² = rate^e sigma_0².
    Linear {
        /// Factor on the variance per epoch, above 0. The noise decreases if it is below 1.
        rate: f64,
    },
    /// sigma_e² = sigma_0² / (1 + rate e).
    Time {
        /// Decay rate, above 0.
        rate: f64,
    },
    /// sigma_e² = rate^floor(e / every) sigma_0².
    Step {
        /// Factor on the variance, above 0. The noise decreases if it is below 1.
        rate: f64,
        /// Epochs between two changes, at least 1.
        every: u64,
    },
    /// sigma_e² = sigma_0² exp(-rate e).
    Exponential {
        /// Decay rate, above 0.
        rate: f64,
    },
    /// A factor on sigma_0 for each phase. The last factor applies to all later epochs.
    Piecewise {
        /// Length in epochs and factor on the initial noise multiplier; at least one phase.
        phases: Vec<(u64, f64)>,
    },
}

impl NoiseSchedule {
    /// Returns the schedule if all its parameters are in range.
    ///
    /// # Errors
    /// Kind `Setting` for a rate or factor that is not finite and above 0, a step or phase of 0
    /// epochs, or an empty list of phases.
    pub fn check(&self) -> Result<&Self> {
        match self {
            NoiseSchedule::Constant => {}
            NoiseSchedule::Linear { rate }
            | NoiseSchedule::Time { rate }
            | NoiseSchedule::Exponential { rate } => check_positive("rate", *rate)?,
            NoiseSchedule::Step { rate, every } => {
                check_positive("rate", *rate)?;
                check_epochs("every", *every)?;
            }
            NoiseSchedule::Piecewise { phases } => {
                if phases.is_empty() {
                    return Err(Error::setting("phases", 0, "a schedule needs at least one phase")
                        .fix("use for example piecewise:10x1,5x0.8"));
                }
                for &(epochs, factor) in phases {
                    check_epochs("epochs of a phase", epochs)?;
                    check_positive("factor", factor)?;
                }
            }
        }
        Ok(self)
    }

    /// The noise multiplier of epoch `epoch`, counted from 0, with the initial value `initial`.
    ///
    /// # Errors
    /// Those of [`check`](NoiseSchedule::check). Kind `Setting` if the multiplier overflows or
    /// underflows.
    pub fn noise_multiplier(
        &self,
        initial: NoiseMultiplier,
        epoch: u64,
    ) -> Result<NoiseMultiplier> {
        let initial = initial.check()?.0;
        let sigma = initial * (0.5 * self.check()?.ln_variance(epoch)).exp();
        if sigma > 0.0 && sigma.is_finite() {
            return Ok(NoiseMultiplier(sigma));
        }
        let why =
            format!("the noise multiplier {} becomes {sigma} in epoch {epoch}", Readable(initial));
        Err(Error::setting("noise schedule", self, why)
            .fix("use a rate closer to constant noise, or fewer epochs"))
    }

    /// The sum of sigma_0² / sigma_e² over the epochs.
    ///
    /// It is the number of epochs with the initial noise multiplier that cost the same, as long as
    /// the cost is proportional to 1 / sigma².
    ///
    /// # Errors
    /// As [`events`](NoiseSchedule::events).
    pub fn sum_of_inverse_variances(&self, epochs: u64) -> Result<f64> {
        check_epoch_count(epochs)?;
        let schedule = self.check()?;
        let sum: f64 = (0..epochs).map(|epoch| (-schedule.ln_variance(epoch)).exp()).sum();
        if sum.is_finite() {
            return Ok(sum);
        }
        Err(Error::setting("noise schedule", self, "its noise multiplier underflows")
            .fix("use a rate closer to constant noise, or fewer epochs"))
    }

    /// The events of `epochs` epochs: one event per epoch, of ceil(1 / q) Poisson-sampled steps
    /// each. The noise changes only between epochs.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range, more than 100,000 epochs, or a noise
    /// multiplier that overflows or underflows.
    pub fn events(
        &self,
        initial: NoiseMultiplier,
        sampling_rate: SamplingRate,
        epochs: u64,
    ) -> Result<Vec<Event>> {
        let steps = Length::Epochs(1.0).steps(sampling_rate)?;
        check_epoch_count(epochs)?;
        let event = |epoch| {
            Ok(Event::PoissonGaussian {
                sampling_rate: sampling_rate.0,
                noise_multiplier: self.noise_multiplier(initial, epoch)?.0,
                steps,
            })
        };
        (0..epochs).map(event).collect()
    }

    /// ln(sigma_e² / sigma_0²). The logarithm neither underflows nor overflows.
    fn ln_variance(&self, epoch: u64) -> f64 {
        let e = epoch as f64;
        match self {
            NoiseSchedule::Constant => 0.0,
            NoiseSchedule::Linear { rate } => e * rate.ln(),
            NoiseSchedule::Time { rate } => -(rate * e).ln_1p(),
            NoiseSchedule::Step { rate, every } => (epoch / every) as f64 * rate.ln(),
            NoiseSchedule::Exponential { rate } => -rate * e,
            NoiseSchedule::Piecewise { phases } => {
                let mut end = 0u64;
                let now = phases.iter().find(|&&(epochs, _)| {
                    end = end.saturating_add(epochs);
                    epoch < end
                });
                now.or(phases.last()).map_or(0.0, |&(_, factor)| 2.0 * factor.ln())
            }
        }
    }
}

impl fmt::Display for NoiseSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoiseSchedule::Constant => f.write_str("constant"),
            NoiseSchedule::Linear { rate } => write!(f, "linear:{}", Readable(*rate)),
            NoiseSchedule::Time { rate } => write!(f, "time:{}", Readable(*rate)),
            NoiseSchedule::Step { rate, every } => write!(f, "step:{}:{every}", Readable(*rate)),
            NoiseSchedule::Exponential { rate } => write!(f, "exp:{}", Readable(*rate)),
            NoiseSchedule::Piecewise { phases } => {
                f.write_str("piecewise:")?;
                for (i, (epochs, factor)) in phases.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{epochs}x{}", Readable(*factor))?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for NoiseSchedule {
    type Err = Error;

    /// Parses the text form that `Display` writes.
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::setting("noise schedule", text, "this is not a noise schedule").fix(
                "use constant, linear:0.99, time:0.01, step:0.99:10, exp:0.1 or \
                 piecewise:10x1,5x0.8",
            )
        };
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| unknown());
        let whole = |text: &str| text.trim().parse::<u64>().map_err(|_| unknown());
        let phase = |text: &str| {
            let (epochs, factor) = text.split_once('x').ok_or_else(unknown)?;
            Ok((whole(epochs)?, number(factor)?))
        };
        let parts: Vec<&str> = text.trim().split(':').collect();
        let schedule = match parts[..] {
            ["constant"] => NoiseSchedule::Constant,
            ["linear", rate] => NoiseSchedule::Linear { rate: number(rate)? },
            ["time", rate] => NoiseSchedule::Time { rate: number(rate)? },
            ["step", rate, every] => {
                NoiseSchedule::Step { rate: number(rate)?, every: whole(every)? }
            }
            ["exp", rate] => NoiseSchedule::Exponential { rate: number(rate)? },
            ["piecewise", phases] => NoiseSchedule::Piecewise {
                phases: phases.split(',').map(phase).collect::<Result<_>>()?,
            },
            _ => return Err(unknown()),
        };
        schedule.check().cloned()
    }
}

fn check_positive(name: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    let why = "the parameters of a noise schedule must be finite and above 0";
    Err(Error::setting(name, value, why).fix("use for example linear:0.99"))
}

fn check_epochs(name: &str, epochs: u64) -> Result<()> {
    match epochs {
        0 => Err(Error::setting(name, 0, "the schedule would never reach its next value")
            .fix("use at least 1 epoch")),
        _ => Ok(()),
    }
}

fn check_epoch_count(epochs: u64) -> Result<()> {
    if epochs <= MAX_EPOCHS {
        return Ok(());
    }
    let why = format!("a schedule is accounted epoch by epoch, with at most {MAX_EPOCHS} epochs");
    Err(Error::setting("epochs", epochs, why).fix("train for fewer epochs"))
}

#[cfg(test)]
mod tests;
