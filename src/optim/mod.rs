//! Optimizers, learning-rate schedules and averages of parameters: what happens to a gradient after
//! its release.
//!
//! An [`Optimizer`] names an update rule, an [`OptimizerState`] takes its steps. A
//! [`LearningRate`] is a schedule, and [`LearningRateScheduler`] has its values over a run. An
//! [`Average`] says which mean of a run's parameters is wanted, and an [`AverageState`] computes
//! it. All states are data that can be listed and restored.
//!
//! ```
//! use epsilab::engine::{Batch, ClipRule, Executor, FusedExecutor};
//! use epsilab::optim::{Optimizer, StepSettings};
//! # use epsilab::prelude::*;
//! # fn main() -> Result<()> {
//! # let data = data::glyphs_with(20, 0, 1)?;
//! # let mut network = models::mlp(&data, &[4]).build()?.network().clone();
//! let (executor, rule) = (FusedExecutor::default(), ClipRule::flat(1.0));
//! let mut optimizer = Optimizer::adamw().init();
//! let batch = Batch::from_examples(data.train(), &[0, 1, 2])?;
//! let gradient = executor.clipped_sum(&network, &batch, &rule)?.sum;
//! network = optimizer.step(&network, &gradient, &StepSettings::new(0.01))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantee
//! Everything here is post-processing of released gradients, at no cost in privacy, as long as
//! settings are public and [`StepSettings`] holds nothing that was computed from the data without
//! noise. A schedule that [looks at a loss](LearningRate::private_input) is the exception: losses
//! are not released.

mod average;
mod elementwise;
mod learning_rate;
mod number;
mod optimizer;
mod rules;
mod state;
mod state_values;
mod step_settings;
#[cfg(test)]
mod tests;

pub use average::{Average, AverageState};
pub use learning_rate::{
    CycleMode, CycledMomentum, LearningRate, LearningRateScheduler, RateAndMomentum, WarmUp,
};
pub use optimizer::{AdamParams, Optimizer};
pub use state::OptimizerState;
pub use state_values::StateValues;
pub use step_settings::StepSettings;
