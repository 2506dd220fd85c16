//! The interface of notebook cells.
//!
//! - What there is: [`help`], [`scaffold`] (the next cell), [`examples`] (the notebooks)
//! - What was done: [`runs`] lists the stored runs, [`last_run`] is the newest of this session,
//!   [`Report`] is a document on a run or a grid
//! - What it cost: [`ledger`], [`budget`], [`remaining`]
//! - In notebooks: [`by_profile`], [`parameter`], [`exercise`], [`check`]
//!
//! Training itself is a method of the settings: [`DpSgd::train`](crate::methods::DpSgd::train),
//! and `preview` costs nothing.
//!
//! ```
//! use epsilab::prelude::*;
//! println!("{}", lab::help()); // what there is, by task
//! let cell = lab::scaffold("dp-sgd")?; // code for the next cell
//! assert!(cell.code().contains("DpSgd::new()"));
//! # Ok::<(), Error>(())
//! ```

mod budget;
mod clipped_fractions;
mod course;
mod difference;
mod display;
mod dp_snip;
mod drawn_prior;
mod evaluation;
mod gradient_norms;
mod ledger;
mod notebook_parameters;
mod preview;
mod preview_and_train;
mod profile;
pub mod recipes;
mod record_tables;
mod report;
mod runs;
mod selections;
mod signal;
mod statement;
mod warnings;

pub use budget::{BudgetView, budget, remaining};
pub use course::{
    Checked, Guide, Scaffold, check, examples, exercise, exercise_names, help, scaffold,
};
pub use display::Show;
#[doc(hidden)]
pub use display::display_result;
pub use gradient_norms::gradient_norms;
pub use ledger::{LedgerView, ledger, verify_ledgers};
pub use notebook_parameters::{NotebookParameter, parameter};
pub use preview::Preview;
pub use preview_and_train::last_run;
pub use profile::by_profile;
pub use report::Report;
pub use runs::{
    RunList, RunSelector, check_resumes_same_run, checkpoint, remove_checkpoint, remove_run, runs,
};
pub use statement::Statement;
pub use warnings::{LearningWarning, WarningKind};

pub use crate::store::{RunState, RunSummary, home, open_ledger};

use crate::Result;
use crate::device::DeviceSpec;

/// Returns the default device of plans: the one that the variable `EPSILAB_DEVICE` names,
/// otherwise a CUDA GPU if one works here, otherwise the CPU.
///
/// # Errors
/// `Device` if the variable names a device that can't work here.
pub fn device() -> Result<DeviceSpec> {
    DeviceSpec::auto()
}
