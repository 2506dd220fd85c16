//! How much noise DP-SNIP takes, and how that is said.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::privacy::digits::Short;
use crate::privacy::{
    Accountant, Delta, Epsilon, Event, Gdp, NoiseMultiplier, SamplingRate, noise_multiplier_for,
};
use crate::{Error, ErrorKind, Result};

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Noise {
    /// This share of a run's budget.
    Share(f64),
    /// The release by itself stays within this epsilon, at this delta or that of the run.
    Target(Epsilon, Option<Delta>),
    /// This noise multiplier.
    Multiplier(f64),
}

impl Noise {
    /// The noise multiplier, beside a run that is to stay within `total`, if there is one.
    ///
    /// A share s of the total is one of μ²: an unsampled Gaussian release with noise multiplier σ
    /// has μ = 1/σ, and releases add up as μ². If one with σ* would spend the whole total, then
    /// σ*/√s spends the share.
    ///
    /// # Errors
    /// Kind `Setting` for numbers out of range, a share without a total, an epsilon without a
    /// delta, or a release that costs as much as the total by itself.
    pub(super) fn multiplier(self, total: Option<(Epsilon, Delta)>) -> Result<f64> {
        let total = total.map(|(e, d)| Ok((e.check()?, d.check()?))).transpose()?;
        let sigma = match self {
            Self::Multiplier(sigma) => NoiseMultiplier(sigma).check()?.0,
            Self::Share(share) => {
                if !(share > 0.0 && share < 1.0) {
                    let why = "it is the part of the run's budget that the mask may cost, and \
                               training needs the rest";
                    return Err(Error::setting("DP-SNIP share", share, why)
                        .fix("choose a share between 0 and 1, such as 0.05"));
                }
                let (epsilon, delta) = total.ok_or_else(|| nothing_to_share(share))?;
                rounded_up(alone(epsilon, delta)? / share.sqrt())
            }
            Self::Target(epsilon, own) => {
                let epsilon = epsilon.check()?;
                let delta = own.or(total.map(|(_, delta)| delta)).ok_or_else(no_delta)?.check()?;
                if let Some((limit, at)) = total
                    && at == delta
                    && epsilon.0 >= limit.0
                {
                    return Err(above(epsilon.0, limit, at));
                }
                rounded_up(alone(epsilon, delta)?)
            }
        };
        if let Some((limit, delta)) = total {
            let cost = Gdp::default().epsilon(&[Event::gaussian(sigma)], delta)?.epsilon;
            if cost >= limit.0 {
                return Err(above(cost, limit, delta));
            }
        }
        Ok(sigma)
    }
}

/// The noise multiplier of one release of everybody's sum that costs exactly this.
fn alone(epsilon: Epsilon, delta: Delta) -> Result<f64> {
    let everybody = SamplingRate(1.0);
    let found = noise_multiplier_for(epsilon, delta, everybody, 1, &Gdp::default())?;
    Ok(found.noise_multiplier.0)
}

/// Six significant digits, never less: a number that is the same after being read from any JSON,
/// so that ledger, plan and mask files agree to the bit.
fn rounded_up(number: f64) -> f64 {
    let six = |number: f64| format!("{number:.5e}").parse().unwrap_or(number);
    let near = six(number);
    if near >= number { near } else { six(number * (1.0 + 1e-5)) }
}

fn nothing_to_share(share: f64) -> Error {
    let what = format!("DP-SNIP with a share of {share} of the budget");
    let why = "there is no budget to take it from: no target epsilon was given";
    Error::new(ErrorKind::Setting, what, why).fix(
        "give the run a .target(Epsilon(3.0), Delta(1e-5)); a mask of its own takes \
         .epsilon_delta(Epsilon(0.5), Delta(1e-5)) or .noise_multiplier(20.0)",
    )
}

fn no_delta() -> Error {
    let what = "DP-SNIP with an epsilon and no delta";
    Error::new(ErrorKind::Setting, what, "an epsilon means nothing without its delta")
        .fix("write .epsilon_delta(Epsilon(0.5), Delta(1e-5))")
}

fn above(epsilon: f64, limit: Epsilon, delta: Delta) -> Error {
    let why = format!(
        "the SNIP budget is above the total: mask and training together may cost epsilon {limit} \
         at delta {delta}"
    );
    Error::setting("DP-SNIP epsilon", Short(epsilon), why)
        .fix("leave most of the budget to training: .share(0.05)")
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => write!(f, "a share of {share} of the budget"),
            Self::Target(epsilon, None) => write!(f, "epsilon {epsilon}"),
            Self::Target(epsilon, Some(delta)) => write!(f, "epsilon {epsilon} at delta {delta}"),
            Self::Multiplier(sigma) => write!(f, "noise multiplier {sigma}"),
        }
    }
}
