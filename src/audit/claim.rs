//! What an audit compares with: the ledger's events, their epsilon and their trade-off curve.

use super::report::Verdict;
use super::statistics::Rates;
use crate::Result;
use crate::privacy::SamplingRate;
use crate::privacy::{Accountant, Delta, Event, Headline, Neighbouring, Stages, TradeOff};

/// The claim of a method.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The epsilon of the ledger; `None` if no accountant has one.
    pub(super) epsilon: Option<f64>,
    /// Why no accountant has one.
    pub(super) why: Option<String>,
    /// The epsilon that is compared with.
    pub(super) compared: f64,
    /// Its trade-off function.
    pub(super) trade_off: TradeOff,
    pub(super) delta: Delta,
}

/// The attack must reach this fraction of the claim's advantage to count as strong.
const STRONG_ADVANTAGE: f64 = 0.5;
/// The lower bound must reach this fraction of the claimed epsilon.
const STRONG_EPSILON: f64 = 0.1;

impl Claim {
    /// The claim of this event; where every accountant refuses it, that of clipped steps with these
    /// stages. `not_covered` is the method's own reason.
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
        let headline = Headline::default();
        let claimed = headline.epsilon(std::slice::from_ref(event), delta);
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
            None => headline.epsilon(&events, delta)?.epsilon,
        };
        let trade_off = TradeOff::from_events(&events, Neighbouring::AddOrRemoveOne)?;
        Ok(Self { epsilon, why, compared, trade_off, delta })
    }

    /// The largest true positive rate at false positive rates from 0.01 % to 1.
    pub(super) fn allowed(&self) -> Vec<(f64, f64)> {
        let rates = (0..=80).map(|i| 10f64.powf(f64::from(i) / 20.0 - 4.0));
        rates.map(|rate| (rate, self.trade_off.max_tpr(rate))).collect()
    }

    /// The verdict on the measured rates of all attacks.
    ///
    /// # Guarantee
    /// If the bounds of all rates hold and the claim is correct, the verdict is not "refuted".
    pub(super) fn verdict(&self, measured: &[Rates]) -> Verdict {
        let largest = |score: &dyn Fn(&Rates) -> f64| {
            measured.iter().map(score).fold(f64::NEG_INFINITY, f64::max)
        };
        if largest(&|rates| rates.excess(&self.trade_off)) > 0.0 {
            return Verdict::Refuted;
        }
        let strong = largest(&|rates| rates.tightness(&self.trade_off)) >= STRONG_ADVANTAGE
            && largest(&|rates| rates.epsilon(self.delta.0)) >= STRONG_EPSILON * self.compared;
        if strong { Verdict::Consistent } else { Verdict::Inconclusive }
    }
}
