//! A case of an experiment, and its plan.

use std::fmt;

use super::MaskKind;
use super::result::CellResult;
use crate::data::Dataset;
use crate::mask::Dropping;
use crate::methods::{Method, Plan, PrivateSelection};
use crate::nn::Model;
use crate::privacy::{Delta, Trials};
use crate::{Error, ErrorKind, Result};

/// Training that an experiment repeats with every seed: a method with all its settings but the
/// seed.
///
/// Where there is neither mask nor gradient dropping, DP-SSGD is DP-SGD and shares its runs.
#[derive(Clone, Debug)]
pub struct Case {
    pub(super) method: Box<dyn Method>,
    pub(super) mask: Option<(MaskKind, f64)>,
    /// Trials and candidates of the private selection, whose best trial alone is released, if the
    /// case is one.
    selection: Option<PrivateSelection>,
    labels: Vec<(String, String)>,
}

impl PartialEq for Case {
    fn eq(&self, other: &Self) -> bool {
        let rest = |case: &Self| (case.mask, case.selection.clone(), case.labels.clone());
        *self.method == *other.method && rest(self) == rest(other)
    }
}

impl<M: Method> From<M> for Case {
    fn from(method: M) -> Self {
        Self::from_method(Box::new(method))
    }
}

impl From<Box<dyn Method>> for Case {
    fn from(method: Box<dyn Method>) -> Self {
        Self::from_method(method)
    }
}

impl Case {
    fn from_method(method: Box<dyn Method>) -> Self {
        Self { method, mask: None, selection: None, labels: Vec::new() }
    }

    /// Sets how the mask is made and the fraction of the weights that it prunes; 0 for no mask. A
    /// mask by SNIP is made from the model of each seed.
    pub fn mask(self, kind: MaskKind, rate: f64) -> Self {
        Self { mask: (rate != 0.0).then_some((kind, rate)), ..self }
    }

    /// Makes the case a private selection with the trials and candidates of `selection`, whose
    /// method is replaced by that of the case. It stays one run.
    pub fn best_of(self, selection: PrivateSelection) -> Self {
        Self { selection: Some(selection), ..self }
    }

    /// Names a setting that tells the case from others, beside method, epsilon and rates: tables
    /// have a column of each.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    /// Returns the name of the method, as on the command line.
    pub fn name(&self) -> &'static str {
        self.method.descriptor().name
    }

    /// Returns whether the method adds noise.
    pub fn adds_noise(&self) -> bool {
        self.method.descriptor().adds_noise
    }

    /// Returns whether the case is a private selection.
    pub(super) fn is_selection(&self) -> bool {
        self.selection.is_some()
    }

    /// Returns whether the mask is made from model and data before the plan.
    pub(crate) fn mask_needs_model(&self) -> bool {
        self.mask.is_some_and(|(kind, _)| kind.needs_model())
    }

    /// Returns how the mask is made, if there is one.
    fn mask_kind(&self) -> Option<MaskKind> {
        self.mask.map(|(kind, _)| kind)
    }

    /// Checks the settings as far as no data is needed.
    ///
    /// # Errors
    /// `Setting` for a method with a seed or `.fresh()`, and for a mask or a rate that the method
    /// can't have.
    pub(super) fn check(&self) -> Result<()> {
        let settings = self.method.settings();
        for (setting, is_set) in
            [(".seed(…)", settings.seed.is_some()), (".fresh()", settings.fresh)]
        {
            if is_set {
                let what = format!("an experiment on a method with {setting}");
                let why = "each case uses the seeds of the experiment, and finished runs are never \
                           trained again";
                return Err(Error::new(ErrorKind::Setting, what, why)
                    .fix("leave it out, and give the number of seeds"));
            }
        }
        if let Some(dropping) = self.dropping() {
            crate::mask::check_rate("drop_gradients", dropping.rate.at(0, 1))?;
        }
        let Some((kind, rate)) = self.mask else { return Ok(()) };
        crate::mask::check_rate("pre_prune", rate)?;
        if self.method.descriptor().supports_sparsity {
            return Ok(());
        }
        let what = format!("a mask by {kind} for {}", self.name());
        Err(Error::new(ErrorKind::Setting, what, "DP-SGD trains every coordinate in every step")
            .fix("use DpSsgd (dp-ssgd): with both rates at 0 it is DP-SGD"))
    }

    /// Checks the settings against data, whatever target or mask the case has.
    ///
    /// # Errors
    /// `Setting` for what every run would refuse, and for a private method that aims at an epsilon
    /// and has no guarantee whatever its noise is.
    pub fn validate_for(&self, data: &Dataset) -> Result<()> {
        let mut method = self.method.without_sparsity();
        let mut target = None;
        if let Some(private) = method.privacy_settings_mut() {
            target = private.target.take();
            if target.is_some() {
                private.set_noise_multiplier(1.0);
            }
        }
        let (name, plan) = (self.name(), method.plan(data)?);
        match (method.descriptor().not_covered_reason)(&plan) {
            Some(why) if target.is_some() => {
                let why = format!(
                    "the grid has a target epsilon, but the method has no guarantee: {why}"
                );
                Err(Error::new(ErrorKind::Setting, format!("a grid of {name}"), why)
                    .fix("leave out the method, or give a noise multiplier instead of epsilon"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the plan without a seed; with `best_of`, a target is that of all trials together.
    ///
    /// # Errors
    /// As [`Method::plan_for`], and as making a mask by SNIP.
    pub(crate) fn plan(
        &self,
        model: &Model,
        data: &Dataset,
        best_of: Option<Trials>,
    ) -> Result<Plan> {
        let mask = self.mask.map(|(kind, rate)| kind.pre_prune(rate, model, data)).transpose()?;
        let sparsity = self.method.settings().sparsity.as_ref();
        let is_given = |s: &crate::mask::Sparsity| s.pre_prune.is_some() || s.dropping.is_some();
        let is_dense = mask.is_none() && !sparsity.is_some_and(is_given);
        let mut method =
            if is_dense { self.method.without_sparsity() } else { self.method.clone() };
        if let (Some(trials), Some(private)) = (best_of, method.privacy_settings_mut()) {
            private.selection_trials = Some(trials);
        }
        if let Some(mask) = mask {
            method.settings_mut().sparsity.get_or_insert_default().pre_prune = Some(mask);
        }
        match &self.selection {
            None => method.plan(data),
            Some(selection) => selection.clone().with_method(method).plan(data),
        }
    }

    /// Returns the result of the case, without runs.
    pub(super) fn cell(&self, plan: &Result<Plan>) -> CellResult {
        let privacy = plan.as_ref().ok().and_then(Plan::privacy);
        let mut method = self.method.clone();
        let given = method.privacy_settings_mut().map(|private| (private.target, private.delta));
        let (target, delta) = given.unwrap_or_default();
        let dropping = self.dropping();
        CellResult {
            method: self.name(),
            mask: self.mask_kind(),
            drop_rule: dropping.map(|dropping| dropping.rule),
            pre_prune: self.mask.map_or(0.0, |(_, rate)| rate),
            drop: dropping.map_or(0.0, |dropping| dropping.rate.at(0, 1)),
            labels: self.labels.clone(),
            epsilon: target.or(privacy.and_then(|p| p.target)).map(|epsilon| epsilon.0),
            delta: target
                .map(|_| delta.unwrap_or(Delta::DEFAULT))
                .or(privacy.map(|p| p.delta))
                .map(|delta| delta.0),
            runs: Vec::new(),
            errors: plan.as_ref().err().map(ToString::to_string).into_iter().collect(),
        }
    }

    fn dropping(&self) -> Option<Dropping> {
        self.method.settings().sparsity.as_ref().and_then(|sparsity| sparsity.dropping)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
