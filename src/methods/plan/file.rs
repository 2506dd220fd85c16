//! Plans as files, for programs and the command line.

use std::path::Path;

use serde_json::Value;

use super::Plan;
use crate::mask::PrePrune;
use crate::methods::settings::step_count;
use crate::methods::{CheckpointInterval, CheckpointSettings};
use crate::{Error, ErrorKind, Result, file, program};

/// Returns advice about a file that is not a plan.
fn rebuild_advice() -> String {
    let command = program::command("train --save-plan FILE");
    format!("write the file with plan.save(path) or `{command}`")
}

impl Plan {
    /// Writes the plan as JSON, with everything that decides its guarantee and its result except
    /// model and data. The device and `fresh` are not part of it.
    ///
    /// # Errors
    /// `Io` if the file can't be written; `Setting` for a plan with a given mask, whose coordinates
    /// no plan holds.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        file::write(path, self.to_json()?)
    }

    /// Returns the text that [`save`](Self::save) writes.
    ///
    /// # Errors
    /// `Setting` for a plan with a given mask.
    pub(crate) fn to_json(&self) -> Result<String> {
        self.check_no_fixed_mask()?;
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Io, "a plan as JSON", e.to_string()))?;
        Ok(text + "\n")
    }

    /// Reads a plan that [`save`](Self::save) wrote, and checks it like a new one. An edited file
    /// is another plan: its events and its epsilon are computed from what it says.
    ///
    /// # Guarantee
    /// Sampler, noise and ledger read the plan, as of any other plan, so a file can't claim less
    /// than the run costs. The size of the data, its preparation and earlier releases about it are
    /// compared with the data before anything is charged.
    ///
    /// # Errors
    /// `Io` if the file can't be read; `Setting` if it is no plan, if a key is unknown, if values
    /// are out of range or contradict each other, and for a given mask.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let what = || format!("the plan {}", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(format!("reading {}", what()), &e).fix(rebuild_advice()))?;
        let no_plan = |why: String| {
            let why = format!("the file is not a plan: {why}");
            Error::new(ErrorKind::Setting, what(), why).fix(rebuild_advice())
        };
        let given = serde_json::from_str(&text).map_err(|e| no_plan(e.to_string()))?;
        let plan = Self::deserialize_strictly(given).map_err(no_plan)?;
        plan.check_loaded()?;
        Ok(plan)
    }

    /// Returns the plan of a value, or the reason why there is none. Unknown keys are refused: a
    /// mistyped key would leave its setting out.
    fn deserialize_strictly(given: Value) -> std::result::Result<Self, String> {
        let plan: Self = serde_json::from_value(given.clone()).map_err(|e| e.to_string())?;
        let read = serde_json::to_value(&plan).map_err(|e| e.to_string())?;
        match first_unknown_key(&given, &read) {
            Some(key) => {
                Err(format!("`{key}` is unknown, or has its default value and must be left out"))
            }
            None => Ok(plan),
        }
    }

    /// Checks the plan as a new one, and the parts that a method would have made of each other.
    pub(super) fn check_loaded(&self) -> Result<()> {
        let descriptor = self.descriptor()?;
        if descriptor.adds_noise != self.privacy.is_some() {
            let value = if descriptor.adds_noise { "null" } else { "given" };
            let why = format!("the value contradicts the method, {}", descriptor.title);
            return Err(Error::setting("privacy", value, why).fix(rebuild_advice()));
        }
        if let Some(selection) = &self.selection {
            selection.check_consistent_with(self)?;
        }
        if !descriptor.supports_sparsity && self.settings.sparsity.is_some() {
            let why = format!("{} takes no mask and no gradient dropping", descriptor.title);
            return Err(Error::setting("sparsity", "given", why)
                .fix("use the method DP-SSGD, or leave it out"));
        }
        if descriptor.adds_noise && self.settings.clip_without_noise.is_some() {
            let what = "clip_without_noise has no effect in a plan with noise";
            let why = format!("{} clips by the rule in `privacy`", descriptor.title);
            return Err(Error::new(ErrorKind::Setting, what, why).fix("leave it out"));
        }
        self.check_no_fixed_mask()?;
        let steps = step_count(&self.settings, self.examples)?;
        if steps != self.steps {
            let why = format!("the settings give {steps}");
            return Err(Error::setting("steps", self.steps, why)
                .fix("give `steps` of the plan and `steps` of its settings the same value"));
        }
        if self.settings.learning_rate.is_some_and(|rate| rate != self.learning_rate) {
            let why = "the `learning_rate` of the settings differs";
            return Err(Error::setting("learning_rate", self.learning_rate, why)
                .fix("give both the same value"));
        }
        if let Some(privacy) = &self.privacy {
            privacy.check((descriptor.not_covered_reason)(self).is_some())?;
            self.stages()?;
            // A method refuses the settings of another one.
            self.mechanism([0; 32])?;
        }
        self.check()
    }

    /// Refuses a given mask: a plan holds its name only.
    fn check_no_fixed_mask(&self) -> Result<()> {
        let mask = self.sparsity().and_then(|sparsity| sparsity.pre_prune.as_ref());
        match mask {
            Some(PrePrune::Fixed(_)) => Err(Error::new(
                ErrorKind::Setting,
                "a file of a plan with a given mask",
                "a plan names the mask, but does not hold its coordinates",
            )
            .fix("let the run make its mask, by random, synflow, magnitude or dp-snip")),
            _ => Ok(()),
        }
    }

    /// Returns the same plan on another device, `"cpu"` or `"cuda:1"`.
    pub fn on_device(mut self, name: impl ToString) -> Self {
        self.settings.device = Some(name.to_string());
        self
    }

    /// Returns the same plan on the device of `other`.
    pub(crate) fn with_device_of(&self, other: &Plan) -> Self {
        let mut plan = self.clone();
        plan.settings.device.clone_from(&other.settings.device);
        plan
    }

    /// Returns the same plan with checkpoints. `command` is that of
    /// [`CheckpointSettings`](crate::methods::CheckpointSettings).
    ///
    /// # Errors
    /// `Setting` for zero steps, and for minutes that are not positive or more than a year.
    pub fn checkpoint_every(
        mut self,
        every: CheckpointInterval,
        command: Vec<String>,
    ) -> Result<Self> {
        every.check()?;
        if self.selection.is_some() {
            let what = "checkpoints of a private selection";
            let why = "checkpoints would reveal the progress of the trials, whose number is secret";
            return Err(Error::new(ErrorKind::Setting, what, why).fix("leave them out"));
        }
        self.settings.checkpoints = Some(CheckpointSettings { every, command });
        Ok(self)
    }

    /// Returns the same plan, trained and charged again even if a finished run of it is stored.
    pub fn fresh(mut self) -> Self {
        self.settings.fresh = true;
        self
    }
}

/// Returns the first key of `given` that `read` lacks, as a path.
fn first_unknown_key(given: &Value, read: &Value) -> Option<String> {
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            given.iter().find_map(|(key, value)| match read.get(key) {
                Some(known) => {
                    first_unknown_key(value, known).map(|below| format!("{key}.{below}"))
                }
                None => (!value.is_null()).then(|| key.clone()),
            })
        }
        (Value::Array(given), Value::Array(read)) => {
            given.iter().zip(read).find_map(|(given, read)| first_unknown_key(given, read))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{self, Dataset};
    use crate::mask::{Dropping, RandomMask};
    use crate::methods::{DpSgd, DpSsgd, NonPrivate};
    use crate::nn::models;
    use crate::optim::{Average, LearningRate};
    use crate::privacy::{Delta, Epsilon, NoiseSchedule};

    fn glyphs() -> Dataset {
        data::glyphs_with(300, 10, 90).unwrap()
    }

    fn plan(noise_multiplier: f64) -> Plan {
        let method = DpSgd::new().noise_multiplier(noise_multiplier).batch_size(30).steps(3);
        method.noise_schedule(NoiseSchedule::linear(0.9)).plan(&glyphs()).unwrap()
    }

    /// Returns the error of loading the file of `plan` with `old` replaced by `new`.
    fn refused(plan: &Plan, old: &str, new: &str) -> String {
        let text = serde_json::to_string(plan).unwrap();
        assert!(text.contains(old), "{old}: {text}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text.replacen(old, new, 1)).unwrap();
        let error = Plan::load(file.path()).expect_err(new);
        assert!(!error.advice().is_empty(), "{error}");
        error.to_string()
    }

    #[test]
    fn a_plan_is_read_back_bit_by_bit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sparse = DpSsgd::new()
            .target(Epsilon(2.0), Delta(1e-4))
            .pre_prune(RandomMask::prune(0.3))
            .drop_gradients(Dropping::random(0.7))
            .learning_rate_schedule(LearningRate::Cosine { end_factor: 0.1 })
            .average(Average::ema())
            .freeze("*.bias")
            .batch_size(31)
            .seed(u64::MAX);
        let plain = NonPrivate::new().batch_size(30).epochs(0.7);
        let data = glyphs();
        let mut plans = vec![sparse.plan(&data).unwrap(), plain.plan(&data).unwrap()];
        // Without its feature `float_roundtrip`, serde_json reads some of many numbers inexactly.
        plans.extend((1..200u32).map(|n| plan(f64::from(n).sqrt())));
        for plan in plans {
            plan.save(file.path()).unwrap();
            assert_eq!(Plan::load(file.path()).unwrap(), plan);
            let text = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "as tickets are read");
        }
    }

    #[test]
    fn an_edited_plan_has_its_own_epsilon() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let plan = plan(1.5);
        let text = serde_json::to_string(&plan).unwrap();
        let text = text.replace(r#""noise_multiplier":1.5"#, r#""noise_multiplier":0.75"#);
        std::fs::write(file.path(), text).unwrap();
        let edited = Plan::load(file.path()).unwrap();
        let cost = |plan: &Plan| plan.epsilon_after(3).unwrap().unwrap();
        assert!(cost(&edited) > 1.5 * cost(&plan));
        assert_eq!(cost(&edited), cost(&self::plan(0.75)));
    }

    #[test]
    fn files_that_are_no_plan_are_refused() {
        let plan = plan(1.5);
        for (old, new, words) in [
            (r#""noise_multiplier":1.5"#, r#""noise_multiplier":0.0"#, "noise"),
            (r#""noise_multiplier":1.5"#, r#""noise_multiplier":-1.5"#, "noise"),
            (r#""max_grad_norm":1.0"#, r#""max_grad_norm":0.0"#, "clip = 0"),
            (r#""delta":0.00001"#, r#""delta":1.5"#, "delta"),
            (r#""delta":0.00001"#, r#""delt":0.00001"#, "delta"),
            (r#""rate":0.9"#, r#""rate":-0.9"#, "rate"),
            (r#""noise_schedule""#, r#""noise_schedul""#, "`privacy.noise_schedul`"),
            (r#""expected_batch_size":30"#, r#""expected_batch_size":301"#, "batch_size"),
            (r#""expected_batch_size":30"#, r#""expected_batch_size":0"#, "batch_size"),
            (r#""steps":3"#, r#""steps":2"#, "the settings give 3"),
            (r#""method":"DP-SGD""#, r#""method":"DP-XGD""#, "DP-XGD"),
            (r#""method":"DP-SGD""#, r#""method":"non-private SGD""#, "privacy = given"),
            ("{", "[", "not a plan"),
        ] {
            let error = refused(&plan, old, new);
            assert!(error.contains(words), "{new}: {error}");
        }
        let plain = NonPrivate::new().batch_size(30).steps(3).plan(&glyphs()).unwrap();
        let error = refused(&plain, "non-private SGD", "DP-SGD");
        assert!(error.contains("privacy = null"), "{error}");
        let error = refused(&plain, r#""momentum":0.9"#, r#""momentum":1.9"#);
        assert!(error.contains("momentum"), "{error}");
        assert!(Plan::load("/nowhere/plan.json").is_err());
    }

    #[test]
    fn a_plan_does_not_hold_a_given_mask() {
        let data = glyphs();
        let model = models::linear(&data).seed(1).build().unwrap();
        let mask = RandomMask::prune(0.5).mask(&model).unwrap();
        let method = DpSsgd::new().noise_multiplier(1.0).batch_size(30).steps(3).pre_prune(mask);
        let error = method.plan(&data).unwrap().save("/nowhere/plan.json").unwrap_err();
        assert!(error.to_string().contains("given mask"), "{error}");
    }
}
