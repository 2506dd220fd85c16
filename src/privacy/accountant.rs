//! What an accountant is: events in, epsilon out.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::digits::{Readable, Rounded, RoundedDown};
use super::{Delta, Event, Neighbouring};
use crate::Result;

/// Turns a list of events into the epsilon that holds for all of them together.
///
/// # Guarantee
/// Unless [`is_approximate`](Accountant::is_approximate), `epsilon` is an upper bound: releasing
/// everything in `events` on one data set is (epsilon, delta)-differentially private for
/// neighbours in the sense of [`neighbouring`](Accountant::neighbouring). An accountant that
/// can't account an event exactly or from above refuses it with an error of kind `Accounting`
/// that names the event; it never approximates silently.
pub trait Accountant {
    /// Short name as in tables and JSON keys, for example `rdp`.
    fn name(&self) -> &str;

    /// The epsilon of all events together at `delta`.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range, kind `Accounting` for an event that this
    /// accountant can't account or an epsilon beyond floating-point numbers.
    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<Spent>;

    /// The neighbouring relation its epsilon is about.
    fn neighbouring(&self) -> Neighbouring {
        Neighbouring::AddOrRemoveOne
    }

    /// Whether the value is an estimate that may lie below the truth, to be labelled so wherever
    /// it is shown and never to be reported as a guarantee.
    fn is_approximate(&self) -> bool {
        false
    }

    /// The epsilon this accountant reports in the limit of infinite noise: targets at or below
    /// it can't be reached whatever the noise.
    fn floor(&self, delta: Delta) -> Result<f64> {
        delta.check().map(|_| 0.0)
    }
}

/// What an accountant found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The epsilon: 0 if nothing was released.
    pub epsilon: f64,
    /// Name of the accountant that gave it.
    pub accountant: String,
    /// No accountant can prove less than this: the true epsilon lies between `lower` and
    /// `epsilon`. From accountants that know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<f64>,
    /// The Rényi order at which the bound is smallest; 0 from an accountant without orders.
    pub order: f64,
    /// The best order is the first or the last of the list: a longer list could give a smaller
    /// epsilon. The value is an upper bound nevertheless.
    pub at_end_of_orders: bool,
}

impl Spent {
    /// An epsilon by the accountant `name`, which has no orders.
    pub fn new(epsilon: f64, name: &str) -> Self {
        Self {
            epsilon,
            accountant: name.to_string(),
            lower: None,
            order: 0.0,
            at_end_of_orders: false,
        }
    }

    /// The same with a bound from below; an exact accountant gives `epsilon` itself. That epsilon
    /// is at least 0 goes without saying.
    pub fn with_lower_bound(mut self, lower: f64) -> Self {
        self.lower = (lower > 0.0 || self.epsilon == 0.0).then_some(lower.min(self.epsilon));
        self
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epsilon {} ({}", Rounded(self.epsilon), self.accountant)?;
        if self.order > 0.0 {
            write!(f, " at order {}", Readable(self.order))?;
        }
        if self.at_end_of_orders {
            f.write_str(", an end of the order list: a longer list could give less")?;
        }
        match self.lower {
            Some(lower) if Rounded(lower).to_string() != Rounded(self.epsilon).to_string() => {
                write!(f, "; the truth is at least {}", RoundedDown(lower))?;
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
    fn an_end_order_is_said_aloud() {
        let spent = Spent { order: 1.1, at_end_of_orders: true, ..Spent::new(2.0, "rdp") };
        assert_eq!(
            spent.to_string(),
            "epsilon 2 (rdp at order 1.1, an end of the order list: a longer list could give less)"
        );
    }

    #[test]
    fn a_bound_from_below_is_rounded_down_and_shown_where_it_differs() {
        let near = Spent::new(2.38156, "pld").with_lower_bound(2.38151);
        assert_eq!(near.to_string(), "epsilon 2.382 (pld)");
        let far = Spent::new(2.38156, "pld").with_lower_bound(2.37999);
        assert_eq!(far.to_string(), "epsilon 2.382 (pld; the truth is at least 2.379)");
    }
}
