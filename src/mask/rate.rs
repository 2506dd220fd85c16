//! Pruning and dropping rates: fractions of coordinates, constant or scheduled over the steps.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::{Error, ErrorKind, Result};

/// Returns the number of `n` coordinates that a rate drops: ⌊rate · n + 1e-9⌋.
///
/// Without the last term, rates like 1 - 0.9 would drop one too few.
pub fn dropped_count(rate: f64, n: usize) -> usize {
    ((rate * n as f64 + 1e-9).floor() as usize).min(n)
}

/// Returns a rate as a percentage, such as `70 %`.
pub(crate) fn in_percent(rate: f64) -> String {
    format!("{} %", (rate * 1e6).round() / 1e4)
}

/// Returns the rate if it is in [0, 1), else a `Setting` error that calls it `name`.
pub(crate) fn check_rate(name: &str, rate: f64) -> Result<f64> {
    if (0.0..1.0).contains(&rate) {
        return Ok(rate);
    }
    let why = "the fraction of dropped coordinates must be at least 0 and below 1, so that some \
               are trained";
    Err(Error::setting(name, rate, why).fix("choose a rate such as 0.5"))
}

/// Returns the pruning rate if it is in [0, 1), else a `Setting` error. Recipes are given the rate
/// (`prune`) or its complement (`keep`), so the error states both.
pub(crate) fn check_pruning(rate: f64) -> Result<f64> {
    if (0.0..1.0).contains(&rate) {
        return Ok(rate);
    }
    // 1 - (1 - 1.1) is 1.1 only up to its last digits.
    let short = |x: f64| (x * 1e12).round() / 1e12;
    let what = format!("keep = {} (prune = {})", short(1.0 - rate), short(rate));
    let why = "the fraction of weights to keep must be above 0 and at most 1";
    Err(Error::new(ErrorKind::Setting, what, why).fix("choose a value such as keep(0.5)"))
}

/// Rate at which each step of a run drops coordinates, as a fraction: a constant or a schedule.
///
/// It depends on the step number only, never on the data.
///
/// ```
/// use epsilab::prelude::*;
/// assert_eq!(DropRate::from(0.5), DropRate::Fixed(0.5));
/// // Half of each tensor in the first step, nine tenths in the last one.
/// let rising = DropRate::cosine(0.5, 0.9);
/// assert_eq!(rising.to_string(), "0.5 to 0.9, cosine");
/// let method = DpSgd::new().noise_multiplier(1.0).drop_gradients(Dropping::random(rising));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropRate {
    /// Constant rate in every step.
    Fixed(f64),
    /// Linear schedule from the first to the last step.
    Linear {
        /// Rate of the first step.
        from: f64,
        /// Rate of the last step.
        to: f64,
    },
    /// Schedule along half a cosine from the first to the last step.
    Cosine {
        /// Rate of the first step.
        from: f64,
        /// Rate of the last step.
        to: f64,
    },
}

impl DropRate {
    /// Creates a linear schedule.
    pub fn linear(from: f64, to: f64) -> Self {
        Self::Linear { from, to }
    }

    /// Creates a schedule along half a cosine.
    pub fn cosine(from: f64, to: f64) -> Self {
        Self::Cosine { from, to }
    }

    /// Returns the rate of step `step` (counted from 0) in a run of `steps` steps.
    pub(crate) fn at(&self, step: u64, steps: u64) -> f64 {
        let progress =
            if steps < 2 { 0.0 } else { step.min(steps - 1) as f64 / (steps - 1) as f64 };
        match *self {
            Self::Fixed(rate) => rate,
            Self::Linear { from, to } => from + (to - from) * progress,
            Self::Cosine { from, to } => {
                to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }

    /// Checks that all rates are in [0, 1).
    ///
    /// # Errors
    /// `Setting` if one is not.
    pub(crate) fn check(&self) -> Result<()> {
        let rates = match *self {
            Self::Fixed(rate) => [rate, rate],
            Self::Linear { from, to } | Self::Cosine { from, to } => [from, to],
        };
        rates.into_iter().try_for_each(|rate| check_rate("drop_gradients", rate).map(|_| ()))
    }
}

impl From<f64> for DropRate {
    fn from(rate: f64) -> Self {
        Self::Fixed(rate)
    }
}

impl fmt::Display for DropRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(rate) => write!(f, "{rate}"),
            Self::Linear { from, to } => write!(f, "{from} to {to}, linear"),
            Self::Cosine { from, to } => write!(f, "{from} to {to}, cosine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_counts_are_robust_to_rounding() {
        assert_eq!(dropped_count(1.0 - 0.9, 10), 1);
        assert_eq!(dropped_count(0.3, 10), 3);
        assert_eq!(dropped_count(0.29, 100), 29);
        assert_eq!(
            (dropped_count(0.0, 7), dropped_count(0.99, 7), dropped_count(0.5, 7)),
            (0, 6, 3)
        );
    }

    #[test]
    fn schedules_reach_their_first_and_last_rate() {
        for rate in [DropRate::linear(0.1, 0.9), DropRate::cosine(0.1, 0.9)] {
            assert!((rate.at(0, 101) - 0.1).abs() < 1e-12);
            assert!((rate.at(50, 101) - 0.5).abs() < 1e-12);
            assert!((rate.at(100, 101) - 0.9).abs() < 1e-12);
        }
        assert!(DropRate::cosine(0.1, 0.9).at(10, 101) < DropRate::linear(0.1, 0.9).at(10, 101));
        assert_eq!(DropRate::linear(0.3, 0.9).at(0, 1), 0.3);
    }

    #[test]
    fn rates_outside_0_to_1_are_refused() {
        for bad in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(DropRate::from(bad).check().is_err(), "{bad}");
            assert!(DropRate::linear(0.1, bad).check().is_err(), "{bad}");
        }
        assert!(DropRate::linear(0.0, 0.99).check().is_ok());
    }
}
