//! The result of an audit.

use std::fmt;

use serde::Serialize;

use crate::privacy::digits::{RoundedDown, RoundedNearest, RoundedUp, format_count};

/// Verdict of an audit. There is no verdict "private": no experiment can show that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// An attack succeeded more often than the claim allows.
    Refuted,
    /// The attack came near to what the claim allows, and not beyond. Near is a lower bound of at
    /// least a tenth of the compared epsilon; in an [`Audit`](super::Audit), which measures rates,
    /// also half of the advantage that the claim allows.
    Consistent,
    /// The attack was too weak to tell.
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuted => "refuted",
            Self::Consistent => "consistent",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// A number computed from the releases of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Statistic {
    /// The releases along the direction of the canary's gradient; over several steps, the sum of
    /// log-likelihood ratios.
    #[serde(rename = "projection")]
    Projection,
    /// The squared norm of the releases beside the directions of the canary and of the others: the
    /// scale of the noise.
    #[serde(rename = "residual norm")]
    ResidualNorm,
    /// Number of steps that released the canary's largest coordinate; for a mask, number of the
    /// weights of the canary's feature that it keeps, 0 to 2.
    #[serde(rename = "selected coordinate")]
    SelectedCoordinate,
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Projection => "projection",
            Self::ResidualNorm => "residual norm",
            Self::SelectedCoordinate => "selected coordinate",
        })
    }
}

/// The result of an [`Audit`](super::Audit).
///
/// # Guarantee
/// `lower_bound` is at most the true epsilon at `delta` with probability at least `confidence`,
/// whatever the mechanism is. A correct claim is refuted with probability 1 - `confidence` at most.
/// Neighbours: one example added or removed. The trials use pseudorandom numbers. Nothing follows
/// about attacks that were not tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditReport {
    /// Name of the audited method.
    pub method: String,
    /// The conclusion.
    pub verdict: Verdict,
    /// The epsilon of the ledger at `delta`; `None` if no accountant has one.
    pub claimed_epsilon: Option<f64>,
    /// Whether the claimed epsilon is proved for what was played: the mechanism of the plan. No
    /// proof covers a mechanism given by [`with_mechanism`](super::Audit::with_mechanism).
    #[serde(skip)]
    pub is_proved: bool,
    /// Reason why no accountant has an epsilon.
    pub why: Option<String>,
    /// The epsilon that the verdict is about: the claimed one, or that of clipped steps with the
    /// same noise multipliers and sampling.
    pub compared_epsilon: f64,
    /// The delta of all epsilons.
    pub delta: f64,
    /// Lower bound on epsilon: the largest over all attacks.
    pub lower_bound: f64,
    /// Lower bound on μ, which assumes that the releases are nearly Gaussian.
    pub mu_lower_bound: f64,
    /// The epsilon of `mu_lower_bound`, under the same assumption.
    pub mu_lower_bound_epsilon: f64,
    /// Confidence of all bounds together.
    pub confidence: f64,
    /// Trials with the canary, and as many without it. One half chooses the attack, the other half
    /// measures it.
    pub trials: usize,
    /// The statistic of the best attack, whose rates follow.
    pub statistic: Statistic,
    /// Rate of "in" without the canary.
    pub false_positive_rate: f64,
    /// Rate of "in" with the canary.
    pub true_positive_rate: f64,
    /// Upper confidence bound of the false positive rate.
    pub false_positive_rate_upper: f64,
    /// Lower confidence bound of the true positive rate.
    pub true_positive_rate_lower: f64,
    /// The largest true positive rate at `false_positive_rate_upper` that the claim allows, or, for
    /// a method without a claim, clipped steps of the same noise.
    pub true_positive_rate_allowed: f64,
    /// The statistics whose attacks succeed more often than that.
    pub refuted_by: Vec<Statistic>,
    /// Probability that an example is in a step.
    pub sampling_rate: f64,
    /// Noise multiplier of the first step.
    pub noise_multiplier: f64,
    /// Releases of one trial.
    pub steps: u64,
    /// Norm of the canary's gradient, as a multiple of the clip norm.
    pub canary_norm: f64,
    /// Number of coordinates of a gradient.
    pub dimension: usize,
    /// Seed of the trials.
    pub seed: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// (FPR, TPR) of the best attack at about 400 thresholds, the quantiles of its values in both
    /// worlds, measured on the second half.
    #[serde(skip)]
    pub roc_curve: Vec<(f64, f64)>,
    /// (FPR, largest TPR) that the claim, or else clipped steps of the same noise, allow, from a
    /// false positive rate of 0.01 % to 1.
    #[serde(skip)]
    pub allowed_roc_curve: Vec<(f64, f64)>,
}

impl fmt::Display for AuditReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delta = RoundedNearest(self.delta);
        let (claim, more_than) = match self.why {
            None => ("the claim allows", "any mechanism with this claim allows"),
            Some(_) => ("clipped steps allow", "clipped steps of the same noise allow"),
        };
        writeln!(f, "{}: {}", self.method, self.verdict)?;
        writeln!(
            f,
            "Tested: {} trials with a canary whose gradient norm is {} times the clip norm, and as \
             many without it. Each trial has {} of the real mechanism (noise multiplier {}, \
             sampling rate {}) on {} coordinates.",
            format_count(self.trials),
            RoundedNearest(self.canary_norm),
            match self.steps {
                1 => "one release".to_owned(),
                steps => format!("{} releases", format_count(steps as usize)),
            },
            RoundedNearest(self.noise_multiplier),
            RoundedNearest(self.sampling_rate),
            format_count(self.dimension),
        )?;
        match (&self.why, self.claimed_epsilon) {
            (Some(why), _) => writeln!(
                f,
                "Claim: none. {why}. The audit compares with clipped steps of the same noise, \
                 epsilon {} at delta {delta}.",
                RoundedUp(self.compared_epsilon)
            )?,
            _ => writeln!(
                f,
                "Claim: epsilon {} at delta {delta}, and the trade-off curve of the ledger.",
                RoundedUp(self.compared_epsilon)
            )?,
        }
        writeln!(
            f,
            "Attack ({}): false positive rate {:.4} (at most {:.4}), true positive rate {:.4} (at \
             least {:.4}; {claim} {:.4}).",
            self.statistic,
            self.false_positive_rate,
            self.false_positive_rate_upper,
            self.true_positive_rate,
            self.true_positive_rate_lower,
            self.true_positive_rate_allowed,
        )?;
        writeln!(
            f,
            "Epsilon is at least {} with {:.0} % confidence; if the releases are Gaussian, at \
             least {}.",
            RoundedDown(self.lower_bound),
            100.0 * self.confidence,
            RoundedDown(self.mu_lower_bound_epsilon),
        )?;
        match self.verdict {
            Verdict::Refuted => {
                let statistics: Vec<String> =
                    self.refuted_by.iter().map(Statistic::to_string).collect();
                write!(
                    f,
                    "Refuted by {}: the attack succeeds more often than {more_than}.",
                    statistics.join(" and by ")
                )
            }
            Verdict::Consistent => write!(
                f,
                "Consistent: the attack comes close to what {claim}, but does not exceed it. This \
                 does not prove that the method is private."
            ),
            Verdict::Inconclusive => f.write_str(
                "Inconclusive: the attack is too weak for a test. Use more trials, a higher \
                 sampling rate, or less noise. This is no evidence for the method.",
            ),
        }
    }
}
