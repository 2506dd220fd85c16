//! Confidence intervals of proportions, and attacks that are chosen on one half of the trials and
//! measured on the other.

use statrs::function::beta::beta_reg;

use crate::privacy::TradeOff;
use crate::privacy::bisection::bisect;
use crate::privacy::gdp::normal::upper_tail;

/// Confidence of the bounds of every audit: all bounds of one audit hold together with it.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Computes the lower confidence bound of a proportion with `successes` of `trials`, at one-sided
/// error `alpha` (Clopper and Pearson, 1934): the p with P[Bin(trials, p) >= successes] = alpha.
pub(crate) fn clopper_pearson_lower(successes: usize, trials: usize, alpha: f64) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    let (k, n) = (successes as f64, trials as f64);
    bisect((0.0, 1.0), 60, |p| beta_reg(k, n - k + 1.0, p) < alpha)
}

/// Computes the upper confidence bound of a proportion, as [`clopper_pearson_lower`].
pub(crate) fn clopper_pearson_upper(successes: usize, trials: usize, alpha: f64) -> f64 {
    1.0 - clopper_pearson_lower(trials - successes, trials, alpha)
}

/// Computes the x with P[N(0, 1) <= x] = p, infinite at 0 and 1.
fn normal_quantile(p: f64) -> f64 {
    const FAR: f64 = 40.0;
    match p {
        p if p <= 0.0 => f64::NEG_INFINITY,
        p if p >= 1.0 => f64::INFINITY,
        _ => {
            let below = |at: f64| upper_tail(-FAR * (2.0 * at - 1.0)) < p;
            FAR * (2.0 * bisect((0.0, 1.0), 60, below) - 1.0)
        }
    }
}

/// An attack on one statistic: it says "in" where `sign` times the value is above the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Attack {
    sign: f64,
    threshold: f64,
}

/// The rates of an attack, observed and bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ErrorRates {
    pub(super) false_positive: f64,
    pub(super) true_positive: f64,
    /// Upper confidence bound of the false positive rate.
    pub(super) false_positive_upper: f64,
    /// Lower confidence bound of the true positive rate.
    pub(super) true_positive_lower: f64,
}

impl ErrorRates {
    /// Creates the rates of counts out of equally many trials per world.
    fn from_counts(
        (false_positives, true_positives): (usize, usize),
        trials: usize,
        alpha: f64,
    ) -> Self {
        Self {
            false_positive: false_positives as f64 / trials as f64,
            true_positive: true_positives as f64 / trials as f64,
            false_positive_upper: clopper_pearson_upper(false_positives, trials, alpha),
            true_positive_lower: clopper_pearson_lower(true_positives, trials, alpha),
        }
    }

    /// Computes the excess of the true positive rate over the trade-off function of the claim;
    /// above 0 the claim is refuted.
    pub(super) fn excess(&self, claim: &TradeOff) -> f64 {
        self.true_positive_lower - claim.max_tpr(self.false_positive_upper)
    }

    /// Computes TPR - FPR, at the unfavourable ends of the intervals.
    pub(super) fn advantage(&self) -> f64 {
        self.true_positive_lower - self.false_positive_upper
    }

    /// Computes the advantage as a fraction of what the trade-off function allows at this false
    /// positive rate.
    pub(super) fn tightness(&self, claim: &TradeOff) -> f64 {
        let allowed = claim.max_tpr(self.false_positive_upper) - self.false_positive_upper;
        if allowed > 0.0 { self.advantage() / allowed } else { 0.0 }
    }

    /// Computes a lower bound on epsilon at `delta`, from both kinds of errors; at least 0.
    pub(super) fn epsilon_lower_bound(&self, delta: f64) -> f64 {
        let (fpr, tpr) = (self.false_positive_upper, self.true_positive_lower);
        let ratio = |numerator: f64, denominator: f64| {
            if numerator > delta { ((numerator - delta) / denominator).ln() } else { 0.0 }
        };
        ratio(tpr, fpr).max(ratio(1.0 - fpr, 1.0 - tpr)).max(0.0)
    }

    /// Returns a lower bound on μ, assuming that the releases are as those of a Gaussian
    /// mechanism; at least 0.
    pub(super) fn mu_lower_bound(&self) -> f64 {
        let mu =
            normal_quantile(self.true_positive_lower) - normal_quantile(self.false_positive_upper);
        if mu.is_finite() { mu.max(0.0) } else { 0.0 }
    }
}

impl Attack {
    /// Returns the rates of this attack on the values of both worlds.
    pub(super) fn measure(&self, values: &WorldValues, alpha: f64) -> ErrorRates {
        let count = |values: &[f64]| {
            values.iter().filter(|&&value| self.sign * value > self.threshold).count()
        };
        ErrorRates::from_counts(
            (count(values.without), count(values.with)),
            values.without.len(),
            alpha,
        )
    }

    /// Computes the rates at 200 quantiles of each world as thresholds, as a curve of (FPR, TPR)
    /// from (0, 0) to (1, 1).
    pub(super) fn roc_curve(&self, values: &WorldValues) -> Vec<(f64, f64)> {
        let [without, with] = [values.without, values.with].map(|v| sorted(v, self.sign));
        let n = without.len() as f64;
        const POINTS: usize = 200;
        let at = |threshold: f64| {
            (above(&without, threshold) as f64 / n, above(&with, threshold) as f64 / n)
        };
        let mut curve: Vec<_> = (0..POINTS)
            .flat_map(|i| [&without, &with].map(|v| at(v[(v.len() - 1) * i / (POINTS - 1)])))
            .chain([(1.0, 1.0)])
            .collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        curve
    }
}

/// The values of one statistic in the two worlds, equally many of each.
#[derive(Clone, Copy)]
pub(super) struct WorldValues<'a> {
    /// Without the canary.
    pub(super) without: &'a [f64],
    /// With the canary.
    pub(super) with: &'a [f64],
}

impl WorldValues<'_> {
    /// Returns the first half of the trials, and the rest.
    pub(super) fn halves(&self) -> (Self, Self) {
        let (a, b) = self.without.split_at(self.without.len() / 2);
        let (c, d) = self.with.split_at(self.with.len() / 2);
        (Self { without: a, with: c }, Self { without: b, with: d })
    }

    /// Returns the attacks that are best on these trials, by the excess over the claim (by the
    /// advantage if no attack exceeds it), and by the lower bound on epsilon.
    pub(super) fn best(&self, claim: &TradeOff, delta: f64, alpha: f64) -> [Attack; 2] {
        let trials = self.without.len();
        let mut all = Vec::new();
        for sign in [1.0, -1.0] {
            let [without, with] = [self.without, self.with].map(|values| sorted(values, sign));
            let mut thresholds: Vec<f64> = ranks(trials)
                .into_iter()
                .flat_map(|rank| [without[trials - 1 - rank], with[rank], without[rank]])
                .collect();
            thresholds.sort_by(f64::total_cmp);
            thresholds.dedup();
            all.extend(thresholds.into_iter().map(|threshold| {
                let counts = (above(&without, threshold), above(&with, threshold));
                (Attack { sign, threshold }, ErrorRates::from_counts(counts, trials, alpha))
            }));
        }
        let best_by = |score: &dyn Fn(&ErrorRates) -> f64| {
            let best = all.iter().max_by(|(_, a), (_, b)| score(a).total_cmp(&score(b)));
            best.map_or(Attack { sign: 1.0, threshold: 0.0 }, |(attack, _)| *attack)
        };
        let refuting = all.iter().any(|(_, rates)| rates.excess(claim) > 0.0);
        let first = if refuting {
            best_by(&|rates| rates.excess(claim))
        } else {
            best_by(&|rates| rates.advantage())
        };
        [first, best_by(&|rates| rates.epsilon_lower_bound(delta))]
    }
}

/// Returns the ranks of thresholds to try: dense at the end, where rates are small, and spread
/// evenly.
fn ranks(trials: usize) -> Vec<usize> {
    let mut ranks: Vec<usize> = (0..8).collect();
    while let Some(&last) = ranks.last().filter(|&&last| last < trials) {
        ranks.push(last + last / 4);
    }
    ranks.extend((0..40).map(|i| i * trials / 40));
    ranks.retain(|&rank| rank < trials);
    ranks
}

pub(super) fn sorted(values: &[f64], sign: f64) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().map(|value| sign * value).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the number of values above the threshold.
pub(super) fn above(sorted: &[f64], threshold: f64) -> usize {
    sorted.len() - sorted.partition_point(|&value| value <= threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_clopper_and_pearson() {
        // No success and only successes have closed forms.
        let alpha: f64 = 0.025;
        assert!((clopper_pearson_upper(0, 10, alpha) - 0.308_498).abs() < 1e-6);
        assert!((clopper_pearson_lower(10, 10, alpha) - alpha.powf(0.1)).abs() < 1e-12);
        assert_eq!(
            (clopper_pearson_lower(0, 10, alpha), clopper_pearson_upper(10, 10, alpha)),
            (0.0, 1.0)
        );
        // One success: 1 - (1 - p)^n = alpha. Symmetry; a table value (5 of 10: 0.1871, 0.8129).
        let one = 1.0 - (1.0 - alpha).powf(0.1);
        assert!((clopper_pearson_lower(1, 10, alpha) - one).abs() < 1e-12);
        assert!((clopper_pearson_lower(5, 10, alpha) - 0.187_086).abs() < 1e-6);
        assert!((clopper_pearson_upper(5, 10, alpha) - 0.812_914).abs() < 1e-6);
        // 10 of 100: 0.0490, 0.1762.
        assert!((clopper_pearson_lower(10, 100, alpha) - 0.049_005).abs() < 1e-6);
        assert!((clopper_pearson_upper(10, 100, alpha) - 0.176_223).abs() < 1e-6);
    }

    #[test]
    fn quantiles_invert_the_distribution() {
        for (p, x) in [(0.5, 0.0), (0.975, 1.959_963_984_540), (1e-6, -4.753_424_308_823)] {
            assert!((normal_quantile(p) - x).abs() < 1e-9, "{p}");
        }
        assert!(normal_quantile(0.0) == f64::NEG_INFINITY && normal_quantile(1.0).is_infinite());
    }

    #[test]
    fn the_best_attack_takes_the_right_side() {
        let claim = TradeOff::from_epsilon_delta(0.1, 1e-5).unwrap();
        let low: Vec<f64> = (0..1000).map(f64::from).collect();
        let high: Vec<f64> = (0..1000).map(|i| f64::from(i) + 500.0).collect();
        let up = WorldValues { without: &low, with: &high };
        let down = WorldValues { without: &high, with: &low };
        for (worlds, sign) in [(up, 1.0), (down, -1.0)] {
            for attack in worlds.best(&claim, 1e-5, 0.01) {
                assert_eq!(attack.sign, sign);
                let rates = attack.measure(&worlds, 0.01);
                assert!(
                    rates.excess(&claim) > 0.3 && rates.epsilon_lower_bound(1e-5) > 3.0,
                    "{rates:?}"
                );
            }
        }
        let same = WorldValues { without: &low, with: &low };
        for attack in same.best(&claim, 1e-5, 0.01) {
            let rates = attack.measure(&same, 0.01);
            assert!(
                rates.excess(&claim) < 0.0
                    && rates.epsilon_lower_bound(1e-5) == 0.0
                    && rates.mu_lower_bound() == 0.0
            );
        }
    }
}
