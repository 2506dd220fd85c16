//! The training loop: a plan, a model and data become a run.
//!
//! The loop depends on no method and draws no figure: a [`Mechanism`](crate::methods::Mechanism)
//! computes the gradient of each step, and an [`Observer`] is notified of the progress.

mod attempt_id;
mod badge;
mod charge;
pub(crate) mod checkpoint;
mod checkpoint_writer;
mod curve;
mod divergence;
mod fit;
#[doc(hidden)]
pub mod interrupt;
mod meter;
mod observer;
mod run;
mod run_tracker;
mod seeds;
pub(crate) mod start;
mod train_state;
mod training_loop;
mod trials;
mod validation;

pub(crate) use attempt_id::{is_attempt_of, new_attempt_id as new_attempt, run_id_of_attempt};
pub(crate) use charge::{closing_entry, planned_entry};
pub use checkpoint::{CheckpointHeader, CheckpointRecord, Resumption};
pub use curve::{Curve, CurvePoint};
pub use divergence::Divergence;
pub use fit::fit;
pub(crate) use fit::{Claim, Fit};
pub(crate) use interrupt::InterruptGuard;
pub use observer::{NoopObserver, Observer, Progress};
pub(crate) use run::RunSummaryLine;
pub use run::{Ending, LedgerEntryRef, Run, RunRecord};
pub use seeds::Seeds;
pub(crate) use trials::fit_private_selection;
pub(crate) use validation::validate_inputs;
