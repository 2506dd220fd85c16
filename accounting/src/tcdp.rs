//! Truncated concentrated differential privacy (tCDP).
//!
//! A mechanism is (rho, omega)-tCDP if its Rényi divergence of every order alpha in (1, omega) is
//! at most rho alpha (Bun, Dwork, Rothblum, Steinke: Composable and Versatile Privacy via Truncated
//! CDP, 2018). The results below hold under conditions; the accountant returns an error where they
//! are not met.
//!
//! - A Gaussian mechanism is (1 / (2 sigma²), infinity)-tCDP, with sigma relative to the
//!   sensitivity.
//! - Under composition the rhos add up, and the smallest omega applies (Lemma 2).
//! - Sampling a fraction q without replacement, under replace-one, turns (rho, infinity) into (13
//!   q² rho, ln(1/q) / (4 rho)) *if* rho and q are at most 0.1 and ln(1/q) >= 3 rho (2 +
//!   log2(1/rho)) (Theorem 12).
//! - epsilon is rho + 2 sqrt(rho ln(1/delta)) *if* ln(1/delta) <= (omega - 1)² rho, and rho omega +
//!   ln(1/delta) / (omega - 1) otherwise (Lemma 6).
//!
//! [`auto_dp_sgd_as_published`] is not part of the accountant: it only reproduces a published
//! claim.

use super::event::{SingleRelease, flatten_events};
use super::zcdp::epsilon_basic;
use super::{Accountant, Delta, Event, NeighbouringRelation, PrivacyCost};
use crate::{Error, ErrorKind, Result};

mod published;

pub use published::{AutoDpSgdInputs, PublishedClaim, auto_dp_sgd_as_published};

/// The accountant of truncated concentrated differential privacy.
///
/// # Guarantee
/// Upper bound for neighbours under the relation given to [`Tcdp::with_neighbouring`]. Supports
/// Gaussian mechanisms without sampling, shuffled epochs under the zero-out and replace-one
/// relations, and fixed-size samples under replace-one where the conditions of Theorem 12 hold.
/// Under replace-one rho is 2 / sigma², so the condition rho <= 0.1 requires a noise multiplier of
/// at least 4.473. Poisson samples are not supported, because the theorem does not cover them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tcdp {
    neighbouring: NeighbouringRelation,
}

impl Tcdp {
    /// Creates the accountant for a neighbouring relation.
    pub fn with_neighbouring(neighbouring: NeighbouringRelation) -> Self {
        Self { neighbouring }
    }

    /// Computes the (rho, omega) of all events together. omega is infinite without sampling.
    ///
    /// # Errors
    /// As [`Accountant::epsilon`].
    pub(crate) fn rho_and_omega(&self, events: &[Event]) -> Result<(f64, f64)> {
        let (mut rho, mut omega) = (0.0, f64::INFINITY);
        for (single, times) in flatten_events("tcdp", events)? {
            let (one, limit) = self.rho_and_omega_of(&single)?;
            rho += times as f64 * one;
            omega = f64::min(omega, limit);
        }
        Ok((rho, omega))
    }

    fn rho_and_omega_of(&self, single: &SingleRelease) -> Result<(f64, f64)> {
        if let Some(sigma) = single.unsampled_noise_multiplier(self.neighbouring) {
            return Ok((0.5 / sigma / sigma, f64::INFINITY));
        }
        match (*single, self.neighbouring) {
            (
                SingleRelease::FixedSize { examples, batch_size, noise_multiplier },
                NeighbouringRelation::ReplaceOne,
            ) => {
                let rho = 2.0 / noise_multiplier / noise_multiplier;
                amplified_by_sampling(rho, batch_size as f64 / examples as f64).map_err(|why| {
                    single.unsupported("tcdp", why).fix(
                        "use more noise or smaller batches, or the RDP accountant, which has no \
                             such conditions",
                    )
                })
            }
            _ => {
                let why = "its amplification theorem covers only samples of a fixed size, drawn \
                           without replacement, under replace-one";
                Err(single.unsupported("tcdp", why).fix("use the PLD or the RDP accountant"))
            }
        }
    }
}

impl Accountant for Tcdp {
    fn name(&self) -> &str {
        "tcdp"
    }

    fn neighbouring(&self) -> NeighbouringRelation {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
        let delta = delta.check()?.0;
        let (rho, omega) = self.rho_and_omega(events)?;
        match epsilon_at_delta(rho, omega, delta) {
            Some(epsilon) if epsilon.is_finite() => Ok(PrivacyCost::new(epsilon, "tcdp")),
            _ => Err(Error::new(
                ErrorKind::Accounting,
                format!("epsilon of {} by tcdp", Event::Composed { events: events.to_vec() }),
                format!("rho = {rho:.3e} with omega = {omega:.3e} gives no finite epsilon"),
            )
            .fix("use a larger noise multiplier or fewer steps")),
        }
    }
}

/// Computes (rho, omega) after sampling a fraction `q` without replacement, or the condition that
/// fails.
fn amplified_by_sampling(rho: f64, q: f64) -> std::result::Result<(f64, f64), String> {
    if rho.is_nan() || rho > 0.1 {
        return Err(format!("rho = {rho:.3} before sampling must be at most 0.1"));
    }
    if q.is_nan() || q > 0.1 {
        return Err(format!("the sampled fraction {q:.3} must be at most 0.1"));
    }
    let (have, need) = (-q.ln(), 3.0 * rho * (2.0 - rho.log2()));
    if have < need {
        return Err(format!(
            "ln(1/q) = {have:.3} must be at least {need:.3} for this noise multiplier"
        ));
    }
    Ok((13.0 * q * q * rho, have / (4.0 * rho)))
}

/// Computes the epsilon of a (rho, omega)-tCDP mechanism at `delta`; `None` if omega is at most 1
/// or a number is out of range.
///
/// # Guarantee
/// A (rho, omega)-tCDP mechanism is (epsilon, delta)-differentially private under the same
/// neighbouring relation (Bun, Dwork, Rothblum, Steinke 2018, Lemma 6).
pub fn epsilon_at_delta(rho: f64, omega: f64, delta: f64) -> Option<f64> {
    if !(rho >= 0.0 && omega > 1.0 && delta > 0.0 && delta < 1.0) {
        return None;
    }
    let ln_inverse = -delta.ln();
    if rho == 0.0 && omega == f64::INFINITY {
        return Some(0.0);
    }
    Some(if ln_inverse <= (omega - 1.0).powi(2) * rho {
        epsilon_basic(rho, delta)
    } else {
        rho * omega + ln_inverse / (omega - 1.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed_size(noise_multiplier: f64, batch_size: u64, steps: u64) -> Event {
        Event::FixedSizeGaussian { examples: 60_000, batch_size, noise_multiplier, steps }
    }

    fn tcdp(event: Event) -> Result<PrivacyCost> {
        Tcdp::with_neighbouring(NeighbouringRelation::ReplaceOne).epsilon(&[event], Delta(1e-5))
    }

    #[test]
    fn gaussian_mechanisms_agree_with_zcdp() {
        let event = Event::Gaussian { noise_multiplier: 2.0, count: 4 };
        let spent = Tcdp::default().epsilon(std::slice::from_ref(&event), Delta(1e-5)).unwrap();
        assert_eq!(spent.epsilon, epsilon_basic(0.5, 1e-5));
        assert_eq!(tcdp(event).unwrap().epsilon, epsilon_basic(2.0, 1e-5));
    }

    #[test]
    fn sampling_is_accounted_only_under_its_conditions() {
        let (rho, omega) = Tcdp::with_neighbouring(NeighbouringRelation::ReplaceOne)
            .rho_and_omega(&[fixed_size(10.0, 60, 1000), fixed_size(20.0, 60, 1)])
            .unwrap();
        assert!((rho - 13.0 * 1e-6 * (1000.0 * 0.02 + 0.005)).abs() < 1e-15, "{rho}");
        assert!((omega - 1000f64.ln() / 0.08).abs() < 1e-9, "{omega}");
        for (event, word) in [
            (fixed_size(4.47, 60, 1), "rho"),
            (fixed_size(10.0, 6001, 1), "fraction"),
            // rho = 0.098 needs ln(1/q) >= 1.57, which holds for every q of at most 0.1.
            (
                Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 9.0, steps: 1 },
                "fixed",
            ),
        ] {
            let error = tcdp(event).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Accounting);
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(tcdp(fixed_size(4.48, 60, 1)).is_ok());
        // Theorem 12 does not cover add-or-remove-one.
        assert!(Tcdp::default().epsilon(&[fixed_size(10.0, 60, 1)], Delta(1e-5)).is_err());
        // The third condition, for a fraction that meets the second.
        assert!(
            amplified_by_sampling(0.1, 0.1).is_ok() && amplified_by_sampling(0.1, 0.11).is_err()
        );
    }

    #[test]
    fn the_conversion_switches_branches_at_its_condition() {
        let (rho, delta) = (0.01, 1e-5f64);
        let edge = 1.0 + (-delta.ln() / rho).sqrt();
        let inside = epsilon_at_delta(rho, edge * 1.000_1, delta).unwrap();
        assert_eq!(inside, epsilon_basic(rho, delta));
        let outside = epsilon_at_delta(rho, edge * 0.5, delta).unwrap();
        assert!(outside > inside, "{outside} {inside}");
        assert!((outside - (rho * edge * 0.5 - delta.ln() / (edge * 0.5 - 1.0))).abs() < 1e-12);
        assert_eq!(epsilon_at_delta(rho, 1.0, delta), None);
        assert_eq!(epsilon_at_delta(0.0, f64::INFINITY, delta), Some(0.0));
        assert_eq!(epsilon_at_delta(f64::NAN, 2.0, delta), None);
    }
}
