//! Tuning of learning rate and clip norm: the procedure of Kurakin et al. (2022), section 3.3.
//!
//! [`Tuning`] has the settings to try, and [`TuningResult`] what was found, step by step, with the
//! cost of each step. [`PrivateSelection`](crate::methods::PrivateSelection) is the way to choose
//! settings on private data at a bounded cost.

mod cost;
mod heat_map;
mod live;
mod procedure;
mod result;
mod settings;
#[cfg(test)]
mod tests;

pub use result::{Trial, TuningResult, TuningStep};
pub use settings::Tuning;
