//! Runs tests that are ignored where a file is missing, which is known only at run time.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, FormatSetting, Trial};

use crate::support::files;

/// A test, and the file or folder of the shared folder that it needs.
pub struct Test {
    name: String,
    needs: &'static str,
    is_long: bool,
    run: Box<dyn FnOnce() -> Result<(), Failed> + Send>,
}

/// A list of tests: `FILE => path::of_the_function,` for each.
macro_rules! tests {
    ($($needs:expr => $function:path,)*) => {
        vec![$($crate::harness::Test::new(stringify!($function), $needs, $function)),*]
    };
}

/// Prints a line if the output of tests is asked for.
macro_rules! say {
    ($($words:tt)*) => {
        if $crate::harness::output_is_shown() {
            println!($($words)*);
        }
    };
}

/// What the function of a test returns.
pub trait Outcome {
    fn result(self) -> Result<(), Failed>;
}

impl Outcome for () {
    fn result(self) -> Result<(), Failed> {
        Ok(())
    }
}

impl<E: Display> Outcome for Result<(), E> {
    fn result(self) -> Result<(), Failed> {
        self.map_err(Failed::from)
    }
}

impl Test {
    pub fn new<O: Outcome>(
        name: impl Into<String>,
        needs: &'static str,
        function: impl FnOnce() -> O + Send + 'static,
    ) -> Self {
        let run = Box::new(|| function().result());
        Self { name: name.into(), needs, is_long: false, run }
    }

    /// The same test, run only where ignored tests are asked for, as `.ci/full` does.
    pub fn long(self) -> Self {
        Self { is_long: true, ..self }
    }

    fn is_missing(&self) -> bool {
        !files::path(self.needs).exists()
    }

    /// The test for the harness. Without its file it is ignored, also if ignored tests are asked
    /// for, or fails where the files are required.
    fn trial(self) -> Trial {
        if !self.is_missing() {
            let kind = if self.is_long { "takes a minute" } else { "" };
            let trial = Trial::test(self.name, self.run).with_kind(kind);
            return trial.with_ignored_flag(self.is_long);
        }
        let missing = format!("{} is missing", files::path(self.needs).display());
        let required = files::are_required();
        let outcome = move || {
            if required {
                Err(Failed::from(format!(
                    "{missing}, and EPSILAB_REQUIRE_SHARED is set: let EPSILAB_SHARED name the \
             folder with goldens/ and datasets/"
                )))
            } else {
                Ok(Completion::ignored_with(missing))
            }
        };
        Trial::ignorable_test(self.name, outcome)
            .with_kind(format!("needs {}", self.needs))
            .with_ignored_flag(!required)
    }
}

/// Runs the tests that the arguments of the program ask for, and tells which files are missing.
pub fn run(tests: Vec<Test>) -> ExitCode {
    let (mut arguments, filters) = arguments();
    let (mut trials, mut missing) = (Vec::new(), Vec::new());
    for test in tests {
        let needs = test.is_missing().then_some(test.needs);
        let trial = test.trial();
        if is_chosen(&trial, &arguments, &filters) {
            missing.extend(needs);
        } else if filters.len() > 1 {
            continue;
        }
        trials.push(trial);
    }
    // The harness knows one filter, and counts what that leaves out.
    arguments.filter = <[String; 1]>::try_from(filters).ok().map(|[filter]| filter);
    arguments.test_threads = arguments.test_threads.or_else(threads);
    let conclusion = libtest_mimic::run(&arguments, trials);
    let is_text = !arguments.list && arguments.format != Some(FormatSetting::Json);
    if is_text && !files::are_required() {
        report_missing(&missing);
    }
    conclusion.exit_code()
}

/// The arguments of the program without filters, and the filters: a test that one of them matches
/// is run, as in other test programs.
fn arguments() -> (Arguments, Vec<String>) {
    const WITH_A_VALUE: [&str; 6] =
        ["--test-threads", "--logfile", "--skip", "--color", "--format", "-Z"];
    let mut given = std::env::args();
    let (mut options, mut filters): (Vec<String>, _) = (given.next().into_iter().collect(), vec![]);
    while let Some(argument) = given.next() {
        let value = WITH_A_VALUE.contains(&&*argument).then(|| given.next()).flatten();
        match argument.as_str() {
            "--no-capture" => options.push("--nocapture".into()),
            option if option.starts_with('-') => options.push(argument),
            _ => filters.push(argument),
        }
        options.extend(value);
    }
    (Arguments::from_iter(options), filters)
}

fn is_chosen(trial: &Trial, arguments: &Arguments, filters: &[String]) -> bool {
    let by = |filter: Option<&String>| {
        let arguments = Arguments { filter: filter.cloned(), ..arguments.clone() };
        !arguments.is_filtered_out(trial)
    };
    if filters.is_empty() { by(None) } else { filters.iter().any(|filter| by(Some(filter))) }
}

/// The number of threads that the environment asks for.
fn threads() -> Option<usize> {
    std::env::var("RUST_TEST_THREADS").ok()?.parse().ok()
}

/// Whether tests may print what they find.
pub fn output_is_shown() -> bool {
    std::env::args().any(|argument| argument == "--nocapture" || argument == "--no-capture")
}

/// Prints one line on the tests that were skipped.
fn report_missing(missing: &[&str]) {
    if missing.is_empty() {
        return;
    }
    let mut counts = BTreeMap::<&str, usize>::new();
    missing.iter().for_each(|file| *counts.entry(file).or_default() += 1);
    let files: Vec<String> =
        counts.iter().map(|(file, count)| format!("{file} ({count})")).collect();
    println!(
        "{} skipped: {} not found in {}; set EPSILAB_SHARED",
        if missing.len() == 1 { "1 test".into() } else { format!("{} tests", missing.len()) },
        files.join(", "),
        files::folder().display()
    );
}
