//! What an accountant is: events in, epsilon out.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::units::Readable;
use super::{Delta, Event};
use crate::Result;

/// Turns a list of events into the epsilon that holds for all of them together.
///
/// # Guarantee
/// `epsilon` is an upper bound: releasing everything in `events` on one data set is
/// (epsilon, delta)-differentially private, neighbouring data sets differing by one added or
/// removed example. An accountant that can't account an event exactly or from above refuses it
/// with an error of kind `Accounting` that names the event; it never approximates silently.
pub trait Accountant {
    /// Short name as in tables and JSON keys, for example `rdp`.
    fn name(&self) -> &str;

    /// The epsilon of all events together at `delta`.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range, kind `Accounting` for an event that this
    /// accountant can't account or an epsilon beyond floating-point numbers.
    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<Spent>;

    /// The epsilon this accountant reports in the limit of infinite noise: targets at or below
    /// it can't be reached whatever the noise.
    fn floor(&self, delta: Delta) -> Result<f64> {
        delta.check().map(|_| 0.0)
    }
}

/// What an accountant found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The epsilon: 0 if nothing was released.
    pub epsilon: f64,
    /// The Rényi order at which the bound is smallest; 0 from an accountant without orders.
    pub order: f64,
    /// The best order is the first or the last of the list: a longer list could give a smaller
    /// epsilon. The value is an upper bound nevertheless.
    pub at_end_of_orders: bool,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epsilon {} at order {}", Rounded(self.epsilon), Readable(self.order))?;
        if self.at_end_of_orders {
            f.write_str(" (an end of the order list: a longer list could give less)")?;
        }
        Ok(())
    }
}

/// At most four significant digits, rounded up: a claimed epsilon must not be below the bound, a
/// noise multiplier that is typed in again not below the one that was found.
pub(crate) struct Rounded(pub f64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 <= 0.0 || !self.0.is_finite() {
            return write!(f, "{}", self.0);
        }
        let digits = 3 - self.0.log10().floor() as i32;
        let unit = 10f64.powi(-digits);
        // The tiny step back keeps 3 at 3: (3.0 / 0.001).ceil() may be 3001.
        let up = (self.0 / unit * (1.0 - 1e-12)).ceil() * unit;
        if !(1e-3..1e6).contains(&up) {
            return write!(f, "{up:.3e}");
        }
        let text = format!("{up:.*}", digits.max(0) as usize);
        if text.contains('.') {
            f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
        } else {
            f.write_str(&text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_is_shown_in_four_digits_and_never_rounded_down() {
        let shown = |x: f64| Rounded(x).to_string();
        assert_eq!(shown(3.0), "3");
        assert_eq!(shown(2.99941), "3");
        assert_eq!(shown(2.10137), "2.102");
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(0.288572), "0.2886");
        assert_eq!(shown(66_884.36), "66890");
        assert_eq!(shown(9.770_538_87e8), "9.771e8");
        assert_eq!(shown(1.661e-4), "1.661e-4");
    }

    #[test]
    fn an_end_order_is_said_aloud() {
        let spent = Spent { epsilon: 2.0, order: 1.1, at_end_of_orders: true };
        assert!(spent.to_string().contains("a longer list could give less"));
    }
}
