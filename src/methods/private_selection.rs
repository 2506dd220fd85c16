//! Private selection of settings: learning rates and clip norms of one method.

use std::fmt;

use crate::data::{Dataset, Population};
use crate::engine::ClipRule;
use crate::methods::{Method, Plan};
use crate::privacy::Trials;
use crate::privacy::digits::pluralise;
use crate::{Error, ErrorKind, Result};

/// Private selection of learning rate and clip norm on private data, at one epsilon for
/// everything.
///
/// A random number of trials is run, each with one of the candidates drawn at random, and only the
/// trial of the highest test accuracy is released (Papernot and Steinke, 2022). A target epsilon is
/// that of all trials together. It is the sound alternative to training every candidate at the
/// target and keeping the best, which costs as much as all of them.
///
/// ```no_run
/// use epsilab::methods::PrivateSelection;
/// use epsilab::prelude::*;
/// # fn main() -> epsilab::Result<()> {
/// let data = data::mnist()?;
/// let model = models::papernot_cnn(&data).seed(1).build()?;
/// let method = DpSgd::new().target(Epsilon(1.0), Delta(1e-5)).batch_size(2048);
/// let run = PrivateSelection::new(method, Trials::geometric(5.0))
///     .learning_rates([0.5, 1.0, 2.0, 4.0])
///     .clips([0.1, 1.0])
///     .train(&model, &data)?;
/// println!("{}", run.statement());
/// # Ok(()) }
/// ```
///
/// # Guarantee
/// That of [`Plan::best_of`]. The number of trials must stay secret, and with it the time that they
/// take. The test part, on which trials are compared, is treated as public.
#[derive(Clone, Debug)]
pub struct PrivateSelection {
    method: Box<dyn Method>,
    trials: Trials,
    learning_rates: Vec<f64>,
    clips: Vec<f64>,
}

impl PartialEq for PrivateSelection {
    fn eq(&self, other: &Self) -> bool {
        let rest = |s: &Self| (s.trials, s.learning_rates.clone(), s.clips.clone());
        *self.method == *other.method && rest(self) == rest(other)
    }
}

impl PrivateSelection {
    /// Creates the trials of this method, whose own learning rate and clip norm are the only
    /// candidate so far.
    pub fn new(method: impl Method + 'static, trials: Trials) -> Self {
        Self::from_boxed(Box::new(method), trials)
    }

    /// Creates the trials as [`new`](Self::new), of a method that is known at run time only.
    pub fn from_boxed(method: Box<dyn Method>, trials: Trials) -> Self {
        Self { method, trials, learning_rates: Vec::new(), clips: Vec::new() }
    }

    /// Replaces the method.
    pub(crate) fn with_method(self, method: Box<dyn Method>) -> Self {
        Self { method, ..self }
    }

    /// Sets the learning rates to choose from.
    pub fn learning_rates(self, rates: impl IntoIterator<Item = f64>) -> Self {
        Self { learning_rates: rates.into_iter().collect(), ..self }
    }

    /// Sets the clip norms to choose from, for methods with flat clipping. Each is combined with
    /// each learning rate.
    pub fn clips(self, clips: impl IntoIterator<Item = f64>) -> Self {
        Self { clips: clips.into_iter().collect(), ..self }
    }

    /// Returns the plan of the selection for the training part of these data.
    ///
    /// # Errors
    /// `Setting` for a candidate that can't be planned, and for clip norms of a method without flat
    /// clipping; `Accounting` if a target can't be reached.
    pub fn plan(&self, data: &Dataset) -> Result<Plan> {
        self.plan_for(&data.into())
    }

    /// Returns the plan of the selection for this population.
    ///
    /// # Errors
    /// `Setting` for a candidate that can't be planned, and for clip norms of a method without flat
    /// clipping; `Accounting` if a target can't be reached.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let mut method = self.method.clone();
        let rule = method.privacy_settings_mut().and_then(|private| private.clip_rule.clone());
        if let Some(rule) = rule.filter(|rule| !matches!(rule, ClipRule::Flat { .. }))
            && !self.clips.is_empty()
        {
            let what = format!("clip norms to choose from, beside the clip rule {rule}");
            let why = "clip norms to choose from apply to flat clipping, which would replace the \
                       rule";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("leave out the rule, or choose only among learning rates"));
        }
        let candidates = self.candidates();
        let plans = candidates.iter().map(|method| method.plan_for(population));
        Plan::best_of(self.trials, plans.collect::<Result<_>>()?)
    }

    /// Returns the methods with the settings of each candidate.
    fn candidates(&self) -> Vec<Box<dyn Method>> {
        let mut method = self.method.clone();
        if let Some(private) = method.privacy_settings_mut() {
            private.selection_trials = Some(self.trials);
        }
        let clipped = with_each(vec![method], &self.clips, |method, clip| {
            if let Some(private) = method.privacy_settings_mut() {
                private.set_clip(clip);
            }
        });
        with_each(clipped, &self.learning_rates, |method, rate| {
            method.settings_mut().learning_rate = Some(rate);
        })
    }
}

/// Returns each method with each value, or as it is if there are no values.
fn with_each(
    methods: Vec<Box<dyn Method>>,
    values: &[f64],
    set: fn(&mut dyn Method, f64),
) -> Vec<Box<dyn Method>> {
    if values.is_empty() {
        return methods;
    }
    let with = |mut method: Box<dyn Method>, value| {
        set(&mut *method, value);
        method
    };
    let each = methods.iter().flat_map(|method| values.iter().map(move |&value| (method, value)));
    each.map(|(method, value)| with(method.clone(), value)).collect()
}

impl fmt::Display for PrivateSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let candidates = pluralise(self.candidates().len(), "candidate");
        let name = self.method.descriptor().title;
        write!(f, "the best of a random number of trials ({}) of {name}: {candidates}", self.trials)
    }
}

#[cfg(test)]
mod tests;
