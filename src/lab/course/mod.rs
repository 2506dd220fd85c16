//! Course: overview of the library, cells to start from, exercises and their checks. Begin with
//! `help` in `guide`. `exercises` has the exercises of the notebooks with their answers, and
//! `check` compares an answer with the right one.

mod check;
mod exercises;
mod guide;

pub use check::{Checked, check};
pub use exercises::{exercise, exercise_names};
pub use guide::{Guide, Scaffold, examples, help, scaffold};
