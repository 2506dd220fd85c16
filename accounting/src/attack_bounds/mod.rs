//! Interpretation of an epsilon: bounds on the success of membership inference attacks.
//!
//! All values follow from the accountants' bounds. They hold for every attack; no attack is carried
//! out.

mod percent;
mod trade_off;

#[cfg(test)]
mod tests;

use std::fmt;

pub use percent::percent_rounded_up;
pub use trade_off::TradeOff;

use super::digits::RoundedUp;
use super::statement::describe_accountant;
use super::{Accountant, Delta, Event, NeighbouringRelation, TightestAccountant};
use crate::Result;

/// The false positive rate used in the text.
pub(crate) const REPORTED_FPR: f64 = 0.01;

/// Bounds on the success of a membership inference attack, with a text for non-experts.
///
/// # Guarantee
/// Epsilon is that of [`TightestAccountant`], and the bounds on attacks are those of [`TradeOff`].
/// All are upper bounds under the neighbouring relation that the text names. They rest on the same
/// assumptions as the events.
#[derive(Clone, Debug, PartialEq)]
pub struct AttackBounds {
    epsilon: f64,
    delta: Delta,
    accountant: String,
    neighbouring: NeighbouringRelation,
    trade_off: TradeOff,
}

/// Computes bounds on membership inference attacks from the releases in `events`, for one example
/// that is added or removed.
///
/// ```
/// use epsilab_accounting::{Delta, Event, attack_bounds};
/// let training =
///     Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
/// let bounds = attack_bounds(&[training], Delta(1e-5))?;
/// assert!(bounds.max_attack_accuracy() < 0.7);
/// println!("{bounds}");
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if no accountant supports the
/// events, or for an epsilon that overflows. Without a bound on epsilon there is no bound on
/// attacks.
///
/// # Guarantee
/// As [`AttackBounds`], for [`NeighbouringRelation::AddOrRemoveOne`].
pub fn attack_bounds(events: &[Event], delta: Delta) -> Result<AttackBounds> {
    AttackBounds::with_neighbouring(NeighbouringRelation::AddOrRemoveOne, events, delta)
}

impl AttackBounds {
    /// Computes the bounds for the releases in `events` under a neighbouring relation.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` if no accountant supports
    /// the events, or for an epsilon that overflows.
    pub fn with_neighbouring(
        neighbouring: NeighbouringRelation,
        events: &[Event],
        delta: Delta,
    ) -> Result<Self> {
        let spent = TightestAccountant::with_neighbouring(neighbouring).epsilon(events, delta)?;
        // The reported (epsilon, delta) is proved as well, so it can only tighten the trade-off.
        let trade_off =
            TradeOff::from_events(events, neighbouring)?.with_pair(spent.epsilon, delta.0);
        Ok(Self {
            epsilon: spent.epsilon,
            delta,
            accountant: spent.accountant,
            neighbouring,
            trade_off,
        })
    }

    /// Returns the epsilon reported at [`delta`](AttackBounds::delta).
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Returns the delta at which epsilon is reported.
    pub fn delta(&self) -> Delta {
        self.delta
    }

    /// Returns the neighbouring relation.
    pub fn neighbouring(&self) -> NeighbouringRelation {
        self.neighbouring
    }

    /// Returns the trade-off function: bounds on attacks at every false positive rate.
    pub fn trade_off(&self) -> &TradeOff {
        &self.trade_off
    }

    /// Returns an upper bound on the accuracy of an attack that distinguishes the two neighbours
    /// with equal prior probability. 0.5 is random guessing.
    pub fn max_attack_accuracy(&self) -> f64 {
        (1.0 + self.trade_off.advantage()) / 2.0
    }
}

impl fmt::Display for AttackBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fpr, tpr) = (REPORTED_FPR, self.trade_off.max_tpr(REPORTED_FPR));
        // Positive predictive value at equal prior probability.
        let ppv = tpr / (tpr + fpr);
        let (task, member) = match self.neighbouring {
            NeighbouringRelation::AddOrRemoveOne => {
                ("whether that example was in the data or not", "of the examples that were in")
            }
            NeighbouringRelation::ZeroOutOne => (
                "whether that example was used or replaced by zeros",
                "of the examples that were used",
            ),
            NeighbouringRelation::ReplaceOne => {
                ("which of two given examples was used", "of the cases where it was the first")
            }
        };
        writeln!(
            f,
            "Everything released here is ({}, {})-differentially private (neighbours: {}; \
             accountant: {}).",
            RoundedUp(self.epsilon),
            self.delta,
            self.neighbouring,
            describe_accountant(&self.accountant),
        )?;
        writeln!(
            f,
            "Consider an attacker who knows the whole data set except one example, sees everything \
             that is released, and decides {task}. If both are equally likely, the decision is \
             right at most {} of the time; a random guess is right 50 % of the time.",
            percent_rounded_up(self.max_attack_accuracy()),
        )?;
        writeln!(
            f,
            "With a false positive rate of {}, the attacker detects at most {} {member}; without \
             the release it would be {}.",
            percent_rounded_up(fpr),
            percent_rounded_up(tpr),
            percent_rounded_up(fpr),
        )?;
        write!(
            f,
            "With a prior probability of 50 %, such a detection is correct with a probability of \
             at most {}.",
            percent_rounded_up(ppv),
        )?;
        if percent_rounded_up(self.max_attack_accuracy()) == "100 %" {
            write!(
                f,
                "\nThese bounds exclude no attack: so large an epsilon gives no protection."
            )?;
        }
        Ok(())
    }
}
