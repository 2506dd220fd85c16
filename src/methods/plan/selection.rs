//! Plans of private selection: many trials, of which only the best is released.

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::privacy::digits::pluralise;
use crate::privacy::{Event, Trials};
use crate::{Error, ErrorKind, Result};

/// The trials of a private selection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialSelection {
    trials: Trials,
    candidates: Vec<Plan>,
}

impl TrialSelection {
    /// Returns the distribution of the number of trials.
    pub fn trials(&self) -> Trials {
        self.trials
    }

    /// Returns the plans of which each trial takes one at random.
    pub fn candidates(&self) -> &[Plan] {
        &self.candidates
    }

    /// Returns the selection whose candidates have this seed.
    pub(super) fn with_seed(&self, seed: u64) -> Self {
        let candidates = self.candidates.iter().map(|candidate| candidate.with_seed(seed));
        Self { trials: self.trials, candidates: candidates.collect() }
    }

    /// Returns the releases of the selection after `steps` steps of its released trial: nothing or
    /// everything, because trials are only charged together.
    pub(super) fn event(&self, steps: u64, trial: &Event) -> Event {
        match steps {
            0 => Event::Composed { events: Vec::new() },
            _ => trial.best_of(self.trials),
        }
    }

    /// Refuses a plan whose charge is not that of its trials, such as an edited one.
    pub(crate) fn check_same_cost(&self, plan: &Plan) -> Result<()> {
        Plan::best_of(self.trials, self.candidates.clone())?.check_equal_cost(plan)
    }

    /// Refuses the selection of an edited file.
    pub(super) fn check_consistent_with(&self, plan: &Plan) -> Result<()> {
        for candidate in &self.candidates {
            candidate.check_loaded()?;
        }
        let selection = Plan::best_of(self.trials, self.candidates.clone())?;
        if (0..self.candidates.len()).any(|candidate| selection.with_candidate(candidate) == *plan)
        {
            return Ok(());
        }
        let why = "the settings of the plan match no candidate";
        Err(Error::new(ErrorKind::Setting, "a plan of private selection", why)
            .fix("write the file again with plan.save(path)"))
    }
}

impl Plan {
    /// Creates the plan of a private selection: a random number of trials, each of which trains
    /// one of these plans, drawn uniformly. Only the trial of the highest test accuracy is
    /// released.
    ///
    /// # Guarantee
    /// That of the event [`Event::best_of`] (Papernot and Steinke, 2022, "Hyperparameter tuning
    /// with Rényi differential privacy"). A trial draws its plan without looking at the data and
    /// then releases what that plan releases, so all candidates must release the same. The test
    /// examples by which trials are compared are treated as public.
    ///
    /// # Errors
    /// `Setting` for a distribution of the number of trials that is out of range, without
    /// candidates, for candidates without a guarantee, of different cost, delta, size of the data
    /// or seed, with checkpoints, or with a mask that is released within the run.
    pub fn best_of(trials: Trials, candidates: Vec<Plan>) -> Result<Self> {
        trials.check()?;
        let Some(first) = candidates.first() else {
            let why = "there are no plans to select from";
            return Err(Error::setting("candidates", "[]", why).fix("give at least one plan"));
        };
        candidates.iter().try_for_each(Plan::check_trial)?;
        for other in &candidates {
            first.check_equal_cost(other)?;
        }
        let plan = first.clone();
        Ok(Self { selection: Some(TrialSelection { trials, candidates }), ..plan })
    }

    /// Returns the trials of which only the best is released; `None` for a single run.
    pub fn selection(&self) -> Option<&TrialSelection> {
        self.selection.as_ref()
    }

    /// Returns this plan of a selection with the settings of one of its candidates.
    pub(crate) fn with_candidate(&self, candidate: usize) -> Self {
        let trained = self.selection.as_ref().and_then(|s| s.candidates.get(candidate));
        let mut plan = trained.unwrap_or(self).with_device_of(self);
        plan.selection.clone_from(&self.selection);
        plan
    }

    fn check_trial(&self) -> Result<()> {
        let refused = |why: &str, fix: &str| {
            let what = format!("private selection among trials of {}", self.method);
            Err(Error::new(ErrorKind::Setting, what, why).fix(fix))
        };
        if !self.has_guarantee() {
            let why = self.not_covered_reason();
            let why = why.as_deref().unwrap_or("a trial has no guarantee");
            return refused(why, "select among plans of a private method");
        }
        if self.selection.is_some() {
            return refused("a trial is itself a selection", "select among the candidates of both");
        }
        if self.releases_by_role_after(self.steps).mask.is_some() {
            let why = "each trial would release its own mask, at an additional cost";
            return refused(why, "make the mask before, or take one that looks at no data");
        }
        if self.settings.checkpoints.is_some() {
            let why = "a checkpoint would reveal the progress of the trials, whose number is \
                       secret";
            return refused(why, "leave out .checkpoint_every(…)");
        }
        Ok(())
    }

    /// Checks that two trials have the same cost on the same data.
    fn check_equal_cost(&self, other: &Plan) -> Result<()> {
        let delta = |plan: &Plan| plan.privacy.as_ref().map(|privacy| privacy.delta);
        let differ = |what: &str, a: String, b: String| {
            let what = format!("private selection among trials of different {what}: {a} and {b}");
            let why = "the bound on the cost holds only for trials with equal releases";
            Err(Error::new(ErrorKind::Setting, what, why).fix(
                "vary only the learning rate, clip norm, optimizer, dropping or a data-free mask, \
                 and give all candidates the same epsilon or noise, batch size and steps",
            ))
        };
        if self.examples != other.examples {
            let size = |plan: &Plan| pluralise(plan.examples, "training example");
            return differ("data", size(self), size(other));
        }
        if self.releases_after(self.steps) != other.releases_after(other.steps) {
            return differ("releases", self.event().to_string(), other.event().to_string());
        }
        if delta(self) != delta(other) || self.neighbouring() != other.neighbouring() {
            let guarantee = |plan: &Plan| format!("{:?} ({})", delta(plan), plan.neighbouring());
            return differ("guarantees", guarantee(self), guarantee(other));
        }
        if self.seed() != other.seed() {
            return differ("seeds", format!("{:?}", self.seed()), format!("{:?}", other.seed()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
