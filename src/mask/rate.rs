//! How many coordinates a rate drops, and rates that change over the steps.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::{Error, ErrorKind, Result};

/// How many of `n` coordinates a rate drops: ⌊rate · n + 1e-9⌋. Without the last term, rates like
/// 1 - 0.9 would drop one too few.
pub fn dropped_of(rate: f64, n: usize) -> usize {
    ((rate * n as f64 + 1e-9).floor() as usize).min(n)
}

/// A rate in words: `70 %`.
pub(crate) fn in_percent(rate: f64) -> String {
    format!("{} %", (rate * 1e6).round() / 1e4)
}

/// Refuses a share of coordinates to drop that is not in [0, 1).
pub(crate) fn check_rate(name: &str, rate: f64) -> Result<f64> {
    if (0.0..1.0).contains(&rate) {
        return Ok(rate);
    }
    let why = "it is the share of coordinates that is left out: from 0 to below 1, for something \
               must be trained";
    Err(Error::setting(name, rate, why).fix("choose a rate such as 0.5"))
}

/// Refuses a pruning rate outside [0, 1). Recipes are given the rate (`prune`) or its complement
/// (`keep`), so the error says both.
pub(crate) fn check_pruning(rate: f64) -> Result<f64> {
    if (0.0..1.0).contains(&rate) {
        return Ok(rate);
    }
    // 1 - (1 - 1.1) is 1.1 only up to its last digits.
    let short = |x: f64| (x * 1e12).round() / 1e12;
    let what = format!("keep = {} (prune = {})", short(1.0 - rate), short(rate));
    let why = "a mask keeps more than 0 and at most 1 of the weights, and prunes the others";
    Err(Error::new(ErrorKind::Setting, what, why).fix("choose a value such as keep(0.5)"))
}

/// A share of coordinates to drop, for every step of a run. It depends on the number of the step
/// only, never on data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rate {
    /// The same in every step.
    Fixed(f64),
    /// In a straight line from the first step's to the last step's.
    Linear {
        /// Rate of the first step.
        from: f64,
        /// Rate of the last step.
        to: f64,
    },
    /// Along half a cosine from the first step's to the last step's.
    Cosine {
        /// Rate of the first step.
        from: f64,
        /// Rate of the last step.
        to: f64,
    },
}

impl Rate {
    /// From one rate to another in a straight line.
    pub fn linear(from: f64, to: f64) -> Self {
        Self::Linear { from, to }
    }

    /// From one rate to another along half a cosine.
    pub fn cosine(from: f64, to: f64) -> Self {
        Self::Cosine { from, to }
    }

    /// The rate of step `step` (counted from 0) of `steps`.
    pub fn at(&self, step: u64, steps: u64) -> f64 {
        let share = if steps < 2 { 0.0 } else { step.min(steps - 1) as f64 / (steps - 1) as f64 };
        match *self {
            Self::Fixed(rate) => rate,
            Self::Linear { from, to } => from + (to - from) * share,
            Self::Cosine { from, to } => {
                to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
            }
        }
    }

    /// Refuses rates outside [0, 1).
    ///
    /// # Errors
    /// Kind `Setting`.
    pub fn check(&self) -> Result<()> {
        let ends = match *self {
            Self::Fixed(rate) => [rate, rate],
            Self::Linear { from, to } | Self::Cosine { from, to } => [from, to],
        };
        ends.into_iter().try_for_each(|rate| check_rate("drop_gradients", rate).map(|_| ()))
    }
}

impl From<f64> for Rate {
    fn from(rate: f64) -> Self {
        Self::Fixed(rate)
    }
}

impl fmt::Display for Rate {
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
    fn counts_are_exact_where_floats_are_not() {
        assert_eq!(dropped_of(1.0 - 0.9, 10), 1);
        assert_eq!(dropped_of(0.3, 10), 3);
        assert_eq!(dropped_of(0.29, 100), 29);
        assert_eq!((dropped_of(0.0, 7), dropped_of(0.99, 7), dropped_of(0.5, 7)), (0, 6, 3));
    }

    #[test]
    fn scheduled_rates_begin_and_end_where_they_say() {
        for rate in [Rate::linear(0.1, 0.9), Rate::cosine(0.1, 0.9)] {
            assert!((rate.at(0, 101) - 0.1).abs() < 1e-12);
            assert!((rate.at(50, 101) - 0.5).abs() < 1e-12);
            assert!((rate.at(100, 101) - 0.9).abs() < 1e-12);
        }
        assert!(Rate::cosine(0.1, 0.9).at(10, 101) < Rate::linear(0.1, 0.9).at(10, 101));
        assert_eq!(Rate::linear(0.3, 0.9).at(0, 1), 0.3);
    }

    #[test]
    fn rates_outside_are_refused() {
        for bad in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(Rate::from(bad).check().is_err(), "{bad}");
            assert!(Rate::linear(0.1, bad).check().is_err(), "{bad}");
        }
        assert!(Rate::linear(0.0, 0.99).check().is_ok());
    }
}
