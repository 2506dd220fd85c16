//! A case: options of one run, which lists of options make.

use clap::{Arg, Args, Command, FromArgMatches};
use epsilab::{Error, Result, program};
use serde_json::{Map, Value};

use super::paper::Paper;
use crate::train::TrainArgs;

/// Options of `train` by name, without the dashes.
pub type Options = Map<String, Value>;

/// Options that are not part of a run.
const NOT_OF_A_RUN: [&str; 7] =
    ["plan", "save-plan", "preview", "population", "out", "json", "fresh"];
/// Pairs of options that exclude each other.
const EXCLUSIVE: [(&str, &str); 2] = [("epochs", "steps"), ("epsilon", "noise-multiplier")];
/// Options that a run may have several times. A list in a list is one value of them.
const REPEATED: [&str; 3] = ["set", "freeze", "train-only"];

/// The most combinations of the lists of one group of cases.
const MOST_CASES: usize = 10_000;

/// Options of which the results of a paper do not depend: the name of its data, and the device.
const AS_IN_THE_PAPER: [&str; 2] = ["data", "device"];
/// Options that choose a part of the data.
const PARTS: [&str; 2] = ["train", "split"];
/// Options that do not change what a run costs.
const FREE: [&str; 18] = [
    "clip",
    "model",
    "activation",
    "pretrained",
    "pretrain-on",
    "pretrain-epochs",
    "optimizer",
    "learning-rate",
    "warm-up",
    "weight-decay",
    "average",
    "freeze",
    "train-only",
    "freeze-groups",
    "precision",
    "device",
    "image-size",
    "test",
];

/// The options of the runs of one case, which differ only in their seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub options: Options,
    /// What a paper says of it.
    pub paper: Paper,
}

impl Case {
    /// Replaces options. The results of the paper are then those of other work.
    pub fn replace(&mut self, given: &Options) {
        let before = self.options.clone();
        replace(&mut self.options, given);
        let names = before.keys().chain(self.options.keys());
        let mut changed = names.filter(|&name| before.get(name) != self.options.get(name));
        if changed.any(|name| !AS_IN_THE_PAPER.contains(&name.as_str())) {
            self.paper = self.paper.without_results();
        }
        if PARTS.iter().any(|name| given.contains_key(*name)) {
            self.paper.examples = None;
        }
    }

    /// The case with only those options that decide what a run costs, and without the paper's
    /// other results.
    pub fn cost(&self) -> Self {
        let mut options = self.options.clone();
        FREE.iter().for_each(|name| drop(options.remove(*name)));
        let paper = Paper { epsilon: self.paper.epsilon, ..self.paper.without_results() };
        Self { options, paper }
    }

    /// The value of an option in words.
    pub fn get(&self, name: &str) -> Option<String> {
        self.options.get(name).map(|value| words(value).join(" "))
    }

    /// The arguments of `train` for the run with this seed.
    ///
    /// # Errors
    /// `Setting` for an option or a value that `train` does not know.
    pub fn train_args(&self, seed: u64) -> Result<TrainArgs> {
        let mut args = vec![format!("--seed={seed}")];
        for (name, value) in &self.options {
            match value {
                Value::Bool(true) => args.push(format!("--{name}")),
                Value::Bool(false) => {}
                value => args.extend(words(value).iter().map(|word| format!("--{name}={word}"))),
            }
        }
        let matches = command().try_get_matches_from(&args);
        matches.and_then(|matches| TrainArgs::from_arg_matches(&matches)).map_err(|e| {
            let said = e.to_string();
            // Without the usage, which lists the options of the command line.
            let why = said.split("\n\nUsage:").next().unwrap_or_default();
            let why = why.split("\n\nFor more").next().unwrap_or_default();
            let why = why.trim_start_matches("error: ").split_whitespace();
            Error::setting("options", args[1..].join(" "), why.collect::<Vec<_>>().join(" ")).fix(
                format!(
                    "use the options of `{}`, without the dashes",
                    program::command("train --help")
                ),
            )
        })
    }
}

/// The options of `train`.
fn command() -> Command {
    TrainArgs::augment_args(Command::new("train").no_binary_name(true))
}

/// Whether an option takes no value.
fn is_flag(name: &str) -> bool {
    let is_it = |arg: &Arg| arg.get_long() == Some(name);
    command().get_arguments().any(|arg| is_it(arg) && !arg.get_action().takes_values())
}

/// Replaces options, and removes those that the new ones exclude.
pub fn replace(options: &mut Options, given: &Options) {
    for (name, value) in given {
        for (one, other) in EXCLUSIVE {
            for (new, old) in [(one, other), (other, one)] {
                if name == new && !given.contains_key(old) {
                    options.remove(old);
                }
            }
        }
        options.insert(name.clone(), value.clone());
    }
}

/// All combinations of the values of lists. The last option by [`rank`] changes fastest.
///
/// # Errors
/// A text for an empty list, a value of a wrong type and an option that is not part of a run.
pub fn combinations(options: &Options) -> std::result::Result<Vec<Case>, String> {
    let mut names: Vec<&String> = options.keys().collect();
    names.sort_by_key(|name| (rank(name), *name));
    let mut cases = vec![Case { options: Options::new(), paper: Paper::default() }];
    for name in names {
        is_of_a_run(name)?;
        let value = &options[name];
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        let is_value = |value: &Value| match value {
            Value::Array(parts) => {
                REPEATED.contains(&name.as_str()) && parts.iter().all(Value::is_string)
            }
            // `false` would leave out an option that has a default.
            Value::Bool(_) => is_flag(name),
            value => value.is_string() || value.is_number(),
        };
        if cases.len() * values.len() > MOST_CASES {
            return Err(format!("more than {MOST_CASES} combinations"));
        }
        if values.is_empty() || !values.iter().all(is_value) {
            return Err(format!("`{name}` is {value}; it takes one value or a list of them"));
        }
        let with = |case: &Case, value: &Value| {
            let mut case = case.clone();
            case.options.insert(name.clone(), value.clone());
            case
        };
        cases = cases.iter().flat_map(|case| values.iter().map(|v| with(case, v))).collect();
    }
    Ok(cases)
}

/// Checks that a case can have an option of this name.
fn is_of_a_run(name: &str) -> std::result::Result<(), String> {
    match name {
        "seed" => Err("`seed` is counted from 0: say `seeds`, beside `options`".into()),
        name if NOT_OF_A_RUN.contains(&name) => Err(format!("`{name}` is not an option of a run")),
        _ => Ok(()),
    }
}

/// The place of an option in tables: what is trained, then how, then the numbers of privacy.
pub fn rank(name: &str) -> usize {
    const FIRST: [&str; 4] = ["data", "model", "method", "set"];
    const LAST: [&str; 3] = ["clip", "epsilon", "noise-multiplier"];
    match (FIRST.iter().position(|&n| n == name), LAST.iter().position(|&n| n == name)) {
        (Some(place), _) => place,
        (_, Some(place)) => FIRST.len() + 1 + place,
        _ => FIRST.len(),
    }
}

/// Options of the command line.
///
/// # Errors
/// `Setting` for words that are not `--NAME VALUE`, and options that a case can't have.
pub fn options_of(words: &[String]) -> Result<Options> {
    let mut options = Options::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").filter(|name| !name.is_empty()) else {
            return Err(Error::setting("an option after `--`", word, "it has no name")
                .fix("write `-- --NAME VALUE`, such as `-- --epochs 1`"));
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Value::from(value)),
            None => match words.next_if(|next| !next.starts_with("--")) {
                Some(value) => (name, Value::from(value.as_str())),
                None if is_flag(name) => (name, Value::Bool(true)),
                None => {
                    return Err(Error::setting("an option after `--`", word, "it has no value")
                        .fix(format!("write `-- {word} VALUE`")));
                }
            },
        };
        is_of_a_run(name)
            .map_err(|why| Error::setting("an option after `--`", word, why).fix("leave it out"))?;
        let earlier = options.remove(name);
        let value = match (REPEATED.contains(&name), earlier) {
            (true, Some(Value::Array(mut all))) => {
                all.push(value);
                Value::Array(all)
            }
            (true, _) => Value::Array(vec![value]),
            (false, None) => value,
            (false, Some(_)) => {
                return Err(Error::setting("an option after `--`", word, "it is given twice")
                    .fix("give it once; lists belong into the file"));
            }
        };
        options.insert(name.to_owned(), value);
    }
    Ok(options)
}

/// A value as words of the command line.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts.iter().flat_map(words).collect(),
        value => vec![value.to_string()],
    }
}
