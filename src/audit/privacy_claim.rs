//! Claim that an audit compares with: the ledger's events, their epsilon and their trade-off
//! curve.

use super::report::Verdict;
use super::statistics::ErrorRates;
use crate::methods::Plan;
use crate::privacy::SamplingRate;
use crate::privacy::{
    Accountant, Delta, Event, NeighbouringRelation, Stages, TightestAccountant, TradeOff,
};
use crate::{Error, ErrorKind, Result};

/// Privacy claim of a method, and what the audit compares with it.
#[derive(Clone, Debug)]
pub(super) struct PrivacyClaim {
    /// Epsilon of the claim, as the ledger charges it; `None` if no accountant has a bound.
    pub(super) epsilon: Option<f64>,
    /// Reason why there is no epsilon; `None` if there is one.
    pub(super) refusal_reason: Option<String>,
    /// Epsilon that the audit compares its lower bounds with: that of the claim, or of clipped
    /// steps.
    pub(super) compared_epsilon: f64,
    /// Trade-off function of the events that `compared_epsilon` is computed from.
    pub(super) trade_off: TradeOff,
    /// Delta of both epsilons.
    pub(super) delta: Delta,
}

/// An attack with measured rates must reach this fraction of the claim's advantage to count as
/// strong.
const STRONG_ADVANTAGE: f64 = 0.5;
/// The lower bound of a strong attack reaches this fraction of the compared epsilon.
const STRONG_EPSILON: f64 = 0.1;

/// Refuses plans on disjoint batches: the games draw Poisson samples.
pub(super) fn require_poisson_sampling(plan: &Plan) -> Result<()> {
    if plan.sampling().is_poisson() {
        return Ok(());
    }
    let what = format!("an audit of steps on {}", plan.sampling());
    let why = "the trials of an audit draw Poisson samples, with and without one example";
    Err(Error::new(ErrorKind::Setting, what, why)
        .fix("audit the same method on Poisson samples: its steps are the same"))
}

/// Returns the stages of a plan.
///
/// # Errors
/// `Setting` for a plan without noise.
pub(super) fn stages_of(plan: &Plan) -> Result<Stages> {
    plan.stages()?.ok_or_else(|| {
        let what = format!("an audit of {}", plan.method());
        let why = "the method adds no noise, so its epsilon is infinite";
        Error::new(ErrorKind::Setting, what, why).fix("audit a private method")
    })
}

impl PrivacyClaim {
    /// Creates the claim of an event. If `not_covered` states why the method has none, or every
    /// accountant refuses the event, the audit compares with clipped steps of these stages.
    ///
    /// # Errors
    /// As [`Accountant::epsilon`] of the clipped steps.
    pub(super) fn new(
        event: &Event,
        not_covered: Option<String>,
        stages: &Stages,
        rate: SamplingRate,
        delta: Delta,
    ) -> Result<Self> {
        let delta = delta.check()?;
        let tightest = TightestAccountant::default();
        let claimed = tightest.epsilon(std::slice::from_ref(event), delta);
        let (epsilon, why, events) = match (claimed, not_covered) {
            (Ok(spent), None) => (Some(spent.epsilon), None, vec![event.clone()]),
            (claimed, reason) => {
                let refusal = || claimed.err().map(|error| error.to_string()).unwrap_or_default();
                let why = reason.unwrap_or_else(refusal);
                (None, Some(why), vec![stages.event(rate, stages.steps())])
            }
        };
        let compared = match epsilon {
            Some(epsilon) => epsilon,
            None => tightest.epsilon(&events, delta)?.epsilon,
        };
        let trade_off = TradeOff::from_events(&events, NeighbouringRelation::AddOrRemoveOne)?;
        Ok(Self { epsilon, refusal_reason: why, compared_epsilon: compared, trade_off, delta })
    }

    /// Returns points (FPR, largest TPR) of the claim, at false positive rates from 0.01 % to 1.
    pub(super) fn allowed_roc_curve(&self) -> Vec<(f64, f64)> {
        let rates = (0..=80).map(|i| 10f64.powf(f64::from(i) / 20.0 - 4.0));
        rates.map(|rate| (rate, self.trade_off.max_tpr(rate))).collect()
    }

    /// Returns the verdict on the measured rates of all attacks.
    ///
    /// # Guarantee
    /// If the bounds of all rates hold and the claim is correct, the verdict is not "refuted".
    pub(super) fn verdict(&self, measured: &[ErrorRates]) -> Verdict {
        let largest = |score: &dyn Fn(&ErrorRates) -> f64| {
            measured.iter().map(score).fold(f64::NEG_INFINITY, f64::max)
        };
        if largest(&|rates| rates.excess(&self.trade_off)) > 0.0 {
            return Verdict::Refuted;
        }
        let strong = largest(&|rates| rates.tightness(&self.trade_off)) >= STRONG_ADVANTAGE
            && self.is_near(largest(&|rates| rates.epsilon_lower_bound(self.delta.0)));
        if strong { Verdict::Consistent } else { Verdict::Inconclusive }
    }

    /// Returns the verdict on a lower bound alone, of an audit that measures no rates.
    ///
    /// # Guarantee
    /// If the bound holds and the claim is correct, the verdict is not "refuted".
    pub(super) fn verdict_on(&self, lower_bound: f64) -> Verdict {
        match lower_bound {
            bound if bound > self.compared_epsilon => Verdict::Refuted,
            bound if self.is_near(bound) => Verdict::Consistent,
            _ => Verdict::Inconclusive,
        }
    }

    /// Returns whether a lower bound is near enough to the compared epsilon to count as strong.
    fn is_near(&self, lower_bound: f64) -> bool {
        lower_bound >= STRONG_EPSILON * self.compared_epsilon
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::NoiseMultiplier;

    fn claim(event: &Event, reason: Option<&str>) -> PrivacyClaim {
        let stages = Stages::constant(NoiseMultiplier(1.0), 1).unwrap();
        let reason = reason.map(str::to_owned);
        PrivacyClaim::new(event, reason, &stages, SamplingRate(1.0), Delta(1e-5)).unwrap()
    }

    fn rates(false_positive_upper: f64, true_positive_lower: f64) -> ErrorRates {
        let (false_positive, true_positive) = (false_positive_upper, true_positive_lower);
        ErrorRates { false_positive, true_positive, false_positive_upper, true_positive_lower }
    }

    #[test]
    fn without_a_guarantee_the_claim_is_that_of_clipped_steps() {
        let covered = claim(&Event::poisson(1.0, 1.0, 1), None);
        assert!(
            (covered.epsilon.unwrap() - 4.3772).abs() < 1e-3 && covered.refusal_reason.is_none()
        );
        let refused = claim(&Event::Unaccountable { why: "the threshold is private".into() }, None);
        let voided = claim(&Event::poisson(1.0, 1.0, 1), Some("the threshold is private"));
        for claim in [refused, voided] {
            assert!(claim.epsilon.is_none() && claim.compared_epsilon == covered.compared_epsilon);
            assert!(claim.refusal_reason.unwrap().contains("the threshold is private"));
            assert_eq!(claim.trade_off, covered.trade_off);
        }
    }

    #[test]
    fn the_verdict_follows_the_curve_and_the_strength_of_the_attack() {
        let claim = claim(&Event::poisson(1.0, 1.0, 1), None);
        // At a false positive rate of 0.1 the curve of μ = 1 allows 0.3891.
        assert_eq!(claim.verdict(&[rates(0.1, 0.38)]), Verdict::Consistent);
        assert_eq!(claim.verdict(&[rates(0.1, 0.38), rates(0.1, 0.4)]), Verdict::Refuted);
        // Less than half of the allowed advantage.
        assert_eq!(claim.verdict(&[rates(0.1, 0.2)]), Verdict::Inconclusive);
        // Just above half of the allowed 0.3724, but a bound on epsilon of ln(0.588 / 0.4) only.
        assert_eq!(claim.verdict(&[rates(0.4, 0.588)]), Verdict::Inconclusive);
        // Epsilon is 4.377; a bound on it counts from a tenth on.
        let verdicts = [4.4, 4.3, 0.44, 0.43].map(|bound| claim.verdict_on(bound));
        let (refuted, near, far) = (Verdict::Refuted, Verdict::Consistent, Verdict::Inconclusive);
        assert_eq!(verdicts, [refuted, near, near, far]);
    }
}
