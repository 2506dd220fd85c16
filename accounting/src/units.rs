//! Checked parameters of a guarantee: epsilon, delta, noise multiplier and sampling rate.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::digits::Readable;
use crate::{Error, Result};

/// Declares a parameter that can be checked: a transparent `f64` with a name, a valid range and
/// error texts. `From` checks nothing.
macro_rules! checked_number {
    ($(#[$doc:meta])* $type:ident, $name:literal, $holds:expr, $why:literal, $fix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(pub f64);

        impl $type {
            /// Returns the value if it is in its range.
            ///
            /// # Errors
            /// Kind `Setting` for a value outside its range. NaN is never in range.
            pub fn check(self) -> Result<Self> {
                let holds: fn(f64) -> bool = $holds;
                if holds(self.0) {
                    Ok(self)
                } else {
                    Err(Error::setting($name, self.0, $why).fix($fix))
                }
            }
        }

        impl From<f64> for $type {
            fn from(value: f64) -> Self {
                Self(value)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&Readable(self.0), f)
            }
        }
    };
}

checked_number!(
    /// The epsilon of (epsilon, delta)-differential privacy: finite and above 0.
    ///
    /// A smaller epsilon is a stronger guarantee. Source: Dwork, Roth, The Algorithmic Foundations
    /// of Differential Privacy, 2014, Definition 2.4.
    ///
    /// ```
    /// use epsilab_accounting::Epsilon;
    /// assert_eq!(Epsilon(3.0).check()?, Epsilon::from(3.0));
    /// assert!(Epsilon(0.0).check().is_err());
    /// assert_eq!(format!("epsilon = {}", Epsilon(3.0)), "epsilon = 3");
    /// # Ok::<(), epsilab_accounting::Error>(())
    /// ```
    Epsilon,
    "epsilon",
    |x| x > 0.0 && x.is_finite(),
    "epsilon must be a finite number above 0",
    "use for example 3"
);

checked_number!(
    /// The delta of (epsilon, delta)-differential privacy: strictly between 0 and 1.
    ///
    /// A delta that is not well below 1 / (number of examples) gives no meaningful guarantee.
    ///
    /// ```
    /// use epsilab_accounting::Delta;
    /// assert_eq!(Delta(1e-5).check()?, Delta::DEFAULT);
    /// assert!(Delta(1.0).check().is_err());
    /// let examples = 60_000.0;
    /// assert!(Delta::DEFAULT.0 < 1.0 / examples);
    /// # Ok::<(), epsilab_accounting::Error>(())
    /// ```
    Delta,
    "delta",
    |x| x > 0.0 && x < 1.0,
    "delta must be a probability strictly between 0 and 1",
    "use a value well below 1 / (number of examples), for example 1e-5"
);

checked_number!(
    /// The noise multiplier sigma: finite and above 0.
    ///
    /// The standard deviation of the Gaussian noise on the *sum* of the clipped gradients, divided
    /// by the clip norm.
    ///
    /// ```
    /// use epsilab_accounting::NoiseMultiplier;
    /// let (sigma, clip) = (NoiseMultiplier(1.5).check()?, 0.1);
    /// let std = sigma.0 * clip; // of the noise in each coordinate of the sum
    /// assert!((std - 0.15).abs() < 1e-12);
    /// assert!(NoiseMultiplier(0.0).check().is_err()); // no noise, no privacy
    /// # Ok::<(), epsilab_accounting::Error>(())
    /// ```
    NoiseMultiplier,
    "noise_multiplier",
    |x| x > 0.0 && x.is_finite(),
    "the noise multiplier must be a finite number above 0: without noise there is no privacy",
    "use for example 1.0, or set a target epsilon to have the multiplier calibrated"
);

impl Delta {
    /// The delta where none is given: 1e-5.
    pub const DEFAULT: Self = Self(1e-5);
}

impl NoiseMultiplier {
    /// Returns the noise multiplier of a step whose noise is added by this many replicas, each of
    /// which adds noise of this multiplier to its part of the sum: √replicas times as large.
    ///
    /// Data-parallel code often draws noise on every device (Kurakin et al., 2022, appendix B: 8
    /// devices, so tables show σ/√8). One draw per step with the returned multiplier has the same
    /// distribution.
    ///
    /// # Guarantee
    /// The sum of n independent values of N(0, σ²C²) is distributed as N(0, nσ²C²), so mechanism
    /// and accounting are those of a single draw. This assumes that each replica clips per example
    /// at C, that all add independent noise in every step, also to an empty part, and that only
    /// the sum of all parts is released: a single part has only the noise of its own replica.
    pub fn for_replicas(self, replicas: u32) -> Self {
        Self(self.0 * f64::from(replicas).sqrt())
    }

    /// Returns the noise multiplier of a sum that is released together with a count, such that both
    /// have this noise multiplier; `None` if the count alone costs as much. `count_noise` is the
    /// standard deviation of the noise on the count.
    ///
    /// # Guarantee
    /// One example moves the count by at most 1/2 under the relations by which it moves the sum by
    /// at most the clip norm. Sum and count are then one Gaussian mechanism with 1/σ² =
    /// 1/σ_sum² + 1/(2 σ_count)².
    pub fn beside_count(self, count_noise: f64) -> Option<Self> {
        let rest = self.0.powi(-2) - (2.0 * count_noise).powi(-2);
        (rest > 0.0 && count_noise > 0.0).then(|| Self(rest.powf(-0.5)))
    }
}

checked_number!(
    /// The sampling rate q of Poisson sampling: above 0, at most 1.
    ///
    /// Each example joins a step with this probability, independently of all other examples.
    ///
    /// ```
    /// use epsilab_accounting::SamplingRate;
    /// let (batch_size, examples) = (600.0, 60_000.0);
    /// assert_eq!(SamplingRate(batch_size / examples).check()?, SamplingRate(0.01));
    /// assert!(SamplingRate(1.5).check().is_err());
    /// # Ok::<(), epsilab_accounting::Error>(())
    /// ```
    SamplingRate,
    "sampling_rate",
    |x| x > 0.0 && x <= 1.0,
    "the sampling rate must be a probability above 0 and at most 1",
    "use the expected batch size divided by the public number of examples"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn values_outside_their_range_are_rejected_by_name() {
        assert_eq!(Epsilon(3.0).check(), Ok(Epsilon(3.0)));
        assert_eq!(Delta(1e-15).check(), Ok(Delta(1e-15)));
        assert_eq!(NoiseMultiplier(0.003).check(), Ok(NoiseMultiplier(0.003)));
        assert_eq!(SamplingRate(1.0).check(), Ok(SamplingRate(1.0)));

        let nan = f64::NAN;
        let inf = f64::INFINITY;
        for bad in [0.0, -1.0, nan, inf, -inf] {
            let error = Epsilon(bad).check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting);
            assert!(error.to_string().starts_with("epsilon = "), "{error}");
            assert!(NoiseMultiplier(bad).check().is_err(), "noise multiplier {bad}");
        }
        for bad in [0.0, 1.0, -1e-9, 1.1, nan, inf] {
            assert!(Delta(bad).check().is_err(), "delta {bad}");
        }
        for bad in [0.0, 1.0 + 1e-9, -0.1, nan, inf] {
            assert!(SamplingRate(bad).check().is_err(), "sampling rate {bad}");
        }
    }

    #[test]
    fn values_are_displayed_without_superfluous_digits() {
        assert_eq!(Delta(1e-5).to_string(), "1e-5");
        assert_eq!(Epsilon(3.0).to_string(), "3");
        assert_eq!(SamplingRate(0.0125).to_string(), "0.0125");
        assert_eq!(NoiseMultiplier(2.5e7).to_string(), "2.5e7");
    }

    #[test]
    fn values_are_plain_numbers_in_json() {
        assert_eq!(serde_json::to_string(&Epsilon(0.5)).unwrap(), "0.5");
        assert_eq!(serde_json::from_str::<Delta>("1e-5").unwrap(), Delta(1e-5));
    }
}
