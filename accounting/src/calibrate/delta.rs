//! Calibration of delta.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::search::{Search, SearchParameter};
use crate::Result;
use crate::digits::RoundedUp;
use crate::{Accountant, Delta, Epsilon, Event};

/// Range of the search.
const RANGE: (f64, f64) = (1e-300, 0.999);

/// A calibrated delta and its epsilon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedDelta {
    /// The delta, at most a factor 1 + 1e-4 above the smallest that meets the target.
    pub delta: Delta,
    /// The epsilon at this delta, at most the target.
    pub epsilon: f64,
    /// Name of the accountant.
    pub accountant: String,
}

impl fmt::Display for CalibratedDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (delta, epsilon) = (RoundedUp(self.delta.0), RoundedUp(self.epsilon));
        write!(f, "delta {delta} holds with epsilon {epsilon} ({})", self.accountant)
    }
}

/// Computes the smallest delta for which all `events` together are (`target`,
/// delta)-differentially private; 1e-300 if a smaller one would suffice.
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if no delta up to 0.999
/// suffices, or if the accountant does not support the events.
///
/// # Guarantee
/// The accountant has evaluated its epsilon at this delta, and it is at most `target`. The
/// neighbouring relation and the assumptions are those of the accountant.
///
/// ```
/// use epsilab_accounting::{Epsilon, Event, Rdp, delta_for};
/// let training =
///     Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
/// let found = delta_for(Epsilon(2.1014), &[training], &Rdp::default())?;
/// assert!((found.delta.0 / 1e-5 - 1.0).abs() < 1e-3);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
pub fn delta_for(
    target: Epsilon,
    events: &[Event],
    accountant: &dyn Accountant,
) -> Result<CalibratedDelta> {
    let target = target.check()?;
    let search = Search {
        what: "delta",
        target,
        parameter: SearchParameter {
            range: RANGE,
            increasing_is_safer: true,
            integer: false,
            tolerance: 1e-4,
            initial: 1e-5,
            elasticity: 0.05,
        },
        unreachable: &format!("even at delta {} epsilon is", RANGE.1),
        advice: "use a larger epsilon, or release less",
        epsilon: &|delta, accountant| {
            accountant.epsilon(events, Delta(delta)).map(|spent| spent.epsilon)
        },
    };
    let (value, epsilon) = search.solve(accountant)?;
    Ok(CalibratedDelta { delta: Delta(value), epsilon, accountant: accountant.name().to_string() })
}
