//! The lower bound on epsilon from guesses about many canaries in one run.

use statrs::function::beta::beta_reg;
use statrs::function::gamma::ln_gamma;

use crate::privacy::bisection::bisect;
use crate::{Error, Result};

/// The guesses about the canaries of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guesses {
    /// Number of canaries, each of which was in with probability 1/2, independently.
    pub canaries: usize,
    /// Number of canaries for which a guess was made; the others are abstentions.
    pub guesses: usize,
    /// Number of correct guesses.
    pub correct: usize,
}

/// The largest epsilon that is looked for.
const MAX_EPSILON: f64 = 50.0;

impl Guesses {
    /// Checks the counts.
    ///
    /// # Errors
    /// `Setting` unless correct <= guesses <= canaries, and there is a canary.
    pub fn check(&self) -> Result<&Self> {
        let Self { canaries, guesses, correct } = *self;
        if canaries >= 1 && guesses <= canaries && correct <= guesses {
            return Ok(self);
        }
        let why = format!("of {canaries} canaries, {guesses} were guessed");
        Err(Error::setting("correct", correct, why)
            .fix("give counts with correct <= guesses <= canaries"))
    }

    /// Computes an upper bound on the probability of at least so many correct guesses under
    /// (epsilon, delta)-differential privacy (Steinke, Nasr, Jagielski, "Privacy Auditing with One
    /// (1) Training Run", 2023, theorem 5.2):
    ///
    /// ```text
    /// P[Bin(r, p) >= v] + 2 m delta max_i P[v - i <= Bin(r, p) < v] / i
    /// ```
    ///
    /// with p = e^epsilon / (1 + e^epsilon), m canaries, r guesses and v correct ones.
    ///
    /// # Guarantee
    /// Neighbours: one example added or removed. The number of guesses must not depend on whether
    /// they are correct.
    pub fn p_value(&self, epsilon: f64, delta: f64) -> f64 {
        let Self { canaries, guesses, correct } = *self;
        let p = 1.0 / (1.0 + (-epsilon).exp());
        let (r, v) = (guesses, correct);
        let mut below = 0.0;
        let mut largest = 0.0_f64;
        if delta > 0.0 {
            for i in 1..=v {
                below += binomial_pmf(r, v - i, p);
                largest = largest.max(below / i as f64);
            }
        }
        (binomial_upper_tail(r, v, p) + 2.0 * canaries as f64 * delta * largest).min(1.0)
    }

    /// Computes the largest epsilon that these guesses reject at this confidence; 0 if there is
    /// none. At most 50.
    ///
    /// # Errors
    /// `Setting` unless correct <= guesses <= canaries and there is a canary, and for a delta or
    /// confidence that is no probability.
    ///
    /// # Guarantee
    /// With probability at least `confidence` over canaries and training, it is at most every
    /// epsilon for which the run is (epsilon, `delta`)-differentially private, under the conditions
    /// of [`p_value`](Self::p_value).
    pub fn lower_bound(&self, delta: f64, confidence: f64) -> Result<f64> {
        self.check()?;
        for (name, value) in [("delta", delta), ("confidence", confidence)] {
            if !(0.0..1.0).contains(&value) {
                return Err(Error::setting(name, value, "must be at least 0 and below 1")
                    .fix("use delta 1e-5 and confidence 0.95"));
            }
        }
        let rejected = |epsilon: f64| self.p_value(epsilon, delta) < 1.0 - confidence;
        if !rejected(0.0) {
            return Ok(0.0);
        }
        Ok(bisect((0.0, MAX_EPSILON), 50, rejected))
    }
}

/// Computes P[Bin(n, p) >= k].
fn binomial_upper_tail(n: usize, k: usize, p: f64) -> f64 {
    if k == 0 { 1.0 } else { beta_reg(k as f64, (n - k) as f64 + 1.0, p) }
}

/// Computes P[Bin(n, p) = k] for p in (0, 1).
fn binomial_pmf(n: usize, k: usize, p: f64) -> f64 {
    let ln_factorial = |n: usize| ln_gamma(n as f64 + 1.0);
    let choose = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    // 1 - p without cancellation is e^-epsilon p.
    (choose + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(canaries: usize, guesses: usize, correct: usize, delta: f64) -> f64 {
        Guesses { canaries, guesses, correct }.lower_bound(delta, 0.95).unwrap()
    }

    #[test]
    fn bounds_are_those_of_the_theorem() {
        for ((m, r, v), expected) in [
            ((1000, 1000, 600), 0.297),
            ((1000, 100, 95), 2.165),
            ((1000, 200, 200), 4.167),
            ((5000, 500, 400), 1.195),
        ] {
            let found = bound(m, r, v, 1e-5);
            assert!((found - expected).abs() < 2e-3, "{m} {r} {v}: {found} instead of {expected}");
        }
    }

    #[test]
    fn guesses_by_chance_bound_nothing_and_delta_only_lowers_the_bound() {
        assert_eq!(bound(1000, 1000, 500, 1e-5), 0.0);
        assert_eq!(bound(1000, 1000, 520, 1e-5), 0.0);
        assert!(bound(1000, 100, 95, 0.0) > bound(1000, 100, 95, 1e-5));
        assert!(bound(1000, 100, 95, 1e-5) > bound(1000, 100, 95, 1e-4));
        // Without delta it is a binomial test: 20 of 20 gives p^20 = 0.05.
        let p = 0.05f64.powf(0.05);
        assert!((bound(20, 20, 20, 0.0) - (p / (1.0 - p)).ln()).abs() < 1e-9);
    }

    #[test]
    fn impossible_counts_are_refused() {
        for (canaries, guesses, correct) in [(0, 0, 0), (10, 11, 5), (10, 5, 6)] {
            assert!(Guesses { canaries, guesses, correct }.lower_bound(1e-5, 0.95).is_err());
        }
        let good = Guesses { canaries: 10, guesses: 10, correct: 9 };
        assert!(good.lower_bound(-1.0, 0.95).is_err() && good.lower_bound(0.0, 1.0).is_err());
    }
}
