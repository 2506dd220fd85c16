//! Zero-concentrated differential privacy.
//!
//! rho-zCDP bounds the Rényi divergence of every order alpha by rho alpha (Bun, Steinke:
//! Concentrated Differential Privacy, 2016). A Gaussian release has rho = 1 / (2 sigma²) exactly,
//! and releases add up (Lemma 1.7 there).

use super::event::singles;
use super::rdp::Conversion;
use super::{Accountant, Delta, Event, Neighbouring, Spent};
use crate::{Error, ErrorKind, Result};

/// The accountant of zero-concentrated differential privacy.
///
/// # Guarantee
/// Neighbours in the sense given to [`Zcdp::with_neighbouring`]. Accounts releases of the sum over everybody
/// and, where the number of examples stays, shuffled epochs; the noise counts half if an example
/// is replaced. Sampled releases are refused: no rho covers the gain from sampling at all orders
/// (zCDP asks for a line through all of them), so counting it would be wrong and leaving it out
/// misleading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zcdp {
    neighbouring: Neighbouring,
    conversion: Conversion,
}

impl Zcdp {
    /// For the given neighbouring relation.
    pub fn with_neighbouring(neighbouring: Neighbouring) -> Self {
        Self { neighbouring, ..Self::default() }
    }

    /// The same with another conversion: `Improved` is [`epsilon_improved`], `Classic` is
    /// [`epsilon_basic`], for numbers of older papers.
    pub fn with_conversion(mut self, conversion: Conversion) -> Self {
        self.conversion = conversion;
        self
    }

    /// The rho of all events together.
    ///
    /// # Errors
    /// As [`Accountant::epsilon`].
    pub fn rho(&self, events: &[Event]) -> Result<f64> {
        let mut rho = 0.0;
        for (single, times) in singles("zcdp", events)? {
            let Some(sigma) = single.unsampled_noise_multiplier(self.neighbouring) else {
                let why = format!(
                    "under \"{}\" it is not a Gaussian without sampling, and zCDP knows no gain \
                     from sampling",
                    self.neighbouring
                );
                return Err(single
                    .unsupported_n("zcdp", times, why)
                    .fix("use the PLD or the RDP accountant"));
            };
            rho += times as f64 / sigma / sigma / 2.0;
        }
        Ok(rho)
    }
}

impl Accountant for Zcdp {
    fn name(&self) -> &str {
        "zcdp"
    }

    fn neighbouring(&self) -> Neighbouring {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<Spent> {
        let delta = delta.check()?.0;
        let rho = self.rho(events)?;
        let epsilon = match self.conversion {
            Conversion::Improved => epsilon_improved(rho, delta),
            Conversion::Classic => epsilon_basic(rho, delta),
        };
        if !epsilon.is_finite() {
            return Err(Error::new(
                ErrorKind::Accounting,
                format!("epsilon of {} by zcdp", Event::Composed { events: events.to_vec() }),
                "the privacy loss is beyond any number: this noise gives no privacy at all",
            )
            .fix("use a larger noise multiplier or fewer steps"));
        }
        Ok(Spent::new(epsilon, "zcdp"))
    }
}

/// rho + 2 sqrt(rho ln(1/delta)) (Bun, Steinke 2016, Proposition 1.3).
///
/// `rho` >= 0 and `delta` in (0, 1); anything else counts as no privacy at all: infinity.
///
/// # Guarantee
/// rho-zCDP implies (epsilon, delta)-differential privacy under the same neighbouring relation.
pub fn epsilon_basic(rho: f64, delta: f64) -> f64 {
    if !(rho >= 0.0 && delta > 0.0 && delta < 1.0) {
        return f64::INFINITY;
    }
    rho + 2.0 * (rho * -delta.ln()).sqrt()
}

/// The smallest rho alpha + ln(1 - 1/alpha) - ln(alpha delta) / (alpha - 1) over all orders
/// alpha > 1, at least 0 (Canonne, Kamath, Steinke 2020, Corollary 13).
///
/// Its derivative is rho + ln(delta alpha) / (alpha - 1)², so the best order is where
/// rho (alpha - 1)² meets -ln(delta alpha): one rises, the other falls, there is exactly one.
///
/// `rho` >= 0 and `delta` in (0, 1); anything else counts as no privacy at all: infinity.
///
/// # Guarantee
/// rho-zCDP implies (epsilon, delta)-differential privacy under the same neighbouring relation.
pub fn epsilon_improved(rho: f64, delta: f64) -> f64 {
    if !(rho >= 0.0 && rho.is_finite() && delta > 0.0 && delta < 1.0) {
        return f64::INFINITY;
    }
    if rho == 0.0 {
        return 0.0;
    }
    let ln_delta = delta.ln();
    // m = alpha - 1 lies below both sqrt(ln(1/delta) / rho) and 1/delta - 1. In ln m, because it
    // may be 1e-150 or 1e150.
    let mut high = (0.5 * (-ln_delta / rho).ln()).min((-ln_delta).exp_m1().ln());
    let mut low = high - 800.0;
    for _ in 0..70 {
        let middle = 0.5 * (low + high);
        let m = middle.exp();
        if rho * m * m < -ln_delta - m.ln_1p() { low = middle } else { high = middle }
    }
    let m = low.exp();
    // Any m gives a valid bound: the search need not be exact. The slack covers rounding, that of
    // ln delta being divided by m.
    let epsilon = rho * (1.0 + m) - m.recip().ln_1p() - (ln_delta + m.ln_1p()) / m;
    (epsilon * (1.0 + 1e-12) + 1e-13 / m).clamp(0.0, epsilon_basic(rho, delta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::Gdp;

    #[test]
    fn the_improved_conversion_is_no_worse_than_any_order_nor_than_the_basic_one() {
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
    fn never_below_the_exact_value_and_the_wrong_sensitivity_is() {
        for sigma in [0.1, 1.0, 8.0, 100.0] {
            let event = [Event::Gaussian { noise_multiplier: sigma, count: 3 }];
            for relation in [Neighbouring::AddOrRemoveOne, Neighbouring::ReplaceOne] {
                let zcdp =
                    Zcdp::with_neighbouring(relation).epsilon(&event, Delta(1e-5)).unwrap().epsilon;
                let exact = Gdp::with_neighbouring(relation).epsilon(&event, Delta(1e-5)).unwrap();
                assert!(zcdp >= exact.epsilon, "sigma {sigma}");
                let classic =
                    Zcdp::with_neighbouring(relation).with_conversion(Conversion::Classic);
                assert!(classic.epsilon(&event, Delta(1e-5)).unwrap().epsilon >= zcdp);
            }
            // Forgetting that a replacement moves the sum twice as far claims too little.
            let forgotten = Zcdp::default().epsilon(&event, Delta(1e-5)).unwrap().epsilon;
            let exact = Gdp::with_neighbouring(Neighbouring::ReplaceOne);
            assert!(forgotten < exact.epsilon(&event, Delta(1e-5)).unwrap().lower.unwrap());
        }
    }

    #[test]
    fn corners_are_numbers_or_no_privacy() {
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
