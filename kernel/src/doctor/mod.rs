//! Command `doctor`: checks the installation and prints advice. `devices` checks the devices,
//! `ledgers` the ledgers, and `notebook_checks` the toolchain, the lab of cells and Jupyter. Begin
//! with `doctor`, which makes the checks one after the other.

mod devices;
mod ledgers;
#[cfg(feature = "notebook")]
mod notebook_checks;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use epsilab::Result;
use serde_json::{Map, Value, json};

use crate::options::name_of;
use crate::stdout;

/// Check the installation (exit code 1 if something must be fixed).
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Test only whether machines can share this folder: run the same command on two of them
    #[arg(long, value_name = "DIR")]
    pub shared: Option<PathBuf>,
    /// How long --shared waits for the other machine, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub wait: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum CheckStatus {
    Ok,
    /// Nothing to do.
    Note,
    /// The user has to act.
    Action,
}

/// Result of one check.
struct Check {
    key: &'static str,
    state: CheckStatus,
    summary: String,
    advice: String,
    /// Details of the result for scripts.
    details: Value,
}

impl Check {
    fn new(key: &'static str, state: CheckStatus, what: impl Into<String>) -> Self {
        Self { key, state, summary: what.into(), advice: String::new(), details: json!({}) }
    }

    fn with_advice(mut self, todo: impl Into<String>) -> Self {
        self.advice = todo.into();
        self
    }

    fn with_details(mut self, facts: Value) -> Self {
        self.details = facts;
        self
    }

    fn to_json(&self) -> Value {
        let mut fields = self.details.as_object().cloned().unwrap_or_default();
        fields.insert("status".into(), json!(name_of(&self.state)));
        fields.insert("what".into(), json!(self.summary));
        if !self.advice.is_empty() {
            fields.insert("todo".into(), json!(self.advice));
        }
        Value::Object(fields)
    }
}

/// Runs all checks and prints the results. Builds and changes nothing. With `--shared`, only tests
/// that folder, to which the test writes.
///
/// # Errors
/// Only if stdout is closed. Problems that are found are part of the output.
pub fn doctor(args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.shared {
        return check_shared_folder(folder, args);
    }
    #[cfg(feature = "notebook")]
    let mut checks = notebook_checks::checks();
    #[cfg(not(feature = "notebook"))]
    let mut checks = Vec::new();
    checks.extend([check_data(), ledgers::check(), devices::check()]);
    let ok = is_healthy(&checks);
    show(&checks, json!({"version": env!("CARGO_PKG_VERSION"), "ok": ok}), args.json)
}
/// Prints the checks, as JSON together with `report`.
fn show(checks: &[Check], mut report: Value, json: bool) -> Result<ExitCode> {
    if json {
        checks.iter().for_each(|check| report[check.key] = check.to_json());
        stdout::print_line(&report.to_string())?;
    } else {
        stdout::print_line(table(checks).trim_end())?;
    }
    Ok(if is_healthy(checks) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
fn is_healthy(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.state != CheckStatus::Action)
}

/// Tests a folder together with another machine.
fn check_shared_folder(folder: &Path, args: &DoctorArgs) -> Result<ExitCode> {
    let check = match epsilab::cluster::check_shared_folder(folder, Duration::from_secs(args.wait))
    {
        Ok(other) => Check::new(
            "shared",
            CheckStatus::Ok,
            format!(
                "{}: locks and renames work between this machine and {other}",
                folder.display()
            ),
        ),
        Err(error) => Check::new("shared", CheckStatus::Action, error.to_string()),
    };
    show(&[check], json!({}), args.json)
}

fn table(checks: &[Check]) -> String {
    let mut text = format!("Epsilab {}\n\n", env!("CARGO_PKG_VERSION"));
    for check in checks {
        let mut what = check.summary.lines();
        text.push_str(&format!(
            "  {:<6}  {:<11}  {}\n",
            name_of(&check.state),
            check.key.replace('_', "-"),
            what.next().unwrap_or_default()
        ));
        let more = what
            .map(str::to_owned)
            .chain((!check.advice.is_empty()).then(|| format!("-> {}", check.advice)));
        more.for_each(|line| text.push_str(&format!("  {:21}{line}\n", "")));
    }
    text
}

fn check_data() -> Check {
    let all = epsilab::data::available();
    let (found, missing): (Vec<_>, Vec<_>) = all.iter().partition(|set| set.folder.is_some());
    let facts: Map<String, Value> =
        all.iter().map(|set| (set.subfolder.to_owned(), json!(set.folder))).collect();
    let names = |sets: &[&epsilab::data::DatasetAvailability]| {
        sets.iter().map(|set| set.name).collect::<Vec<_>>().join(", ")
    };
    let (state, what) = match (found.is_empty(), missing.is_empty()) {
        (true, _) => (CheckStatus::Note, "no data files found".to_owned()),
        (false, true) => (CheckStatus::Ok, names(&found)),
        (false, false) => {
            (CheckStatus::Ok, format!("{}; not found: {}", names(&found), names(&missing)))
        }
    };
    let optional = "optional: book/src/how-to/data.md says where the files go";
    let todo = if missing.is_empty() { "" } else { optional };
    let check = Check::new("data", state, format!("{what}; glyphs are built in"));
    check.with_advice(todo).with_details(json!({"found": facts}))
}
