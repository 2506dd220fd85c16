//! Options of pruning masks and gradient dropping.

use epsilab::data::Dataset;
use epsilab::grid::MaskKind;
use epsilab::mask::{Dropping, PrePrune};
use epsilab::methods::{self, MethodDescriptor};
use epsilab::nn::Model;
use epsilab::{Error, Result};

use crate::options::lookup;

/// Constructor of gradient dropping from its rate.
type DroppingRule = fn(f64) -> Dropping;

/// The dropping rules by name.
const DROPPING_RULES: [(&str, DroppingRule); 2] =
    [("random", Dropping::random), ("magnitude", Dropping::magnitude)];

/// Options of pruning masks and gradient dropping.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct MaskArgs {
    /// Kind of mask: random, synflow, dp-snip, snip (not private), magnitude
    /// [default: synflow]
    #[arg(long, value_name = "KIND")]
    mask: Option<String>,
    /// Fraction of the weights that the mask excludes from the whole run [default: 0]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pre_prune: Option<f64>,
    /// Fraction of each tensor that a step drops [default: 0]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    drop: Option<f64>,
    /// Coordinates that a step drops: random, magnitude (the smallest) [default: random]
    #[arg(long, value_name = "RULE")]
    drop_rule: Option<String>,
}

impl MaskArgs {
    /// Returns the options that are given.
    pub fn given(&self) -> impl Iterator<Item = String> {
        self.values().into_iter().filter_map(|(name, value)| value.map(|_| name.to_owned()))
    }

    /// Checks the options for a method.
    ///
    /// # Errors
    /// Kind `Setting` for unknown names, options that have no effect, and a method that takes no
    /// mask.
    pub fn check(&self, method: &MethodDescriptor) -> Result<()> {
        let given = self.values().into_iter().find_map(|(name, value)| Some((name, value?)));
        if let (false, Some((option, value))) = (method.supports_sparsity, given) {
            let others = methods::methods();
            let sparse =
                others.iter().map(|method| method.descriptor()).filter(|m| m.supports_sparsity);
            let names: Vec<&str> = sparse.map(|method| method.name).collect();
            let why = format!("the method {} takes no mask and drops nothing", method.name);
            let fix = format!("leave out {option}, or choose a --method from {}", names.join(", "));
            return Err(Error::setting(option, value, why).fix(fix));
        }
        self.kind()?;
        self.dropping().map(drop)
    }

    /// Returns kind and rate of the mask, if there is one.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn kind(&self) -> Result<Option<(MaskKind, f64)>> {
        let kind = self.mask.as_deref().unwrap_or("synflow").parse()?;
        check_requires(("--mask", self.mask.is_some()), "--pre-prune", self.pre_prune)?;
        Ok(self.pre_prune.filter(|&rate| rate != 0.0).map(|rate| (kind, rate)))
    }

    /// Returns the mask for a model, or the recipe of one that the run makes.
    ///
    /// # Errors
    /// As [`check`](Self::check), and as making a mask by SNIP.
    pub fn pre_prune(&self, model: &Model, data: &Dataset) -> Result<Option<PrePrune>> {
        self.kind()?.map(|(kind, rate)| kind.pre_prune(rate, model, data)).transpose()
    }

    /// Returns the recipe of a mask that the run makes.
    ///
    /// # Errors
    /// As [`check`](Self::check); kind `Setting` for a mask that is made before the run.
    pub fn within_run(&self) -> Result<Option<PrePrune>> {
        let within_run = |(kind, rate): (MaskKind, f64)| {
            kind.pre_prune_within_run(rate).ok_or_else(|| {
                let why = "the mask is made from the model and the data before the plan";
                Error::setting("--mask", kind, why)
                    .fix("give the data with --data, or choose another mask")
            })
        };
        self.kind()?.map(within_run).transpose()
    }

    /// Returns the gradient dropping, if there is some.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn dropping(&self) -> Result<Option<Dropping>> {
        let rule = self.drop_rule.as_deref().unwrap_or("random");
        let rule = lookup("--drop-rule", rule, &DROPPING_RULES)?;
        check_requires(("--drop-rule", self.drop_rule.is_some()), "--drop", self.drop)?;
        Ok(self.drop.filter(|&rate| rate != 0.0).map(rule))
    }

    /// Returns the options with the texts that were typed.
    fn values(&self) -> [(&'static str, Option<String>); 4] {
        let rate = |rate: Option<f64>| rate.map(|rate| rate.to_string());
        [
            ("--mask", self.mask.clone()),
            ("--pre-prune", rate(self.pre_prune)),
            ("--drop", rate(self.drop)),
            ("--drop-rule", self.drop_rule.clone()),
        ]
    }
}

/// Returns an error for an option without the one that it belongs to.
fn check_requires((option, given): (&str, bool), with: &str, rate: Option<f64>) -> Result<()> {
    if given && rate.is_none() {
        let why = format!("the option has no effect without {with}");
        return Err(Error::setting(option, "given", why).fix(format!("add {with} 0.5")));
    }
    Ok(())
}
