//! [`LearningRate`]: learning-rate schedules, with PyTorch's definitions.

mod scheduler;
mod text;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

pub use scheduler::{LearningRateScheduler, RateAndMomentum, WarmUp};

/// A learning-rate schedule: the factor on the plan's learning rate, its peak, in every step.
///
/// [`LearningRateScheduler`] has its values over a run, with an optional warm-up. The factors equal
/// those of PyTorch's `lr_scheduler`; each variant names the class. *Per step* means that the
/// scheduler advances after every step, over T steps. *Per epoch* means that it counts epochs: step
/// t is in epoch t · sampling rate, and the factor changes at its first step in a new epoch.
///
/// The text forms are `constant`, `linear[:END]`, `exponential:GAMMA`, `polynomial:POWER`,
/// `step:EVERY[:GAMMA]`, `multi-step:EPOCH,EPOCH,…[:GAMMA]`, `piecewise:EPOCHSxFACTOR,…`,
/// `cosine[:END]`, `cosine-restarts:PERIOD[:GROWTH[:END]]`, `cyclic:BASE:UP[:DOWN]`,
/// `one-cycle[:RISE]` and `plateau[:FACTOR[:PATIENCE]]`. Options follow by name:
/// `cyclic:0.1:50:triangular2`, `cyclic:0.1:50:exp-range=0.99`, `one-cycle:linear`,
/// `one-cycle:divisors=25,1e4`, `plateau:threshold=1e-3`; both cycles take `momentum=0.85-0.95`.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::optim::LearningRateScheduler;
/// let cosine: LearningRate = "cosine".parse()?;
/// assert_eq!(cosine, LearningRate::Cosine { end_factor: 0.0 });
/// // Its values in a run of 100 steps, 20 in an epoch, with the largest rate 4.
/// let rates = LearningRateScheduler::new(&cosine, None, 4.0, 100, 20.0)?;
/// assert_eq!(rates.at(0).learning_rate, 4.0);
/// assert!((rates.at(50).learning_rate - 2.0).abs() < 1e-9);
/// let method = DpSgd::new().noise_multiplier(1.0).learning_rate_schedule(cosine);
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// A public schedule is part of the post-processing and costs no privacy. A schedule that
/// [looks at](Self::private_input) a loss is not public: no epsilon covers what it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LearningRate {
    /// The peak in every step.
    #[default]
    Constant,
    /// From 1 down to `end_factor`: 1 + (end_factor - 1) t/T, per step (`LinearLR`).
    Linear {
        /// The factor after the last step, at least 0.
        #[serde(default)]
        end_factor: f64,
    },
    /// gamma^epoch, per epoch (`ExponentialLR`).
    Exponential {
        /// Factor per epoch, above 0.
        gamma: f64,
    },
    /// (1 - t/T)^power, per step (`PolynomialLR`).
    Polynomial {
        /// The exponent, above 0.
        power: f64,
    },
    /// gamma^floor(epoch / every), per epoch (`StepLR`).
    Step {
        /// Epochs between two changes, above 0.
        every: f64,
        /// Factor of each change, above 0.
        gamma: f64,
    },
    /// gamma^(number of milestones reached), per epoch (`MultiStepLR`).
    MultiStep {
        /// Epochs at which the rate changes, in ascending order.
        milestones: Vec<f64>,
        /// Factor of each change, above 0.
        gamma: f64,
    },
    /// A given factor in each phase, per epoch. The last factor applies to all later epochs.
    Piecewise {
        /// Epochs of each phase, at least 1, and its factor, above 0.
        phases: Vec<(u64, f64)>,
    },
    /// Half a cosine wave from 1 down to `end_factor`: end + (1 - end)(1 + cos(π t/T))/2, per step
    /// (`CosineAnnealingLR` with `T_max` = T).
    Cosine {
        /// The factor after the last step, at least 0.
        #[serde(default)]
        end_factor: f64,
    },
    /// Half cosine waves one after the other, in fractions of epochs: a step is at t · sampling
    /// rate (`CosineAnnealingWarmRestarts`, stepped after every batch).
    CosineRestarts {
        /// Epochs of the first wave, above 0.
        period: f64,
        /// Each wave is this many times as long as the one before.
        growth: u32,
        /// The factor at the end of a wave, at least 0.
        #[serde(default)]
        end_factor: f64,
    },
    /// Triangles between `base_factor` and 1, per step (`CyclicLR`).
    Cyclic {
        /// The factor at the feet of the triangles, at least 0.
        base_factor: f64,
        /// Steps from foot to peak, at least 1.
        up: u64,
        /// Steps from peak to foot, at least 1.
        down: u64,
        /// Change of the triangles with time.
        #[serde(default, skip_serializing_if = "CycleMode::is_default")]
        mode: CycleMode,
        /// Cycle of the momentum: high at the feet, low at the peaks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        momentum: Option<CycledMomentum>,
    },
    /// Rise to the peak, then fall to almost zero, per step (`OneCycleLR`).
    OneCycle {
        /// Fraction of the run in which the rate rises, in [0, 1]; usually 0.3.
        rise: f64,
        /// The factor begins at 1 / `initial_divisor`, usually 25.
        initial_divisor: f64,
        /// The factor ends at 1 / (`initial_divisor` · `final_divisor`), usually 1e4.
        final_divisor: f64,
        /// Whether the rate follows straight lines in place of half cosine waves.
        #[serde(default)]
        linear: bool,
        /// Cycle of the momentum: from high to low, and back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        momentum: Option<CycledMomentum>,
    },
    /// Reduction by `factor` when a loss has not become smaller for more than `patience`
    /// evaluations (`ReduceLROnPlateau`). The loss is computed from examples without noise: see
    /// [`private_input`](LearningRate::private_input).
    Plateau {
        /// Factor of each reduction, in (0, 1).
        factor: f64,
        /// Evaluations without improvement that are tolerated.
        patience: u64,
        /// Relative improvement of the loss that counts, in [0, 1).
        threshold: f64,
    },
}

/// Change of the triangles of a cyclic schedule with time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CycleMode {
    /// All have the same height.
    #[default]
    Triangular,
    /// Each is half as high as the one before.
    Triangular2,
    /// The height is multiplied by gamma in every step.
    ExpRange {
        /// Factor per step, above 0.
        gamma: f64,
    },
}

impl CycleMode {
    fn is_default(&self) -> bool {
        *self == Self::Triangular
    }
}

/// The range of a momentum that goes down while the learning rate goes up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CycledMomentum {
    /// Momentum at the peak of the learning rate; 0.85 is usual.
    pub low: f64,
    /// Momentum where the learning rate is lowest; 0.95 is usual.
    pub high: f64,
}

impl LearningRate {
    /// Creates PyTorch's one-cycle schedule, with its usual constants and the optimizer's own
    /// momentum.
    pub fn one_cycle() -> Self {
        Self::OneCycle {
            rise: 0.3,
            initial_divisor: 25.0,
            final_divisor: 1e4,
            linear: false,
            momentum: None,
        }
    }

    /// Returns the quantity computed from examples without noise that the schedule looks at, as a
    /// phrase. `None` for a public schedule. A private plan must refuse a schedule that looks at
    /// something.
    pub fn private_input(&self) -> Option<&'static str> {
        matches!(self, Self::Plateau { .. }).then_some("a loss that has no noise")
    }

    /// Returns whether the schedule counts epochs or evaluations, so that it depends on the batch
    /// size of a run with given steps.
    pub(crate) fn is_epoch_based(&self) -> bool {
        match self {
            Self::Exponential { .. }
            | Self::Step { .. }
            | Self::MultiStep { .. }
            | Self::Piecewise { .. }
            | Self::CosineRestarts { .. }
            | Self::Plateau { .. } => true,
            Self::Constant
            | Self::Linear { .. }
            | Self::Polynomial { .. }
            | Self::Cosine { .. }
            | Self::Cyclic { .. }
            | Self::OneCycle { .. } => false,
        }
    }

    /// Returns the schedule if all its parameters are in range.
    ///
    /// # Errors
    /// `Setting` for a parameter that is out of the range its documentation gives.
    pub fn check(&self) -> Result<&Self> {
        match *self {
            Self::Constant => {}
            Self::Linear { end_factor } | Self::Cosine { end_factor } => {
                at_least(0.0, "end_factor", end_factor)?;
            }
            Self::Exponential { gamma } => above_zero("gamma", gamma)?,
            Self::Polynomial { power } => above_zero("power", power)?,
            Self::Step { every, gamma } => {
                above_zero("every", every)?;
                above_zero("gamma", gamma)?;
            }
            Self::MultiStep { ref milestones, gamma } => {
                above_zero("gamma", gamma)?;
                milestones.iter().try_for_each(|epoch| above_zero("milestone", *epoch))?;
                if milestones.is_empty() || !milestones.is_sorted() {
                    let given = format!("{milestones:?}");
                    let why = "a schedule of steps needs epochs in ascending order";
                    return Err(Error::setting("milestones", given, why)
                        .fix("use for example multi-step:30,60"));
                }
            }
            Self::Piecewise { ref phases } => {
                for (_, factor) in phases {
                    above_zero("factor", *factor)?;
                }
                if phases.is_empty() || phases.iter().any(|(epochs, _)| *epochs == 0) {
                    let why = "a schedule needs at least one phase, each of one epoch or more";
                    return Err(Error::setting("phases", format!("{phases:?}"), why)
                        .fix("use for example piecewise:10x1,5x0.8"));
                }
            }
            Self::CosineRestarts { period, growth, end_factor } => {
                above_zero("period", period)?;
                at_least(1.0, "growth", growth.into())?;
                at_least(0.0, "end_factor", end_factor)?;
            }
            Self::Cyclic { base_factor, up, down, mode, momentum } => {
                at_least(0.0, "base_factor", base_factor)?;
                at_least(1.0, "up", up as f64)?;
                at_least(1.0, "down", down as f64)?;
                if let CycleMode::ExpRange { gamma } = mode {
                    above_zero("gamma", gamma)?;
                }
                momentum.map_or(Ok(()), CycledMomentum::check)?;
            }
            Self::OneCycle { rise, initial_divisor, final_divisor, momentum, .. } => {
                within("rise", rise, (0.0..=1.0).contains(&rise), "[0, 1]")?;
                above_zero("initial_divisor", initial_divisor)?;
                above_zero("final_divisor", final_divisor)?;
                momentum.map_or(Ok(()), CycledMomentum::check)?;
            }
            Self::Plateau { factor, threshold, .. } => {
                within("factor", factor, factor > 0.0 && factor < 1.0, "(0, 1)")?;
                within("threshold", threshold, (0.0..1.0).contains(&threshold), "[0, 1)")?;
            }
        }
        Ok(self)
    }
}

impl CycledMomentum {
    fn check(self) -> Result<()> {
        let ordered = 0.0 <= self.low && self.low <= self.high && self.high < 1.0;
        let given = format!("{}-{}", self.low, self.high);
        if ordered {
            Ok(())
        } else {
            Err(Error::setting("momentum", given, "both ends must be in [0, 1), the lower first")
                .fix("use for example momentum=0.85-0.95"))
        }
    }
}

fn above_zero(name: &str, value: f64) -> Result<()> {
    within(name, value, value > 0.0 && value.is_finite(), "(0, infinity)")
}

fn at_least(bound: f64, name: &str, value: f64) -> Result<()> {
    within(name, value, value >= bound && value.is_finite(), &format!("[{bound}, infinity)"))
}

fn within(name: &str, value: f64, is_within: bool, range: &str) -> Result<()> {
    if is_within {
        Ok(())
    } else {
        let why = format!("this parameter of a learning-rate schedule must be in {range}");
        Err(Error::setting(name, value, why).fix("use for example cosine or step:30:0.1"))
    }
}
