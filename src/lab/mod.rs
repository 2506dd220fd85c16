//! What a cell sees: the prelude, the verbs of plans and runs, the project's folder and ledger.

mod budget;
mod cells;
mod check;
mod ledger;
mod masks;
mod preview;
mod profile;
mod record;
mod signal;
mod statement;
mod verbs;

pub use budget::{BudgetView, budget, remaining};
pub use check::{Checked, check};
pub use ledger::{LedgerView, ledger};
pub use preview::Preview;
pub use profile::{Profile, by_profile, profile};
pub use statement::Statement;

pub use crate::store::home;

use crate::Result;
use crate::device::Place;

/// The device that plans train on unless they name one: what the variable `EPSILAB_DEVICE` says, else
/// a CUDA card if one works here, else the CPU.
///
/// # Errors
/// `Device` if the variable names a device that can't work here.
pub fn device() -> Result<Place> {
    Place::best()
}
