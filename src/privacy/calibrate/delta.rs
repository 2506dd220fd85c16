//! The smallest delta for an epsilon.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::search::{Outcome, Parameter, Search, infeasible};
use crate::Result;
use crate::privacy::digits::Rounded;
use crate::privacy::{Accountant, Delta, Epsilon, Event};

/// Deltas outside are not looked for.
const RANGE: (f64, f64) = (1e-300, 0.999);

/// A delta and the epsilon that truly holds at it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedDelta {
    /// The delta: at most a ten-thousandth above the smallest that meets the target.
    pub delta: Delta,
    /// The epsilon at this very delta, at most the target.
    pub epsilon: f64,
    /// Name of the accountant that found it.
    pub accountant: String,
}

impl fmt::Display for CalibratedDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (delta, epsilon) = (Rounded(self.delta.0), Rounded(self.epsilon));
        write!(f, "delta {delta} holds with epsilon {epsilon} ({})", self.accountant)
    }
}

/// The smallest delta at which all `events` together stay within `target`; 1e-300 if an even
/// smaller one would do.
///
/// # Errors
/// Kind `Setting` for a number outside its range; kind `Accounting` if no delta below 0.999 is
/// enough, or the accountant refuses the events.
///
/// # Guarantee
/// The result errs on the safe side: the accountant's epsilon at this delta was evaluated and is
/// at most `target`. Neighbouring relation and assumptions are the accountant's.
///
/// ```
/// use epsilab::privacy::{Epsilon, Event, Rdp, delta_for};
/// let training =
///     Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
/// let found = delta_for(Epsilon(2.1014), &[training], &Rdp::default())?;
/// assert!((found.delta.0 / 1e-5 - 1.0).abs() < 1e-3);
/// # Ok::<(), epsilab::Error>(())
/// ```
pub fn delta_for(
    target: Epsilon,
    events: &[Event],
    accountant: &dyn Accountant,
) -> Result<CalibratedDelta> {
    let target = target.check()?;
    let search = Search {
        target: target.0,
        parameter: Parameter {
            range: RANGE,
            increasing_is_safer: true,
            integer: false,
            tolerance: 1e-4,
            initial: 1e-5,
            elasticity: 0.05,
        },
        epsilon: &|delta, accountant| {
            accountant.epsilon(events, Delta(delta)).map(|spent| spent.epsilon)
        },
    };
    match search.solve(accountant)? {
        Outcome::Found { value, epsilon } => Ok(CalibratedDelta {
            delta: Delta(value),
            epsilon,
            accountant: accountant.name().to_string(),
        }),
        Outcome::Infeasible { epsilon } => {
            let why = format!("even at delta {} it is {}", RANGE.1, Rounded(epsilon));
            Err(infeasible("delta", target, accountant, why)
                .fix("ask for a larger epsilon, or release less"))
        }
    }
}
