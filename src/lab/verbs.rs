//! The verbs of a cell: `preview` and `train`, on every method.

use crate::Result;
use crate::data::Dataset;
use crate::lab::preview::Preview;
use crate::methods::{DpSgd, DpSsgd, NonPrivate, Plan};
use crate::nn::Model;
use crate::show::{self, Bundle, LiveRun};
use crate::store::{Store, home, run_id};
use crate::train::Run;

/// Writes the verbs of a method: its checked settings make the plan, the rest is shared.
macro_rules! verbs {
    ($method:ty) => {
        impl $method {
            /// What would happen, before any example is touched: noise, steps, epsilon, what
            /// is left of the data's budget, warnings. Costs nothing.
            ///
            /// # Errors
            /// As making the plan: settings out of range, a target that can't be reached; and
            /// if the data's ledger can't be trusted. A plan over budget is a warning.
            pub fn preview(&self, data: &Dataset) -> Result<Preview> {
                preview(&self.plan(data)?, data)
            }

            /// Trains a copy of `model` and shows it live. A finished run of the same settings is
            /// shown again instead, and costs nothing, unless `.fresh()` was said.
            ///
            /// # Errors
            /// As making the plan, and if model and data do not fit, the data's budget does not
            /// allow it or the project's folder can't be written: nothing is trained then. Kind
            /// `Ledger` if a stored run on this data is missing in the ledger: nothing is trained
            /// and nothing shown then.
            pub fn train(&self, model: &Model, data: &Dataset) -> Result<Run> {
                train(&self.plan(data)?, model, data)
            }
        }
    };
}

verbs!(DpSgd);
verbs!(DpSsgd);
verbs!(NonPrivate);

/// Looks at a plan and at what is on record about its data.
fn preview(plan: &Plan, data: &Dataset) -> Result<Preview> {
    Preview::of(plan, Store::at(home()).known_ledger(data)?.as_ref())
}

/// Shows the stored run of a plan or follows the plan.
fn train(plan: &Plan, model: &Model, data: &Dataset) -> Result<Run> {
    let store = Store::at(home());
    let id = run_id(plan, model, data)?;
    if !plan.is_fresh()
        && let Some(run) = store.known_run(&id, model, data)?
    {
        show::replay(&run);
        run.warnings().iter().for_each(|warning| show::display(&Bundle::prose(warning)));
        return Ok(run);
    }
    store.train(&id, plan, model, data, show::run_files, &mut LiveRun::new())
}
