//! Zero-concentrated differential privacy (zCDP).
//!
//! A mechanism is rho-zCDP if its Rényi divergence of every order alpha > 1 is at most rho alpha
//! (Bun, Steinke: Concentrated Differential Privacy, 2016). A Gaussian mechanism has rho = 1 / (2
//! sigma²), with sigma relative to the sensitivity. rho adds up under composition (Lemma 1.7).

use super::event::unsampled;
use super::rdp::Conversion;
use super::{Accountant, Delta, Event, NeighbouringRelation, PrivacyCost};
use crate::Result;
use crate::accountant::finite;
use crate::bisection::bisect;

/// The accountant of zero-concentrated differential privacy.
///
/// # Guarantee
/// Upper bound for neighbours under the relation given to [`Zcdp::with_neighbouring`]. Supports
/// Gaussian mechanisms without sampling and, under the zero-out and replace-one relations, shuffled
/// epochs. Under replace-one the sensitivity is twice the clip norm, so the noise multiplier is
/// halved. Subsampled releases are not supported: zCDP bounds the divergences of all
/// orders alpha by one line, and sampling gives no amplification for large orders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zcdp {
    neighbouring: NeighbouringRelation,
    conversion: Conversion,
}

impl Zcdp {
    /// Creates the accountant for a neighbouring relation.
    pub fn with_neighbouring(neighbouring: NeighbouringRelation) -> Self {
        Self { neighbouring, ..Self::default() }
    }

    /// Returns the same accountant with another conversion to epsilon. `Improved` is
    /// [`epsilon_improved`]; `Classic` is [`epsilon_basic`], which reproduces older papers.
    pub fn with_conversion(mut self, conversion: Conversion) -> Self {
        self.conversion = conversion;
        self
    }

    /// Computes the total rho of all events.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` for an event that this
    /// accountant does not support.
    ///
    /// # Guarantee
    /// The composition of the events is rho-zCDP for neighbours under the relation of the
    /// accountant.
    pub fn rho(&self, events: &[Event]) -> Result<f64> {
        let mut rho = 0.0;
        let limit = "and zCDP has no amplification by sampling";
        for (sigma, times) in unsampled("zcdp", events, self.neighbouring, limit)? {
            rho += times as f64 / sigma / sigma / 2.0;
        }
        Ok(rho)
    }
}

impl Accountant for Zcdp {
    fn name(&self) -> &str {
        "zcdp"
    }

    fn neighbouring(&self) -> NeighbouringRelation {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
        let delta = delta.check()?.0;
        let rho = self.rho(events)?;
        let epsilon = match self.conversion {
            Conversion::Improved => epsilon_improved(rho, delta),
            Conversion::Classic => epsilon_basic(rho, delta),
        };
        Ok(PrivacyCost::new(finite(epsilon, "zcdp", events)?, "zcdp"))
    }
}

/// Computes rho + 2 sqrt(rho ln(1/delta)) (Bun, Steinke 2016, Proposition 1.3).
///
/// `rho` must be at least 0 and `delta` in (0, 1); otherwise the result is infinity.
///
/// # Guarantee
/// A rho-zCDP mechanism is (epsilon, delta)-differentially private under the same neighbouring
/// relation.
pub fn epsilon_basic(rho: f64, delta: f64) -> f64 {
    if !(rho >= 0.0 && delta > 0.0 && delta < 1.0) {
        return f64::INFINITY;
    }
    rho + 2.0 * (rho * -delta.ln()).sqrt()
}

/// Computes the minimum over all orders alpha > 1 of rho alpha + ln(1 - 1/alpha) - ln(alpha delta)
/// / (alpha - 1), or 0 if that is larger (Canonne, Kamath, Steinke 2020, Corollary 13).
///
/// The derivative is rho + ln(delta alpha) / (alpha - 1)². The minimum is where rho (alpha - 1)²
/// equals -ln(delta alpha): the left side increases and the right side decreases, so the solution
/// is unique.
///
/// `rho` must be at least 0 and `delta` in (0, 1); otherwise the result is infinity.
///
/// # Guarantee
/// A rho-zCDP mechanism is (epsilon, delta)-differentially private under the same neighbouring
/// relation.
pub fn epsilon_improved(rho: f64, delta: f64) -> f64 {
    if !(rho >= 0.0 && rho.is_finite() && delta > 0.0 && delta < 1.0) {
        return f64::INFINITY;
    }
    if rho == 0.0 {
        return 0.0;
    }
    let ln_delta = delta.ln();
    // m = alpha - 1 is below both sqrt(ln(1/delta) / rho) and 1/delta - 1. The search is over ln m,
    // because m may be 1e-150 or 1e150.
    let high = (0.5 * (-ln_delta / rho).ln()).min((-ln_delta).exp_m1().ln());
    let m = bisect((high - 800.0, high), 70, |ln_m| {
        let m = ln_m.exp();
        rho * m * m < -ln_delta - m.ln_1p()
    })
    .exp();
    // Every m gives a valid bound, so the search need not be exact. The added terms cover rounding;
    // the rounding error of ln delta is divided by m.
    let epsilon = rho * (1.0 + m) - m.recip().ln_1p() - (ln_delta + m.ln_1p()) / m;
    (epsilon * (1.0 + 1e-12) + 1e-13 / m).clamp(0.0, epsilon_basic(rho, delta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gdp;

    #[test]
    fn the_improved_conversion_is_the_minimum_over_all_orders() {
        for rho in [1e-12, 1e-4, 0.5, 5.0, 100.0, 1e6] {
            for delta in [1e-300, 1e-15, 1e-5, 0.1, 0.9] {
                let best = epsilon_improved(rho, delta);
                assert!(best <= epsilon_basic(rho, delta), "rho {rho} delta {delta}");
                for i in -400..400 {
                    let order = 1.0 + (f64::from(i) / 20.0).exp();
                    let at = rho * order + Conversion::Improved.epsilon_offset(order, delta);
                    let slack = 1e-11 * (1.0 + best);
                    assert!(best <= at.max(0.0) + slack, "rho {rho} delta {delta} order {order}");
                }
            }
        }
    }

    #[test]
    fn zcdp_is_never_below_the_exact_value_but_the_wrong_sensitivity_is() {
        for sigma in [0.1, 1.0, 8.0, 100.0] {
            let event = [Event::Gaussian { noise_multiplier: sigma, count: 3 }];
            for relation in [NeighbouringRelation::AddOrRemoveOne, NeighbouringRelation::ReplaceOne]
            {
                let zcdp =
                    Zcdp::with_neighbouring(relation).epsilon(&event, Delta(1e-5)).unwrap().epsilon;
                let exact = Gdp::with_neighbouring(relation).epsilon(&event, Delta(1e-5)).unwrap();
                assert!(zcdp >= exact.epsilon, "sigma {sigma}");
                let classic =
                    Zcdp::with_neighbouring(relation).with_conversion(Conversion::Classic);
                assert!(classic.epsilon(&event, Delta(1e-5)).unwrap().epsilon >= zcdp);
            }
            // Ignoring the doubled sensitivity under replace-one gives an epsilon below the true
            // one.
            let forgotten = Zcdp::default().epsilon(&event, Delta(1e-5)).unwrap().epsilon;
            let exact = Gdp::with_neighbouring(NeighbouringRelation::ReplaceOne);
            assert!(forgotten < exact.epsilon(&event, Delta(1e-5)).unwrap().lower_bound.unwrap());
        }
    }

    #[test]
    fn extreme_inputs_give_a_value_and_invalid_ones_infinity() {
        for rho in [0.0, 1e-300, 1e-20, 1.0, 1e20, 1e300] {
            for delta in [1e-300, 0.5, 1.0 - 1e-16] {
                let epsilon = epsilon_improved(rho, delta);
                assert!(epsilon >= 0.0 && epsilon.is_finite(), "rho {rho} delta {delta}");
            }
        }
        for (rho, delta) in [(-1.0, 0.1), (f64::NAN, 0.1), (1.0, 0.0), (1.0, f64::NAN)] {
            assert_eq!(epsilon_improved(rho, delta), f64::INFINITY);
            assert_eq!(epsilon_basic(rho, delta), f64::INFINITY);
        }
    }
}
