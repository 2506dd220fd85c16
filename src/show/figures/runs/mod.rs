//! Figures of several runs.
//!
//! Accuracies are those on the test part. The best of several runs was chosen by its test accuracy,
//! which overstates what its settings reach, so no figure calls a run the best.

mod compare;
mod epsilon;
mod point;

pub use compare::compare_runs;
pub use epsilon::{accuracy_over_epsilon, pareto};
pub use point::RunPoint;
