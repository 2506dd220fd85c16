//! Method and settings of a run: the options that the library's table of settings defines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use epsilab::methods::{self, Method, MethodDescriptor, Scope, SettingSpec};
use epsilab::{Error, ErrorKind, Result};

use crate::options;

/// The commands' defaults in place of the library's, as setting and value. They train papernot_cnn
/// well on the built-in glyphs; with clip norm 0.1, the learning rate of SGD is 4.
const PRESET: [(&str, &str); 4] =
    [("batch_size", "1024"), ("epochs", "8"), ("clip", "0.1"), ("epsilon", "3")];

/// Method and settings as they were typed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingArgs {
    method: Option<String>,
    /// Typed values by the name of the setting; several for a setting that may be repeated.
    given: BTreeMap<&'static str, Vec<String>>,
}

/// Returns all settings, each once.
pub fn specs() -> impl Iterator<Item = &'static SettingSpec> {
    let method_specs = methods::methods().into_iter().flat_map(|method| method.descriptor().own);
    let mut seen = BTreeSet::new();
    methods::shared_settings().chain(method_specs).filter(move |spec| seen.insert(spec.id))
}

/// Returns the commands' default of a setting.
fn preset(spec: &SettingSpec) -> Option<&'static str> {
    PRESET.iter().find(|(id, _)| *id == spec.id).map(|(_, value)| *value)
}

/// Returns the default batch size for this number of training examples, which is public: at most a
/// quarter of them.
fn small_batch(default: &str, examples: usize) -> String {
    let quarter = examples.div_ceil(4).max(1);
    default.parse().map_or(quarter, |default: usize| default.min(quarter)).to_string()
}

/// Returns the text for as long as the program runs, which options need.
fn interned(text: String) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = known.get(text.as_str()) {
        return text;
    }
    let text = text.leak();
    known.insert(text);
    text
}

/// Returns the help of a setting, with the methods that have it and its default.
fn help(spec: &SettingSpec) -> String {
    let default = preset(spec).unwrap_or(spec.default);
    let default = if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
    let known = methods::methods().into_iter().map(|method| method.descriptor());
    let having = known.filter(|method| method.own.iter().any(|own_spec| own_spec.id == spec.id));
    let owners: Vec<&str> = having.map(|method| method.name).collect();
    match &owners[..] {
        [] => format!("{}{default}", spec.help),
        owners => format!("Of {}: {}{default}", owners.join(", "), spec.help),
    }
}

/// Returns the option of a setting.
fn option(spec: &'static SettingSpec) -> Arg {
    let arg = Arg::new(spec.id).long(interned(spec.option())).help(help(spec));
    let aliases = spec.aliases.iter().map(|alias| interned(alias.replace('_', "-")));
    let arg = arg.visible_aliases(aliases.collect::<Vec<&'static str>>());
    if spec.value.is_empty() {
        return arg.action(ArgAction::SetTrue);
    }
    let action = if spec.repeats { ArgAction::Append } else { ArgAction::Set };
    // Negative numbers are refused by name; other words with hyphens are options.
    let is_number = ["C", "D", "E", "K", "N", "R", "RATE", "SIGMA", "W"].contains(&spec.value);
    arg.value_name(spec.value).allow_hyphen_values(is_number).action(action)
}

impl Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        let method = Arg::new("method").long("method").value_name("NAME").help(format!(
            "{} [default: dp-sgd; with a mask or dropping dp-ssgd]",
            options::method_list()
        ));
        command.arg(method).args(specs().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = BTreeMap::new();
        for spec in specs() {
            if spec.value.is_empty() {
                if matches.get_flag(spec.id) {
                    given.insert(spec.id, vec!["true".to_owned()]);
                }
            } else if let Some(values) = matches.get_many::<String>(spec.id) {
                given.insert(spec.id, values.cloned().collect());
            }
        }
        Ok(Self { method: matches.get_one::<String>("method").cloned(), given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SettingArgs {
    /// Returns the text of a setting as it was typed, if it was given.
    pub fn text(&self, id: &str) -> Option<&str> {
        self.given.get(id).and_then(|values| values.last()).map(String::as_str)
    }

    /// Returns the names of the given options that an existing plan contains already.
    pub fn given(&self) -> Vec<String> {
        let settings = specs().filter(|spec| spec.scope != Scope::Execution);
        let settings = settings.filter(|spec| self.given.contains_key(spec.id));
        let method = self.method.iter().map(|_| "--method".to_owned());
        method.chain(settings.map(dashed)).collect()
    }

    /// Returns the commands' defaults that decide a run of this method on this number of examples,
    /// in words.
    pub fn describe_preset(
        &self,
        descriptor: &MethodDescriptor,
        examples: Option<usize>,
    ) -> Option<String> {
        let is_decided = |spec: &&SettingSpec| {
            spec.excludes().is_some_and(|other| self.given.contains_key(other))
        };
        let used = specs().filter(|spec| spec.refusal(descriptor).is_none() && !is_decided(spec));
        let used = used.filter_map(|spec| Some((spec.option(), self.preset(spec, examples)?)));
        let used: Vec<String> = used.map(|(name, value)| format!("{name} {value}")).collect();
        let used = used.join(", ");
        (!used.is_empty()).then(|| format!("defaults of all commands: {used}"))
    }

    /// Returns the method with the settings of its plan; `usual` is the method if none is named.
    /// The default batch size depends on the number of training examples, if it is known.
    ///
    /// # Errors
    /// Kind `Setting` for an unknown method, values that can't be read, settings that the method
    /// does not have, and settings of which one decides the other.
    pub fn method(&self, usual: &str, examples: Option<usize>) -> Result<Box<dyn Method>> {
        let mut method = options::find_method(self.method.as_deref().unwrap_or(usual))?;
        let descriptor = method.descriptor();
        for spec in specs().filter(|spec| spec.scope != Scope::Execution) {
            // Methods may have settings of one name.
            let spec =
                descriptor.own.iter().find(|own_spec| own_spec.id == spec.id).unwrap_or(spec);
            let Some(values) = self.given.get(spec.id) else {
                if let (Some(value), None) = (self.preset(spec, examples), spec.refusal(descriptor))
                {
                    spec.set(&mut *method, &value)?;
                }
                continue;
            };
            if let Some(why) = spec.refusal(descriptor) {
                let option = dashed(spec);
                let value =
                    if spec.value.is_empty() { "given".to_owned() } else { values.join(",") };
                return Err(Error::setting(&option, value, why)
                    .fix(format!("leave out {option}, or choose another --method")));
            }
            self.check_exclusive(spec)?;
            let set = |value: &String| spec.set(&mut *method, value);
            values.iter().try_for_each(set).map_err(|error| typed_name(spec, error))?;
        }
        Ok(method)
    }

    /// Sets the settings that determine how the run of a method is executed.
    ///
    /// # Errors
    /// Kind `Setting` for values that can't be read.
    pub fn set_execution(&self, method: &mut dyn Method) -> Result<()> {
        for spec in specs().filter(|spec| spec.scope == Scope::Execution) {
            let values = self.given.get(spec.id).into_iter().flatten();
            values.into_iter().try_for_each(|value| spec.set(method, value))?;
        }
        Ok(())
    }

    /// Returns the error with the name of the option where a default of the commands is refused,
    /// which nobody typed.
    pub fn refused_preset(&self, error: Error) -> Error {
        let names = |spec: &&SettingSpec| error.what().starts_with(&format!("{} = ", spec.id));
        match specs().find(names).and_then(|spec| Some((spec, self.preset(spec, None)?))) {
            Some((spec, value)) => {
                let fix =
                    format!("{value} is the default: choose another one with {}", dashed(spec));
                error.fix(fix)
            }
            None => error,
        }
    }

    /// Returns the commands' default of a setting that is not given, unless another one that is
    /// given would contradict it. Epochs are set before steps, which replace them: runs are named
    /// by both.
    fn preset(&self, spec: &SettingSpec, examples: Option<usize>) -> Option<String> {
        let is_given = |id: &str| self.given.contains_key(id);
        let contradicts = spec.id != "epochs" && spec.excludes().is_some_and(is_given);
        let value = preset(spec).filter(|_| !is_given(spec.id) && !contradicts)?;
        Some(match examples {
            Some(examples) if spec.id == "batch_size" => small_batch(value, examples),
            _ => value.to_owned(),
        })
    }

    /// Returns a note on the default batch size where it is smaller than usual, because there are
    /// few examples.
    pub fn small_batch_note(&self, examples: usize) -> Option<String> {
        let spec = specs().find(|spec| spec.id == "batch_size")?;
        let [usual, used] = [None, Some(examples)].map(|examples| self.preset(spec, examples));
        let (usual, used) = (usual?, used?);
        (usual != used).then(|| {
            format!(
                "{} {used}: a quarter of the {examples} training examples, instead of the default \
                 {usual}",
                dashed(spec)
            )
        })
    }

    fn check_exclusive(&self, spec: &SettingSpec) -> Result<()> {
        match spec.excludes().and_then(|other| specs().find(|spec| spec.id == other)) {
            Some(other) if self.given.contains_key(other.id) => {
                Err(exclusive_options_error(&dashed(spec), &dashed(other)))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the name of a setting as it is typed: `--batch-size`.
fn dashed(spec: &SettingSpec) -> String {
    format!("--{}", spec.option())
}

/// Returns the error about a setting with its name as it is typed.
fn typed_name(spec: &SettingSpec, error: Error) -> Error {
    match error.what().strip_prefix(&format!("{} = ", spec.id)) {
        Some(value) => Error::setting(&dashed(spec), value, error.why()).fix(error.advice()),
        None => error,
    }
}

/// Returns the error about two options that were given although each determines the other.
pub fn exclusive_options_error(one: &str, other: &str) -> Error {
    let what = format!("{one} and {other}");
    Error::new(ErrorKind::Setting, what, "each of them determines the other")
        .fix("leave out one of the two")
}

#[cfg(test)]
mod tests {
    use epsilab::data::Population;
    use epsilab::methods::{Builder, MethodSettings, register};
    use epsilab::privacy::Epsilon;

    use super::*;

    fn typed(words: &[&str]) -> SettingArgs {
        let command = SettingArgs::augment_args(Command::new("train").no_binary_name(true));
        let matches = command.try_get_matches_from(words).expect("options");
        SettingArgs::from_arg_matches(&matches).expect("options")
    }

    /// A method of another crate, with a setting of its own.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Outside {
        turns: u64,
    }

    static OUTSIDE: MethodDescriptor = MethodDescriptor {
        name: "outside",
        title: "a method from outside",
        method: || Box::new(Builder::<Outside>::new()),
        own: &[SettingSpec::new("turns", "Turns of a step", |method, text| {
            let turns = text.parse().map_err(|_| Error::setting("turns", text, "no count"))?;
            method.own_mut().downcast_mut::<Outside>().expect("its own").turns = turns;
            Ok(())
        })],
        ..MethodDescriptor::DP_SGD
    };

    impl MethodSettings for Outside {
        fn descriptor() -> &'static MethodDescriptor {
            &OUTSIDE
        }
    }

    #[test]
    fn a_registered_method_and_its_settings_are_options_of_the_commands() {
        register(&OUTSIDE).expect("names of its own");
        let args = typed(&["--method", "outside", "--turns", "3", "--sigma", "1"]);
        let method = args.method("dp-sgd", None).expect("a method");
        let expected = Builder::from(Outside { turns: 3 }).settings().clone();
        assert_eq!(method.descriptor().name, "outside");
        assert_eq!(method.settings().learning_rate, expected.learning_rate);
        let mut help = SettingArgs::augment_args(Command::new("train"));
        assert!(help.render_long_help().to_string().contains("Of outside: Turns of a step"));
        let other = typed(&["--turns", "3"]).method("dp-sgd", None).unwrap_err();
        assert!(other.to_string().contains("--turns = 3"), "{other}");
    }

    #[test]
    fn the_commands_defaults_give_way_to_what_is_given_or_decided() {
        let preset = |words: &[&str]| {
            let args = typed(words);
            let method = args.method("dp-sgd", None).expect("a method");
            args.describe_preset(method.descriptor(), None).unwrap_or_default()
        };
        let all = "batch-size 1024, epochs 8, epsilon 3, clip 0.1";
        assert!(preset(&[]).ends_with(all), "{}", preset(&[]));
        let given = preset(&["--steps", "3", "--sigma", "1", "--batch=5", "--clip-norm", "1"]);
        assert_eq!(given, "");
        assert!(preset(&["--method", "non-private"]).ends_with("batch-size 1024, epochs 8"));
        // They reach the method.
        let method = typed(&[]).method("dp-sgd", None).expect("a method");
        let plan = method.plan_for(&Population::with_size(60_000)).expect("a plan");
        let target = plan.privacy().and_then(|privacy| privacy.target);
        assert_eq!((plan.expected_batch_size(), target), (1024, Some(Epsilon(3.0))));
        let small = typed(&[]).method("dp-sgd", Some(798)).expect("a method");
        let plan = small.plan_for(&Population::with_size(798)).expect("a plan");
        assert_eq!(plan.expected_batch_size(), 200);
        let note = typed(&[]).small_batch_note(798).unwrap_or_default();
        assert!(note.starts_with("--batch-size 200"), "{note}");
        assert_eq!(typed(&["--batch", "9"]).small_batch_note(798), None);
        assert_eq!(typed(&[]).small_batch_note(4096), None);
        let both = typed(&["--epochs", "1", "--steps", "3"]).method("dp-sgd", None).unwrap_err();
        assert!(both.to_string().contains("--epochs and --steps"), "{both}");
        let error = Error::setting("batch_size", 1024, "too large");
        let refused = typed(&[]).refused_preset(error).to_string();
        assert!(refused.contains("--batch-size"), "{refused}");
    }
}
