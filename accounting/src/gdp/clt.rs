//! The central limit approximation of GDP for subsampled Gaussian mechanisms: not a guarantee.

use super::curve;
use super::normal::{centred_cdf, upper_tail};
use crate::Result;
use crate::accountant::{finite, unsupported};
use crate::event::{SingleRelease, flatten_events};
use crate::{Accountant, Delta, Event, NeighbouringRelation, PrivacyCost};

/// The central limit theorem (CLT) approximation of Gaussian differential privacy. **Approximate.**
///
/// Treats the composition of many subsampled steps as one Gaussian mechanism. The result may lie
/// below the true epsilon or above it: 1.62 instead of 1.83 for sampling rate 0.01, noise
/// multiplier 1, 1000 steps and delta 1e-5; 65.17 where PLD proves 56.73 for 0.125, 0.8, 1000 steps
/// and 1e-6. It serves to compare with published numbers.
///
/// With noise multiplier sigma and sampling rate q:
///
/// - Poisson sampling, add-or-remove-one or zero-out: mu² = q² Σ (e^{1/sigma²} - 1) (Bu, Dong,
///   Long, Su: Deep Learning with Gaussian Differential Privacy, 2020, section 3).
/// - Fixed-size samples, replace-one: mu² = 2 q² Σ (e^{1/s²} Phi(3/(2s)) + 3 Phi(-1/(2s)) - 2) with
///   s = sigma / 2, because the sensitivity is twice the clip norm (Dong, Roth, Su 2022, Theorem
///   5.2). Opacus uses s = sigma, which gives a smaller epsilon.
/// - Gaussian mechanisms without sampling add their mu².
///
/// # Guarantee
/// None. The error of the approximation is unknown and may have either sign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GdpClt {
    neighbouring: NeighbouringRelation,
}

impl GdpClt {
    /// Creates the accountant for a neighbouring relation.
    pub fn with_neighbouring(neighbouring: NeighbouringRelation) -> Self {
        Self { neighbouring }
    }

    /// Computes the mu of the approximating Gaussian mechanism for all events together.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` for an event that this
    /// accountant does not support.
    pub fn mu(&self, events: &[Event]) -> Result<f64> {
        let mut squares = 0.0;
        for (single, times) in flatten_events("gdp_clt", events)? {
            let one = self.mu_squared(&single)?;
            if !one.is_finite() {
                let why = "e^(1 / noise multiplier²) overflows, and the central limit theorem does \
                           not apply to so little noise";
                return Err(unsupported("gdp_clt", single.repeated_event(times), why)
                    .fix("use the PLD or the RDP accountant, or a larger noise multiplier"));
            }
            squares += times as f64 * one;
        }
        finite(squares.sqrt(), "gdp_clt", events)
    }

    fn mu_squared(&self, single: &SingleRelease) -> Result<f64> {
        Ok(match (*single, self.neighbouring) {
            (
                SingleRelease::Poisson { sampling_rate, noise_multiplier },
                NeighbouringRelation::AddOrRemoveOne | NeighbouringRelation::ZeroOutOne,
            ) => sampling_rate.powi(2) * (noise_multiplier.recip().powi(2)).exp_m1(),
            (
                SingleRelease::FixedSize { examples, batch_size, noise_multiplier },
                NeighbouringRelation::ReplaceOne,
            ) => {
                let rate = batch_size as f64 / examples as f64;
                2.0 * rate.powi(2) * mu_squared_without_replacement(2.0 / noise_multiplier)
            }
            (single, neighbouring) => match single.unsampled_noise_multiplier(neighbouring) {
                Some(sigma) => sigma.recip().powi(2),
                None => {
                    let why = format!(
                        "under \"{neighbouring}\" no central limit theorem is known for this \
                         release"
                    );
                    return Err(single
                        .unsupported("gdp_clt", why)
                        .fix("use the PLD or the RDP accountant"));
                }
            },
        })
    }
}

/// Computes e^{m²} Phi(3m/2) + 3 Phi(-m/2) - 2, without cancellation for small m.
fn mu_squared_without_replacement(m: f64) -> f64 {
    if m < 1e-5 {
        // m²/2 + m³/sqrt(2 pi) + …: the terms of order 0 and 1 cancel.
        return m * m * (0.5 + m / (2.0 * std::f64::consts::PI).sqrt());
    }
    (m * m).exp_m1() * upper_tail(-1.5 * m) + centred_cdf(1.5 * m) - 3.0 * centred_cdf(0.5 * m)
}

impl Accountant for GdpClt {
    fn name(&self) -> &str {
        "gdp_clt"
    }

    fn neighbouring(&self) -> NeighbouringRelation {
        self.neighbouring
    }

    fn is_approximate(&self) -> bool {
        true
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
        let delta = delta.check()?.0;
        let epsilon = curve::epsilon_at_delta(self.mu(events)?, delta);
        Ok(PrivacyCost::new(finite(epsilon, "gdp_clt", events)?, "gdp_clt"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expansion_for_small_m_is_continuous() {
        for m in [1e-9, 9.99e-6] {
            assert!(
                (mu_squared_without_replacement(m) / (m * m / 2.0) - 1.0).abs() < 2.0 * m + 1e-12
            );
        }
        let (below, above) =
            (mu_squared_without_replacement(9.999e-6), mu_squared_without_replacement(1.0001e-5));
        let expected = (1.0001f64 / 0.9999).powi(2);
        assert!((above / below / expected - 1.0).abs() < 1e-7);
        // Term by term at m = 1: e Phi(1.5) + 3 Phi(-.5) - 2.
        let expected = 1f64.exp() * 0.933_192_798_731_141_9 + 3.0 * 0.308_537_538_725_986_9 - 2.0;
        assert!((mu_squared_without_replacement(1.0) - expected).abs() < 1e-14);
    }
}
