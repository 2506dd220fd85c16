//! Interval at which a run writes checkpoints.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Interval at which a run writes a checkpoint, from which it resumes after it was killed or
/// stopped.
///
/// From text: `500` (steps), `10min`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckpointInterval {
    /// After this many steps.
    Steps(u64),
    /// After the first step that ends this many minutes of wall-clock time after the last
    /// checkpoint. The results of a run do not depend on when checkpoints are written.
    Minutes(f64),
}

/// The longest time between two checkpoints, in minutes: a year.
const LONGEST: f64 = 365.0 * 24.0 * 60.0;

impl CheckpointInterval {
    /// Checks the setting.
    ///
    /// # Errors
    /// `Setting` for zero steps, and for minutes that are not positive or more than a year.
    pub(crate) fn check(self) -> Result<()> {
        let sound = match self {
            Self::Steps(steps) => steps > 0,
            Self::Minutes(minutes) => minutes > 0.0 && minutes <= LONGEST,
        };
        if sound {
            Ok(())
        } else {
            let why = "the interval must be at least one step, or a time above zero and at most a \
                       year";
            Err(Error::setting("checkpoint_every", self, why).fix("use for example 500 or 10min"))
        }
    }
}

impl From<u64> for CheckpointInterval {
    fn from(steps: u64) -> Self {
        Self::Steps(steps)
    }
}

impl fmt::Display for CheckpointInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "{steps}"),
            Self::Minutes(minutes) => write!(f, "{minutes}min"),
        }
    }
}

impl FromStr for CheckpointInterval {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let every = match text.strip_suffix("min") {
            Some(minutes) => minutes.trim().parse().ok().map(Self::Minutes),
            None => text.parse().ok().map(Self::Steps),
        };
        let every = every.ok_or_else(|| {
            let why = "neither a number of steps nor a number of minutes";
            Error::setting("checkpoint_every", text, why).fix("use for example 500 or 10min")
        })?;
        every.check().map(|()| every)
    }
}

/// The checkpoints of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointSettings {
    /// Interval at which checkpoints are written.
    pub every: CheckpointInterval,
    /// The arguments of the command that trains the run, with which it can be started again; empty
    /// for a run that is trained otherwise.
    pub command: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_is_written() {
        for every in [CheckpointInterval::Steps(500), CheckpointInterval::Minutes(0.5)] {
            assert_eq!(every.to_string().parse::<CheckpointInterval>().unwrap(), every);
        }
        assert_eq!(
            " 10 min ".parse::<CheckpointInterval>().unwrap(),
            CheckpointInterval::Minutes(10.0)
        );
        for wrong in ["", "0", "-1", "min", "0min", "-2min", "NaNmin", "infmin", "1e9min", "5h"] {
            let error = wrong.parse::<CheckpointInterval>().unwrap_err();
            assert!(error.advice().contains("10min"), "{wrong}: {error}");
        }
    }
}
