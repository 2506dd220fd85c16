//! Course: overview of the library, cells to start from, exercises and their checks.

mod check;
mod exercises;
mod guide;

pub use check::{Checked, check};
pub use exercises::{exercise, exercise_names};
pub use guide::{Guide, Scaffold, examples, help, scaffold};
