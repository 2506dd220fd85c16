//! The result of an audit in one run.

use std::fmt;

use serde::Serialize;

use crate::audit::Verdict;
use crate::privacy::digits::{RoundedDown, RoundedNearest, RoundedUp, format_count};

/// The result of a [`OneRunAudit`](super::OneRunAudit).
///
/// # Guarantee
/// `lower_bound` is at most the true epsilon at `delta` with probability at least `confidence`.
/// Neighbours: one example added or removed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneRunReport {
    /// The method of the plan.
    pub method: String,
    /// The conclusion: refuted if the lower bound is above the compared epsilon, consistent if it
    /// is at least a tenth of it.
    pub verdict: Verdict,
    /// The epsilon of the ledger at `delta`; `None` if no accountant has one.
    pub claimed_epsilon: Option<f64>,
    /// Reason why no accountant has an epsilon.
    pub why: Option<String>,
    /// The claimed epsilon, or that of clipped steps with the same noise and sampling.
    pub compared_epsilon: f64,
    /// The delta of all epsilons.
    pub delta: f64,
    /// Lower bound on epsilon.
    pub lower_bound: f64,
    /// Confidence of the lower bound.
    pub confidence: f64,
    /// Number of canaries, each in with probability 1/2.
    pub canaries: usize,
    /// Number of guesses.
    pub guesses: usize,
    /// Number of correct guesses.
    pub correct: usize,
    /// Steps of the run.
    pub steps: u64,
    /// Seed of the audit.
    pub seed: u64,
    /// Whether the data are public. The run on them is not charged and its seed is known, so no
    /// epsilon covers a report on private data.
    pub public_data: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl fmt::Display for OneRunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delta = RoundedNearest(self.delta);
        writeln!(
            f,
            "{} in one run of {} steps: {}",
            self.method,
            format_count(self.steps),
            self.verdict
        )?;
        let compared = RoundedUp(self.compared_epsilon);
        match &self.why {
            Some(why) => writeln!(
                f,
                "Claim: none. {why}. The audit compares with clipped steps of the same noise, \
                 epsilon {compared} at delta {delta}."
            )?,
            None => writeln!(f, "Claim: epsilon {compared} at delta {delta}.")?,
        }
        write!(
            f,
            "Of {} canaries, {} were guessed, {} of them correctly: epsilon is at least {} with \
             {:.0} % confidence. {}",
            format_count(self.canaries),
            format_count(self.guesses),
            format_count(self.correct),
            RoundedDown(self.lower_bound),
            100.0 * self.confidence,
            match (self.verdict, &self.why) {
                (Verdict::Refuted, None) => "No mechanism with this claim allows so many.",
                (Verdict::Refuted, Some(_)) =>
                    "Clipped steps of the same noise don't allow so many.",
                (Verdict::Consistent, _) =>
                    "That is at least a tenth of the compared epsilon and not above it. It does \
                     not prove that the method is private.",
                (Verdict::Inconclusive, _) =>
                    "That is less than a tenth of the compared epsilon: too weak to test it.",
            },
        )?;
        if self.public_data {
            Ok(())
        } else {
            f.write_str(
                "\nThis report is not covered by an epsilon: the run was not charged, and its seed \
             is known.",
            )
        }
    }
}
