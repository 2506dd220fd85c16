//! The trade-off function between the error rates of a membership inference attack.

use std::fmt;
use std::sync::Arc;

use super::percent::percent_rounded_up;
use crate::{
    Accountant, Delta, Event, NeighbouringRelation, Pld, PrivacyProfile, TightestAccountant,
};
use crate::{Error, Result};

/// Upper bounds on a membership inference attack, from the trade-off function of the releases.
///
/// An attack decides whether one example was in the data. Its false positive rate (FPR) is the
/// probability of "in" for an example that was not; its true positive rate (TPR) is the probability
/// of "in" for an example that was. The trade-off function f gives the smallest false negative
/// rate, 1 - TPR, for every FPR (Dong, Roth, Su: Gaussian Differential Privacy, 2022). Every proved
/// pair (epsilon, delta) bounds it (there, after Wasserman and Zhou 2010 and Kairouz, Oh, Viswanath
/// 2015):
///
/// ```text
/// f(a) >= max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a))
/// ```
///
/// The largest of these bounds over all pairs is used.
///
/// # Guarantee
/// The bounds hold for *every* attack, also by an attacker who knows all other examples, the method
/// and its settings, and whatever the prior knowledge of the example. They are as tight as the
/// pairs, and exact up to rounding (about 1e-15). They hold for one example under the neighbouring
/// relation of the accountant that proved the pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct TradeOff {
    /// (epsilon, delta) pairs, all proved for the same releases: epsilon >= 0, delta in [0, 1].
    pairs: Arc<[(f64, f64)]>,
}

/// Deltas at which epsilon is computed where the whole profile is not available.
const DELTAS: [f64; 16] =
    [1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7];

impl TradeOff {
    /// Creates the trade-off function of releases with a known privacy profile.
    ///
    /// The points of the profile suffice: between two of them each bound is linear in e^epsilon or
    /// e^-epsilon, and so largest at a point.
    pub(crate) fn from_profile(profile: &PrivacyProfile) -> Self {
        Self { pairs: profile.points().into() }
    }

    /// Creates the trade-off function implied by a single (epsilon, delta).
    ///
    /// # Errors
    /// Kind `Setting` for an epsilon that is not finite and at least 0, or a delta outside [0, 1].
    ///
    /// # Guarantee
    /// No test of an (epsilon, delta)-differentially private mechanism beats it, under the same
    /// neighbouring relation.
    pub fn from_epsilon_delta(epsilon: f64, delta: f64) -> Result<Self> {
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::setting(
                "epsilon",
                epsilon,
                "epsilon must be finite and at least 0",
            )
            .fix("use for example 1.0"));
        }
        Ok(Self { pairs: [(epsilon, check_probability("delta", delta)?)].into() })
    }

    /// Creates the trade-off function of a list of events, from their privacy profile by [`Pld`].
    /// Where that is not supported, it follows from the epsilon of [`TightestAccountant`] at
    /// several deltas and is slightly looser.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` if no accountant supports
    /// the events.
    pub fn from_events(events: &[Event], neighbouring: NeighbouringRelation) -> Result<Self> {
        if let Ok(profile) = Pld::with_neighbouring(neighbouring).privacy_profile(events) {
            return Ok(Self::from_profile(&profile));
        }
        let tightest = TightestAccountant::with_neighbouring(neighbouring);
        // Deltas without an answer are skipped. If there is none at all, the first error is
        // returned.
        let answers = DELTAS.map(|d| tightest.epsilon(events, Delta(d)).map(|s| (s.epsilon, d)));
        let pairs: Vec<_> = answers.iter().flatten().copied().collect();
        match answers.into_iter().find_map(|result| result.err()).filter(|_| pairs.is_empty()) {
            Some(refusal) => Err(refusal),
            None => Ok(Self { pairs: pairs.into() }),
        }
    }

    /// Returns the same bounds with one more pair, proved for the same releases.
    pub(super) fn with_pair(&self, epsilon: f64, delta: f64) -> Self {
        let more = self.pairs.iter().copied().chain([(epsilon, delta)]);
        Self { pairs: more.collect() }
    }

    /// Computes the smallest false negative rate at a false positive rate: f.
    ///
    /// # Errors
    /// Kind `Setting` for a rate outside [0, 1].
    pub fn false_negative_rate(&self, false_positive_rate: f64) -> Result<f64> {
        self.true_positive_rate(false_positive_rate).map(|tpr| 1.0 - tpr)
    }

    /// Computes the largest true positive rate at a false positive rate: 1 - f. Without any
    /// release it equals the false positive rate.
    ///
    /// # Errors
    /// Kind `Setting` for a rate outside [0, 1].
    pub fn true_positive_rate(&self, false_positive_rate: f64) -> Result<f64> {
        Ok(self.max_tpr(check_probability("false_positive_rate", false_positive_rate)?))
    }

    /// Returns the largest advantage of an attack, TPR - FPR. Its accuracy is at most (1 +
    /// advantage) / 2 if both cases are equally likely.
    pub fn advantage(&self) -> f64 {
        // f is its own inverse, so TPR - FPR is largest where the false negative and the false
        // positive rate are equal: at a = (1 - delta) / (1 + e^epsilon) for one pair, and at the
        // largest such a for all of them.
        let one = |&(epsilon, delta): &(f64, f64)| {
            (epsilon / 2.0).tanh() + 2.0 * delta / (1.0 + epsilon.exp())
        };
        self.pairs.iter().map(one).fold(1.0, f64::min)
    }

    /// Computes the largest positive predictive value of an attack: the probability that an
    /// example for which it decides "in" was in, given the prior probability `prior`, at a false
    /// positive rate.
    ///
    /// With a `false_positive_rate` of 0 it is the bound for *every* attack. For delta = 0 that is
    /// prior e^epsilon / (1 - prior + prior e^epsilon); for delta above 0 it is 1, because with
    /// probability delta anything may be released.
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
        let fpr_per_tpr = if fpr > 0.0 { fpr / self.max_tpr(fpr) } else { self.min_fpr_per_tpr() };
        Ok(prior / (prior + (1.0 - prior) * fpr_per_tpr))
    }

    /// Computes FPR / TPR in the limit of FPR 0: e^-epsilon of the smallest epsilon with delta 0,
    /// or 0 if no pair has delta 0.
    fn min_fpr_per_tpr(&self) -> f64 {
        let pure = self.pairs.iter().filter(|(_, delta)| *delta == 0.0).map(|(epsilon, _)| epsilon);
        (-pure.copied().fold(f64::INFINITY, f64::min)).exp()
    }

    /// Computes the largest true positive rate at a false positive rate in [0, 1], without loss of
    /// precision for small values: 1 - f.
    pub fn max_tpr(&self, fpr: f64) -> f64 {
        let one = |&(epsilon, delta): &(f64, f64)| {
            // e^epsilon overflows beyond 709; the first bound is then trivial unless the FPR is 0.
            let steep = if fpr > 0.0 { fpr * epsilon.exp() } else { 0.0 } + delta;
            let flat = -(-epsilon).exp_m1() + (-epsilon).exp() * (delta + fpr);
            steep.min(flat)
        };
        self.pairs.iter().map(one).fold(1.0, f64::min).max(fpr)
    }
}

/// A table of true positive rates by false positive rate.
impl fmt::Display for TradeOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "false positive rate, largest true positive rate of an attack:")?;
        for fpr in [0.0001, 0.001, 0.01, 0.1, 0.5] {
            let tpr = percent_rounded_up(self.max_tpr(fpr));
            write!(f, "\n  {:>7}  {tpr:>7}", percent_rounded_up(fpr))?;
        }
        write!(f, "\nadvantage over guessing: at most {}", percent_rounded_up(self.advantage()))
    }
}

/// Returns a probability if it is in [0, 1].
fn check_probability(name: &str, value: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(Error::setting(name, value, "a probability must be between 0 and 1")
            .fix("write 1 % as 0.01"))
    }
}
