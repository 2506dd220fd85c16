//! [`LearningRateScheduler`]: the values of a schedule over a run.

use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{CycleMode, CycledMomentum, LearningRate};
use crate::{Error, Result};

/// A linear warm-up: in step t of w warm-up steps, the first rate of the schedule is multiplied by
/// (t + 1)/w. The schedule follows, over the other steps of the run. (In PyTorch: `SequentialLR` of
/// `LinearLR(start_factor=1/w, total_iters=w-1)` and the schedule.)
///
/// From text: a whole number of steps, `500`, or a fraction of the run below 1, `0.1`.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::optim::LearningRateScheduler;
/// let (constant, warm_up) = (LearningRate::Constant, Some(WarmUp::Steps(4)));
/// let rates = LearningRateScheduler::new(&constant, warm_up, 1.0, 100, 20.0)?;
/// assert_eq!([0, 1, 3, 4].map(|step| rates.at(step).learning_rate), [0.25, 0.5, 1.0, 1.0]);
/// let method = DpSgd::new().noise_multiplier(1.0).warm_up(WarmUp::Fraction(0.1));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUp {
    /// This many steps.
    Steps(u64),
    /// This fraction of the run's steps, in [0, 1), rounded to whole steps.
    Fraction(f64),
}

/// The learning rate of a step, and its momentum where the schedule sets one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateAndMomentum {
    /// The learning rate.
    pub learning_rate: f64,
    /// The momentum for [`StepSettings`](crate::optim::StepSettings), `None` for the optimizer's
    /// own.
    pub momentum: Option<f64>,
}

/// The learning rates of a run: a schedule with its peak, its warm-up and the length of the run.
/// Plain data; only a plateau schedule changes it, by the losses it is [given](Self::observe).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningRateScheduler {
    schedule: LearningRate,
    peak: f64,
    warm_up: u64,
    steps: u64,
    steps_per_epoch: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plateau: Option<PlateauState>,
}

/// State of a plateau schedule, from the losses so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct PlateauState {
    /// The smallest loss so far; `None` before the first finite one.
    best: Option<f64>,
    /// Evaluations since then, or since the last reduction.
    evaluations: u64,
    reductions: i32,
}

impl LearningRateScheduler {
    /// Creates the rates of a run of `steps` steps with the largest rate `peak`. `steps_per_epoch`
    /// is 1 / sampling rate.
    ///
    /// # Errors
    /// `Setting` if the schedule is out of range ([`LearningRate::check`]), if peak or steps per
    /// epoch are not positive, if there are no steps, or if the warm-up takes all of them.
    pub fn new(
        schedule: &LearningRate,
        warm_up: Option<WarmUp>,
        peak: f64,
        steps: u64,
        steps_per_epoch: f64,
    ) -> Result<Self> {
        let schedule = schedule.check()?.clone();
        super::above_zero("learning_rate", peak)?;
        super::above_zero("steps", steps as f64)?;
        super::above_zero("steps_per_epoch", steps_per_epoch)?;
        let warm_up = warm_up.map_or(Ok(0), |warm_up| warm_up.steps(steps))?;
        Ok(Self { schedule, peak, warm_up, steps, steps_per_epoch, plateau: None })
    }

    /// Returns the learning rate and the momentum of a step, counted from 0. Steps after the last
    /// are as the last.
    pub fn at(&self, step: u64) -> RateAndMomentum {
        let step = step.min(self.steps - 1);
        let warmth = ((step + 1) as f64 / self.warm_up as f64).min(1.0);
        let (factor, momentum) = self.schedule_at(step.saturating_sub(self.warm_up));
        RateAndMomentum { learning_rate: self.peak * warmth * factor, momentum }
    }

    /// Observes the loss of an evaluation. Only a [plateau](LearningRate::Plateau) schedule
    /// changes.
    pub fn observe(&mut self, loss: f64) {
        let LearningRate::Plateau { patience, threshold, .. } = self.schedule else { return };
        let PlateauState { best, evaluations, reductions } = self.plateau.unwrap_or_default();
        let improves = loss < best.map_or(f64::INFINITY, |best| best * (1.0 - threshold));
        let next = if improves {
            PlateauState { best: Some(loss), evaluations: 0, reductions }
        } else if evaluations < patience {
            PlateauState { best, evaluations: evaluations + 1, reductions }
        } else {
            PlateauState { best, evaluations: 0, reductions: reductions + 1 }
        };
        self.plateau = Some(next);
    }

    /// Returns the factor on the peak, and the momentum, of a step after the warm-up.
    fn schedule_at(&self, step: u64) -> (f64, Option<f64>) {
        let (t, total) = (step as f64, (self.steps - self.warm_up) as f64);
        let epoch = t / self.steps_per_epoch;
        let factor = match self.schedule {
            LearningRate::Constant => 1.0,
            LearningRate::Linear { end_factor } => 1.0 + (end_factor - 1.0) * t / total,
            LearningRate::Exponential { gamma } => gamma.powf(whole_epochs(epoch)),
            LearningRate::Polynomial { power } => (1.0 - t / total).powf(power),
            LearningRate::Step { every, gamma } => gamma.powf(whole_epochs(epoch / every)),
            LearningRate::MultiStep { ref milestones, gamma } => {
                let reached =
                    milestones.iter().filter(|&&milestone| whole_epochs(epoch / milestone) >= 1.0);
                gamma.powi(reached.count() as i32)
            }
            LearningRate::Piecewise { ref phases } => {
                let mut ends = phases.iter().scan(0.0, |end, &(epochs, factor)| {
                    *end += epochs as f64;
                    Some((*end, factor))
                });
                let last = phases.last().map_or(1.0, |(_, factor)| *factor);
                ends.find(|(end, _)| whole_epochs(epoch) < *end).map_or(last, |(_, factor)| factor)
            }
            LearningRate::Cosine { end_factor } => cosine(1.0, end_factor, t / total),
            LearningRate::CosineRestarts { period, growth, end_factor } => {
                cosine(1.0, end_factor, position_in_wave(epoch, period, growth))
            }
            LearningRate::Cyclic { base_factor, up, down, mode, momentum } => {
                let height = triangle(t, up as f64, down as f64, mode);
                let momentum =
                    momentum.map(|CycledMomentum { low, high }| high - (high - low) * height);
                return (base_factor + (1.0 - base_factor) * height, momentum);
            }
            LearningRate::OneCycle { rise, initial_divisor, final_divisor, linear, momentum } => {
                let peak = rise * total - 1.0;
                let between = if linear { line } else { cosine };
                let first = 1.0 / initial_divisor;
                let high_low = momentum.map(|momentum| (momentum.high, momentum.low));
                // A peak at the first step has no way up.
                return if t <= peak {
                    let part = if peak > 0.0 { t / peak } else { 1.0 };
                    let momentum = high_low.map(|(high, low)| between(high, low, part));
                    (between(first, 1.0, part), momentum)
                } else {
                    let part = (t - peak) / (total - 1.0 - peak);
                    let momentum = high_low.map(|(high, low)| between(low, high, part));
                    (between(1.0, first / final_divisor, part), momentum)
                };
            }
            LearningRate::Plateau { factor, .. } => {
                factor.powi(self.plateau.unwrap_or_default().reductions)
            }
        };
        (factor, None)
    }
}

/// Computes the whole part of a number of epochs that is exact up to rounding.
fn whole_epochs(epochs: f64) -> f64 {
    (epochs + 1e-9).floor()
}

/// Computes half a cosine wave from `start` to `end`, at a part in [0, 1].
fn cosine(start: f64, end: f64, part: f64) -> f64 {
    end + (start - end) * (1.0 + (PI * part).cos()) / 2.0
}

fn line(start: f64, end: f64, part: f64) -> f64 {
    start + (end - start) * part
}

/// Returns the position in the current wave, in [0, 1).
fn position_in_wave(epoch: f64, period: f64, growth: u32) -> f64 {
    if growth == 1 {
        return (epoch / period).fract();
    }
    let (mut start, mut length) = (0.0, period);
    while epoch >= start + length {
        start += length;
        length *= f64::from(growth);
    }
    (epoch - start) / length
}

/// Computes the height of a triangle wave at step t, in [0, 1].
fn triangle(t: f64, up: f64, down: f64, mode: CycleMode) -> f64 {
    let cycles = (t / (up + down)).floor();
    let within = t - cycles * (up + down);
    let height = if within <= up { within / up } else { (up + down - within) / down };
    match mode {
        CycleMode::Triangular => height,
        CycleMode::Triangular2 => height * 0.5f64.powf(cycles),
        CycleMode::ExpRange { gamma } => height * gamma.powf(t),
    }
}

impl WarmUp {
    /// Computes the number of warm-up steps in a run of `steps` steps.
    ///
    /// # Errors
    /// `Setting` for a fraction outside [0, 1), or if no step is left after the warm-up.
    pub(crate) fn steps(self, steps: u64) -> Result<u64> {
        let refuse = |why: &str| {
            let fix = "use a fraction of the run such as 0.1, or fewer steps than the run has";
            Err(Error::setting("warm_up", self, why).fix(fix))
        };
        let warm_up = match self {
            Self::Steps(warm_up) => warm_up,
            Self::Fraction(fraction) if (0.0..1.0).contains(&fraction) => {
                (fraction * steps as f64).round() as u64
            }
            Self::Fraction(_) => return refuse("a fraction of the run must be in [0, 1)"),
        };
        if warm_up < steps {
            Ok(warm_up)
        } else {
            refuse(&format!("no step of {steps} is left after the warm-up"))
        }
    }
}

impl fmt::Display for WarmUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "{steps}"),
            Self::Fraction(fraction) => write!(f, "{fraction:?}"),
        }
    }
}

impl FromStr for WarmUp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let steps = text.parse().map(Self::Steps).ok();
        let fraction = text.parse().ok().filter(|fraction| (0.0..1.0).contains(fraction));
        steps.or(fraction.map(Self::Fraction)).ok_or_else(|| {
            let why = "a warm-up must be a whole number of steps or a fraction of the run below 1";
            Error::setting("warm_up", text, why).fix("use for example 0.1 or 500")
        })
    }
}
