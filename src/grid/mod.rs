//! Accuracy grids: the same training over pruning rates, dropping rates, epsilons and seeds.
//!
//! A [`Grid`] names the axes, [`Grid::run`] makes every run of them and a [`GridResult`] says what
//! came out: mean and spread of the accuracy per cell, what the runs cost together, and which
//! differences are only noise of the seeds.
//!
//! Every run goes through the project's run store: one that is finished is never trained again, so
//! a grid that was stopped or killed goes on where it was. Its result is the one that an
//! undisturbed grid would have, number by number: all randomness comes from the seeds, and results
//! are read from the store also where they were trained just now.

mod axes;
mod draw;
mod footer;
mod live;
mod mask_kind;
mod method;
mod noise;
mod observe;
mod public;
mod result;
mod run;
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
