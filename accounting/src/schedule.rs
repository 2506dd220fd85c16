//! Schedules: public settings that change from epoch to epoch or from step to step.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};
use kind::ScheduleKind;
pub(crate) use kind::{ChangeFrequency, SchedulePosition};

mod kind;

/// Declares a schedule: its constructors, text and JSON are those of its shape.
macro_rules! schedule {
    ($(#[$doc:meta])* $type:ident: $rated:literal, power $power:literal; $value:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(ScheduleKind);

        impl $type {
            /// Creates the schedule without change. Text form `constant`.
            pub fn constant() -> Self {
                Self(ScheduleKind::Constant)
            }

            #[doc = concat!("Creates a schedule: the ", $rated, " is multiplied by `rate` after every epoch.")]
            /// Text form `linear:RATE`.
            pub fn linear(rate: f64) -> Self {
                Self(ScheduleKind::Linear { rate })
            }

            #[doc = concat!("Creates a schedule: the ", $rated, " is divided by 1 + `rate` e in epoch e.")]
            /// Text form `time:RATE`.
            pub fn time(rate: f64) -> Self {
                Self(ScheduleKind::Time { rate })
            }

            #[doc = concat!("Creates a schedule: the ", $rated, " is multiplied by `rate` after each `every` epochs.")]
            /// Text form `step:RATE:EVERY`.
            pub fn step(rate: f64, every: u64) -> Self {
                Self(ScheduleKind::Step { rate, every })
            }

            #[doc = concat!("Creates a schedule: the ", $rated, " is multiplied by exp(-`rate`) after every epoch.")]
            /// Text form `exp:RATE`.
            pub fn exponential(rate: f64) -> Self {
                Self(ScheduleKind::Exponential { rate })
            }

            #[doc = concat!("Creates a schedule: the ", $value, " is `ratio`^(t / T) times its initial value in step")]
            /// t of T (Du, Li, Chen, Chen, Hong: Dynamic Differential-Privacy Preserving SGD,
            /// 2021). Text form `decay:RATIO`.
            pub fn decay(ratio: f64) -> Self {
                Self(ScheduleKind::Decay { ratio })
            }

            #[doc = concat!("Creates a schedule: a factor on the ", $value, " for each phase, as (epochs, factor).")]
            /// The last factor applies to all later epochs. Text form `piecewise:10x1,5x0.8`.
            pub fn piecewise(phases: impl Into<Vec<(u64, f64)>>) -> Self {
                Self(ScheduleKind::Piecewise { phases: phases.into() })
            }

            /// Returns whether the schedule has the form `constant`. One of another form may be
            /// constant too, as `linear:1`.
            pub fn is_constant(&self) -> bool {
                self.pace() == ChangeFrequency::Never
            }

            /// Returns the schedule if all its parameters are in range.
            ///
            /// # Errors
            /// Kind `Setting` for a rate, ratio or factor that is not finite and above 0, a step or
            /// phase of 0 epochs, or an empty list of phases.
            pub fn check(&self) -> Result<&Self> {
                self.0.check().map(|()| self)
            }

            pub(crate) fn pace(&self) -> ChangeFrequency {
                self.0.change_frequency()
            }

            /// Returns whether the schedule changes with epochs, so that it depends on the
            /// sampling rate.
            pub fn is_epoch_based(&self) -> bool {
                self.pace() == ChangeFrequency::Epoch
            }

            /// Computes the factor on the initial value.
            pub(crate) fn factor(&self, at: SchedulePosition) -> f64 {
                self.0.factor(at, $power)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $type {
            type Err = Error;

            /// Parses the text form that `Display` writes.
            fn from_str(text: &str) -> Result<Self> {
                text.parse().map(Self)
            }
        }
    };
}

schedule!(
    /// The noise multiplier over a run, relative to its initial value sigma_0.
    ///
    /// Rates act on the *variance*: `linear:0.99` is sigma_e² = 0.99^e sigma_0² in epoch e. These
    /// are the forms of Auto DP-SGD, Table 1; only this reading reproduces its published sums. The
    /// ratio of `decay` and the factors of `piecewise` act on the noise multiplier.
    ///
    /// ```
    /// use epsilab_accounting::{
    ///     ClipSchedule, NoiseMultiplier, NoiseSchedule, SamplingRate, Stages,
    /// };
    /// let noise: NoiseSchedule = "linear:0.81".parse()?;
    /// assert_eq!(noise, NoiseSchedule::linear(0.81));
    /// // 30 steps, 10 in an epoch.
    /// let (first, rate) = (NoiseMultiplier(2.0), SamplingRate(0.1));
    /// let stages = Stages::from_schedules(&noise, &ClipSchedule::constant(), first, rate, 30)?;
    /// assert!((stages.at(10).noise_multiplier - 1.8).abs() < 1e-9);
    /// # Ok::<(), epsilab_accounting::Error>(())
    /// ```
    ///
    /// # Guarantee
    /// A schedule is public. It is fixed before training and must not depend on the data, that is,
    /// neither on examples nor on losses or gradients that were not released. Every step is then a
    /// subsampled Gaussian mechanism with a known noise multiplier; [`Stages`](super::Stages) says
    /// which. With a decreasing schedule later steps cost more.
    NoiseSchedule: "noise variance", power 2.0; "noise multiplier"
);

schedule!(
    /// The bound on one example's contribution over a run, relative to its initial value C_0.
    ///
    /// Rates act on the bound itself: `linear:0.99` is C_e = 0.99^e C_0 in epoch e. `decay` is the
    /// decay of Du et al., C_t = ratio^(t / T) C_0.
    ///
    /// ```
    /// use epsilab_accounting::{
    ///     ClipSchedule, NoiseMultiplier, NoiseSchedule, SamplingRate, Stages,
    /// };
    /// let clip: ClipSchedule = "linear:0.9".parse()?;
    /// assert_eq!(clip, ClipSchedule::linear(0.9));
    /// // 30 steps, 10 in an epoch.
    /// let (noise, rate) = (NoiseMultiplier(2.0), SamplingRate(0.1));
    /// let stages = Stages::from_schedules(&NoiseSchedule::constant(), &clip, noise, rate, 30)?;
    /// assert!((stages.at(10).clip_scale - 0.9).abs() < 1e-9);
    /// assert_eq!(stages.at(10).noise_multiplier, 2.0);
    /// # Ok::<(), epsilab_accounting::Error>(())
    /// ```
    ///
    /// # Guarantee
    /// The noise is the noise multiplier times the bound of the same step, so the bound cancels in
    /// the privacy loss and epsilon does not depend on this schedule. It is public, and must not
    /// depend on the data, for the reason given at [`NoiseSchedule`].
    ClipSchedule: "clip norm", power 1.0; "clip norm"
);

#[cfg(test)]
mod tests;
