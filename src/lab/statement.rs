//! A run's guarantee in words.

use crate::privacy::{GuaranteeFacts, Neighbouring, statement};
use crate::show::{Bundle, format};
use crate::train::Run;
use std::fmt;

/// What is guaranteed about a run, and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement(String);

impl Run {
    /// What exactly is guaranteed about everything this run released, in words.
    pub fn statement(&self) -> Statement {
        let (plan, record) = (self.plan(), self.record());
        let Some(privacy) = plan.privacy() else {
            return Statement(format!(
                "No privacy is guaranteed. This model was trained on raw gradients of {} \
                 training examples ({}); it may reveal any of them.",
                format::count(plan.examples()),
                record.data
            ));
        };
        Statement(statement(&GuaranteeFacts {
            epsilon: self.epsilon(),
            delta: privacy.delta.0,
            accountant: "RDP".into(),
            neighbouring: Neighbouring::AddOrRemoveOne,
            sampling_rate: plan.sampling_rate(),
            noise_multiplier: privacy.noise_multiplier,
            clip: privacy.clip.to_string(),
            steps: record.steps,
            examples: plan.examples(),
            seeded: plan.seed().is_some(),
        }))
    }
}

impl Statement {
    pub(crate) fn bundle(&self) -> Bundle {
        Bundle::text(&self.0)
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
