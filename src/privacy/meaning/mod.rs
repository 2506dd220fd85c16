//! What an epsilon means for one person: how well the best attacker can guess.
//!
//! Pure numbers, derived from what the accountants prove. Nothing here is an attack that was
//! carried out: all are bounds that no attack can beat.

mod percent;
mod trade_off;

#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use percent::percent_rounded_up;
pub use trade_off::TradeOff;

use super::digits::Rounded;
use super::statement::accountant_in_words;
use super::{Accountant, Delta, Event, Headline, Neighbouring};
use crate::Result;

/// The share of false alarms that the sentences speak of: 1 %.
pub(crate) const REPORTED_FPR: f64 = 0.01;

/// An epsilon for a reader without statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning {
    epsilon: f64,
    delta: Delta,
    accountant: String,
    neighbouring: Neighbouring,
    trade_off: TradeOff,
}

/// What the releases in `events` mean for one example that is added or removed.
///
/// ```
/// use epsilab::privacy::{self, Delta, Event};
/// let training =
///     Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
/// let meaning = privacy::meaning(&[training], Delta(1e-5))?;
/// assert!(meaning.max_attack_accuracy() < 0.7);
/// println!("{meaning}");
/// # Ok::<(), epsilab::Error>(())
/// ```
///
/// # Errors
/// As [`Accountant::epsilon`]: a release that nobody can account has no bounded meaning.
///
/// # Guarantee
/// As [`Meaning`], for [`Neighbouring::AddOrRemoveOne`].
pub fn meaning(events: &[Event], delta: Delta) -> Result<Meaning> {
    Meaning::with_neighbouring(Neighbouring::AddOrRemoveOne, events, delta)
}

/// # Guarantee
/// Epsilon is [`Headline`]'s; the attacker's numbers are those of [`TradeOff`]. All are upper
/// bounds under the neighbouring relation that the text names; they rest on the same assumptions
/// as the events themselves.
impl Meaning {
    /// What the releases mean under another neighbouring relation.
    ///
    /// # Errors
    /// As [`meaning`].
    pub fn with_neighbouring(
        neighbouring: Neighbouring,
        events: &[Event],
        delta: Delta,
    ) -> Result<Self> {
        let spent = Headline::with_neighbouring(neighbouring).epsilon(events, delta)?;
        // The reported pair is proved as well: the smaller bound counts everywhere.
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

    /// The epsilon that is reported at [`delta`](Meaning::delta).
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The delta that epsilon is reported at.
    pub fn delta(&self) -> Delta {
        self.delta
    }

    /// When two data sets count as neighbours.
    pub fn neighbouring(&self) -> Neighbouring {
        self.neighbouring
    }

    /// What the best attacker can do at every rate of false alarms.
    pub fn trade_off(&self) -> &TradeOff {
        &self.trade_off
    }

    /// The most often anybody can be right who must tell "with the example" from "without it",
    /// when both are equally likely: 0.5 is a coin.
    pub fn max_attack_accuracy(&self) -> f64 {
        (1.0 + self.trade_off.advantage()) / 2.0
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fpr, tpr) = (REPORTED_FPR, self.trade_off.max_tpr(REPORTED_FPR));
        // With equal odds before: catches against false alarms, one to one.
        let sure = tpr / (tpr + fpr);
        let (task, member) = match self.neighbouring {
            Neighbouring::AddOrRemoveOne => {
                ("whether that example was in the data or not", "of the examples that were in")
            }
            Neighbouring::ZeroOutOne => (
                "whether that example took part or its place was left empty",
                "of the examples that took part",
            ),
            Neighbouring::ReplaceOne => (
                "which of two given examples was in its place",
                "of the cases where it was the first",
            ),
        };
        writeln!(
            f,
            "Everything released here is ({}, {})-differentially private (neighbours: {}; \
             accountant: {}).",
            Rounded(self.epsilon),
            self.delta,
            self.neighbouring,
            accountant_in_words(&self.accountant),
        )?;
        writeln!(
            f,
            "Take an attacker who knows the whole data set except one example, sees everything \
             that is released, and must say {task}. Where both are equally likely they are right at \
             most {} of the time; a coin is right 50 % of the time.",
            percent_rounded_up(self.max_attack_accuracy()),
        )?;
        writeln!(
            f,
            "If they accept {} false alarms, they catch at most {} {member}; without the release \
             they would catch {}.",
            percent_rounded_up(fpr),
            percent_rounded_up(tpr),
            percent_rounded_up(fpr),
        )?;
        write!(
            f,
            "If they believed it with 50 % before, a verdict that cautious makes them at most {} \
             sure.",
            percent_rounded_up(sure),
        )?;
        if percent_rounded_up(self.max_attack_accuracy()) == "100 %" {
            write!(f, "\nThese bounds rule nothing out: so large an epsilon protects nobody.")?;
        }
        Ok(())
    }
}
