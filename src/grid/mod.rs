//! Accuracy grids: the same training over pruning rates, dropping rates, epsilons and seeds.
//!
//! An [`Experiment`] is a list of [`Case`]s, each of which is trained with every seed; a [`Grid`]
//! makes one from axes. [`Experiment::run`] trains the runs, and a [`GridResult`] has mean and
//! standard deviation of the accuracy per case, the cost of all runs together, and the differences
//! that are within the noise of the seeds. [`Grid::select`] chooses one case privately.
//!
//! Finished runs are in the project's run store and never trained again, so a grid that was stopped
//! or killed continues where it was. Its result equals that of a grid without interruption: all
//! randomness comes from the seeds, and results are read from the store even right after training.

pub(crate) mod allocation;
mod axes;
pub(crate) mod case;
mod experiment;
mod export;
mod figures;
mod footer;
mod jobs;
mod lines;
mod live;
mod mask_kind;
mod observer;
pub(crate) mod queue;
mod redaction;
mod result;
pub(crate) mod scheduler;
mod seed_noise;
mod select;
mod table;
#[cfg(test)]
mod tests;

pub use axes::Grid;
pub use case::Case;
pub use experiment::Experiment;
pub(crate) use experiment::Randomness;
pub use export::{csv, markdown};
pub use mask_kind::MaskKind;
pub use observer::{GridObserver, GridProgress, NoopGridObserver};
pub use redaction::redact_hashes;
pub use result::{CellResult, CellRun, GridResult, GridRow, PairedDifference};
