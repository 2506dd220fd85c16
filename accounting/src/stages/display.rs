//! Text forms of the stages of a run.

use std::fmt::{self, Write};

use super::{Stages, is_unscaled};
use crate::digits::{RoundedDown, RoundedNearest, pluralise};

impl Stages {
    /// Returns the stages as a text table with the columns steps, noise multiplier and clip scale.
    /// Of more than ten stages the first five and the last five are listed.
    pub fn table(&self) -> String {
        const LISTED: usize = 5;
        let mut text = format!("{:>20}  {:>16}  {:>10}", "steps", "noise multiplier", "clip scale");
        let omitted = self.stages.len().saturating_sub(2 * LISTED);
        for (i, (stage, end)) in self.stages.iter().zip(&self.ends).enumerate() {
            if omitted > 0 && i == LISTED {
                let _ = write!(text, "\n{:>20}", format!("… {}", pluralise(omitted, "stage")));
            }
            if omitted == 0 || !(LISTED..LISTED + omitted).contains(&i) {
                let steps = match stage.steps {
                    1 => end.to_string(),
                    steps => format!("{}–{end}", end - steps + 1),
                };
                let noise = RoundedDown(stage.noise_multiplier).to_string();
                let clip = RoundedNearest(stage.clip_scale).to_string();
                let _ = write!(text, "\n{steps:>20}  {noise:>16}  {clip:>10}");
            }
        }
        text
    }
}

/// One line: `469 steps in 8 stages, noise multiplier from 1.1 to 0.9, clip scale from 1 to 0.5`.
impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.at(0), self.at(u64::MAX));
        f.write_str(&pluralise(self.steps(), "step"))?;
        if self.is_constant() {
            write!(f, ", noise multiplier {}", RoundedDown(first.noise_multiplier))?;
        } else {
            let (from, to) = (first.noise_multiplier, last.noise_multiplier);
            let (from, to) = (RoundedDown(from), RoundedDown(to));
            let stages = pluralise(self.stages.len(), "stage");
            write!(f, " in {stages}, noise multiplier from {from} to {to}")?;
        }
        if self.stages.iter().all(|stage| is_unscaled(&stage.clip_scale)) {
            Ok(())
        } else {
            let (from, to) = (RoundedNearest(first.clip_scale), RoundedNearest(last.clip_scale));
            write!(f, ", clip scale from {from} to {to}")
        }
    }
}
