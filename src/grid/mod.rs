//! Accuracy grids: the same training over pruning rates, dropping rates, epsilons and seeds.
//!
//! A [`Grid`] has the axes, [`Grid::run`] trains the runs, and a [`GridResult`] has mean and
//! standard deviation of the accuracy per cell, the cost of all runs together, and the differences
//! that are within the noise of the seeds. [`Grid::select`] chooses one cell privately.
//!
//! Finished runs are in the project's run store and never trained again, so a grid that was stopped
//! or killed continues where it was. Its result equals that of a grid without interruption: all
//! randomness comes from the seeds, and results are read from the store even right after training.

mod axes;
mod draw;
mod footer;
mod jobs;
mod live;
mod mask_kind;
mod method;
mod noise;
mod observe;
mod public;
pub(crate) mod queue;
mod result;
pub(crate) mod run;
mod select;
pub(crate) mod split;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub use axes::Grid;
pub use mask_kind::MaskKind;
pub use method::GridMethod;
pub use observe::{GridObserver, GridProgress, Quiet};
pub use result::{CellResult, CellRun, GridResult, Row};
pub use write::{csv, markdown, rows};
