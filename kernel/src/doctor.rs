//! `doctor`: what is there, what is missing, what to do.

use std::process::ExitCode;

use clap::Args;
use epsilab::Result;
use serde_json::{Map, Value, json};

use crate::kernelspec::Spec;
use crate::prebuilt::State as Lab;
use crate::{install, jupyter, kernelspec, prebuilt, programs, stdout};

/// Look whether everything is in order (exit code 1 if something needs you).
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Ok,
    /// Nothing to do: it is built or set up when it is needed.
    Note,
    /// The user has to act.
    Action,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Note => "note",
            State::Action => "action",
        }
    }
}

/// One thing that was looked at.
struct Check {
    key: &'static str,
    state: State,
    what: String,
    todo: String,
    /// More for scripts.
    facts: Value,
}

impl Check {
    fn new(key: &'static str, state: State, what: impl Into<String>) -> Self {
        Self { key, state, what: what.into(), todo: String::new(), facts: json!({}) }
    }

    fn todo(mut self, todo: impl Into<String>) -> Self {
        self.todo = todo.into();
        self
    }

    fn facts(mut self, facts: Value) -> Self {
        self.facts = facts;
        self
    }

    fn to_json(&self) -> Value {
        let mut fields = self.facts.as_object().cloned().unwrap_or_default();
        fields.insert("status".into(), json!(self.state.word()));
        fields.insert("what".into(), json!(self.what));
        if !self.todo.is_empty() {
            fields.insert("todo".into(), json!(self.todo));
        }
        Value::Object(fields)
    }
}

/// Looks, builds nothing, changes nothing.
///
/// # Errors
/// Only if stdout is closed; troubles are part of the answer.
pub fn doctor(args: &DoctorArgs) -> Result<ExitCode> {
    let mut checks = toolchain_and_lab();
    checks.extend([kernelspecs(), jupyterlab(), data(), devices()]);
    let healthy = checks.iter().all(|check| check.state != State::Action);
    if args.json {
        let mut report = Map::new();
        report.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        report.insert("ok".into(), json!(healthy));
        report.extend(checks.iter().map(|check| (check.key.to_owned(), check.to_json())));
        stdout::print(&Value::Object(report).to_string())?;
    } else {
        stdout::print(table(&checks).trim_end())?;
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(checks: &[Check]) -> String {
    let mut text = format!("Epsilab {}\n\n", env!("CARGO_PKG_VERSION"));
    for check in checks {
        let mut what = check.what.lines();
        text.push_str(&format!(
            "  {:<6}  {:<11}  {}\n",
            check.state.word(),
            check.key.replace('_', "-"),
            what.next().unwrap_or_default()
        ));
        let more = what
            .map(str::to_owned)
            .chain((!check.todo.is_empty()).then(|| format!("-> {}", check.todo)));
        more.for_each(|line| text.push_str(&format!("  {:21}{line}\n", "")));
    }
    text
}

fn toolchain_and_lab() -> Vec<Check> {
    let status = match prebuilt::status() {
        Ok(status) => status,
        Err(error) => {
            let unknown = |key| Check::new(key, State::Note, "could not be looked at");
            return vec![
                unknown("toolchain"),
                unknown("rust_src").facts(json!({"present": false})),
                Check::new("lab", State::Action, error.to_string()).facts(json!({"built": false})),
            ];
        }
    };
    let toolchain = match &status.toolchain {
        Ok(found) => Check::new(
            "toolchain",
            State::Ok,
            format!("rustc {} in {}", found.version, found.sysroot.display()),
        )
        .facts(json!({"path": found.rustc, "sysroot": found.sysroot, "version": found.version,
            "commit": found.commit, "host": found.host})),
        Err(error) => Check::new("toolchain", State::Action, error.to_string()),
    };
    let source = match status.rust_src {
        true => Check::new("rust_src", State::Ok, "the standard library's sources are there"),
        false => {
            Check::new("rust_src", State::Action, "the standard library's sources are missing")
                .todo(match &status.toolchain {
                    Ok(toolchain) => toolchain.rust_src_advice(),
                    Err(_) => "first the toolchain, see above".into(),
                })
        }
    }
    .facts(json!({"present": status.rust_src}));
    let current = matches!(status.lab, Lab::Ready | Lab::Damaged(_));
    let facts = json!({"dir": status.dir, "built": status.lab != Lab::Missing,
        "matches_toolchain": current || status.lab == Lab::OtherSources,
        "matches_sources": current, "intact": status.lab == Lab::Ready});
    let note = |what: String| {
        Check::new("lab", State::Note, what).todo("nothing: it is built at the next use")
    };
    let lab = match status.lab {
        Lab::Missing => note("not built yet".into()),
        Lab::OtherToolchain => note("built by another toolchain".into()),
        Lab::OtherSources => note("built from older sources".into()),
        Lab::Damaged(why) => note(format!("damaged\n{why}")),
        Lab::Ready => Check::new("lab", State::Ok, format!("ready in {}", status.dir.display())),
    };
    vec![toolchain, source, lab.facts(facts)]
}

fn kernelspecs() -> Check {
    let found = kernelspec::all(&[]);
    let facts = json!({"found": found.iter().map(install::as_json).collect::<Vec<_>>()});
    let lines: Vec<String> =
        found.iter().map(|s| format!("{} in {}", s.name, s.dir.display())).collect();
    // What `cargo lab` registered for its own JupyterLab is renewed each time it is opened.
    let renewed = |spec: &&Spec| jupyter::home().is_some_and(|home| spec.dir.starts_with(home));
    let check = match found.iter().find(|spec| !spec.works() && !renewed(spec)) {
        Some(broken) => Check::new(
            "kernelspecs",
            State::Action,
            format!("{} starts {}, which is gone", broken.dir.display(), broken.binary.display()),
        )
        .todo("`cargo lab install` (same options as then) renews it, `cargo lab uninstall` removes it"),
        None if found.is_empty() => {
            Check::new("kernelspecs", State::Note, "not installed in any Jupyter")
                .todo("only for your own Jupyter or VS Code: `cargo lab install`")
        }
        None => Check::new("kernelspecs", State::Ok, lines.join("\n")),
    };
    check.facts(facts)
}

fn jupyterlab() -> Check {
    let (found, own) = (jupyter::on_path(), jupyter::own());
    let facts = json!({"on_path": found, "own": own, "python": programs::python()});
    let check = match found.or(own) {
        Some(lab) => Check::new("jupyter", State::Ok, format!("JupyterLab: {}", lab.display())),
        None if facts["python"].is_null() => {
            Check::new("jupyter", State::Note, "neither JupyterLab nor Python 3")
                .todo("only for JupyterLab: install Python 3; `cargo lab run` works without")
        }
        None => Check::new("jupyter", State::Note, "no JupyterLab yet")
            .todo("nothing: `cargo lab` sets one up in its own environment"),
    };
    check.facts(facts)
}

fn data() -> Check {
    let all = epsilab::data::available();
    let (here, missing): (Vec<_>, Vec<_>) = all.iter().partition(|set| set.folder.is_some());
    let facts: Map<String, Value> =
        all.iter().map(|set| (set.subfolder.to_owned(), json!(set.folder))).collect();
    let names = |sets: &[&epsilab::data::Available]| {
        sets.iter().map(|set| set.name).collect::<Vec<_>>().join(", ")
    };
    let glyphs = "glyphs are built in";
    let check = match (here.is_empty(), missing.is_empty()) {
        (true, _) => Check::new("data", State::Note, format!("no data files found; {glyphs}")),
        (false, true) => Check::new("data", State::Ok, format!("{}; {glyphs}", names(&here))),
        (false, false) => Check::new(
            "data",
            State::Ok,
            format!("{}; not found: {}; {glyphs}", names(&here), names(&missing)),
        ),
    };
    let check = match missing.is_empty() {
        true => check,
        false => check.todo("only if you want them: datasets/README.md says where the files go"),
    };
    check.facts(json!({"found": facts}))
}

fn devices() -> Check {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Check::new("devices", State::Ok, format!("CPU, {threads} threads; CUDA is not built in"))
        .facts(json!({"cpu": {"threads": threads}, "cuda": {"built_in": false}}))
}
