//! Random numbers of trials, for private selection of the best one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::digits::RoundedNearest;
use super::event::nearly_equal;
use crate::{Error, Result};

/// Range of the mean number of trials.
const MEANS: std::ops::RangeInclusive<f64> = 1.0..=1e6;
/// Range of the shape of the truncated negative binomial distribution.
const SHAPES: std::ops::RangeInclusive<f64> = 0.0..=100.0;

/// Distribution of the number of trials in private selection (Papernot and Steinke, "Hyperparameter
/// Tuning with Rényi Differential Privacy", 2022): a random number K of independent trials is run,
/// and only the best one is released.
///
/// A fixed number of trials has no such guarantee: the number must be random, and nothing but the
/// best trial may be shown, K included.
///
/// ```
/// use epsilab_accounting::{Accountant, Delta, Event, Rdp, Trials};
/// let trials: Trials = "geometric:10".parse()?;
/// assert_eq!(trials, Trials::geometric(10.0));
/// let one = Event::poisson(0.01, 2.0, 1000);
/// let cost = |event: Event| Rdp::default().epsilon(&[event], Delta(1e-6));
/// let (best, all) = (cost(one.best_of(trials))?, cost(one.repeated(10))?);
/// assert!(cost(one)?.epsilon < best.epsilon && best.epsilon < all.epsilon);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Trials {
    /// Truncated negative binomial distribution on 1, 2, …: with shape 1 the geometric
    /// distribution, with shape 0 the logarithmic one.
    NegativeBinomial {
        /// Mean number of trials, above 1.
        mean: f64,
        /// η, at least 0. A smaller one costs less and is more spread out.
        shape: f64,
    },
    /// Poisson distribution on 0, 1, 2, …: nothing is released if the number is 0.
    Poisson {
        /// Mean number of trials, at least 1.
        mean: f64,
    },
}

impl Trials {
    /// Creates the geometric distribution on 1, 2, … with this mean.
    pub fn geometric(mean: f64) -> Self {
        Self::NegativeBinomial { mean, shape: 1.0 }
    }

    /// Creates the logarithmic distribution on 1, 2, … with this mean.
    pub fn logarithmic(mean: f64) -> Self {
        Self::NegativeBinomial { mean, shape: 0.0 }
    }

    /// Creates the Poisson distribution with this mean.
    pub fn poisson(mean: f64) -> Self {
        Self::Poisson { mean }
    }

    /// Returns the mean number of trials.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::NegativeBinomial { mean, .. } | Self::Poisson { mean } => mean,
        }
    }

    /// Returns whether two distributions are the same up to the rounding of numbers that were read
    /// from a file.
    pub(super) fn is_nearly(&self, other: &Self) -> bool {
        match (*self, *other) {
            (
                Self::NegativeBinomial { mean, shape },
                Self::NegativeBinomial { mean: other, shape: other_shape },
            ) => nearly_equal(mean, other) && nearly_equal(shape, other_shape),
            (Self::Poisson { mean }, Self::Poisson { mean: other }) => nearly_equal(mean, other),
            _ => false,
        }
    }

    /// Returns the distribution if its parameters are in range.
    ///
    /// # Errors
    /// `Setting` for a mean that is not above 1 (for Poisson: below 1) or above 1e6, and for a
    /// shape outside 0 to 100.
    pub fn check(&self) -> Result<&Self> {
        let mean = self.mean();
        if !MEANS.contains(&mean) || (mean == 1.0 && !matches!(self, Self::Poisson { .. })) {
            return Err(Error::setting(
                "mean",
                mean,
                "the mean number of trials must be above 1 and at most 1e6",
            )
            .fix("use a number above 1 and at most 1e6"));
        }
        match *self {
            Self::NegativeBinomial { shape, .. } if !SHAPES.contains(&shape) => {
                let why = "shapes from 0 to 100 are supported";
                Err(Error::setting("shape", shape, why).fix("use 1, the geometric distribution"))
            }
            _ => Ok(self),
        }
    }

    /// Computes γ of the truncated negative binomial distribution: its mean is η (1 - γ) / (γ (1 -
    /// γ^η)), for η = 0 (1/γ - 1) / ln(1/γ). A lower bound of relative accuracy 1e-12.
    pub(crate) fn solve_gamma(mean: f64, shape: f64) -> f64 {
        // The mean falls from infinity to 1 as γ rises from 0 to 1.
        let (mut low, mut high) = (f64::MIN_POSITIVE.ln(), 0.0);
        while high - low > 1e-13 * (1.0 - low) {
            let middle = 0.5 * (low + high);
            if mean_at(middle, shape) > mean { low = middle } else { high = middle }
        }
        low.exp()
    }

    /// Computes the number of trials for a uniform number from [0, 1): the inverse of the
    /// distribution function.
    ///
    /// # Guarantee
    /// The uniform number must be secret and drawn for this selection alone. The distribution is
    /// exact up to the rounding of f64 and the 53 bits of the uniform number.
    ///
    /// # Errors
    /// As [`check`](Self::check); `Setting` for a number outside [0, 1).
    pub fn quantile(&self, uniform: f64) -> Result<u64> {
        self.check()?;
        if !(0.0..1.0).contains(&uniform) {
            return Err(Error::setting("uniform", uniform, "the quantile must be in [0, 1)")
                .fix("draw it uniformly from [0, 1)"));
        }
        // The logarithm of the first probability, which may underflow, and the ratios of the next
        // ones to those before them.
        let (mut k, mut ln_probability, factor, shape): (u64, f64, f64, f64) = match *self {
            Self::NegativeBinomial { mean, shape } => {
                let gamma = Self::solve_gamma(mean, shape);
                let ln_first = if shape == 0.0 {
                    -(-gamma.ln()).ln()
                } else {
                    // η / (γ^-η - 1)
                    shape.ln() - ln_exp_m1(-shape * gamma.ln())
                };
                (1, (-gamma).ln_1p() + ln_first, 1.0 - gamma, shape)
            }
            Self::Poisson { mean } => (0, -mean, mean, f64::NAN),
        };
        let ratio = |k: u64| {
            if shape.is_nan() {
                factor / (k as f64 + 1.0)
            } else {
                factor * (k as f64 + shape) / (k as f64 + 1.0)
            }
        };
        let mut rest = uniform;
        loop {
            let probability = ln_probability.exp();
            // Past the mean the probabilities fall, and soon all that follow are negligible.
            let is_tail = k as f64 > self.mean() && probability < 1e-25;
            if rest < probability || is_tail {
                return Ok(k);
            }
            rest -= probability;
            ln_probability += ratio(k).ln();
            k += 1;
        }
    }
}

/// Computes ln(e^x - 1) for x above 0, also where e^x overflows.
fn ln_exp_m1(x: f64) -> f64 {
    x + (-(-x).exp_m1()).ln()
}

/// Computes the mean of the truncated negative binomial distribution at the logarithm of γ.
fn mean_at(ln_gamma: f64, shape: f64) -> f64 {
    // (1 - γ) / γ
    let odds = (-ln_gamma).exp_m1();
    if shape == 0.0 { odds / -ln_gamma } else { shape * odds / -(shape * ln_gamma).exp_m1() }
}

impl FromStr for Trials {
    type Err = Error;

    /// Parses `5` (the geometric distribution of mean 5), `geometric:5`, `logarithmic:5` or
    /// `poisson:5`.
    fn from_str(text: &str) -> Result<Self> {
        let (law, mean) = text.split_once(':').unwrap_or(("geometric", text));
        let why = "not a distribution of the number of trials";
        let refused = || {
            Error::setting("trials", text, why).fix(
                "give the mean number of trials, such as 5, or geometric:5, logarithmic:5 or \
                 poisson:5",
            )
        };
        let mean = mean.trim().parse().map_err(|_| refused())?;
        let trials = match law.trim() {
            "geometric" => Self::geometric(mean),
            "logarithmic" => Self::logarithmic(mean),
            "poisson" => Self::poisson(mean),
            _ => return Err(refused()),
        };
        trials.check().copied()
    }
}

impl fmt::Display for Trials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = RoundedNearest(self.mean());
        match *self {
            Self::NegativeBinomial { shape: 1.0, .. } => write!(f, "geometric, mean {mean}"),
            Self::NegativeBinomial { shape: 0.0, .. } => write!(f, "logarithmic, mean {mean}"),
            Self::NegativeBinomial { shape, .. } => {
                write!(f, "negative binomial of shape {}, mean {mean}", RoundedNearest(shape))
            }
            Self::Poisson { .. } => write!(f, "Poisson, mean {mean}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_gives_the_mean_as_in_dp_accounting() {
        for (shape, mean, gamma) in [
            (0.0, 1.5, 0.466_410_765_890_032),
            (0.0, 100.0, 0.001_542_115_074_116_7),
            (0.5, 10.0, 0.062_5),
            (1.0, 10.0, 0.1),
            (2.0, 1.5, 0.758_305_739_145_726),
            (2.0, 100.0, 0.019_615_242_267_027_5),
        ] {
            let found = Trials::solve_gamma(mean, shape);
            assert!((found / gamma - 1.0).abs() < 1e-9, "{shape} {mean}: {found}");
        }
    }

    #[test]
    fn quantiles_have_the_law() {
        let at = |law: Trials, u: f64| law.quantile(u).unwrap();
        let grid = || (0..200_000).map(|i| (f64::from(i) + 0.5) / 200_000.0);
        for law in [
            Trials::geometric(10.0),
            Trials::logarithmic(3.0),
            Trials::NegativeBinomial { mean: 5.0, shape: 0.5 },
            Trials::poisson(4.0),
        ] {
            let mean = grid().map(|u| at(law, u) as f64).sum::<f64>() / 200_000.0;
            assert!((mean / law.mean() - 1.0).abs() < 5e-3, "{law}: {mean}");
        }
        // P(K = 1) = 1/10, P(K <= 2) = 0.19.
        let first = [0.0, 0.099, 0.101, 0.189, 0.191].map(|u| at(Trials::geometric(10.0), u));
        assert_eq!(first, [1, 1, 2, 2, 3]);
        assert_eq!((at(Trials::poisson(4.0), 0.018), at(Trials::poisson(4.0), 0.019)), (0, 1));
    }

    #[test]
    fn probabilities_that_underflow_leave_the_law_as_it_is() {
        // The median of a Poisson law lies within ln 2 below and 1/3 above its mean, that of a
        // negative binomial law of a large shape near its mean.
        for mean in [700.0, 746.0, 1e4, 1e5] {
            let median = Trials::poisson(mean).quantile(0.5).unwrap() as f64;
            assert!((median - mean).abs() <= 1.0, "{mean}: {median}");
        }
        let median = Trials::NegativeBinomial { mean: 1e5, shape: 100.0 }.quantile(0.5).unwrap();
        assert!((0.98e5..1.0e5).contains(&(median as f64)), "{median}");
        // The largest uniform number: ln(2^-53) / ln(0.99).
        let last = Trials::geometric(100.0).quantile(1.0 - f64::EPSILON / 2.0).unwrap();
        assert!((3_600..6_000).contains(&last), "{last}");
        for wrong in [1.0, -0.1, f64::NAN] {
            assert!(Trials::geometric(2.0).quantile(wrong).is_err());
        }
    }

    #[test]
    fn laws_are_read_from_text() {
        let read = |text: &str| text.parse::<Trials>().unwrap();
        assert_eq!(read("5"), Trials::geometric(5.0));
        assert_eq!(read("geometric:2.5"), Trials::geometric(2.5));
        assert_eq!(read("logarithmic:3"), Trials::logarithmic(3.0));
        assert_eq!(read("poisson:1"), Trials::poisson(1.0));
        for wrong in ["", "1", "five", "normal:5", "geometric:", "poisson:0.5", "5:geometric"] {
            let error = wrong.parse::<Trials>().unwrap_err();
            assert!(!error.advice().is_empty(), "{wrong}: {error}");
        }
    }

    #[test]
    fn invalid_laws_of_trials_are_refused() {
        for wrong in [0.0, 1.0, -3.0, f64::NAN, f64::INFINITY] {
            assert!(Trials::geometric(wrong).check().is_err(), "{wrong}");
        }
        assert!(Trials::poisson(1.0).check().is_ok() && Trials::poisson(0.5).check().is_err());
        assert!(Trials::NegativeBinomial { mean: 2.0, shape: -0.5 }.check().is_err());
    }
}
