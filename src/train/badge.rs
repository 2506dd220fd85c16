//! Badge of a run, which rates its guarantee.

use super::{Ending, RunRecord, checkpoint, start};
use crate::mask::{self, Mask};
use crate::privacy::digits::RoundedUp;
use crate::privacy::{Badge, STOPPING_ASSUMPTION, caveats};

impl RunRecord {
    /// Returns the [`caveats`] of the guarantee of the run, which was trained with `mask`; none
    /// without one.
    pub(crate) fn caveats(&self, mask: Option<&Mask>) -> Vec<String> {
        match (self.badge(mask), self.epsilon, self.plan.privacy()) {
            (Badge::Proved | Badge::Conditional(_), Some(epsilon), Some(privacy)) => {
                caveats(epsilon, privacy.delta, self.plan.examples())
            }
            _ => Vec::new(),
        }
    }

    /// Returns the badge of the run, which was trained with `mask`.
    pub(crate) fn badge(&self, mask: Option<&Mask>) -> Badge {
        if self.plan.privacy().is_none() {
            return Badge::NoGuarantee("training used raw gradients".into());
        }
        if let Some(why) = self.plan.not_covered_reason() {
            return Badge::NoGuarantee(why);
        }
        let mut assumptions = Vec::new();
        if let Some(mask) = mask {
            assumptions
                .extend(mask::mask_assumptions(&mask.origin().privacy, &self.charged.origin));
        }
        if self.own_module {
            assumptions.push(
                "no example's output in the user's own module depends on another example (tried on \
                 made-up examples, not proved)"
                    .to_owned(),
            );
        }
        if self.plan.selection().is_some() {
            assumptions.push(
                "nobody learns how many trials the private selection had, for instance from the \
                 time they took"
                    .to_owned(),
            );
        }
        if self.plan.selection().is_some() && !self.public_test {
            assumptions.push(
                "the test examples by which the best trial was chosen, which were split off the \
                 same data, need no guarantee"
                    .to_owned(),
            );
        }
        assumptions.extend(start::assumptions(self));
        assumptions.extend(checkpoint::assumptions(self));
        if self.plan.seed().is_some() {
            assumptions.push(
                "nobody who sees the results knows the seed of this run (study mode)".to_owned(),
            );
            // On one processor, a repetition gives the same bits.
            let other = if self.device.starts_with("cpu") {
                "no run of the same settings and seed on another kind of processor"
            } else {
                "no other run of the same settings and seed"
            };
            assumptions.push(format!(
                "{other} is published: its noise is the same, but its sums are rounded differently"
            ));
        }
        if self.ending == Ending::Interrupted {
            assumptions.push(format!(
                "{STOPPING_ASSUMPTION}; if released results decided it (models, accuracy on public \
                 test data), count the planned epsilon, {}; if the training loss or anything else \
                 that is not covered decided it, no epsilon covers the run",
                RoundedUp(self.planned_epsilon.unwrap_or(f64::INFINITY))
            ));
        }
        if assumptions.is_empty() {
            Badge::Proved
        } else {
            Badge::Conditional(assumptions.join("; "))
        }
    }
}
