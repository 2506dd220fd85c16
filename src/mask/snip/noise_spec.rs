//! Noise multiplier of DP-SNIP: specification and calibration.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::privacy::digits::RoundedNearest;
use crate::privacy::{
    Accountant, Delta, Epsilon, Event, Gdp, NoiseMultiplier, SamplingRate, noise_multiplier_for,
};
use crate::{Error, ErrorKind, Result};

/// Specification of the noise by the user.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NoiseSpec {
    /// Fraction of the run's privacy budget, measured in μ².
    #[serde(rename = "share")]
    BudgetFraction(f64),
    /// Epsilon for the release alone, at this delta or else at the delta of the run.
    Target(Epsilon, Option<Delta>),
    /// Noise multiplier.
    Multiplier(f64),
}

impl NoiseSpec {
    /// Returns the noise multiplier. `total` is the privacy budget of the run that makes the mask,
    /// if any.
    ///
    /// A budget fraction s is measured in μ² (Gaussian DP): a Gaussian release of the full batch
    /// with noise multiplier σ has μ = 1/σ, and composition adds μ². If σ* spends the whole budget,
    /// σ*/√s spends the fraction s.
    ///
    /// # Errors
    /// `Setting` if a value is out of range, a budget fraction has no total, an epsilon has no
    /// delta, or the release alone costs at least the total.
    pub(super) fn resolve(self, total: Option<(Epsilon, Delta)>) -> Result<f64> {
        if let Some((epsilon, delta)) = total {
            epsilon.check()?;
            delta.check()?;
        }
        let sigma = match self {
            Self::Multiplier(sigma) => NoiseMultiplier(sigma).check()?.0,
            Self::BudgetFraction(fraction) => {
                if !(fraction > 0.0 && fraction < 1.0) {
                    let why = "the fraction of the run's budget for the mask must be between 0 and \
                               1; training needs the rest";
                    return Err(Error::setting("DP-SNIP budget fraction", fraction, why)
                        .fix("choose a fraction between 0 and 1, such as 0.05"));
                }
                let (epsilon, delta) = total.ok_or_else(|| missing_budget_error(fraction))?;
                round_up(single_release(epsilon, delta)? / fraction.sqrt())
            }
            Self::Target(epsilon, own_delta) => {
                let epsilon = epsilon.check()?;
                let run_delta = total.map(|(_, delta)| delta);
                let delta = own_delta.or(run_delta).ok_or_else(missing_delta_error)?.check()?;
                if let Some((limit, run_delta)) = total
                    && run_delta == delta
                    && epsilon.0 >= limit.0
                {
                    return Err(above_total(epsilon.0, limit, delta));
                }
                round_up(single_release(epsilon, delta)?)
            }
        };
        if let Some((limit, delta)) = total {
            let cost = Gdp::default().epsilon(&[Event::gaussian(sigma)], delta)?.epsilon;
            if cost >= limit.0 {
                return Err(above_total(cost, limit, delta));
            }
        }
        Ok(sigma)
    }
}

/// Returns the noise multiplier of one Gaussian release, without subsampling, that costs (epsilon,
/// delta).
fn single_release(epsilon: Epsilon, delta: Delta) -> Result<f64> {
    let full_batch = SamplingRate(1.0);
    let calibrated = noise_multiplier_for(epsilon, delta, full_batch, 1, &Gdp::default())?;
    Ok(calibrated.noise_multiplier.0)
}

/// Rounds up to six significant digits. Such a number survives any JSON round trip, so ledger, plan
/// and mask file agree exactly.
fn round_up(value: f64) -> f64 {
    let six_digits = |value: f64| format!("{value:.5e}").parse().unwrap_or(value);
    let nearest = six_digits(value);
    if nearest >= value { nearest } else { six_digits(value * (1.0 + 1e-5)) }
}

fn missing_budget_error(fraction: f64) -> Error {
    let what = format!("DP-SNIP with {fraction} of the budget");
    let why = "the run has no budget, because no target epsilon was given";
    Error::new(ErrorKind::Setting, what, why).fix(
        "give the run a .target(Epsilon(3.0), Delta(1e-5)); for a mask outside a run use \
         .epsilon_delta(Epsilon(0.5), Delta(1e-5)) or .noise_multiplier(20.0)",
    )
}

fn missing_delta_error() -> Error {
    let what = "DP-SNIP with an epsilon and no delta";
    Error::new(ErrorKind::Setting, what, "an epsilon is a guarantee only together with a delta")
        .fix("write .epsilon_delta(Epsilon(0.5), Delta(1e-5))")
}

fn above_total(epsilon: f64, limit: Epsilon, delta: Delta) -> Error {
    let why = format!(
        "the SNIP budget is above the total: mask and training together may cost epsilon {limit} \
         at delta {delta}"
    );
    Error::setting("DP-SNIP epsilon", RoundedNearest(epsilon), why)
        .fix("leave most of the budget for training: .budget_fraction(0.05)")
}

impl fmt::Display for NoiseSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetFraction(fraction) => write!(f, "{fraction} of the budget"),
            Self::Target(epsilon, None) => write!(f, "epsilon {epsilon}"),
            Self::Target(epsilon, Some(delta)) => write!(f, "epsilon {epsilon} at delta {delta}"),
            Self::Multiplier(sigma) => write!(f, "noise multiplier {sigma}"),
        }
    }
}
