//! Evaluation of the values of all trials: the best attack and the verdict.

use super::privacy_claim::PrivacyClaim;
use super::report::{Statistic, Verdict};
use super::statistics::{CONFIDENCE, ErrorRates, WorldValues};

/// Evaluation of the trials: verdict, lower bounds and best attack.
pub(super) struct Evaluation {
    pub(super) verdict: Verdict,
    /// Lower bound on epsilon.
    pub(super) lower_bound: f64,
    /// Lower bound on μ, if the releases are Gaussian.
    pub(super) mu: f64,
    /// The statistics that refute the claim.
    pub(super) refuted_by: Vec<Statistic>,
    /// The attack that refutes most clearly, or else the one with the largest lower bound.
    pub(super) best: MeasuredAttack,
}

/// An attack that the first half of the trials chose, with its rates on the second half.
pub(super) struct MeasuredAttack {
    pub(super) statistic: Statistic,
    pub(super) rates: ErrorRates,
    pub(super) roc_curve: Vec<(f64, f64)>,
}

impl Evaluation {
    /// Evaluates the values `[statistics][trials]` without and with the canary.
    ///
    /// # Guarantee
    /// All bounds hold together with probability at least [`CONFIDENCE`]: there are two attacks per
    /// statistic, and two bounded rates per attack.
    pub(super) fn from_trials(
        statistics: &[Statistic],
        claim: &PrivacyClaim,
        without: &[Vec<f64>],
        with: &[Vec<f64>],
    ) -> Self {
        let alpha = (1.0 - CONFIDENCE) / (statistics.len() * 2 * 2) as f64;
        let mut found = Vec::new();
        for ((&statistic, without), with) in statistics.iter().zip(without).zip(with) {
            let (choosing, measuring) = WorldValues { without, with }.halves();
            let attacks = choosing.best(&claim.trade_off, claim.delta.0, alpha);
            found.extend(attacks.map(|attack| MeasuredAttack {
                statistic,
                rates: attack.measure(&measuring, alpha),
                roc_curve: attack.roc_curve(&measuring),
            }));
        }
        let measured: Vec<ErrorRates> = found.iter().map(|found| found.rates).collect();
        let excess = |found: &MeasuredAttack| found.rates.excess(&claim.trade_off);
        let epsilon = |found: &MeasuredAttack| found.rates.epsilon_lower_bound(claim.delta.0);
        let refuting = found.iter().filter(|found| excess(found) > 0.0);
        let mut refuted_by: Vec<Statistic> = refuting.map(|found| found.statistic).collect();
        refuted_by.dedup();
        let key = |found: &MeasuredAttack| {
            if refuted_by.is_empty() { epsilon(found) } else { excess(found) }
        };
        let lower_bound = found.iter().map(epsilon).fold(0.0, f64::max);
        let verdict = claim.verdict(&measured);
        let mu = measured.iter().map(ErrorRates::mu_lower_bound).fold(0.0, f64::max);
        // `max_by` takes the last of equal ones: reversed, that is the first statistic.
        let best = found.into_iter().rev().max_by(|a, b| key(a).total_cmp(&key(b)));
        let best = best.expect("every game has a statistic");
        Self { verdict, lower_bound, mu, refuted_by, best }
    }
}
