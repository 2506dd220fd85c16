//! From the values of all trials to the best attack and the verdict.

use super::claim::Claim;
use super::report::{Statistic, Verdict};
use super::statistics::{CONFIDENCE, Rates, Worlds};

/// What follows from the trials.
pub(super) struct Evaluation {
    pub(super) verdict: Verdict,
    /// Lower bound on epsilon.
    pub(super) lower_bound: f64,
    /// Lower bound on μ, if the releases are Gaussian.
    pub(super) mu: f64,
    /// The statistics that refute the claim.
    pub(super) refuted_by: Vec<Statistic>,
    /// The attack that refutes most clearly, or else the one with the largest lower bound.
    pub(super) best: Found,
}

/// An attack that the first half of the trials chose, with its rates on the second half.
pub(super) struct Found {
    pub(super) statistic: Statistic,
    pub(super) rates: Rates,
    pub(super) curve: Vec<(f64, f64)>,
}

impl Evaluation {
    /// Evaluates the values `[statistics][trials]` without and with the canary.
    ///
    /// # Guarantee
    /// All bounds hold together with probability [`CONFIDENCE`]: there are two attacks per
    /// statistic, and two bounded rates per attack.
    pub(super) fn of(
        statistics: &[Statistic],
        claim: &Claim,
        without: &[Vec<f64>],
        with: &[Vec<f64>],
    ) -> Self {
        let alpha = (1.0 - CONFIDENCE) / (statistics.len() * 2 * 2) as f64;
        let mut found = Vec::new();
        for ((&statistic, without), with) in statistics.iter().zip(without).zip(with) {
            let (choosing, measuring) = Worlds { without, with }.halves();
            let attacks = choosing.best(&claim.trade_off, claim.delta.0, alpha);
            found.extend(attacks.map(|attack| Found {
                statistic,
                rates: attack.measure(&measuring, alpha),
                curve: attack.curve(&measuring),
            }));
        }
        let measured: Vec<Rates> = found.iter().map(|found| found.rates).collect();
        let excess = |found: &Found| found.rates.excess(&claim.trade_off);
        let epsilon = |found: &Found| found.rates.epsilon(claim.delta.0);
        let refuting = found.iter().filter(|found| excess(found) > 0.0);
        let mut refuted_by: Vec<Statistic> = refuting.map(|found| found.statistic).collect();
        refuted_by.dedup();
        let key =
            |found: &Found| if refuted_by.is_empty() { epsilon(found) } else { excess(found) };
        let lower_bound = found.iter().map(epsilon).fold(0.0, f64::max);
        let verdict = claim.verdict(&measured);
        let mu = measured.iter().map(Rates::mu).fold(0.0, f64::max);
        // `max_by` takes the last of equal ones: reversed, that is the first statistic.
        let best = found.into_iter().rev().max_by(|a, b| key(a).total_cmp(&key(b)));
        let best = best.expect("every game has a statistic");
        Self { verdict, lower_bound, mu, refuted_by, best }
    }
}
