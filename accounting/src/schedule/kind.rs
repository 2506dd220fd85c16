//! The forms that a schedule can have, with their text and JSON.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digits::Readable;
use crate::{Error, Result};

/// A public factor that changes over a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ScheduleKind {
    #[default]
    Constant,
    /// rate^e in epoch e.
    Linear { rate: f64 },
    /// 1 / (1 + rate e) in epoch e.
    Time { rate: f64 },
    /// rate^floor(e / every) in epoch e.
    Step { rate: f64, every: u64 },
    /// exp(-rate e) in epoch e.
    Exponential { rate: f64 },
    /// ratio^(t / T) in step t of T.
    Decay { ratio: f64 },
    /// A factor for each phase, given as (epochs, factor); the last one applies to all later
    /// epochs.
    Piecewise { phases: Vec<(u64, f64)> },
}

/// Frequency of the changes of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChangeFrequency {
    Never,
    Epoch,
    Step,
}

/// A moment of a run: its epoch, counted from 0, and the fraction of the steps before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchedulePosition {
    pub epoch: u64,
    pub fraction: f64,
}

impl ScheduleKind {
    /// Checks the parameters of the schedule.
    ///
    /// # Errors
    /// Kind `Setting` for a rate, ratio or factor that is not finite and above 0, a step or phase
    /// of 0 epochs, or an empty list of phases.
    pub fn check(&self) -> Result<()> {
        match self {
            ScheduleKind::Constant => Ok(()),
            ScheduleKind::Linear { rate }
            | ScheduleKind::Time { rate }
            | ScheduleKind::Exponential { rate } => check_positive("rate", *rate),
            ScheduleKind::Step { rate, every } => {
                check_positive("rate", *rate)?;
                check_epochs("every", *every)
            }
            ScheduleKind::Decay { ratio } => check_positive("ratio", *ratio),
            ScheduleKind::Piecewise { phases } if phases.is_empty() => {
                Err(Error::setting("phases", 0, "a schedule needs at least one phase")
                    .fix("use for example piecewise:10x1,5x0.8"))
            }
            ScheduleKind::Piecewise { phases } => {
                phases.iter().try_for_each(|&(epochs, factor)| {
                    check_epochs("epochs of a phase", epochs)?;
                    check_positive("factor", factor)
                })
            }
        }
    }

    pub fn change_frequency(&self) -> ChangeFrequency {
        match self {
            ScheduleKind::Constant => ChangeFrequency::Never,
            ScheduleKind::Decay { .. } => ChangeFrequency::Step,
            _ => ChangeFrequency::Epoch,
        }
    }

    /// Computes the factor at a moment. Rates act on the setting's `power`-th power: 2 where they
    /// act on a variance and the factor is one on the standard deviation. The ratio of a decay and
    /// the factors of phases act on the setting itself. The logarithm neither underflows nor
    /// overflows.
    pub fn factor(&self, at: SchedulePosition, power: f64) -> f64 {
        let e = at.epoch as f64;
        let ln_rate = match self {
            ScheduleKind::Constant => return 1.0,
            ScheduleKind::Decay { ratio } => return (at.fraction * ratio.ln()).exp(),
            ScheduleKind::Piecewise { phases } => {
                let mut end = 0u64;
                let now = phases.iter().find(|&&(epochs, _)| {
                    end = end.saturating_add(epochs);
                    at.epoch < end
                });
                return now.or(phases.last()).map_or(1.0, |&(_, factor)| factor);
            }
            ScheduleKind::Linear { rate } => e * rate.ln(),
            ScheduleKind::Time { rate } => -(rate * e).ln_1p(),
            ScheduleKind::Step { rate, every } => (at.epoch / every) as f64 * rate.ln(),
            ScheduleKind::Exponential { rate } => -rate * e,
        };
        (ln_rate / power).exp()
    }
}

impl fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleKind::Constant => f.write_str("constant"),
            ScheduleKind::Linear { rate } => write!(f, "linear:{}", Readable(*rate)),
            ScheduleKind::Time { rate } => write!(f, "time:{}", Readable(*rate)),
            ScheduleKind::Step { rate, every } => write!(f, "step:{}:{every}", Readable(*rate)),
            ScheduleKind::Exponential { rate } => write!(f, "exp:{}", Readable(*rate)),
            ScheduleKind::Decay { ratio } => write!(f, "decay:{}", Readable(*ratio)),
            ScheduleKind::Piecewise { phases } => {
                let phase =
                    |(epochs, factor): &(u64, f64)| format!("{epochs}x{}", Readable(*factor));
                write!(f, "piecewise:{}", phases.iter().map(phase).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for ScheduleKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::setting("schedule", text, "not a schedule").fix(
                "use constant, linear:0.99, time:0.01, step:0.99:10, exp:0.1, decay:0.5 or \
                 piecewise:10x1,5x0.8",
            )
        };
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| unknown());
        let integer = |text: &str| text.trim().parse::<u64>().map_err(|_| unknown());
        let phase = |text: &str| {
            let (epochs, factor) = text.split_once('x').ok_or_else(unknown)?;
            Ok((integer(epochs)?, number(factor)?))
        };
        let parts: Vec<&str> = text.trim().split(':').collect();
        let shape = match parts[..] {
            ["constant"] => ScheduleKind::Constant,
            ["linear", rate] => ScheduleKind::Linear { rate: number(rate)? },
            ["time", rate] => ScheduleKind::Time { rate: number(rate)? },
            ["step", rate, every] => {
                ScheduleKind::Step { rate: number(rate)?, every: integer(every)? }
            }
            ["exp", rate] => ScheduleKind::Exponential { rate: number(rate)? },
            ["decay", ratio] => ScheduleKind::Decay { ratio: number(ratio)? },
            ["piecewise", phases] => ScheduleKind::Piecewise {
                phases: phases.split(',').map(phase).collect::<Result<_>>()?,
            },
            _ => return Err(unknown()),
        };
        shape.check()?;
        Ok(shape)
    }
}

fn check_positive(name: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    let why = "the parameters of a schedule must be finite and above 0";
    Err(Error::setting(name, value, why).fix("use for example linear:0.99"))
}

fn check_epochs(name: &str, epochs: u64) -> Result<()> {
    match epochs {
        0 => Err(Error::setting(name, 0, "the schedule would never reach its next value")
            .fix("use at least 1 epoch")),
        _ => Ok(()),
    }
}
