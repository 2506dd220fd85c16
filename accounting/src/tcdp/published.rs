//! A published formula without a valid guarantee, implemented to reproduce the published values.

use crate::{Delta, NoiseMultiplier};
use crate::{Error, Result};

/// Inputs of the Auto DP-SGD formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutoDpSgdInputs {
    /// Number of training examples.
    pub examples: u64,
    /// Batch size.
    pub batch_size: u64,
    /// Sensitivity in the sense of the paper: the mean of its clip norms.
    pub sensitivity: f64,
    /// Noise multiplier of the first epoch.
    pub sigma0: f64,
    /// Smallest noise multiplier of any epoch.
    pub smallest_sigma: f64,
    /// Sum of sigma0² / sigma² over the epochs, one term per *epoch*.
    pub schedule_sum: f64,
    /// The delta of the claim.
    pub delta: f64,
}

/// Output of the formula. It is not a valid epsilon: see [`auto_dp_sgd_as_published`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedClaim {
    /// The rho of the formula.
    pub rho: f64,
    /// The omega of the formula. tCDP implies nothing where it is at most 1.
    pub omega: f64,
    /// The claimed epsilon, for every omega.
    pub epsilon_claimed: f64,
}

/// Returns the epsilon claimed by Auto DP-SGD. **Unsound: never a guarantee.**
///
/// With q = batch size / examples and S the sum over the schedule:
///
/// ```text
/// rho = 13 q² sensitivity² S / (2 sigma0²),     omega = ln(1/q) smallest sigma² / (2 sensitivity²)
/// epsilon = rho + 2 sqrt(rho ln(1/delta))
/// ```
///
/// The formula is unsound for four reasons:
/// - It composes epochs, but every *iteration* is a release. rho is too small by the number of
///   batches in an epoch, several hundred in the paper.
/// - The amplification theorem requires rho <= 0.1 before sampling, which the paper's noise
///   multipliers never meet, and the replace-one relation, under which the sensitivity is twice as
///   large.
/// - The conversion to epsilon is used outside its range of orders, given by omega.
/// - Clip norms computed from the private batch bound no sensitivity, so no formula could hold.
///
/// # Errors
/// Kind `Setting` for a number out of range. A claim that is itself out of range is returned
/// unchanged.
pub fn auto_dp_sgd_as_published(inputs: AutoDpSgdInputs) -> Result<PublishedClaim> {
    let AutoDpSgdInputs { examples, batch_size, sensitivity, sigma0, smallest_sigma, .. } = inputs;
    Delta(inputs.delta).check()?;
    NoiseMultiplier(sigma0).check()?;
    NoiseMultiplier(smallest_sigma).check()?;
    if batch_size == 0 || batch_size > examples {
        let why =
            format!("the batch size must be between 1 and the number of examples, {examples}");
        return Err(Error::setting("batch_size", batch_size, why).fix("use the value of the paper"));
    }
    for (name, value) in [("sensitivity", sensitivity), ("schedule_sum", inputs.schedule_sum)] {
        if !(value > 0.0 && value.is_finite()) {
            return Err(Error::setting(name, value, "the formula needs a finite number above 0")
                .fix("use the value of the paper"));
        }
    }
    let q = batch_size as f64 / examples as f64;
    let rho = 13.0 * (q * sensitivity / sigma0).powi(2) * inputs.schedule_sum / 2.0;
    Ok(PublishedClaim {
        rho,
        omega: -q.ln() * (smallest_sigma / sensitivity).powi(2) / 2.0,
        epsilon_claimed: rho + 2.0 * (rho * -inputs.delta.ln()).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accountant, Event, Rdp, tcdp};

    /// Section 10 of the paper, linear schedule: sigma² decreases by 1 % per epoch, 100 epochs.
    fn linear() -> AutoDpSgdInputs {
        AutoDpSgdInputs {
            examples: 60_000,
            batch_size: 64,
            sensitivity: 1.0,
            sigma0: 1.0,
            smallest_sigma: 0.99f64.powi(99).sqrt(),
            schedule_sum: (0..100).map(|epoch| 0.99f64.powi(-epoch)).sum(),
            delta: 1e-5,
        }
    }

    #[test]
    fn the_claim_is_reproduced_and_far_below_the_proved_epsilon() {
        let claim = auto_dp_sgd_as_published(linear()).unwrap();
        assert!((claim.epsilon_claimed - 0.242_925).abs() < 1e-6, "{claim:?}");
        assert!((claim.omega - 1.26).abs() < 0.01, "{claim:?}");
        // The paper's own lemma, in the branch that applies to this omega.
        let lemma_epsilon = tcdp::epsilon_at_delta(claim.rho, claim.omega, 1e-5).unwrap();
        assert!((43.0..45.0).contains(&lemma_epsilon), "{lemma_epsilon}");
        // The same schedule with real clipping to a public norm, every iteration counted.
        let epochs: Vec<Event> = (0..100)
            .map(|epoch| Event::PoissonGaussian {
                sampling_rate: 64.0 / 60_000.0,
                noise_multiplier: 0.99f64.powi(epoch).sqrt(),
                steps: 938,
            })
            .collect();
        let proved = Accountant::epsilon(&Rdp::default(), &epochs, Delta(1e-5)).unwrap().epsilon;
        assert!(proved > 10.0 * claim.epsilon_claimed, "{proved}");
    }

    #[test]
    fn the_claimed_epsilon_depends_on_the_units_of_the_gradient() {
        let smaller = AutoDpSgdInputs { sensitivity: 0.5, ..linear() };
        let (claim, half) = (auto_dp_sgd_as_published(linear()), auto_dp_sgd_as_published(smaller));
        assert!(half.unwrap().epsilon_claimed < 0.6 * claim.unwrap().epsilon_claimed);
    }

    #[test]
    fn out_of_range_parameters_are_rejected() {
        for bad in [
            AutoDpSgdInputs { delta: 1.0, ..linear() },
            AutoDpSgdInputs { sigma0: 0.0, ..linear() },
            AutoDpSgdInputs { smallest_sigma: f64::NAN, ..linear() },
            AutoDpSgdInputs { batch_size: 0, ..linear() },
            AutoDpSgdInputs { batch_size: 60_001, ..linear() },
            AutoDpSgdInputs { sensitivity: f64::INFINITY, ..linear() },
            AutoDpSgdInputs { schedule_sum: -1.0, ..linear() },
        ] {
            let error = auto_dp_sgd_as_published(bad).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Setting);
        }
    }
}
