//! Options of runs by name, as files and commands give them: lists of values make cases.

use std::fmt;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use epsilab::methods::{Affects, SettingSpec};
use epsilab::{Error, Result, program};
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::options::{self, suggest_names};
use crate::train::{TrainArgs, specs};

/// Options of `train` by name, without the dashes.
pub type Options = Map<String, Value>;

/// Options of `train` that do not belong to the description of a run.
const EXCLUDED_OPTIONS: [&str; 8] =
    ["plan", "save-plan", "save-schema", "preview", "population", "out", "json", "fresh"];

/// Options of data and model that do not change the cost of a run.
const COST_NEUTRAL_OPTIONS: [&str; 9] = [
    "model",
    "activation",
    "pretrained",
    "layout",
    "public",
    "pretrain-on",
    "pretrain-epochs",
    "image-size",
    "test",
];

/// Options whose single value may contain commas.
const UNSPLIT_OPTIONS: [&str; 7] =
    ["learning-rates", "clips", "public", "label", "separator", "schema", "pretrained"];

/// Options of tables that a run may have several times, once for each column.
const PER_COLUMN_OPTIONS: [&str; 4] = ["ignore", "category", "scale", "missing"];

/// Maximum number of combinations of the lists of one group of cases.
const MAX_CASES: usize = 10_000;

/// Returns the options of `train`.
pub fn command() -> Command {
    TrainArgs::augment_args(Command::new("train").no_binary_name(true))
}

/// Returns the options that a case can have.
fn run_options() -> Vec<Arg> {
    let is_run_option = |arg: &&Arg| {
        arg.get_long().is_some_and(|long| !EXCLUDED_OPTIONS.contains(&long) && long != "seed")
    };
    command().get_arguments().filter(is_run_option).cloned().collect()
}

/// Returns the setting of a method with this name, if there is one.
fn spec(name: &str) -> Option<&'static SettingSpec> {
    specs().find(|spec| spec.is_named(name))
}

/// Returns whether an option takes no value.
fn is_flag(name: &str) -> bool {
    let is_it = |arg: &Arg| arg.get_long() == Some(name);
    run_options().iter().any(|arg| is_it(arg) && !arg.get_action().takes_values())
}

/// Returns whether a run may have an option several times. A list in a list is one value of it.
fn repeats(name: &str) -> bool {
    PER_COLUMN_OPTIONS.contains(&name) || spec(name).is_some_and(|spec| spec.repeats)
}

/// Returns whether an option does not change the cost of a run.
pub fn is_free(name: &str) -> bool {
    match spec(name) {
        Some(spec) => spec.affects != Affects::Cost,
        None => COST_NEUTRAL_OPTIONS.contains(&name),
    }
}

/// Returns the name of an option that is written with dashes or underscores, or by another name of
/// the field.
///
/// # Errors
/// A text that names what an unknown one may have meant.
pub fn canonical(name: &str) -> std::result::Result<String, String> {
    let dashed = name.replace('_', "-");
    if dashed == "seed" {
        return Err("use `seeds`, the number of seeds counted from 0".into());
    }
    if EXCLUDED_OPTIONS.contains(&dashed.as_str()) {
        return Err(format!("`{name}` is not an option of a run"));
    }
    let known = run_options();
    let is_it = |arg: &&Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(&*dashed) || aliases.contains(&&*dashed)
    };
    match known.iter().find(is_it).and_then(Arg::get_long) {
        Some(long) => Ok(long.to_owned()),
        None => {
            let names: Vec<&str> = known.iter().filter_map(Arg::get_long).collect();
            Err(format!("`{name}` is not an option: {}", suggest_names(name, &names)))
        }
    }
}

/// Returns the options of a JSON object.
///
/// # Errors
/// A text for other JSON, and for an option that is there twice.
pub fn unique(text: &str) -> std::result::Result<Options, String> {
    struct Unique;

    impl<'de> Visitor<'de> for Unique {
        type Value = Options;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of options, `{…}`")
        }

        fn visit_map<A: MapAccess<'de>>(
            self,
            mut entries: A,
        ) -> std::result::Result<Options, A::Error> {
            let mut options = Options::new();
            while let Some((name, value)) = entries.next_entry::<String, Value>()? {
                if options.insert(name.clone(), value).is_some() {
                    return Err(serde::de::Error::custom(format!("duplicate key `{name}`")));
                }
            }
            Ok(options)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let options = reader.deserialize_any(Unique).map_err(|e| e.to_string())?;
    reader.end().map_err(|e| e.to_string())?;
    Ok(options)
}

/// Returns the options by their usual names.
///
/// # Errors
/// A text for an unknown option, and for one that has two names here.
pub fn canonicalise(options: Options) -> std::result::Result<Options, String> {
    let mut by_name = Options::new();
    for (name, value) in options {
        if by_name.insert(canonical(&name)?, value).is_some() {
            return Err(format!("`{name}` is given twice, under two names"));
        }
    }
    Ok(by_name)
}

/// Replaces options, and removes those that the new ones exclude.
pub fn replace(options: &mut Options, given: &Options) {
    for (name, value) in given {
        let excluded = spec(name).and_then(SettingSpec::excludes).map(|id| id.replace('_', "-"));
        if let Some(excluded) = excluded.filter(|excluded| !given.contains_key(excluded)) {
            options.remove(&excluded);
        }
        options.insert(name.clone(), value.clone());
    }
}

/// Returns all combinations of the values of lists. The last option by [`rank`] changes fastest.
///
/// # Errors
/// A text for an empty list and a value of a wrong type.
pub fn combinations(options: &Options) -> std::result::Result<Vec<Options>, String> {
    let mut names: Vec<&String> = options.keys().collect();
    names.sort_by_key(|name| (rank(name), *name));
    let mut cases = vec![Options::new()];
    for name in names {
        let value = &options[name];
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        let is_value = |value: &Value| match value {
            Value::Array(parts) => repeats(name) && parts.iter().all(Value::is_string),
            // `false` would leave out an option that has a default.
            Value::Bool(_) => is_flag(name),
            value => value.is_string() || value.is_number(),
        };
        if cases.len() * values.len() > MAX_CASES {
            return Err(format!("more than {MAX_CASES} combinations"));
        }
        if values.is_empty() || !values.iter().all(is_value) {
            return Err(format!("`{name}` is {value}; expected one value or a list"));
        }
        let with = |case: &Options, value: &Value| {
            let mut case = case.clone();
            case.insert(name.clone(), value.clone());
            case
        };
        cases = cases.iter().flat_map(|case| values.iter().map(|v| with(case, v))).collect();
    }
    Ok(cases)
}

/// Returns the position of an option in tables: what is trained, then how, then the numbers of
/// privacy, then the rates.
pub fn rank(name: &str) -> usize {
    const FIRST: [&str; 3] = ["data", "model", "method"];
    const LAST: [&str; 5] = ["clip", "epsilon", "noise-multiplier", "pre-prune", "drop"];
    match (FIRST.iter().position(|&n| n == name), LAST.iter().position(|&n| n == name)) {
        (Some(position), _) => position,
        (_, Some(position)) => FIRST.len() + 1 + position,
        _ => FIRST.len(),
    }
}

/// Returns the command line of an option, as words.
pub fn arguments(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Bool(true) => vec![format!("--{name}")],
        Value::Bool(false) => Vec::new(),
        value => words(value).iter().map(|word| format!("--{name}={word}")).collect(),
    }
}

/// Returns a value as words of the command line.
pub fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts.iter().flat_map(words).collect(),
        value => vec![value.to_string()],
    }
}

/// Options of `train` in a command that trains several runs; several values of one option,
/// separated by commas or given by repeating the option, make a case of each.
#[derive(Clone, Debug, Default)]
pub struct CaseArgs(pub Options);

impl Args for CaseArgs {
    fn augment_args(command: Command) -> Command {
        let several = |arg: Arg| {
            if !arg.get_action().takes_values() {
                return arg;
            }
            arg.action(ArgAction::Append)
                .value_parser(clap::value_parser!(String))
                .value_delimiter(None)
        };
        command.args(run_options().into_iter().map(several))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CaseArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut options = Options::new();
        for arg in run_options() {
            let (id, Some(name)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
            if !arg.get_action().takes_values() {
                if matches.get_flag(id) {
                    options.insert(name.to_owned(), Value::Bool(true));
                }
            } else if let Some(given) = matches.get_many::<String>(id) {
                options.insert(name.to_owned(), parse_values(name, given));
            }
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the value of an option from the texts given for it, one or several.
fn parse_values<'a>(name: &str, given: impl Iterator<Item = &'a String>) -> Value {
    if repeats(name) {
        // One run has all of them.
        let parts = given.map(|text| Value::from(text.as_str()));
        return Value::Array(vec![Value::Array(parts.collect())]);
    }
    let mut values: Vec<Value> =
        given.flat_map(|text| split(name, text)).map(Value::from).collect();
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}

/// Splits a text at commas, unless the whole is one value.
fn split(name: &str, text: &str) -> Vec<String> {
    let is_one = match spec(name) {
        Some(spec) => is_value(spec, text),
        None => UNSPLIT_OPTIONS.contains(&name) || std::path::Path::new(text).exists(),
    };
    if is_one {
        return vec![text.to_owned()];
    }
    text.split(',').map(|part| part.trim().to_owned()).collect()
}

/// Returns whether a setting can be read from a text, of any method that has it.
fn is_value(spec: &SettingSpec, text: &str) -> bool {
    let methods = epsilab::methods::methods();
    let mut supporting = methods.into_iter().filter(|m| spec.refusal(m.descriptor()).is_none());
    supporting.next().is_some_and(|mut method| spec.set(&mut *method, text).is_ok())
}

/// Removes options that the method of a case does not have and that are there for the cases of
/// other methods.
///
/// # Errors
/// Kind `Setting` if the options name no method, or one that does not exist.
pub fn only_applicable(options: &mut Options) -> Result<()> {
    let name = options.get("method").map(words).and_then(|values| values.into_iter().next());
    let method = options::find_method(&name.unwrap_or_default())?;
    let descriptor = method.descriptor();
    options.retain(|name, _| match spec(name) {
        Some(spec) => spec.refusal(descriptor).is_none(),
        None => descriptor.supports_sparsity || !MASK_OPTIONS.contains(&name.as_str()),
    });
    Ok(())
}

/// Options of masks and gradient dropping.
pub const MASK_OPTIONS: [&str; 4] = ["mask", "pre-prune", "drop", "drop-rule"];

/// Returns the error of `train` about these options, without the usage.
pub fn refused(args: &[String], error: &clap::Error) -> Error {
    let message = error.to_string();
    let why = message.split("\n\nUsage:").next().unwrap_or_default();
    let why = why.split("\n\nFor more").next().unwrap_or_default();
    let why = why.trim_start_matches("error: ").split_whitespace();
    let why = why.collect::<Vec<_>>().join(" ");
    Error::setting("options", args.join(" "), why).fix(format!(
        "use the options of `{}`, without the dashes",
        program::command("train --help")
    ))
}
