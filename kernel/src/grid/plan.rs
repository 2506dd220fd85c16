//! The plan of a grid: options of the command, keys of a plan file, and defaults.

use std::path::Path;

use clap::Args;
use epsilab::data::Dataset;
use epsilab::device::DeviceSpec;
use epsilab::grid::{Grid, MaskKind};
use epsilab::mask::DroppingRule;
use epsilab::methods::{Method, Optimizer};
use epsilab::nn::Activation;
use epsilab::{Error, ErrorKind, Result, program};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::options::{self, choose, count};

/// Defaults that train papernot_cnn well on the built-in glyphs. With clip 0.1 the learning rate of
/// SGD is 4.
pub const BATCH: usize = 1024;
pub const CLIP: f64 = 0.1;
pub const EPOCHS: f64 = 8.0;
pub const EPSILON: f64 = 3.0;
const SEEDS: u64 = 3;

/// All settings of a plan. Lists are separated by commas on the command line. Counts are signed, so
/// that a negative one is refused with its name.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// glyphs, patterns, sentences, mnist, fashion_mnist, cifar10, cifar100, ag_news
    /// [default: glyphs]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    data: Option<Vec<String>>,
    /// papernot_cnn, stevens_mnist_cnn, stevens_cifar_cnn, simple_vgg, wide_resnet_16_4, resnet18,
    /// resnet50, bilstm, mlp (one hidden layer of 64), linear [default: papernot_cnn]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    model: Option<Vec<String>>,
    /// dp-ssgd, dp-sgd, non-private, quantile, adaptive-dp-sgd, dynamic-dp-sgd, backprop-clipping
    /// [default: dp-ssgd]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    method: Option<Vec<String>>,
    /// How masks are made: random, synflow, dp-snip, snip (not private), magnitude
    /// [default: synflow]
    #[arg(long, value_name = "KIND")]
    mask: Option<String>,
    /// Pruning rates: fractions of the weights that are not trained, 0 for none [default: 0]
    #[arg(long, value_name = "RATES", value_delimiter = ',', allow_hyphen_values = true)]
    #[serde(alias = "pre-prune", deserialize_with = "one_or_many")]
    pre_prune: Option<Vec<f64>>,
    /// Dropping rates: fractions of each tensor that a step leaves out, 0 for none [default: 0]
    #[arg(long, value_name = "RATES", value_delimiter = ',', allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    drop: Option<Vec<f64>>,
    /// Which coordinates are dropped: random, magnitude (the smallest) [default: random]
    #[arg(long, value_name = "RULE")]
    #[serde(alias = "drop-rule")]
    drop_rule: Option<String>,
    /// Epsilons of the private runs [default: 3]
    #[arg(long, value_name = "EPSILONS", value_delimiter = ',', allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    epsilon: Option<Vec<f64>>,
    /// Delta of the private runs [default: 1e-5]
    #[arg(long, allow_hyphen_values = true)]
    delta: Option<f64>,
    /// Number of seeds per cell: 0, 1, … [default: 3]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<i64>,
    /// Passes over the data [default: 8]
    #[arg(long, value_name = "N", conflicts_with = "steps", allow_hyphen_values = true)]
    epochs: Option<f64>,
    /// Steps, instead of epochs
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    steps: Option<i64>,
    /// Expected number of examples in a batch [default: 1024]
    #[arg(long, visible_alias = "batch-size", value_name = "N", allow_hyphen_values = true)]
    batch: Option<i64>,
    /// Clip norm of the private methods [default: 0.1]
    #[arg(long, value_name = "C", allow_hyphen_values = true)]
    clip: Option<f64>,
    /// A setting of its own of one of the methods, such as input-clip=1; the others ignore it
    #[arg(long, value_name = "NAME=VALUE")]
    #[serde(deserialize_with = "one_or_many")]
    set: Option<Vec<String>>,
    /// Learning rate of all methods [default: with sgd 0.4 / clip, without privacy 0.1; with adam
    /// 0.01]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    lr: Option<f64>,
    /// sgd (momentum 0.9), adam [default: sgd]
    #[arg(long, value_name = "NAME")]
    optimizer: Option<String>,
    /// Activation of the model: tanh, relu, selu [default: the model's own]
    #[arg(long, value_name = "NAME")]
    activation: Option<String>,
    /// Precision of large matrix products on a GPU: f32, bf16 [default: f32]
    #[arg(long, value_name = "NAME")]
    precision: Option<String>,
    /// Use about N of the training examples, chosen by their content
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    train: Option<i64>,
    /// Use only the first N test examples
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    test: Option<i64>,
    /// Device for training: cpu, cuda, cuda:1, wgpu [default: EPSILAB_DEVICE, else a CUDA GPU if
    /// one works, else cpu]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
}

impl Plan {
    /// Reads a plan from a file.
    ///
    /// # Errors
    /// Kind `Io` if the file can't be read; kind `Setting` if it is not the JSON of a plan. The
    /// text names an unknown key and the key of a wrong value.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::io(format!("reading the plan {}", path.display()), &e).fix(format!(
                "name a JSON file with `--plan FILE`; `{}` has an example",
                program::command("grid --help")
            ))
        })?;
        Self::parse(&text).map_err(|why| {
            let what = format!("the plan {}", path.display());
            Error::new(ErrorKind::Setting, what, format!("the file is not a plan: {why}")).fix(
                format!(
                    "see the example in `{}`: keys are the names of the options",
                    program::command("grid --help")
                ),
            )
        })
    }

    /// The plan as a file that [`read`](Self::read) accepts.
    ///
    /// # Errors
    /// Kind `Io` if it is no JSON, which does not happen.
    pub fn to_file(&self) -> Result<String> {
        let failed = |e: serde_json::Error| Error::new(ErrorKind::Io, "the plan", e.to_string());
        let mut all = serde_json::to_value(self).map_err(failed)?;
        if let Some(keys) = all.as_object_mut() {
            keys.retain(|_, value| !value.is_null());
        }
        serde_json::to_string_pretty(&all).map(|text| text + "\n").map_err(failed)
    }

    /// Parses a plan, or says why the text is none.
    fn parse(text: &str) -> std::result::Result<Self, String> {
        // serde would accept a list as the fields in their order.
        let Value::Object(entries) = serde_json::from_str(text).map_err(|e| e.to_string())? else {
            return Err("it is not an object, `{…}`".into());
        };
        // One key at a time, since errors about values do not name the key.
        for (key, value) in entries {
            let one = Map::from_iter([(key.clone(), value)]);
            Self::deserialize(Value::Object(one)).map_err(|e| format!("`{key}`: {e}"))?;
        }
        // The whole text, to find repeated keys.
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    /// This plan, with missing settings taken from `file`.
    pub fn over(self, file: Self) -> Self {
        // Epochs and steps exclude each other.
        let said = self.epochs.is_some() || self.steps.is_some();
        let (epochs, steps) =
            if said { (self.epochs, self.steps) } else { (file.epochs, file.steps) };
        Self {
            data: self.data.or(file.data),
            model: self.model.or(file.model),
            method: self.method.or(file.method),
            mask: self.mask.or(file.mask),
            pre_prune: self.pre_prune.or(file.pre_prune),
            drop: self.drop.or(file.drop),
            drop_rule: self.drop_rule.or(file.drop_rule),
            epsilon: self.epsilon.or(file.epsilon),
            delta: self.delta.or(file.delta),
            seeds: self.seeds.or(file.seeds),
            epochs,
            steps,
            batch: self.batch.or(file.batch),
            clip: self.clip.or(file.clip),
            set: self.set.or(file.set),
            lr: self.lr.or(file.lr),
            optimizer: self.optimizer.or(file.optimizer),
            activation: self.activation.or(file.activation),
            precision: self.precision.or(file.precision),
            train: self.train.or(file.train),
            test: self.test.or(file.test),
            device: self.device.or(file.device),
        }
    }

    /// Names of the data sets.
    pub fn data(&self) -> Vec<String> {
        self.data.clone().unwrap_or_else(|| vec!["glyphs".into()])
    }

    /// Names of the models.
    pub fn models(&self) -> Vec<String> {
        self.model.clone().unwrap_or_else(|| vec!["papernot_cnn".into()])
    }

    /// Names of the methods.
    fn methods(&self) -> Vec<String> {
        self.method.clone().unwrap_or_else(|| vec!["dp-ssgd".into()])
    }

    /// The activation, if one is given.
    pub fn activation(&self) -> Result<Option<Activation>> {
        options::activation(self.activation.as_deref())
    }

    /// The part of the data to use.
    pub fn cut(&self, data: &Dataset) -> Result<Dataset> {
        options::cut(data, self.train, self.test)
    }

    /// The grid: all settings but data and models.
    pub fn grid(&self) -> Result<Grid> {
        // Before anything is trained, since every run would fail with the same error.
        match self.device.as_deref() {
            Some(name) => name.parse::<DeviceSpec>()?.check()?,
            None => DeviceSpec::auto().map(|_| ())?,
        }
        self.grid_elsewhere()
    }

    /// As [`grid`](Self::grid), for runs on other machines: their device need not be here.
    pub fn grid_elsewhere(&self) -> Result<Grid> {
        options::check_parts(self.train, self.test)?;
        if let (Some(epochs), Some(_)) = (self.epochs, self.steps) {
            return Err(Error::setting("epochs", epochs, "the plan says steps as well")
                .fix("leave out one of the two"));
        }
        let methods: Vec<Box<dyn Method>> =
            self.methods().iter().map(|name| self.method(name)).collect::<Result<_>>()?;
        self.check_own_settings(&methods)?;
        let mut methods = methods.into_iter();
        let Some(first) = methods.next() else {
            return Err(Error::setting("--method", "[]", "a grid without values has no runs")
                .fix("name a method, such as dp-ssgd"));
        };
        let mut grid = methods.fold(Grid::new(first), Grid::beside);
        let rule = self.drop_rule.as_deref().unwrap_or("random");
        let rules = [("random", DroppingRule::Random), ("magnitude", DroppingRule::Magnitude)];
        let drop = self.drop.clone().unwrap_or_else(|| vec![0.0]);
        grid = grid
            .masks(self.mask.as_deref().unwrap_or("synflow").parse::<MaskKind>()?)
            .pre_prune(self.pre_prune.clone().unwrap_or_else(|| vec![0.0]))
            .drop_gradients(choose("--drop-rule", rule, &rules)?, drop)
            .epsilon(self.epsilon.clone().unwrap_or_else(|| vec![EPSILON]))
            .seeds(count("--seeds", self.seeds)?.unwrap_or(SEEDS));
        Ok(match self.delta {
            Some(delta) => grid.delta(delta),
            None => grid,
        })
    }

    /// Checks batch, epochs, steps and learning rate against the data, whatever the method, and
    /// that every private method can have a target epsilon. All data sets are checked before
    /// anything is trained.
    pub fn check_for(&self, data: &Dataset) -> Result<()> {
        self.method("non-private")?.plan(data)?;
        self.methods().iter().try_for_each(|name| self.check_guarantee(name, data))
    }

    /// Refuses a method that has no guarantee whatever its noise is.
    fn check_guarantee(&self, name: &str, data: &Dataset) -> Result<()> {
        let mut method = self.method(name)?;
        let Some(private) = method.private_mut() else { return Ok(()) };
        private.set_noise_multiplier(1.0);
        let Some(why) = (method.recipe().not_covered)(&method.plan(data)?) else { return Ok(()) };
        let why = format!("its runs aim at an epsilon, and there is none: {why}");
        Err(Error::new(ErrorKind::Setting, format!("a grid of {name}"), why).fix(format!(
            "leave it out of the grid, and train it with `{}`",
            program::command(&format!("train --method {name} --noise-multiplier 1"))
        )))
    }

    fn method(&self, name: &str) -> Result<Box<dyn Method>> {
        let optimizers = [("sgd", Optimizer::Sgd { momentum: 0.9 }), ("adam", Optimizer::adam())];
        let optimizer =
            choose("--optimizer", self.optimizer.as_deref().unwrap_or("sgd"), &optimizers)?;
        let mut method = options::method(name)?;
        let settings = method.settings_mut();
        settings.expected_batch_size = count("--batch", self.batch)?.unwrap_or(BATCH);
        settings.epochs = self.epochs.unwrap_or(EPOCHS);
        settings.steps = count("--steps", self.steps)?;
        settings.learning_rate = self.lr;
        settings.optimizer = optimizer;
        settings.precision = options::precision(self.precision.as_deref())?;
        settings.device = self.device.clone();
        if method.recipe().takes_clip
            && let Some(private) = method.private_mut()
        {
            private.set_clip(self.clip.unwrap_or(CLIP));
        }
        for setting in self.set.iter().flatten() {
            let (name, value) = options::assignment(setting)?;
            if method.recipe().own_settings.iter().any(|(own, _)| *own == name) {
                method.set(name, value)?;
            }
        }
        Ok(method)
    }

    /// Refuses a setting that no method of the grid has.
    fn check_own_settings(&self, methods: &[Box<dyn Method>]) -> Result<()> {
        for setting in self.set.iter().flatten() {
            let (name, value) = options::assignment(setting)?;
            let own = methods.iter().flat_map(|method| method.recipe().own_settings);
            let known: Vec<&str> = own.map(|(own, _)| *own).collect();
            if !known.contains(&name) {
                let why = "no method of the grid has a setting of this name";
                return Err(Error::setting("--set", format!("{name}={value}"), why).fix(
                    if known.is_empty() {
                        "leave it out: these methods have no settings of their own".into()
                    } else {
                        format!("choose from {}", known.join(", "))
                    },
                ));
            }
        }
        Ok(())
    }
}

/// Deserializes a single value or a list.
fn one_or_many<'de, D, T>(deserializer: D) -> std::result::Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a value of the wrong type: it takes one value or a list of them"
    )]
    enum Values<T> {
        Many(Vec<T>),
        One(T),
    }
    Ok(Some(match Values::deserialize(deserializer)? {
        Values::Many(values) => values,
        Values::One(value) => vec![value],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::parse(text).expect(text)
    }

    #[test]
    fn options_replace_what_the_file_says_key_by_key() {
        let file = plan(r#"{"pre_prune": [0, 0.5], "drop": 0.3, "steps": 7, "seeds": 2}"#);
        let flags = Plan { seeds: Some(5), epochs: Some(1.0), ..Plan::default() };
        let both = flags.over(file);
        assert_eq!((both.seeds, both.steps, both.epochs), (Some(5), None, Some(1.0)));
        assert_eq!(
            (both.pre_prune.as_deref(), both.drop.as_deref()),
            (Some(&[0.0, 0.5][..]), Some(&[0.3][..]))
        );
        let grid = both.grid().expect("a grid");
        assert_eq!(grid.len(), 10);
        grid.check().expect("fine");
    }

    #[test]
    fn a_key_that_no_option_has_is_named() {
        let error = Plan::parse(r#"{"prune": [0.5]}"#).unwrap_err();
        assert!(error.contains("`prune`") && error.contains("`pre_prune`"), "{error}");
        for (text, words) in [
            ("[]", "not an object"),
            (r#"["glyphs"]"#, "not an object"),
            ("3", "not an object"),
            ("{", "EOF"),
            (r#"{"seeds": "three"}"#, "`seeds`"),
            (r#"{"drop": [0, "half"]}"#, "`drop`: a value of the wrong type"),
            (r#"{"drop": 0, "drop": 0.5}"#, "duplicate"),
        ] {
            let error = Plan::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(plan(r#"{"pre_prune": []}"#).grid().expect("made").check().is_err());
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for (text, words) in [
            (r#"{"device": "gpu"}"#, "no device has this name"),
            (r#"{"device": "cuda:4711"}"#, "can't be used"),
            (r#"{"mask": "snap"}"#, "synflow"),
            (r#"{"method": "sgd"}"#, "dp-ssgd"),
            (r#"{"method": []}"#, "no runs"),
            (r#"{"drop_rule": "all"}"#, "random"),
            (r#"{"optimizer": "lion"}"#, "adam"),
            (r#"{"steps": 3, "epochs": 1}"#, "steps as well"),
            (r#"{"test": 0}"#, "both parts"),
            (r#"{"train": -5}"#, "--train = -5"),
            (r#"{"seeds": -1}"#, "--seeds = -1"),
            (r#"{"steps": -1}"#, "--steps = -1"),
        ] {
            let error = plan(text).grid().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(plan(r#"{"activation": "gelu"}"#).activation().is_err());
    }

    #[test]
    fn a_method_that_has_no_epsilon_is_refused_before_anything_is_trained() {
        let data = epsilab::data::from_vecs(vec![0.0; 32], &[1], vec![0; 32], 2).expect("data");
        let check = |method: &str| {
            plan(&format!(r#"{{"batch": 8, "method": ["dp-sgd", "{method}"]}}"#)).check_for(&data)
        };
        for method in ["dp-ssgd", "quantile", "adaptive-dp-sgd", "non-private"] {
            check(method).expect(method);
        }
        // Settings of its own reach the method that has them, and no other is known.
        let own = |set: &str| {
            let methods = r#"["dp-sgd", "backprop-clipping"]"#;
            plan(&format!(r#"{{"batch": 8, "method": {methods}, "set": "{set}"}}"#))
        };
        assert!(own("input-clip=2").grid().is_ok());
        for (set, words) in [("scale=2", "input-clip"), ("norm=l2", "sqrt_m"), ("norm", "=")] {
            let error = own(set).grid().unwrap_err();
            assert!(format!("{error} {}", error.advice()).contains(words), "{set}: {error}");
        }
        let error = check("auto-dp-sgd").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains("bounds no example"), "{error}");
        assert!(error.advice().contains("--noise-multiplier"), "{error}");
    }
}
