//! The trade-off function: what the best attacker can do, error against error.

use std::fmt;
use std::sync::Arc;

use super::percent::percent_rounded_up;
use crate::privacy::{Accountant, Delta, Event, Headline, Neighbouring, Pld, Profile};
use crate::{Error, Result};

/// What releases let the best possible attacker do who must say whether one example was in the
/// data.
///
/// The attacker is described by two rates: of false alarms ("it was in", and it was not) and of
/// catches ("it was in", and it was). The trade-off function f gives the smallest rate of misses,
/// 1 - catches, for every rate of false alarms (Dong, Roth, Su: Gaussian Differential Privacy,
/// 2022). Every pair (epsilon, delta) that is proved bounds it by two lines
/// (there, after Wasserman and Zhou 2010 and Kairouz, Oh, Viswanath 2015):
/// f(a) >= max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a)), and the largest of all
/// these bounds holds.
///
/// # Guarantee
/// Every number is an upper bound on *any* attacker, also one who knows all other examples, the
/// method and its settings; it is as good as the pairs it was made from and never understates the
/// attacker, up to the rounding of doubles (about 1e-15). It holds for one example in the sense of
/// the neighbouring relation of the accountant that proved the pairs, whatever the attacker knows
/// of it before.
#[derive(Clone, Debug, PartialEq)]
pub struct TradeOff {
    /// (epsilon, delta), each proved for the same releases: epsilon >= 0, delta in [0, 1].
    pairs: Arc<[(f64, f64)]>,
}

/// Deltas at which epsilon is asked for where nobody knows the whole profile.
const DELTAS: [f64; 16] =
    [1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7];

impl TradeOff {
    /// The trade-off of releases whose privacy profile is known.
    ///
    /// Between the points of a profile nothing is lost: there each line above is a straight line
    /// over e^epsilon or e^-epsilon and therefore largest at a point.
    pub fn from_profile(profile: &Profile) -> Self {
        Self { pairs: profile.points().into() }
    }

    /// The trade-off that follows from one (epsilon, delta) alone.
    ///
    /// # Errors
    /// Kind `Setting` for an epsilon that is not a finite number from 0 on or a delta outside
    /// [0, 1].
    pub fn from_epsilon_delta(epsilon: f64, delta: f64) -> Result<Self> {
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::setting("epsilon", epsilon, "epsilon is a finite number from 0 on")
                .fix("take for example 1.0"));
        }
        Ok(Self { pairs: [(epsilon, check_probability("delta", delta)?)].into() })
    }

    /// The trade-off of a list of releases: from the privacy loss distribution, or, where that
    /// refuses, from the reported epsilon at many deltas. Slightly looser then.
    ///
    /// # Errors
    /// As [`Accountant::epsilon`]: nothing is bounded if nobody can account the releases.
    pub fn from_events(events: &[Event], neighbouring: Neighbouring) -> Result<Self> {
        if let Ok(profile) = Pld::with_neighbouring(neighbouring).profile(events) {
            return Ok(Self::from_profile(&profile));
        }
        let headline = Headline::with_neighbouring(neighbouring);
        // The first failure tells why; a single delta out of reach leaves the others.
        let asked = DELTAS.map(|d| headline.epsilon(events, Delta(d)).map(|s| (s.epsilon, d)));
        let pairs: Vec<_> = asked.iter().flatten().copied().collect();
        match asked.into_iter().find_map(|answer| answer.err()).filter(|_| pairs.is_empty()) {
            Some(refusal) => Err(refusal),
            None => Ok(Self { pairs: pairs.into() }),
        }
    }

    /// The same with one more pair that is proved for the same releases.
    pub(super) fn with_pair(&self, epsilon: f64, delta: f64) -> Self {
        let more = self.pairs.iter().copied().chain([(epsilon, delta)]);
        Self { pairs: more.collect() }
    }

    /// The smallest share of misses of an attacker with this share of false alarms: f.
    ///
    /// # Errors
    /// Kind `Setting` for a share outside [0, 1].
    pub fn false_negative_rate(&self, false_positive_rate: f64) -> Result<f64> {
        self.true_positive_rate(false_positive_rate).map(|tpr| 1.0 - tpr)
    }

    /// The largest share of members that an attacker catches who accepts this share of false
    /// alarms: 1 - f. Without any release it is the share of false alarms itself.
    ///
    /// # Errors
    /// Kind `Setting` for a share outside [0, 1].
    pub fn true_positive_rate(&self, false_positive_rate: f64) -> Result<f64> {
        Ok(self.max_tpr(check_probability("false_positive_rate", false_positive_rate)?))
    }

    /// The advantage of the best attacker: the most by which catches can exceed false alarms. He
    /// is right with probability (1 + advantage) / 2 if "in" and "not in" are equally likely.
    pub fn advantage(&self) -> f64 {
        // f is its own inverse, so catches - false alarms is largest where misses and false
        // alarms are equal: at a = (1 - delta) / (1 + e^epsilon) for one pair, at the largest
        // such a for all of them.
        let one = |&(epsilon, delta): &(f64, f64)| {
            (epsilon / 2.0).tanh() + 2.0 * delta / (1.0 + epsilon.exp())
        };
        self.pairs.iter().map(one).fold(1.0, f64::min)
    }

    /// How sure anybody can be of "it was in" who believed it with probability `prior` before and
    /// says so with this share of false alarms: the largest possible probability of being right
    /// (positive predictive value). With `false_alarms` 0 the bound for *every* attacker: for a
    /// pure epsilon it is prior e^epsilon / (1 - prior + prior e^epsilon), for a delta above 0 it
    /// is 1, because with probability delta anything may happen.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside [0, 1].
    pub fn posterior(&self, prior: f64, false_positive_rate: f64) -> Result<f64> {
        let (prior, fpr) = (
            check_probability("prior", prior)?,
            check_probability("false_positive_rate", false_positive_rate)?,
        );
        if prior == 0.0 {
            return Ok(0.0);
        }
        let fpr_per_tpr = match fpr > 0.0 {
            true => fpr / self.max_tpr(fpr),
            false => self.min_fpr_per_tpr(),
        };
        Ok(prior / (prior + (1.0 - prior) * fpr_per_tpr))
    }

    /// False alarms for each catch, in the limit of no false alarm: e^-epsilon of the smallest
    /// epsilon with delta 0; 0 if delta is never 0.
    fn min_fpr_per_tpr(&self) -> f64 {
        let pure = self.pairs.iter().filter(|(_, delta)| *delta == 0.0).map(|(epsilon, _)| epsilon);
        (-pure.copied().fold(f64::INFINITY, f64::min)).exp()
    }

    /// 1 - f, written so that small shares keep all their digits.
    pub(crate) fn max_tpr(&self, fpr: f64) -> f64 {
        let one = |&(epsilon, delta): &(f64, f64)| {
            // Beyond e^709 the first line says nothing, unless nobody raises a false alarm.
            let steep = if fpr > 0.0 { fpr * epsilon.exp() } else { 0.0 } + delta;
            let flat = -(-epsilon).exp_m1() + (-epsilon).exp() * (delta + fpr);
            steep.min(flat)
        };
        self.pairs.iter().map(one).fold(1.0, f64::min).max(fpr)
    }
}

/// A table for a reader: false alarms, catches.
impl fmt::Display for TradeOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an attacker who accepts this share of false alarms catches at most")?;
        for fpr in [0.0001, 0.001, 0.01, 0.1, 0.5] {
            let tpr = percent_rounded_up(self.max_tpr(fpr));
            write!(f, "\n  {:>7}  {tpr:>7}", percent_rounded_up(fpr))?;
        }
        write!(f, "\nadvantage over guessing: at most {}", percent_rounded_up(self.advantage()))
    }
}

/// A probability, checked.
fn check_probability(name: &str, value: f64) -> Result<f64> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(value),
        false => Err(Error::setting(name, value, "a share or probability lies between 0 and 1")
            .fix("write 1 % as 0.01")),
    }
}
