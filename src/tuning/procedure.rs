//! The four steps of the procedure.

use super::live::LiveTuning;
use super::result::{Trial, TuningResult, TuningStep};
use super::{Tuning, cost, heat_map};
use crate::data::Dataset;
use crate::grid::{Case, CellResult, Experiment, Randomness, scheduler};
use crate::methods::{Method, NonPrivate, Plan};
use crate::nn::Model;
use crate::privacy::digits::{format_count, pluralise};
use crate::show::format;
use crate::store::{RunStore, home};
use crate::train::InterruptGuard;
use crate::{Error, ErrorKind, Result};

impl<M: Method + Clone + 'static> Tuning<M> {
    /// Runs the procedure, with a live display. `build_model` builds the initial model for the data
    /// that it is given, the private or the public ones; give the model a seed, so that all runs
    /// start from the same parameters.
    ///
    /// # Errors
    /// `Setting` for values that can't be tried, data without a test part, public data that are
    /// smaller than a batch or a part of the private ones, or if the tuning was stopped; as making
    /// the plans and as training. A run whose parameters diverge is no error, unless all of a step
    /// do.
    pub fn run(
        &self,
        build_model: impl Fn(&Dataset) -> Result<Model>,
        data: &Dataset,
    ) -> Result<TuningResult<M>> {
        self.run_in(&RunStore::open(home())?, build_model, data)
    }

    pub(super) fn run_in(
        &self,
        store: &RunStore,
        build_model: impl Fn(&Dataset) -> Result<Model>,
        data: &Dataset,
    ) -> Result<TuningResult<M>> {
        self.check()?;
        let plan = self.method.plan(data)?;
        let on = self.public.as_ref().unwrap_or(data);
        check_data(&plan, on)?;
        if let Some(public) = &self.public
            && data.origin() == public.origin()
        {
            let what = format!("tuning on {} as public data", public.name());
            let why = "the data are the private data or a part of them, and no epsilon covers runs \
                       without noise on private data";
            return Err(Error::new(ErrorKind::Setting, what, why).fix(
                "use other data, for instance generated data: data::drawn_digits(60_000, 5_000, \
                 2)?",
            ));
        }
        let _interrupt_guard = InterruptGuard::start();
        let model = build_model(on)?;
        let mut live = LiveTuning::default();
        let mut search =
            Search { tuning: self, plan: &plan, store, model: &model, on, live: &mut live };
        let tuned = search.all_steps(data)?;
        live.finish();
        Ok(tuned)
    }
}

/// Refuses data on which the steps can't be taken.
fn check_data(plan: &Plan, data: &Dataset) -> Result<()> {
    let what = format!("tuning on {}", data.name());
    if data.test().is_empty() {
        return Err(Error::new(
            ErrorKind::Setting,
            what,
            "tuning compares accuracies on the test part",
        )
        .fix("read the data with their test part, or split one off: data.split(0.9, 7)"));
    }
    if plan.expected_batch_size() > data.train().len() {
        let why = format!(
            "a batch has {} examples, but the data have only {}",
            format_count(plan.expected_batch_size()),
            format_count(data.train().len())
        );
        return Err(Error::new(ErrorKind::Setting, what, why)
            .fix("use more public examples, or smaller batches"));
    }
    Ok(())
}

/// A running procedure.
struct Search<'a, M> {
    tuning: &'a Tuning<M>,
    /// The plan for the private data.
    plan: &'a Plan,
    store: &'a RunStore,
    model: &'a Model,
    /// The data of the runs: public, or the private ones.
    on: &'a Dataset,
    live: &'a mut LiveTuning,
}

impl<M: Method + Clone + 'static> Search<'_, M> {
    fn all_steps(&mut self, data: &Dataset) -> Result<TuningResult<M>> {
        let Tuning { learning_rates, clips, factors, around, tolerance, .. } = self.tuning;
        let public = self.tuning.public.as_ref();
        let mut warnings = Vec::new();
        let raw_cost = |runs| match public {
            Some(public) => cost::describe_public_cost(public),
            None => cost::describe_noiseless_cost(runs, data),
        };
        let noisy_cost = |runs, plan: &Plan| match public {
            Some(public) => cost::describe_public_cost(public),
            None => cost::describe_noisy_cost(runs, plan),
        };

        let title = "1. learning rate without clipping and noise";
        let pairs: Vec<_> = learning_rates.iter().map(|&rate| (rate, None)).collect();
        let plain = self.step(title, &pairs, Self::noiseless_case)?;
        let (best, accuracy) = best_trial(title, &plain)?;
        let public_rate = best.learning_rate;
        warnings.extend(edge_warning("learning rate of step 1", public_rate, learning_rates));
        let first = TuningStep {
            title: title.into(),
            choice: format!("{} ({})", number(public_rate), format::percent(accuracy)),
            cost: raw_cost(plain.len()),
            trials: plain,
        };

        let title = "2. smallest harmless clip norm, without noise";
        let pairs: Vec<_> = clips.iter().map(|&clip| (public_rate, Some(clip))).collect();
        let clipped = self.step(title, &pairs, Self::noiseless_case)?;
        let (clip, harmless) = smallest_harmless(title, &clipped, accuracy - tolerance)?;
        if !harmless {
            warnings.push(format!(
                "no clip norm of step 2 comes within {} of training without clipping; the best of \
                 them is used; try larger ones",
                format::percent(*tolerance)
            ));
        } else if clips.len() > 1 && clips.iter().all(|&other| clip <= other) {
            warnings.push(
                "the smallest clip norm of step 2 is harmless; smaller ones may be harmless too"
                    .into(),
            );
        }
        let second = TuningStep {
            title: title.into(),
            choice: number(clip),
            cost: raw_cost(clipped.len()),
            trials: clipped,
        };

        let title = "3. learning rate with noise";
        let rates: Vec<f64> = factors.iter().map(|factor| factor * public_rate).collect();
        let pairs: Vec<_> = rates.iter().map(|&rate| (rate, Some(clip))).collect();
        let noisy = self.step(title, &pairs, Self::noisy_case)?;
        let (best, accuracy) = best_trial(title, &noisy)?;
        let rate = best.learning_rate;
        warnings.extend(edge_warning("learning rate of step 3", rate, &rates));
        let third = TuningStep {
            title: title.into(),
            choice: format!("{} ({})", number(rate), format::percent(accuracy)),
            cost: noisy_cost(noisy.len(), self.plan),
            trials: noisy.clone(),
        };

        let title = "4. pairs in the vicinity, with noise";
        let pairs: Vec<_> = around
            .iter()
            .flat_map(|of_clip| around.iter().map(move |of_rate| (of_rate, of_clip)))
            .map(|(of_rate, of_clip)| (of_rate * rate, Some(of_clip * clip)))
            .filter(|pair| noisy.iter().all(|trial| (trial.learning_rate, trial.clip) != *pair))
            .collect();
        let near = self.step(title, &pairs, Self::noisy_case)?;
        let all: Vec<Trial> = noisy.iter().chain(&near).cloned().collect();
        let (best, accuracy) = best_trial(title, &all)?;
        let (rate, clip) = (best.learning_rate, best.clip.unwrap_or(clip));
        let fourth = (!near.is_empty()).then(|| TuningStep {
            title: title.into(),
            choice: format!(
                "rate {}, clip norm {} ({})",
                number(rate),
                number(clip),
                format::percent(accuracy)
            ),
            cost: noisy_cost(near.len(), self.plan),
            trials: near,
        });
        Ok(TuningResult {
            heat_map_figure: heat_map::heat_map(&all, &self.note())?,
            method: self.tuning.method.clone(),
            learning_rate: rate,
            clip,
            steps: [Some(first), Some(second), Some(third), fourth].into_iter().flatten().collect(),
            warnings,
            badge: cost::badge(data, public),
            data: self.on.name().to_owned(),
        })
    }

    /// Trains the runs of one step: an experiment with a case for each pair of learning rate and
    /// clip norm.
    fn step(
        &mut self,
        title: &str,
        pairs: &[(f64, Option<f64>)],
        case: impl Fn(&Self, f64, Option<f64>) -> Case,
    ) -> Result<Vec<Trial>> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let cases = pairs.iter().map(|&(rate, clip)| {
            let case = case(self, rate, clip).label("learning rate", number(rate));
            match clip {
                Some(clip) => case.label("clip norm", number(clip)),
                None => case,
            }
        });
        let seed = self.tuning.method.settings().seed;
        let experiment =
            Experiment::new(cases).jobs(self.tuning.jobs).with_randomness(Randomness::Fixed(seed));
        let model = |_| Ok(self.model.clone());
        self.live.begin(title);
        let result = scheduler::run_grid(&experiment, &model, self.on, self.store, self.live)?;
        if result.is_interrupted() {
            return Err(stopped(title));
        }
        self.live.check(result.cells())?;
        let accuracy = |cell: &CellResult| cell.runs.first().and_then(|run| run.accuracy);
        let accuracies = result.cells().iter().map(accuracy);
        let trial = |(&(learning_rate, clip), accuracy)| Trial { learning_rate, clip, accuracy };
        Ok(pairs.iter().zip(accuracies).map(trial).collect())
    }

    /// Returns a case without noise, with the private plan's batches and steps.
    fn noiseless_case(&self, learning_rate: f64, clip: Option<f64>) -> Case {
        let mut settings = self.tuning.method.settings().clone();
        settings.learning_rate = Some(learning_rate);
        settings.steps = Some(self.plan.steps());
        settings.seed = None;
        let plain = NonPrivate { settings, ..NonPrivate::new() };
        match clip {
            Some(clip) => plain.clip(clip).into(),
            None => plain.into(),
        }
    }

    /// Returns a case of the method with noise. With public data it has the private plan's noise
    /// multiplier, delta and steps; on the private data it keeps the method's own settings.
    fn noisy_case(&self, learning_rate: f64, clip: Option<f64>) -> Case {
        let mut method = self.tuning.method.clone();
        let settings = method.settings_mut();
        settings.learning_rate = Some(learning_rate);
        settings.seed = None;
        if self.tuning.public.is_some() {
            settings.steps = Some(self.plan.steps());
        }
        if let (Some(private), Some(known)) = (method.privacy_settings_mut(), self.plan.privacy()) {
            if self.tuning.public.is_some() {
                private.target = None;
                private.set_noise_multiplier(known.noise_multiplier);
                private.delta = Some(known.delta);
            }
            private.set_clip(clip.unwrap_or(1.0));
        }
        method.into()
    }

    /// Returns the line under the heat map's title.
    fn note(&self) -> String {
        let noise = self.plan.privacy().map_or(0.0, |privacy| privacy.noise_multiplier);
        format!(
            "{} on {}, noise multiplier {}, batches of {}, {}.",
            self.plan.method(),
            self.on.name(),
            number(noise),
            format_count(self.plan.expected_batch_size()),
            pluralise(usize::try_from(self.plan.steps()).unwrap_or(usize::MAX), "step")
        )
    }
}

/// Returns the trial of the highest accuracy, the first of several, and its accuracy.
fn best_trial<'a>(step: &str, trials: &'a [Trial]) -> Result<(&'a Trial, f64)> {
    let mut best: Option<(&Trial, f64)> = None;
    for trial in trials {
        if let Some(accuracy) = trial.accuracy
            && best.is_none_or(|(_, known)| accuracy > known)
        {
            best = Some((trial, accuracy));
        }
    }
    best.ok_or_else(|| {
        Error::new(ErrorKind::Model, format!("tuning, {step}"), "all of its runs have diverged")
            .fix("try smaller learning rates")
    })
}

/// Returns the smallest clip norm whose accuracy is at least this, and true; otherwise the one of
/// the highest accuracy, and false.
fn smallest_harmless(step: &str, trials: &[Trial], at_least: f64) -> Result<(f64, bool)> {
    let harmless = trials.iter().filter(|trial| trial.accuracy.is_some_and(|a| a >= at_least));
    let smallest = harmless.filter_map(|trial| trial.clip).min_by(f64::total_cmp);
    match smallest {
        Some(clip) => Ok((clip, true)),
        None => Ok((best_trial(step, trials)?.0.clip.unwrap_or(1.0), false)),
    }
}

/// Returns the doubt about a best value that is the first or last one that was tried.
fn edge_warning(name: &str, best: f64, values: &[f64]) -> Option<String> {
    let least = values.iter().all(|&other| best <= other);
    let most = values.iter().all(|&other| best >= other);
    let (end, further) = match (least, most) {
        _ if values.len() < 3 => return None,
        (true, _) => ("smallest", "smaller"),
        (_, true) => ("largest", "larger"),
        _ => return None,
    };
    Some(format!("the best {name} is the {end} one tried; also try {further} ones"))
}

fn number(value: f64) -> String {
    format::significant(value, 3)
}

fn stopped(step: &str) -> Error {
    let what = format!("tuning, {step}");
    Error::new(ErrorKind::Setting, what, "tuning was stopped before its last run")
        .fix("call it again: finished runs are kept, and tuning resumes from there")
}
