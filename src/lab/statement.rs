//! A run's guarantee in words.

use crate::privacy::{GuaranteeFacts, Neighbouring, NoiseMultiplier, SamplingRate, statement};
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
                "Nothing is guaranteed: this model was trained on the raw gradients of {} \
                 training examples of {} and may reveal any of them.",
                format::count(plan.examples()),
                record.data
            ));
        };
        Statement(statement(&GuaranteeFacts {
            epsilon: self.epsilon(),
            delta: privacy.delta,
            accountant: "RDP".into(),
            neighbouring: Neighbouring::AddOrRemoveOne,
            unit: "one training example".into(),
            sampler: "Poisson sampling".into(),
            sampling_rate: SamplingRate(plan.sampling_rate()),
            noise_multiplier: NoiseMultiplier(privacy.noise_multiplier),
            clip: privacy.clip.sensitivity(Neighbouring::AddOrRemoveOne),
            steps: record.steps,
            examples: plan.examples(),
            study_mode: plan.seed().is_some(),
            badge: self.badge(),
            not_covered: GuaranteeFacts::usual_gaps(),
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
