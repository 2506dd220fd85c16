//! Gaussian differential privacy: exact for Gaussians, an estimate for sampled ones.
//!
//! A mechanism is mu-GDP if telling its outputs on two neighbours apart is as hard as telling
//! N(0, 1) from N(mu, 1) (Dong, Roth, Su: Gaussian Differential Privacy, 2022). A Gaussian release
//! is that exactly, with mu = 1 / sigma, and releases add up as mu² (Corollary 3.3 there).

mod clt;
mod curve;
pub(crate) mod normal;

use super::event::singles;
use super::{Accountant, Delta, Event, Neighbouring, Spent};
use crate::{Error, ErrorKind, Result};
pub use clt::GdpClt;
pub use curve::{delta_of, epsilon_of};

/// The exact accountant of Gaussians without sampling.
///
/// # Guarantee
/// Neighbours in the sense given to [`Gdp::with_neighbouring`]. Accounts releases of the sum over everybody
/// and, where the number of examples stays, shuffled epochs; the noise counts half if an example
/// is replaced. The value is the best possible one, rounded up by less than a billionth; sampled
/// releases are refused, because theirs is not known in closed form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gdp {
    neighbouring: Neighbouring,
}

impl Gdp {
    /// For the given neighbouring relation.
    pub fn with_neighbouring(neighbouring: Neighbouring) -> Self {
        Self { neighbouring }
    }

    /// The mu of all events together: they are exactly mu-GDP.
    ///
    /// # Errors
    /// As [`Accountant::epsilon`].
    pub fn mu(&self, events: &[Event]) -> Result<f64> {
        let mut squares = 0.0;
        for (single, times) in singles("gdp", events)? {
            let Some(sigma) = single.unsampled_noise_multiplier(self.neighbouring) else {
                let why = format!(
                    "under \"{}\" it is not a Gaussian without sampling, the only release that is \
                     exactly a Gaussian in privacy",
                    self.neighbouring
                );
                return Err(single
                    .unsupported_n("gdp", times, why)
                    .fix("use the PLD or the RDP accountant"));
            };
            squares += times as f64 / sigma / sigma;
        }
        finite_or_error(squares.sqrt(), "gdp", events)
    }
}

impl Accountant for Gdp {
    fn name(&self) -> &str {
        "gdp"
    }

    fn neighbouring(&self) -> Neighbouring {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<Spent> {
        let delta = delta.check()?.0;
        let mu = self.mu(events)?;
        let (lower, upper) = curve::epsilon_bounds(mu, delta);
        Ok(Spent::new(finite_or_error(upper, "gdp", events)?, "gdp").with_lower_bound(lower))
    }
}

/// The number itself, or the error that says that there is no privacy.
fn finite_or_error(number: f64, accountant: &str, events: &[Event]) -> Result<f64> {
    if number.is_finite() {
        return Ok(number);
    }
    Err(Error::new(
        ErrorKind::Accounting,
        format!("epsilon of {} by {accountant}", Event::Composed { events: events.to_vec() }),
        "the privacy loss is beyond any number: this noise gives no privacy at all",
    )
    .fix("use a larger noise multiplier or fewer steps"))
}

#[cfg(test)]
mod tests;
