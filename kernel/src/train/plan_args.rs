//! The plan of a run, from options.

use std::path::Path;

use epsilab::data::{Dataset, Population};
use epsilab::grid::Case;
use epsilab::mask::PrePrune;
use epsilab::methods::{Method, Plan, PrivateSelection};
use epsilab::nn::Model;
use epsilab::privacy::Trials;
use epsilab::{Error, Result, program};

use super::mask::MaskArgs;
use super::settings::{SettingArgs, exclusive_options_error};

/// The options that a plan file replaces.
#[derive(clap::Args, Clone, Debug)]
pub struct PlanArgs {
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    mask: MaskArgs,
    #[command(flatten)]
    selection: SelectionArgs,
}

/// Options of a private selection.
#[derive(clap::Args, Clone, Debug, Default)]
struct SelectionArgs {
    /// Private selection: run a random number of trials, MEAN on average, and release only the
    /// best; epsilon is for all of them together. Also logarithmic:MEAN, poisson:MEAN [default: one
    /// run]
    #[arg(long, value_name = "MEAN")]
    best_of: Option<String>,
    /// Learning rates that trials of --best-of choose from: 0.5,1,2
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    learning_rates: Vec<f64>,
    /// Clip norms that trials of --best-of choose from: 0.1,1
    #[arg(long, value_name = "NORMS", value_delimiter = ',')]
    clips: Vec<f64>,
}

impl PlanArgs {
    /// Reads the plan of a file, which replaces these options.
    ///
    /// # Errors
    /// As [`Plan::load`]; kind `Setting` if one of these options is given.
    pub fn load(&self, file: &Path) -> Result<Plan> {
        let given = self.settings.given().into_iter().chain(self.mask.given());
        if let Some(option) = given.chain(self.selection.given()).next() {
            let why = format!("the plan {} already sets this option", file.display());
            return Err(Error::setting(&option, "given", why).fix(format!(
                "leave out {option}, or leave out --plan; to change the plan, edit its file or \
                 write another by --save-plan"
            )));
        }
        Plan::load(file)
    }

    /// Returns the method with its settings, except mask and dropping.
    ///
    /// # Errors
    /// As [`plan_for_data`](Self::plan_for_data).
    pub fn build_method(&self) -> Result<Box<dyn Method>> {
        self.method_for(None)
    }

    /// Returns the method, as [`build_method`](Self::build_method), whose default batch size is
    /// that for this number of training examples.
    fn method_for(&self, examples: Option<usize>) -> Result<Box<dyn Method>> {
        let is_sparse = self.mask.given().next().is_some();
        self.settings.method(if is_sparse { "dp-ssgd" } else { "dp-sgd" }, examples)
    }

    /// Returns a note on the default batch size where it is smaller than usual, because there are
    /// few examples.
    pub fn small_batch_note(&self, examples: usize) -> Option<String> {
        self.settings.small_batch_note(examples)
    }

    /// Returns the text of a setting as it was typed, if it was given.
    pub fn text(&self, id: &str) -> Option<&str> {
        self.settings.text(id)
    }

    /// Returns the commands' defaults that decide the plan for this number of examples, in words.
    ///
    /// # Errors
    /// As [`build_method`](Self::build_method).
    pub fn describe_preset(&self, examples: usize) -> Result<Option<String>> {
        let method = self.build_method()?;
        Ok(self.settings.describe_preset(method.descriptor(), Some(examples)))
    }

    /// Checks everything that needs no data.
    ///
    /// # Errors
    /// As [`plan_for_data`](Self::plan_for_data).
    pub fn check(&self) -> Result<()> {
        let method = self.build_method()?;
        self.mask.check(method.descriptor())?;
        self.selection.trials(&self.settings).map(drop)
    }

    /// Returns the plan for these data.
    ///
    /// # Errors
    /// Kind `Setting` for values out of range and options that contradict each other or that the
    /// method does not have; kind `Accounting` if no noise multiplier reaches epsilon.
    pub fn plan_for_data(&self, model: &Model, data: &Dataset) -> Result<Plan> {
        self.check()?;
        self.plan_with(self.mask.pre_prune(model, data)?, &data.into())
    }

    /// Returns the plan for this number of examples, without model and data.
    ///
    /// # Errors
    /// As [`plan_for_data`](Self::plan_for_data); kind `Setting` for a mask that is made from the
    /// data.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        self.check()?;
        self.plan_with(self.mask.within_run()?, population)
    }

    /// Returns the case of an experiment with these options, on this number of training examples
    /// if it is known.
    ///
    /// # Errors
    /// As [`plan_for_data`](Self::plan_for_data).
    pub fn case(&self, examples: Option<usize>) -> Result<Case> {
        self.check()?;
        let mut method = self.method_for(examples)?;
        if let Some(dropping) = self.mask.dropping()? {
            method.settings_mut().sparsity.get_or_insert_default().dropping = Some(dropping);
        }
        self.settings.set_execution(&mut *method)?;
        let selection = self.selection.build_selection(&*method, &self.settings)?;
        let case = Case::from(method);
        let case = self.mask.kind()?.iter().fold(case, |case, &(kind, rate)| case.mask(kind, rate));
        Ok(selection.into_iter().fold(case, Case::best_of))
    }

    /// Returns the plan of one run, or of a private selection.
    fn plan_with(&self, mask: Option<PrePrune>, population: &Population) -> Result<Plan> {
        let method = self.method_with_sparsity(mask, population.examples())?;
        let plan = match self.selection.build_selection(&*method, &self.settings)? {
            None => method.plan_for(population),
            Some(selection) => selection.plan_for(population),
        };
        plan.map_err(|error| self.settings.refused_preset(error))
    }

    /// Returns the method with all settings, for this number of training examples.
    fn method_with_sparsity(
        &self,
        mask: Option<PrePrune>,
        examples: usize,
    ) -> Result<Box<dyn Method>> {
        let mut method = self.method_for(Some(examples))?;
        let dropping = self.mask.dropping()?;
        if mask.is_none() && dropping.is_none() {
            // As in an experiment: without rates, DP-SSGD is DP-SGD and shares its runs.
            return Ok(method.without_sparsity());
        }
        let sparsity = method.settings_mut().sparsity.get_or_insert_default();
        sparsity.pre_prune = mask;
        sparsity.dropping = dropping;
        Ok(method)
    }
}

impl SelectionArgs {
    fn given(&self) -> impl Iterator<Item = String> {
        let options = [
            ("--best-of", self.best_of.is_some()),
            ("--learning-rates", !self.learning_rates.is_empty()),
            ("--clips", !self.clips.is_empty()),
        ];
        options.into_iter().filter(|(_, given)| *given).map(|(option, _)| option.to_owned())
    }

    /// Returns the private selection of a method, if there is one.
    fn build_selection(
        &self,
        method: &dyn Method,
        settings: &SettingArgs,
    ) -> Result<Option<PrivateSelection>> {
        let selection = |trials| {
            PrivateSelection::from_boxed(method.clone_box(), trials)
                .learning_rates(self.learning_rates.iter().copied())
                .clips(self.clips.iter().copied())
        };
        Ok(self.trials(settings)?.map(selection))
    }

    /// Returns the number of trials of a private selection.
    fn trials(&self, settings: &SettingArgs) -> Result<Option<Trials>> {
        let lists = [
            ("--learning-rates", &self.learning_rates, "--learning-rate"),
            ("--clips", &self.clips, "--clip"),
        ];
        let given = settings.given();
        for (list, values, one) in lists.into_iter().filter(|(_, values, _)| !values.is_empty()) {
            if self.best_of.is_none() {
                let why = "a run takes one value";
                let values: Vec<String> = values.iter().map(f64::to_string).collect();
                return Err(Error::setting(list, values.join(","), why).fix(format!(
                    "add --best-of 5 to choose among them privately, or use {one}; `{}` trains all \
                     of them",
                    program::command("sweep")
                )));
            }
            if given.iter().any(|given| given == one) {
                return Err(exclusive_options_error(list, one));
            }
        }
        Ok(self.best_of.as_deref().map(str::parse).transpose()?)
    }
}
