//! The training loop: a plan, a model and data become a run.
//!
//! The loop depends on no method and draws no figure: a [`Mechanism`](crate::methods::Mechanism)
//! computes the gradient of each step, and an [`Observer`] is notified of the progress.

mod attempt;
mod badge;
mod charge;
mod check;
pub(crate) mod checkpoint;
mod course;
mod curve;
mod divergence;
mod fit;
#[doc(hidden)]
pub mod interrupt;
mod meter;
mod observe;
mod run;
mod seeds;
pub(crate) mod start;
mod state;
mod steps;
mod trials;
mod writer;

pub(crate) use attempt::{is_attempt_of, new_attempt_id as new_attempt, run_id_of_attempt};
pub(crate) use charge::{closing_entry, planned_entry};
pub(crate) use check::validate_inputs;
pub use checkpoint::{CheckpointHeader, CheckpointRecord, Resumption};
pub use curve::{Curve, CurvePoint};
pub use divergence::Divergence;
pub use fit::fit;
pub(crate) use fit::{Claim, Fit};
pub(crate) use interrupt::InterruptGuard;
pub use observe::{NoopObserver, Observer, Progress};
pub(crate) use run::RunSummaryLine;
pub use run::{Ending, LedgerEntryRef, Run, RunRecord};
pub use seeds::Seeds;
pub(crate) use trials::fit_private_selection;
