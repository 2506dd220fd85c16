//! The [`Accountant`] trait, which maps a list of events to an epsilon.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::digits::{Readable, RoundedDown, RoundedUp};
use super::{Delta, Event, NeighbouringRelation};
use crate::{Error, ErrorKind, Result};

/// An accountant, which computes the epsilon of a list of events under composition.
///
/// ```
/// use epsilab_accounting::{Accountant, Delta, Event, Pld, Rdp};
/// let training = [Event::poisson(0.01, 1.0, 1000)];
/// let rdp = Rdp::default().epsilon(&training, Delta(1e-5))?;
/// assert!((rdp.epsilon - 2.1014).abs() < 1e-3);
/// // Both are upper bounds, so the smaller one holds.
/// assert!(Pld::default().epsilon(&training, Delta(1e-5))?.epsilon < rdp.epsilon);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
///
/// # Guarantee
/// Unless [`is_approximate`](Accountant::is_approximate) returns true, `epsilon` is an upper bound:
/// releasing everything in `events` on one data set is (epsilon, delta)-differentially private for
/// neighbours under [`neighbouring`](Accountant::neighbouring). An accountant that has no upper
/// bound for an event returns an error of kind `Accounting` that names the event. It never
/// approximates without saying so.
pub trait Accountant {
    /// Returns the short name in tables and JSON keys, for example `rdp`.
    fn name(&self) -> &str;

    /// Computes the epsilon of all events together at `delta`.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` for an event that this
    /// accountant does not support, or for an epsilon that overflows.
    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost>;

    /// Returns the neighbouring relation under which the epsilon holds.
    fn neighbouring(&self) -> NeighbouringRelation {
        NeighbouringRelation::AddOrRemoveOne
    }

    /// Returns whether the value is an estimate that may lie below the true epsilon. An estimate
    /// is labelled wherever it is shown and is never reported as a guarantee.
    fn is_approximate(&self) -> bool {
        false
    }

    /// Returns the epsilon that the accountant reports in the limit of infinite noise: no amount of
    /// noise reaches a target at or below it. 0 by default.
    ///
    /// # Errors
    /// Kind `Setting` for a delta outside (0, 1).
    fn epsilon_floor(&self, delta: Delta) -> Result<f64> {
        delta.check().map(|_| 0.0)
    }
}

/// Epsilon computed by an accountant, with its lower bound and its Rényi order where it has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrivacyCost {
    /// The epsilon: an upper bound unless the accountant is approximate; 0 if nothing was released.
    pub epsilon: f64,
    /// Name of the accountant.
    pub accountant: String,
    /// A lower bound on the true epsilon at the same delta, where the accountant knows one. No
    /// accountant can prove less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "lower")]
    pub lower_bound: Option<f64>,
    /// The Rényi order that gives the smallest bound; 0 for an accountant without orders.
    pub order: f64,
    /// Whether the best order is the first or the last of the list. The epsilon is a valid upper
    /// bound either way, but a longer list could give a smaller one.
    pub at_end_of_orders: bool,
}

impl PrivacyCost {
    /// Creates the cost from the epsilon of an accountant without Rényi orders.
    pub fn new(epsilon: f64, name: &str) -> Self {
        Self {
            epsilon,
            accountant: name.to_string(),
            lower_bound: None,
            order: 0.0,
            at_end_of_orders: false,
        }
    }

    /// Returns the same result with a lower bound on the true epsilon. A lower bound of 0 is
    /// stored only where `epsilon` is 0.
    pub(crate) fn with_lower_bound(mut self, lower: f64) -> Self {
        self.lower_bound = (lower > 0.0 || self.epsilon == 0.0).then_some(lower.min(self.epsilon));
        self
    }
}

/// Returns the number if it is finite.
///
/// # Errors
/// Kind `Accounting` if it is not: [`overflow`] of the epsilon of these events.
pub(crate) fn finite(number: f64, accountant: &str, events: &[Event]) -> Result<f64> {
    if number.is_finite() {
        return Ok(number);
    }
    let all = Event::Composed { events: events.to_vec() };
    Err(overflow(format!("epsilon of {all} by {accountant}")))
}

/// Returns the error of an accountant that does not support these releases.
pub(crate) fn unsupported(
    accountant: &str,
    what: impl fmt::Display,
    why: impl Into<String>,
) -> Error {
    Error::new(ErrorKind::Accounting, format!("{accountant} does not support {what}"), why)
}

/// Returns the error of an epsilon that is not finite.
pub(crate) fn overflow(what: String) -> Error {
    let why = "the privacy loss overflows: there is too little noise for any privacy";
    Error::new(ErrorKind::Accounting, what, why).fix("use a larger noise multiplier or fewer steps")
}

impl fmt::Display for PrivacyCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epsilon {} ({}", RoundedUp(self.epsilon), self.accountant)?;
        if self.order > 0.0 {
            write!(f, " at order {}", Readable(self.order))?;
        }
        if self.at_end_of_orders {
            f.write_str(
                ", at an end of the order list: a longer list could give a smaller epsilon",
            )?;
        }
        match self.lower_bound {
            Some(lower) if RoundedUp(lower).to_string() != RoundedUp(self.epsilon).to_string() => {
                write!(f, "; lower bound {}", RoundedDown(lower))?;
            }
            _ => {}
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_order_is_mentioned_in_the_text() {
        let spent =
            PrivacyCost { order: 1.1, at_end_of_orders: true, ..PrivacyCost::new(2.0, "rdp") };
        assert_eq!(
            spent.to_string(),
            "epsilon 2 (rdp at order 1.1, at an end of the order list: a longer list could give a \
             smaller epsilon)"
        );
    }

    #[test]
    fn a_lower_bound_is_rounded_down_and_shown_if_it_differs() {
        let near = PrivacyCost::new(2.38156, "pld").with_lower_bound(2.38151);
        assert_eq!(near.to_string(), "epsilon 2.382 (pld)");
        let far = PrivacyCost::new(2.38156, "pld").with_lower_bound(2.37999);
        assert_eq!(far.to_string(), "epsilon 2.382 (pld; lower bound 2.379)");
    }
}
