//! What a cell sees: the prelude, the verbs of plans and runs, the project's folder and ledger.

mod budget;
mod cells;
mod check;
mod ledger;
mod masks;
mod preview;
mod profile;
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
