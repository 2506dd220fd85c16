//! `preview` and `train` of every method.

use crate::Result;
use crate::data::Dataset;
use crate::lab::by_profile;
use crate::lab::preview::Preview;
use crate::methods::{Builder, MethodSettings, Plan, PrivateSelection};
use crate::nn::Model;
use crate::runs;
use crate::show::{self, LiveRun, MimeBundle};
use crate::store::{RunStore, home};
use crate::train::{Observer, Run};
use std::sync::{Mutex, PoisonError};

impl<S: MethodSettings> Builder<S> {
    /// Previews the plan before anything is trained: noise, steps, epsilon, the ledger that is
    /// charged, what is spent of the budget, warnings. Costs nothing.
    ///
    /// # Errors
    /// `Setting` for settings out of range; `Accounting` if a target can't be reached; `Ledger` if
    /// the data's ledger can't be trusted. A plan over budget is a warning.
    pub fn preview(&self, data: &Dataset) -> Result<Preview> {
        self.plan(data)?.preview(data)
    }

    /// Trains a copy of `model` with a live display. A finished run of the same settings is shown
    /// instead and costs nothing, unless `.fresh()` is set.
    ///
    /// # Errors
    /// `Setting` for settings out of range; `Accounting` if a target can't be reached; `Setting` or
    /// `Model` if method, model and data do not belong together; `Device` if the device can't work;
    /// `Ledger` if the budget does not allow the run, the ledger can't be trusted, or a stored run
    /// on this data is missing in it; `Io` if the project's folder can't be written. Nothing is
    /// trained then. `Model` also if the parameters stop being finite: the whole plan stays
    /// charged.
    pub fn train(&self, model: &Model, data: &Dataset) -> Result<Run> {
        self.plan(data)?.train(model, data)
    }
}

impl PrivateSelection {
    /// Previews the plan before any trial: noise, steps, the epsilon of all trials together, the
    /// ledger that is charged. Costs nothing.
    ///
    /// # Errors
    /// `Setting` for settings out of range; `Accounting` if a target can't be reached; `Ledger` if
    /// the data's ledger can't be trusted.
    pub fn preview(&self, data: &Dataset) -> Result<Preview> {
        self.plan(data)?.preview(data)
    }

    /// Runs the trials and returns the best one. A finished selection of the same settings is shown
    /// instead and costs nothing.
    ///
    /// # Errors
    /// `Setting` for settings out of range or data without a test part; `Accounting` if a target
    /// can't be reached; errors of training a trial, as those of a method. `Setting` also if it was
    /// stopped: nothing is released then, and the whole selection stays charged.
    pub fn train(&self, model: &Model, data: &Dataset) -> Result<Run> {
        self.plan(data)?.train(model, data)
    }
}

impl Plan {
    /// Previews the plan before anything is trained, with the ledger of its data. Costs nothing.
    ///
    /// # Errors
    /// `Accounting` if no finite epsilon covers the plan; `Ledger` if the data's ledger can't be
    /// trusted.
    pub fn preview(&self, data: &Dataset) -> Result<Preview> {
        Preview::with_ledger(self, &RunStore::open(home())?, data)
    }

    /// Trains a copy of `model` as the plan says, with a live display; the run is charged and
    /// stored in this project. A finished run of the same plan is shown instead and costs nothing,
    /// unless the plan is [`fresh`](Self::fresh).
    ///
    /// # Errors
    /// `Setting` or `Model` if plan, model and data do not belong together; `Device` if the device
    /// can't work; `Ledger` if the budget does not allow the run, the ledger can't be trusted, or a
    /// stored run on this data is missing in it; `Io` if the project's folder can't be written.
    /// Nothing is trained then. `Model` also if the parameters stop being finite: the whole plan
    /// stays charged.
    pub fn train(&self, model: &Model, data: &Dataset) -> Result<Run> {
        let run = self.train_with(model, data, &mut LiveRun::new())?;
        if run.is_restored() {
            show::replay(&run);
            run.warnings().iter().for_each(|text| show::display_note(&MimeBundle::prose(text)));
        }
        // Runs of the tiny profile are too short to learn anything.
        if by_profile(false, true, true) {
            let warnings = run.learning_warnings(data);
            warnings.iter().for_each(|warning| show::display_note(&warning.bundle()));
        }
        set_last_run(&run);
        Ok(run)
    }

    /// Trains like [`train`](Self::train), but shows nothing: `observer` is notified of the
    /// progress.
    ///
    /// # Errors
    /// `Setting` or `Model` if plan, model and data do not belong together; `Device` if the device
    /// can't work; `Ledger` if the budget does not allow the run, the ledger can't be trusted, or a
    /// stored run on this data is missing in it; `Io` if the project's folder can't be written.
    /// Nothing is trained then. `Model` also if the parameters stop being finite: the whole plan
    /// stays charged.
    pub fn train_with(
        &self,
        model: &Model,
        data: &Dataset,
        observer: &mut dyn Observer,
    ) -> Result<Run> {
        runs::load_or_train(&RunStore::open(home())?, self, model, data, observer)
    }
}

/// Returns the run that `.train(…)` made or showed last in this notebook, also if its cell failed
/// afterwards.
pub fn last_run() -> Option<Run> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

static LAST: Mutex<Option<Run>> = Mutex::new(None);

/// Records a run for [`last_run`].
fn set_last_run(run: &Run) {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(run.clone());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::NonPrivate;
    use crate::nn::models;
    use crate::train::NoopObserver;

    #[test]
    fn the_last_run_is_kept() -> Result<()> {
        let data = data::glyphs_with(40, 0, 85)?;
        let model = models::linear(&data).seed(1).build()?;
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let plan = NonPrivate::new().batch_size(10).steps(1).plan(&data)?;
        let run = runs::train_as(&store, "last", &plan, &model, &data, &mut NoopObserver)?;
        set_last_run(&run);
        assert_eq!(last_run().map(|run| run.record().id.clone()).as_deref(), Some("last"));
        Ok(())
    }
}
