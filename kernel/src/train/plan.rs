//! The plan of a run: options of the command and defaults, which are those of `grid`.

use std::path::Path;
use std::str::FromStr;

use epsilab::data::{Augment, Dataset, Population};
use epsilab::grid::MaskKind;
use epsilab::mask::{Dropping, Freezing, PrePrune};
use epsilab::methods::{self, Method, Plan, PrivateSelection, PrivateSettings, Sampling, Settings};
use epsilab::nn::{Model, Precision};
use epsilab::privacy::{Delta, Epsilon, Neighbouring, Trials};
use epsilab::{Error, ErrorKind, Result, program};
use serde::Serialize;
use serde_json::Value;

use crate::grid::plan::{BATCH, CLIP, EPOCHS, EPSILON};
use crate::options::{self, choose, count};

/// Makes gradient dropping from its rate.
type DroppingRule = fn(f64) -> Dropping;

/// The dropping rules by name.
const DROPPING_RULES: [(&str, DroppingRule); 2] =
    [("random", Dropping::random), ("magnitude", Dropping::magnitude)];

/// The options that a plan file replaces. Serialised to find those that are given. Counts are
/// signed, so that a negative one is refused with its name.
#[derive(clap::Args, Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanArgs {
    // The registry lists them.
    #[arg(long, value_name = "NAME", help = format!("{} [default: dp-sgd]", options::methods()))]
    method: Option<String>,
    // The registry lists them.
    #[arg(long, value_name = "NAME=VALUE", help = options::own_settings())]
    set: Vec<String>,
    /// Epsilon of the whole run, which decides the noise [default: 3]
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    epsilon: Option<f64>,
    /// Delta of epsilon [default: 1e-5]
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    delta: Option<f64>,
    /// Standard deviation of the noise over the clip norm, instead of epsilon
    #[arg(long, value_name = "SIGMA", allow_hyphen_values = true)]
    noise_multiplier: Option<f64>,
    /// Schedule of the noise multiplier: linear:0.99, time:0.01, step:0.99:10, exp:0.1, decay:0.5,
    /// piecewise:10x1,5x0.8 [default: constant]
    #[arg(long, value_name = "SCHEDULE")]
    noise_schedule: Option<String>,
    /// Expected number of examples in a batch [default: 1024]
    #[arg(long, visible_alias = "batch", value_name = "N", allow_hyphen_values = true)]
    batch_size: Option<i64>,
    /// Passes over the data [default: 8]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    epochs: Option<f64>,
    /// Steps, instead of epochs
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    steps: Option<i64>,
    /// Clip norm: the bound on one example's contribution [default: 0.1]
    #[arg(long, value_name = "C", allow_hyphen_values = true)]
    clip: Option<f64>,
    /// How each example is bounded: flat, auto-s, normalised, per-layer [default: flat]
    #[arg(long, value_name = "RULE")]
    clip_rule: Option<String>,
    /// Schedule of the clip norm, as those of --noise-schedule [default: constant]
    #[arg(long, value_name = "SCHEDULE")]
    clip_schedule: Option<String>,
    /// sgd (momentum 0.9), sgd:0, nesterov, adam, adamw, dp-adam-bc [default: sgd]
    #[arg(long, value_name = "NAME")]
    optimizer: Option<String>,
    /// Learning rate, the largest of its schedule [default: with sgd 0.4 / clip, without privacy
    /// 0.1; with the Adam family 0.01]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    learning_rate: Option<f64>,
    /// Schedule of the learning rate: linear, exponential:0.95, polynomial:2, step:30:0.1,
    /// multi-step:30,60:0.1, cosine, cosine-restarts:10:2, cyclic:0.1:50, one-cycle, plateau:0.1:10
    /// [default: constant]
    #[arg(long, value_name = "SCHEDULE")]
    lr_schedule: Option<String>,
    /// Linear warm-up of the learning rate: a fraction of the run (0.1) or steps (500)
    #[arg(long, value_name = "WARM-UP")]
    warm_up: Option<String>,
    /// Decoupled weight decay [default: 0; with adamw 0.01]
    #[arg(long, value_name = "W", allow_hyphen_values = true)]
    weight_decay: Option<f64>,
    /// Average of the parameters that is tested and kept: none, ema, ema:0.999, uniform, last:100
    /// [default: none]
    #[arg(long, value_name = "AVERAGE")]
    average: Option<String>,
    /// Shuffle every epoch and cut it into disjoint batches, instead of Poisson sampling; the
    /// guarantee is then for one example zeroed out (zero-out) or replaced (replace-one)
    #[arg(long, value_name = "NEIGHBOURS")]
    disjoint_batches: Option<String>,
    /// Freeze the parameters of this path, layer or group, such as "stem", "group1.*", "*.bias";
    /// may be given several times
    #[arg(long, value_name = "PATTERN")]
    freeze: Vec<String>,
    /// Freeze all parameters but those of this path, layer or group; may be given several times
    #[arg(long, value_name = "PATTERN")]
    train_only: Vec<String>,
    /// Freeze the first K stages: of a residual network the stem and K groups, of another one the
    /// layers up to the K-th pooling layer, or up to the flattening; with all stages only the last
    /// linear layer is trained [default: 0]
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    freeze_groups: Option<i64>,
    /// How the mask is made: random, synflow, dp-snip, snip (not private), magnitude
    /// [default: synflow]
    #[arg(long, value_name = "KIND")]
    mask: Option<String>,
    /// Fraction of the weights that the mask leaves out of the whole run [default: 0]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pre_prune: Option<f64>,
    /// Fraction of each tensor that a step leaves out [default: 0]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    drop: Option<f64>,
    /// Which coordinates a step leaves out: random, magnitude (the smallest) [default: random]
    #[arg(long, value_name = "RULE")]
    drop_rule: Option<String>,
    /// Average each example's gradient over 16 random copies of the image, flipped and cropped
    #[arg(long)]
    augment: bool,
    /// Accept settings that void the guarantee, such as a learning rate that follows a loss
    #[arg(long)]
    accept_no_guarantee: bool,
    /// Seed of parameters, batches and noise (study mode): whoever knows it knows the noise
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
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
    /// Precision of large matrix products on a GPU: f32, bf16 [default: f32]
    #[arg(long, value_name = "NAME")]
    precision: Option<String>,
}

impl PlanArgs {
    /// Reads the plan of a file, which replaces these options.
    ///
    /// # Errors
    /// As [`Plan::load`]; kind `Setting` if one of these options is given.
    pub fn load(&self, file: &Path) -> Result<Plan> {
        if let Some(option) = self.given().first() {
            let why = format!("the plan {} says it already", file.display());
            return Err(Error::setting(option, "given", why).fix(format!(
                "leave out {option}, or leave out --plan; to change the plan, edit its file or \
                 write another by --save-plan"
            )));
        }
        Plan::load(file)
    }

    /// Checks everything that needs no data.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn check(&self) -> Result<()> {
        self.method().map(|_| ())?;
        self.mask()?;
        self.trials()?;
        self.dropping().map(|_| ())
    }

    /// The plan for these data.
    ///
    /// # Errors
    /// Kind `Setting` for values out of range and options that contradict each other or that the
    /// method does not have; kind `Accounting` if no noise multiplier reaches epsilon.
    pub fn plan(&self, model: &Model, data: &Dataset) -> Result<Plan> {
        let mask = self.mask()?.map(|(kind, rate)| kind.recipe(rate, model, data)).transpose()?;
        self.plan_of(mask, &data.into())
    }

    /// The plan for as many examples, without model and data.
    ///
    /// # Errors
    /// As [`plan`](Self::plan); kind `Setting` for a mask that is made from the data.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let within_run = |(kind, rate): (MaskKind, f64)| {
            kind.within_run(rate).ok_or_else(|| {
                let why = "it is made from model and data before the plan";
                Error::setting("--mask", kind, why).fix("name the data, or choose another mask")
            })
        };
        let mask = self.mask()?.map(within_run).transpose()?;
        self.plan_of(mask, population)
    }

    /// The plan of one run, or of a private selection.
    fn plan_of(&self, mask: Option<PrePrune>, population: &Population) -> Result<Plan> {
        let method = self.method_with(mask)?;
        match self.trials()? {
            None => method.plan_for(population),
            Some(trials) => PrivateSelection::of(method, trials)
                .learning_rates(self.learning_rates.iter().copied())
                .clips(self.clips.iter().copied())
                .plan_for(population),
        }
    }

    /// The number of trials of a private selection.
    fn trials(&self) -> Result<Option<Trials>> {
        let lists = [
            ("--learning-rates", !self.learning_rates.is_empty(), "--learning-rate"),
            ("--clips", !self.clips.is_empty(), "--clip"),
        ];
        let given = self.given();
        for (list, _, one) in lists.iter().filter(|(_, is_given, _)| *is_given) {
            if self.best_of.is_none() {
                let why = "a run has one value";
                return Err(Error::setting(list, self.typed(list), why).fix(format!(
                    "add --best-of 5 to choose among them privately, or use {one}; `{}` trains all \
                     of them",
                    program::command("sweep")
                )));
            }
            exclusive((list, true), (one, given.iter().any(|given| given == one)))?;
        }
        parsed(&self.best_of)
    }

    /// The method with all settings.
    fn method_with(&self, mask: Option<PrePrune>) -> Result<Box<dyn Method>> {
        let (mut method, dropping) = (self.method()?, self.dropping()?);
        if mask.is_some() || dropping.is_some() {
            let sparsity = method.settings_mut().sparsity.get_or_insert_default();
            sparsity.pre_prune = mask;
            sparsity.dropping = dropping;
        }
        Ok(method)
    }

    /// The precision of large matrix products.
    ///
    /// # Errors
    /// Kind `Setting` for an unknown name.
    pub fn precision(&self) -> Result<Precision> {
        options::precision(self.precision.as_deref())
    }

    /// The error with the name of the option where the batch size is the default, which nobody
    /// typed.
    pub fn of_defaults(&self, error: Error) -> Error {
        match self.batch_size {
            None if error.what().starts_with("batch_size = ") => error.fix(format!(
                "{BATCH} is the default: choose a smaller expected batch with --batch-size"
            )),
            _ => error,
        }
    }

    /// The options that are given, by name.
    fn given(&self) -> Vec<String> {
        let Ok(Value::Object(all)) = serde_json::to_value(self) else { return Vec::new() };
        let is_given = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(values) => !values.is_empty(),
            _ => true,
        };
        all.iter().filter(|(_, value)| is_given(value)).map(|(key, _)| format!("--{key}")).collect()
    }

    /// The value of an option as it was typed; `given` for one without a value.
    fn typed(&self, option: &str) -> String {
        let all = serde_json::to_value(self).unwrap_or_default();
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) => "given".to_owned(),
            other => other.to_string(),
        };
        match &all[option.trim_start_matches('-')] {
            Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
            value => text(value),
        }
    }

    /// The method with its settings, but mask and dropping.
    fn method(&self) -> Result<Box<dyn Method>> {
        let mut method = options::method(self.method.as_deref().unwrap_or("dp-sgd"))?;
        let recipe = method.recipe();
        let given = self.given();
        let refuse = |options: &[&str], why: &str, fix: &str| match options
            .iter()
            .find(|option| given.iter().any(|given| given == *option))
        {
            None => Ok(()),
            Some(option) => {
                let why = format!("the method {} {why}", recipe.name);
                Err(Error::setting(option, self.typed(option), why)
                    .fix(format!("leave out {option}, or {fix}")))
            }
        };
        if !recipe.is_sparse {
            let others = methods::methods();
            let sparse = others.iter().map(|method| method.recipe()).filter(|r| r.is_sparse);
            let names: Vec<&str> = sparse.map(|recipe| recipe.name).collect();
            let fix = format!("choose a --method from {}", names.join(", "));
            let options = ["--mask", "--pre-prune", "--drop", "--drop-rule"];
            refuse(&options, "takes no mask and drops nothing", &fix)?;
        }
        if !recipe.takes_clip && recipe.is_private {
            let options = ["--clip", "--clip-rule", "--clip-schedule"];
            refuse(&options, "has no clip bound that can be set", "choose another --method")?;
        }
        match method.private_mut() {
            Some(private) => self.private(private, recipe.takes_clip)?,
            None => {
                let options = [
                    "--epsilon",
                    "--delta",
                    "--noise-multiplier",
                    "--noise-schedule",
                    "--clip",
                    "--clip-rule",
                    "--clip-schedule",
                ];
                refuse(&options, "neither clips nor adds noise", "choose a private --method")?;
            }
        }
        self.shared(method.settings_mut())?;
        for setting in &self.set {
            let (name, value) = options::assignment(setting)?;
            method.set(name, value)?;
        }
        Ok(method)
    }

    /// The settings that all methods share.
    fn shared(&self, settings: &mut Settings) -> Result<()> {
        exclusive(("--epochs", self.epochs.is_some()), ("--steps", self.steps.is_some()))?;
        settings.expected_batch_size = count("--batch-size", self.batch_size)?.unwrap_or(BATCH);
        settings.epochs = self.epochs.unwrap_or(EPOCHS);
        settings.steps = count("--steps", self.steps)?;
        settings.optimizer = parsed(&self.optimizer)?.unwrap_or(settings.optimizer);
        settings.learning_rate = self.learning_rate;
        if let Some(schedule) = parsed(&self.lr_schedule)? {
            settings.learning_rate_schedule = schedule;
        }
        settings.warm_up = parsed(&self.warm_up)?;
        settings.weight_decay = self.weight_decay;
        settings.average = parsed(&self.average.clone().filter(|average| average != "none"))?;
        settings.accept_no_guarantee = self.accept_no_guarantee;
        settings.augment = self.augment.then(Augment::default);
        settings.freezing = Freezing {
            freeze: self.freeze.clone(),
            train_only: self.train_only.clone(),
            groups: count("--freeze-groups", self.freeze_groups)?.unwrap_or(0),
        };
        settings.precision = self.precision()?;
        settings.seed = self.seed;
        let relations =
            [("zero-out", Neighbouring::ZeroOutOne), ("replace-one", Neighbouring::ReplaceOne)];
        if let Some(name) = &self.disjoint_batches {
            let neighbouring = choose("--disjoint-batches", name, &relations)?;
            settings.sampling = Sampling::DisjointBatches { neighbouring };
        }
        Ok(())
    }

    /// The settings of private methods.
    fn private(&self, private: &mut PrivateSettings, takes_clip: bool) -> Result<()> {
        exclusive(
            ("--epsilon", self.epsilon.is_some()),
            ("--noise-multiplier", self.noise_multiplier.is_some()),
        )?;
        let delta = Delta(self.delta.unwrap_or(1e-5));
        match self.noise_multiplier {
            Some(noise_multiplier) => {
                private.set_noise_multiplier(noise_multiplier);
                private.set_delta(delta);
            }
            None => private.target(Epsilon(self.epsilon.unwrap_or(EPSILON)), delta),
        }
        if takes_clip {
            let rule = self.clip_rule.as_deref().unwrap_or("flat");
            private.set_clip_rule(options::clip_rule(rule, self.clip.unwrap_or(CLIP))?);
        }
        // Where they are not given, the method's own schedules stay.
        if let Some(noise) = parsed(&self.noise_schedule)? {
            private.set_noise_schedule(noise);
        }
        if let Some(clip) = parsed(&self.clip_schedule)? {
            private.set_clip_schedule(clip);
        }
        Ok(())
    }

    /// Kind and rate of the mask.
    fn mask(&self) -> Result<Option<(MaskKind, f64)>> {
        needs(("--mask", self.mask.is_some()), "--pre-prune", self.pre_prune)?;
        let kind = self.mask.as_deref().unwrap_or("synflow").parse()?;
        Ok(self.pre_prune.filter(|&rate| rate != 0.0).map(|rate| (kind, rate)))
    }

    /// The gradient dropping.
    fn dropping(&self) -> Result<Option<Dropping>> {
        needs(("--drop-rule", self.drop_rule.is_some()), "--drop", self.drop)?;
        let rule = self.drop_rule.as_deref().unwrap_or("random");
        let rule = choose("--drop-rule", rule, &DROPPING_RULES)?;
        Ok(self.drop.filter(|&rate| rate != 0.0).map(rule))
    }
}

/// The value of a text, if it is given.
fn parsed<T: FromStr<Err: Into<Error>>>(text: &Option<String>) -> Result<Option<T>> {
    text.as_deref().map(|text| text.parse().map_err(Into::into)).transpose()
}

/// Refuses two options that say the same.
fn exclusive(one: (&str, bool), other: (&str, bool)) -> Result<()> {
    if one.1 && other.1 {
        let what = format!("{} and {}", one.0, other.0);
        return Err(Error::new(ErrorKind::Setting, what, "each of them decides the other")
            .fix("leave out one of the two"));
    }
    Ok(())
}

/// Refuses an option without the one that it belongs to.
fn needs((option, given): (&str, bool), with: &str, rate: Option<f64>) -> Result<()> {
    if given && rate.is_none() {
        let why = format!("it has no effect without {with}");
        return Err(Error::setting(option, "given", why).fix(format!("add {with} 0.5")));
    }
    Ok(())
}
