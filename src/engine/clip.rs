//! Clipping of per-example gradients, and the sensitivity that follows from it.

use std::fmt;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use crate::privacy::Neighbouring;
use crate::{Error, Result};

/// Smallest accepted bound. The elements of a gradient of 1e8 parameters with this norm are about
/// 1e-34, well above the smallest normal f32 (1.2e-38), below which rounding could exceed the
/// bound.
const MIN_MAX_GRAD_NORM: f64 = 1e-30;

/// How each example's gradient is clipped. The rule also determines the sensitivity of the sum and
/// the standard deviation of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClipRule {
    /// Flat clipping: scales gradients with an L2 norm above `max_grad_norm` down to it, over all
    /// parameters jointly (Abadi et al., 2016, algorithm 1).
    Flat {
        /// C, the largest L2 norm of one example's contribution.
        max_grad_norm: f64,
    },
}

impl ClipRule {
    /// Flat clipping at `max_grad_norm`.
    pub fn flat(max_grad_norm: f64) -> Self {
        Self::Flat { max_grad_norm }
    }

    /// No clipping, for training without privacy. The sensitivity is infinite.
    pub fn unclipped() -> Self {
        Self::flat(f64::INFINITY)
    }

    /// Checks that gradients can be clipped at this bound. Gradients are f32: near the smallest
    /// normal number, rounding would make contributions longer than the bound.
    ///
    /// # Errors
    /// If `max_grad_norm` is below 1e-30, negative or NaN.
    pub fn check(&self) -> Result<()> {
        let Self::Flat { max_grad_norm } = *self;
        if max_grad_norm >= MIN_MAX_GRAD_NORM {
            return Ok(());
        }
        let why = match max_grad_norm > 0.0 {
            true => "below 1e-30, the rounding of f32 gradients can exceed the bound",
            false => "gradients are scaled down to this norm, so it must be positive",
        };
        Err(Error::setting("max_grad_norm", max_grad_norm, why).fix("try 1.0, or 0.1"))
    }

    /// Clipping factor for a gradient of this norm: min(1, C/norm), and 1 for a zero gradient.
    /// Executors exclude examples whose norm is not finite before they call this.
    ///
    /// # Guarantee
    /// `factor(norm) * norm <= C` up to f32 rounding.
    pub fn factor(&self, norm: f32) -> f32 {
        let Self::Flat { max_grad_norm } = *self;
        let norm = f64::from(norm);
        let factor = if norm > max_grad_norm { (max_grad_norm / norm) as f32 } else { 1.0 };
        // Rounding a subnormal factor could double it.
        if factor < f32::MIN_POSITIVE { 0.0 } else { factor }
    }

    /// Clipping factors of several norms on their device, `[examples]`, without synchronisation.
    /// Factors of norms that are not finite are unspecified; callers mask them out.
    ///
    /// # Guarantee
    /// As [`factor`](Self::factor). If the bound is below the smallest normal f32, all factors are
    /// zero, because a GPU may flush such a bound to zero.
    pub fn factors(&self, norms: Tensor<1>) -> Tensor<1> {
        let Self::Flat { max_grad_norm } = *self;
        // No finite f32 norm exceeds a bound that rounds to infinity.
        let bound = max_grad_norm as f32;
        if bound < f32::MIN_POSITIVE {
            return norms.zeros_like();
        }
        if bound == f32::INFINITY {
            return norms.ones_like();
        }
        let longer = norms.clone().greater_elem(bound);
        let clipped = norms.ones_like().mask_where(longer, norms.full_like(bound) / norms);
        let tiny = clipped.clone().lower_elem(f32::MIN_POSITIVE);
        clipped.mask_fill(tiny, 0.0)
    }

    /// L2 sensitivity of the clipped sum.
    ///
    /// # Guarantee
    /// The largest L2 distance between the sums of two neighbouring data sets: C if neighbours
    /// differ by one example added, removed or zeroed out, 2C if one example is replaced. Holds for
    /// sums of gradients scaled by [`factor`](Self::factor), before any division by a batch size.
    pub fn sensitivity(&self, neighbouring: Neighbouring) -> f64 {
        let Self::Flat { max_grad_norm } = *self;
        match neighbouring {
            Neighbouring::AddOrRemoveOne | Neighbouring::ZeroOutOne => max_grad_norm,
            Neighbouring::ReplaceOne => 2.0 * max_grad_norm,
        }
    }

    /// Standard deviation σ·C of the noise on the sum for the noise multiplier σ.
    ///
    /// # Guarantee
    /// Events in the ledger define the noise multiplier as the standard deviation of the noise on
    /// the sum, divided by C. Accountants convert it for other neighbouring relations. Add the
    /// noise before dividing by the expected batch size.
    pub fn noise_std(&self, noise_multiplier: f64) -> f64 {
        noise_multiplier * self.sensitivity(Neighbouring::AddOrRemoveOne)
    }
}

impl fmt::Display for ClipRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Flat { max_grad_norm } = self;
        write!(f, "each example's gradient to L2 norm {max_grad_norm}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clipped_gradient_is_never_longer_than_the_bound() {
        let rule = ClipRule::flat(0.1);
        // A fine grid around the bound, where clipping starts.
        let around = (0..200).map(|i| 0.09 + 0.001 * i as f32);
        for norm in around.chain((-40..38).map(|exponent| 10f32.powi(exponent))) {
            let clipped = f64::from(norm) * f64::from(rule.factor(norm));
            assert!(clipped <= 0.1 * (1.0 + 1e-6), "norm {norm} becomes {clipped}");
        }
        let tiny = ClipRule::flat(2.4e-7);
        assert!(f64::from(tiny.factor(3.4e38)) * 3.4e38 <= 2.4e-7 * (1.0 + 1e-6));
        assert_eq!(rule.factor(0.0), 1.0);
        assert_eq!(rule.factor(0.05), 1.0);
    }

    #[test]
    fn factors_agrees_with_factor() {
        let norms: Vec<f32> = (0..200)
            .map(|i| 0.09 + 0.001 * i as f32)
            .chain((-37..39).map(|exponent| 10f32.powi(exponent)))
            .chain([0.0, f32::MAX])
            .collect();
        for bound in [0.1, 2.4e-7, 1e-37, 1.0, 1e30, 1e39, f64::INFINITY] {
            let rule = ClipRule::flat(bound);
            let tensor = Tensor::from_data(norms.as_slice(), &Device::flex());
            for (factor, &norm) in
                crate::device::host::values(rule.factors(tensor)).iter().zip(&norms)
            {
                let single = rule.factor(norm);
                assert!(
                    (factor - single).abs() <= 2e-7 * single,
                    "{norm} at {bound}: {factor} {single}"
                );
                assert!(f64::from(*factor) * f64::from(norm) <= bound * (1.0 + 3e-7));
            }
        }
        // On a GPU, a bound below the normal f32 range gives zero factors.
        let tensor = Tensor::from_data([1e-3, 0.0], &Device::flex());
        assert_eq!(crate::device::host::values(ClipRule::flat(1e-39).factors(tensor)), [0.0, 0.0]);
    }

    #[test]
    fn noise_std_is_relative_to_the_sum() {
        let rule = ClipRule::flat(0.1);
        assert_eq!(rule.sensitivity(Neighbouring::AddOrRemoveOne), 0.1);
        assert!((rule.noise_std(1.72) - 0.172).abs() < 1e-15);
    }

    #[test]
    fn invalid_bounds_are_refused() {
        for wrong in [0.0, -1.0, f64::NAN, 1e-31, 1e-300] {
            assert!(ClipRule::flat(wrong).check().is_err(), "{wrong}");
        }
        assert!(ClipRule::flat(1e-3).check().is_ok() && ClipRule::flat(1e-30).check().is_ok());
    }
}
