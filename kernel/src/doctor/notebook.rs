//! Checks of the toolchain, of the lab that cells are linked to, and of Jupyter.

use epsilab::program;
use serde_json::json;

use super::{Check, State};
use crate::kernelspec::Spec;
use crate::prebuilt::{State as Lab, Status};
use crate::{install, jupyter, kernel, kernelspec, prebuilt, programs};

/// The checks of what notebooks need.
pub fn checks() -> Vec<Check> {
    let mut checks = toolchain_and_lab();
    checks.extend([temporary_folder(), kernelspecs(), jupyterlab()]);
    checks
}

fn temporary_folder() -> Check {
    match kernel::check_temporary_folder() {
        Ok(()) => Check::new("temporary", State::Ok, "cells can be loaded from temporary files"),
        Err(error) => Check::new("temporary", State::Action, error.to_string()),
    }
}

fn toolchain_and_lab() -> Vec<Check> {
    let status = match prebuilt::status() {
        Ok(status) => status,
        Err(error) => {
            let unknown = |key| Check::new(key, State::Note, "not checked");
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
    vec![toolchain, rust_src(&status), lab(&status)]
}

fn rust_src(status: &Status) -> Check {
    match (&status.toolchain, status.rust_src) {
        (Err(_), _) => Check::new("rust_src", State::Note, "not checked without the toolchain"),
        (Ok(_), true) => {
            Check::new("rust_src", State::Ok, "the sources of the standard library are installed")
        }
        (Ok(toolchain), false) => {
            Check::new("rust_src", State::Action, "the sources of the standard library are missing")
                .todo(toolchain.rust_src_advice())
        }
    }
    .facts(json!({"present": status.rust_src}))
}

fn lab(status: &Status) -> Check {
    let current = matches!(status.lab, Lab::Ready | Lab::Damaged { .. });
    let facts = json!({"dir": status.dir, "built": status.lab != Lab::Missing,
        "matches_toolchain": current || status.lab == Lab::OtherSources,
        "matches_sources": current, "intact": status.lab == Lab::Ready});
    let what = match &status.lab {
        Lab::Ready => format!("ready in {}", status.dir.display()),
        Lab::Missing => "not built yet".into(),
        Lab::OtherToolchain => "built by another toolchain".into(),
        Lab::OtherSources => "built from older sources".into(),
        Lab::Damaged { why, .. } => format!("damaged\n{why}"),
    };
    let check = |state, what: String| Check::new("lab", state, what);
    match (&status.lab, &status.toolchain, &status.writable) {
        (Lab::Ready, ..) => check(State::Ok, what),
        (_, Err(_), _) => check(State::Note, what)
            .todo("see the toolchain above: cells don't run until the program is built again"),
        (_, _, Err(error)) => {
            let error_text = error.to_string();
            let why = error_text.lines().next().unwrap_or_default();
            check(State::Action, format!("{what}\n{why}")).todo(error.advice())
        }
        // Kernels that start find no trace of it.
        (Lab::Damaged { at_start: false, .. }, ..) => check(State::Action, what).todo(format!(
            "remove the folder {}: it is built again when a notebook is opened",
            status.dir.display()
        )),
        _ => check(State::Note, what).todo("nothing: it is built when a notebook is opened"),
    }
    .facts(facts)
}

fn kernelspecs() -> Check {
    let found = kernelspec::all(&[]);
    let facts = json!({"found": found.iter().map(install::as_json).collect::<Vec<_>>()});
    let lines: Vec<String> =
        found.iter().map(|s| format!("{} in {}", s.name, s.dir.display())).collect();
    // The program registers the kernel for its own JupyterLab again each time it opens it.
    let renewed = |spec: &&Spec| jupyter::home().is_some_and(|home| spec.dir.starts_with(home));
    let check = match found.iter().find(|spec| !spec.works() && !renewed(spec)) {
        Some(broken) => Check::new(
            "kernelspecs",
            State::Action,
            format!("{} starts {}: no such file", broken.dir.display(), broken.binary.display()),
        )
        .todo(format!(
            "`{}` (same options) corrects it, `{}` removes it",
            program::command("install"),
            program::command("uninstall")
        )),
        None if found.is_empty() => {
            Check::new("kernelspecs", State::Note, "not installed in any Jupyter").todo(format!(
                "only for your own Jupyter or VS Code: `{}`",
                program::command("install")
            ))
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
            Check::new("jupyter", State::Note, "neither JupyterLab nor Python 3 found").todo(
                format!(
                    "only for JupyterLab: install Python 3; `{}` does not need it",
                    program::command("run")
                ),
            )
        }
        None => Check::new("jupyter", State::Note, "no JupyterLab yet")
            .todo(format!("nothing: `{}` installs it into its own environment", program::name())),
    };
    check.facts(facts)
}

#[cfg(test)]
mod tests {
    use epsilab::{Error, ErrorKind};

    use super::*;
    use crate::prebuilt::Toolchain;

    fn status(lab: Lab) -> Status {
        Status {
            dir: "/labs/1".into(),
            toolchain: Toolchain::find(),
            lab,
            writable: Ok(()),
            rust_src: true,
        }
    }

    fn error(what: &str) -> Error {
        Error::new(ErrorKind::Notebook, what, "why").fix("the advice")
    }

    #[test]
    fn a_lab_that_can_not_be_built_needs_an_action() {
        for found in [Lab::Missing, Lab::OtherSources, Lab::OtherToolchain] {
            let mut status = status(found);
            let check = lab(&status);
            assert_eq!(check.state, State::Note, "{}", check.what);
            assert!(check.todo.contains("built when a notebook is opened"), "{}", check.todo);
            status.writable = Err(error("/labs can't be written"));
            let check = lab(&status);
            assert_eq!((check.state, check.todo.as_str()), (State::Action, "the advice"));
            assert!(check.what.contains("can't be written"), "{}", check.what);
        }
        // A lab that is there can be used from a folder that can't be written.
        let mut ready = status(Lab::Ready);
        ready.writable = Err(error("/labs can't be written"));
        assert_eq!(lab(&ready).state, State::Ok);
    }

    #[test]
    fn without_the_toolchain_only_one_line_says_what_to_do() {
        let mut status = status(Lab::OtherToolchain);
        status.toolchain = Err(error("Rust toolchain = none"));
        status.rust_src = false;
        let (source, lab) = (rust_src(&status), lab(&status));
        assert_eq!((source.state, source.todo.as_str()), (State::Note, ""));
        assert_eq!(lab.state, State::Note);
        assert!(lab.todo.contains("see the toolchain above"), "{}", lab.todo);
    }

    #[test]
    fn damage_that_no_start_notices_needs_an_action() {
        let damaged = |at_start| lab(&status(Lab::Damaged { why: "a file".into(), at_start }));
        assert_eq!(damaged(true).state, State::Note);
        let unnoticed = damaged(false);
        assert_eq!(unnoticed.state, State::Action);
        assert!(unnoticed.todo.contains("remove the folder /labs/1"), "{}", unnoticed.todo);
    }
}
