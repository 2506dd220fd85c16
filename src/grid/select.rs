//! Private selection of one case of an experiment.

use super::Experiment;
use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::{Model, ModelFactory};
use crate::privacy::Trials;
use crate::show::LiveRun;
use crate::store::{RunStore, home};
use crate::train::Run;
use crate::{Error, ErrorKind, Result, runs};

impl Experiment {
    /// Chooses one case by private selection, instead of training all of them and comparing: of a
    /// random number of trials, each of a case drawn at random, only the best is released. The
    /// epsilon of the cases, which is the same for all, is that of all trials together.
    ///
    /// The model is that of seed 0. A finished selection of the same cases is returned again and
    /// costs nothing.
    ///
    /// # Guarantee
    /// That of [`Plan::best_of`].
    ///
    /// # Errors
    /// `Setting` for an experiment that can't be run, several seeds, a method without privacy, and
    /// data without a test part; errors of making the plan of any case and of training one.
    pub fn select(&self, trials: Trials, model: &dyn ModelFactory, data: &Dataset) -> Result<Run> {
        let model = model.model(0)?;
        let plan = self.selection(trials, &model, data)?;
        runs::load_or_train(&RunStore::open(home())?, &plan, &model, data, &mut LiveRun::new())
    }

    /// Returns the plan of [`select`](Self::select).
    ///
    /// # Errors
    /// `Setting` for several seeds, a method without privacy, and data without a test part; errors
    /// of making the plan of any case.
    pub fn selection(&self, trials: Trials, model: &Model, data: &Dataset) -> Result<Plan> {
        self.check()?;
        if self.seeds != 1 {
            let why = "each trial of a selection draws its own randomness";
            return Err(Error::setting("seeds", self.seeds, why).fix("leave out the seeds"));
        }
        if let Some(case) = self.cases.iter().find(|case| !case.adds_noise()) {
            let what = format!("private selection among cases of {case}");
            let why = "the method has no guarantee, so the selection would have none";
            return Err(Error::new(ErrorKind::Setting, what, why).fix("leave out the method"));
        }
        let plans = self.cases.iter().map(|case| case.plan(model, data, Some(trials)));
        Plan::best_of(trials, plans.collect::<Result<_>>()?)
    }
}
