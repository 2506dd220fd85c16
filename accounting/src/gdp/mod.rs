//! Gaussian differential privacy (GDP).
//!
//! A mechanism is mu-GDP if distinguishing its outputs on two neighbouring data sets is at least as
//! hard as distinguishing N(0, 1) from N(mu, 1) (Dong, Roth, Su: Gaussian Differential Privacy,
//! 2022). A Gaussian mechanism meets this with equality for mu = 1 / sigma, and mu² adds up under
//! composition (Corollary 3.3). [`Gdp`] is exact for Gaussian mechanisms without sampling;
//! [`GdpClt`] is an approximation for subsampled ones.

mod clt;
mod curve;
#[doc(hidden)]
pub mod normal;

use super::event::unsampled;
use super::{Accountant, Delta, Event, NeighbouringRelation, PrivacyCost};
use crate::Result;
use crate::accountant::finite;
pub use clt::GdpClt;
pub use curve::{delta_at_epsilon, epsilon_at_delta};

/// The exact accountant of Gaussian mechanisms without sampling.
///
/// # Guarantee
/// Upper bound for neighbours under the relation given to [`Gdp::with_neighbouring`]. Supports
/// Gaussian mechanisms on all examples and, under the zero-out and replace-one relations, shuffled
/// epochs. Under replace-one the sensitivity is twice the clip norm, so the noise multiplier is
/// halved. The value is optimal, rounded up by a relative error of less than 1e-9. Subsampled
/// releases are not supported, because they are not Gaussian mechanisms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gdp {
    neighbouring: NeighbouringRelation,
}

impl Gdp {
    /// Creates the accountant for a neighbouring relation.
    pub fn with_neighbouring(neighbouring: NeighbouringRelation) -> Self {
        Self { neighbouring }
    }

    /// Computes the mu of all events together: their composition is exactly mu-GDP.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` for an event that this
    /// accountant does not support.
    pub fn mu(&self, events: &[Event]) -> Result<f64> {
        let mut squares = 0.0;
        let limit = "which is the only release that is exactly GDP";
        for (sigma, times) in unsampled("gdp", events, self.neighbouring, limit)? {
            squares += times as f64 / sigma / sigma;
        }
        finite(squares.sqrt(), "gdp", events)
    }
}

impl Accountant for Gdp {
    fn name(&self) -> &str {
        "gdp"
    }

    fn neighbouring(&self) -> NeighbouringRelation {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
        let delta = delta.check()?.0;
        let mu = self.mu(events)?;
        let (lower, upper) = curve::epsilon_bounds(mu, delta);
        Ok(PrivacyCost::new(finite(upper, "gdp", events)?, "gdp").with_lower_bound(lower))
    }
}

#[cfg(test)]
mod tests;
