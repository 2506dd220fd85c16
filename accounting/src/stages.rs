//! Stages of a run: the table from which noise, events and previews are read.

use serde::{Deserialize, Serialize};

use super::schedule::{ChangeFrequency, ClipSchedule, NoiseSchedule, SchedulePosition};
use super::{Event, NoiseMultiplier, SamplingRate, TrainingLength};
use crate::{Error, Result};

mod display;

/// Maximum number of changes of a schedule: each can become an event of its own.
const MAX_CHANGES: usize = 100_000;

/// Successive steps with the same noise multiplier and the same clip norm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Number of steps, at least 1.
    pub steps: u64,
    /// Standard deviation of the noise on the sum, divided by the bound on one contribution.
    pub noise_multiplier: f64,
    /// Factor on the clip norm of the run, and with it on the standard deviation of the noise.
    #[serde(default = "unscaled", skip_serializing_if = "is_unscaled")]
    pub clip_scale: f64,
}

fn unscaled() -> f64 {
    1.0
}

fn is_unscaled(scale: &f64) -> bool {
    *scale == 1.0
}

impl Stage {
    /// Returns the stage if its values are in range.
    ///
    /// # Errors
    /// Kind `Setting` for 0 steps, and for a noise multiplier or a clip scale that is not finite
    /// and above 0.
    pub(crate) fn check(&self) -> Result<&Self> {
        if self.steps == 0 {
            return Err(Error::setting("steps", 0, "a stage without steps releases nothing")
                .fix("use at least 1 step, or leave the stage out"));
        }
        NoiseMultiplier(self.noise_multiplier).check()?;
        if self.clip_scale > 0.0 && self.clip_scale.is_finite() {
            return Ok(self);
        }
        let why = "the factor on the clip norm must be finite and above 0";
        Err(Error::setting("clip_scale", self.clip_scale, why).fix("use for example 1"))
    }

    fn has_settings_of(&self, other: &Self) -> bool {
        self.noise_multiplier == other.noise_multiplier && self.clip_scale == other.clip_scale
    }
}

/// The stages of a run in order: at least one, run-length encoded. Neighbouring stages with equal
/// settings are one stage. In JSON it is the list of stages.
///
/// # Guarantee
/// Step t adds noise of `noise_multiplier` times the clip norm of step t, both those of
/// [`at(t)`](Stages::at). [`event`](Stages::event) describes exactly these steps, so sampler and
/// ledger cannot differ if both read this table. Each step bounds one example's contribution by
/// its own clip norm and scales the noise with it: the clip scale cancels in the privacy loss and
/// does not appear in events. The table is public and must not depend on the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Stage>", into = "Vec<Stage>")]
pub struct Stages {
    stages: Vec<Stage>,
    /// Number of steps up to the end of each stage.
    ends: Vec<u64>,
}

impl Stages {
    /// Creates the table of the given stages.
    ///
    /// # Errors
    /// Kind `Setting` for an empty list, a stage out of range, or more than 2^64 - 1 steps.
    pub fn new(stages: Vec<Stage>) -> Result<Self> {
        let mut merged: Vec<Stage> = Vec::new();
        let mut ends = Vec::new();
        let mut total = 0u64;
        for stage in stages {
            total = total.checked_add(stage.check()?.steps).ok_or_else(|| {
                Error::setting("steps", stage.steps, "the steps of all stages cannot be counted")
                    .fix("use fewer steps")
            })?;
            match merged.last_mut().filter(|last| last.has_settings_of(&stage)) {
                Some(last) => {
                    last.steps += stage.steps;
                    ends.pop();
                }
                None => merged.push(stage),
            }
            ends.push(total);
        }
        if merged.is_empty() {
            return Err(Error::setting("stages", "[]", "a run needs at least one stage")
                .fix("give at least one stage with at least one step"));
        }
        Ok(Self { stages: merged, ends })
    }

    /// Creates the table of `steps` steps with one noise multiplier.
    ///
    /// # Errors
    /// Kind `Setting` for 0 steps or a noise multiplier out of range.
    pub fn constant(noise_multiplier: NoiseMultiplier, steps: u64) -> Result<Self> {
        Self::new(vec![Stage { steps, noise_multiplier: noise_multiplier.0, clip_scale: 1.0 }])
    }

    /// Creates the stages of `steps` steps under two schedules, with the initial noise multiplier
    /// `initial`.
    ///
    /// Step t = 0, 1, … belongs to epoch floor(t q): epoch e begins at step ceil(e / q), which is
    /// [`TrainingLength::Epochs`] of e. `steps` is the length of the whole run, so an epoch that
    /// begins in the middle of a batch adds no step.
    ///
    /// # Errors
    /// Kind `Setting` for a value out of range, a schedule with more than 100,000 changes, or a
    /// noise multiplier or clip scale that overflows or underflows.
    pub fn from_schedules(
        noise: &NoiseSchedule,
        clip: &ClipSchedule,
        initial: NoiseMultiplier,
        sampling_rate: SamplingRate,
        steps: u64,
    ) -> Result<Self> {
        let (noise, clip, initial) = (noise.check()?, clip.check()?, initial.check()?.0);
        let rate = sampling_rate.check()?;
        if steps == 0 {
            return Self::constant(NoiseMultiplier(initial), 0);
        }
        let pace = noise.pace().max(clip.pace());
        // An epoch of more steps than can be counted does not end.
        let start_of =
            |epoch: u64| TrainingLength::Epochs(epoch as f64).steps(rate).unwrap_or(u64::MAX);
        let mut stages: Vec<Stage> = Vec::new();
        let (mut step, mut epoch, mut epoch_end) = (0, 0, start_of(1));
        let mut changes = 0;
        while step < steps {
            let next = match pace {
                ChangeFrequency::Never => steps,
                ChangeFrequency::Epoch => epoch_end.min(steps),
                ChangeFrequency::Step => step + 1,
            };
            let at = SchedulePosition { epoch, fraction: step as f64 / steps as f64 };
            let stage = Stage {
                steps: next - step,
                noise_multiplier: initial * noise.factor(at),
                clip_scale: clip.factor(at),
            };
            changes += 1;
            if stage.check().is_err() || changes > MAX_CHANGES {
                return Err(unusable(&stage, noise, clip, at, step));
            }
            stages.push(stage);
            step = next;
            if step >= epoch_end {
                epoch += 1;
                epoch_end = start_of(epoch + 1);
            }
        }
        Self::new(stages)
    }

    /// Returns the same stages with every noise multiplier times `factor`.
    ///
    /// # Errors
    /// Kind `Setting` if a noise multiplier is then not finite and above 0.
    pub fn scaled(&self, factor: f64) -> Result<Self> {
        let scale =
            |stage: &Stage| Stage { noise_multiplier: stage.noise_multiplier * factor, ..*stage };
        Self::new(self.stages.iter().map(scale).collect())
    }

    /// Returns the number of steps of all stages together.
    pub fn steps(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the stages in order. Neighbours differ.
    pub fn as_slice(&self) -> &[Stage] {
        &self.stages
    }

    /// Returns the stage of step `step`, counted from 0; the last stage beyond the end.
    pub fn at(&self, step: u64) -> Stage {
        let index = self.ends.partition_point(|&end| end <= step);
        self.stages[index.min(self.stages.len() - 1)]
    }

    /// Returns whether noise multiplier and clip norm never change.
    pub fn is_constant(&self) -> bool {
        self.stages.len() == 1
    }

    /// Returns the event of the first `steps` steps at a sampling rate; of all steps if there are
    /// fewer.
    ///
    /// It is an [`Event::PoissonGaussian`] if the noise multiplier of the whole table is constant.
    /// Otherwise it is an [`Event::Composed`] with one part per run of equal noise multipliers.
    /// Parts that have not begun are left out, so every event of fewer steps is one that
    /// [`Event::reduced_to`] accepts.
    ///
    /// # Guarantee
    /// The event describes the first steps if each is on a Poisson sample of that rate and its
    /// noise is that of [`at`](Stages::at).
    pub fn event(&self, sampling_rate: SamplingRate, steps: u64) -> Event {
        let equal = |a: &Stage, b: &Stage| a.noise_multiplier == b.noise_multiplier;
        let run = |run: &[Stage]| {
            (run[0].noise_multiplier, run.iter().map(|stage| stage.steps).sum::<u64>())
        };
        let runs: Vec<(f64, u64)> = self.stages.chunk_by(equal).map(run).collect();
        first_releases(&runs, steps.min(self.steps()), |noise_multiplier, steps| {
            Event::poisson(sampling_rate.0, noise_multiplier, steps)
        })
    }

    /// Returns the event of the first `steps` steps on disjoint batches, `steps_per_epoch` of them
    /// in each pass over the data; of all steps if there are fewer.
    ///
    /// # Guarantee
    /// An example is in one batch of a pass, and it is not known in which. So a pass counts as one
    /// release with the smallest noise multiplier of its steps, also if not all of them are taken.
    pub fn shuffled_event(&self, steps_per_epoch: u64, steps: u64) -> Event {
        let (per_epoch, all) = (steps_per_epoch.max(1), self.steps());
        // The smallest noise multiplier of each pass of the whole table, run-length encoded.
        let mut runs: Vec<(f64, u64)> = Vec::new();
        for epoch in 0..all.div_ceil(per_epoch) {
            let (start, end) = (epoch * per_epoch, ((epoch + 1) * per_epoch).min(all));
            let first = self.ends.partition_point(|&end| end <= start);
            let last = self.ends.partition_point(|&last| last < end);
            let least = self.stages[first..=last.min(self.stages.len() - 1)]
                .iter()
                .map(|stage| stage.noise_multiplier)
                .fold(f64::INFINITY, f64::min);
            match runs.last_mut().filter(|run| run.0 == least) {
                Some(run) => run.1 += 1,
                None => runs.push((least, 1)),
            }
        }
        let passes = steps.min(all).div_ceil(per_epoch);
        first_releases(&runs, passes, |noise_multiplier, epochs| Event::ShuffledEpochs {
            noise_multiplier,
            epochs,
        })
    }
}

/// Returns the event of the first `left` releases of a table of noise multipliers and how many
/// releases have each.
fn first_releases(runs: &[(f64, u64)], mut left: u64, part: impl Fn(f64, u64) -> Event) -> Event {
    if let [(noise_multiplier, _)] = *runs {
        return part(noise_multiplier, left);
    }
    let mut events = Vec::new();
    for &(noise_multiplier, count) in runs {
        let count = count.min(left);
        if count > 0 {
            events.push(part(noise_multiplier, count));
        }
        left -= count;
    }
    Event::Composed { events }
}

impl TryFrom<Vec<Stage>> for Stages {
    type Error = Error;

    fn try_from(stages: Vec<Stage>) -> Result<Self> {
        Self::new(stages)
    }
}

impl From<Stages> for Vec<Stage> {
    fn from(stages: Stages) -> Self {
        stages.stages
    }
}

/// Returns the error of a schedule that changes too often, overflows or underflows.
fn unusable(
    stage: &Stage,
    noise: &NoiseSchedule,
    clip: &ClipSchedule,
    at: SchedulePosition,
    step: u64,
) -> Error {
    if stage.check().is_ok() {
        let (name, text) = if noise.is_constant() {
            ("clip schedule", clip.to_string())
        } else {
            ("noise schedule", noise.to_string())
        };
        let why = format!(
            "the schedule changes more than {MAX_CHANGES} times, and every change is recorded"
        );
        return Error::setting(name, text, why)
            .fix("use fewer steps or epochs, or a schedule with fewer changes");
    }
    let location = format!("in epoch {} (step {step})", at.epoch);
    let error = match NoiseMultiplier(stage.noise_multiplier).check() {
        Err(_) => {
            let why = format!("the noise multiplier becomes {} {location}", stage.noise_multiplier);
            Error::setting("noise schedule", noise, why)
        }
        Ok(_) => {
            let why =
                format!("the factor on the clip norm becomes {} {location}", stage.clip_scale);
            Error::setting("clip schedule", clip, why)
        }
    };
    error.fix("use a rate closer to a constant setting, or fewer epochs")
}

#[cfg(test)]
mod tests;
