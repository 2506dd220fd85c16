//! Checks of the toolchain, of the lab that cells are linked to, and of Jupyter.

use epsilab::program;
use serde_json::json;

use super::{Check, CheckStatus};
use crate::kernelspec::KernelSpec;
use crate::prebuilt::{InstallationStatus, LibraryState as Lab};
use crate::{install, jupyter, kernel, kernelspec, prebuilt, programs};

/// Runs the checks of everything that notebooks need.
pub fn checks() -> Vec<Check> {
    let mut checks = check_toolchain_and_library();
    checks.extend([temporary_folder(), check_kernelspecs(), check_jupyterlab()]);
    checks
}

fn temporary_folder() -> Check {
    match kernel::check_temporary_folder() {
        Ok(()) => {
            Check::new("temporary", CheckStatus::Ok, "cells can be loaded from temporary files")
        }
        Err(error) => Check::new("temporary", CheckStatus::Action, error.to_string()),
    }
}

fn check_toolchain_and_library() -> Vec<Check> {
    let status = match prebuilt::status() {
        Ok(status) => status,
        Err(error) => {
            let unknown = |key| Check::new(key, CheckStatus::Note, "not checked");
            return vec![
                unknown("toolchain"),
                unknown("rust_src").with_details(json!({"present": false})),
                Check::new("lab", CheckStatus::Action, error.to_string())
                    .with_details(json!({"built": false})),
            ];
        }
    };
    let toolchain = match &status.toolchain {
        Ok(found) => Check::new(
            "toolchain",
            CheckStatus::Ok,
            format!("rustc {} in {}", found.version, found.sysroot.display()),
        )
        .with_details(
            json!({"path": found.rustc, "sysroot": found.sysroot, "version": found.version,
            "commit": found.commit, "host": found.host}),
        ),
        Err(error) => Check::new("toolchain", CheckStatus::Action, error.to_string()),
    };
    vec![toolchain, check_rust_src(&status), check_library(&status)]
}

fn check_rust_src(status: &InstallationStatus) -> Check {
    match (&status.toolchain, status.rust_src) {
        (Err(_), _) => {
            Check::new("rust_src", CheckStatus::Note, "not checked without the toolchain")
        }
        (Ok(_), true) => Check::new(
            "rust_src",
            CheckStatus::Ok,
            "the sources of the standard library are installed",
        ),
        (Ok(toolchain), false) => Check::new(
            "rust_src",
            CheckStatus::Action,
            "the sources of the standard library are missing",
        )
        .with_advice(toolchain.rust_src_advice()),
    }
    .with_details(json!({"present": status.rust_src}))
}

fn check_library(status: &InstallationStatus) -> Check {
    let current = matches!(status.library, Lab::Ready | Lab::Damaged { .. });
    let facts = json!({"dir": status.dir, "built": status.library != Lab::Missing,
        "matches_toolchain": current || status.library == Lab::OtherSources,
        "matches_sources": current, "intact": status.library == Lab::Ready});
    let what = match &status.library {
        Lab::Ready => format!("ready in {}", status.dir.display()),
        Lab::Missing => "not built yet".into(),
        Lab::OtherToolchain => "built by another toolchain".into(),
        Lab::OtherSources => "built from older sources".into(),
        Lab::Damaged { why, .. } => format!("damaged\n{why}"),
    };
    let check = |state, what: String| Check::new("lab", state, what);
    match (&status.library, &status.toolchain, &status.writable) {
        (Lab::Ready, ..) => check(CheckStatus::Ok, what),
        (_, Err(_), _) => check(CheckStatus::Note, what).with_advice(
            "see the toolchain above: cells don't run until the program is built again",
        ),
        (_, _, Err(error)) => {
            let error_text = error.to_string();
            let why = error_text.lines().next().unwrap_or_default();
            check(CheckStatus::Action, format!("{what}\n{why}")).with_advice(error.advice())
        }
        // Kernels that start find no trace of it.
        (Lab::Damaged { at_start: false, .. }, ..) => {
            check(CheckStatus::Action, what).with_advice(format!(
                "remove the folder {}: it is built again when a notebook is opened",
                status.dir.display()
            ))
        }
        _ => check(CheckStatus::Note, what)
            .with_advice("no action needed: it is built when a notebook is opened"),
    }
    .with_details(facts)
}

fn check_kernelspecs() -> Check {
    let found = kernelspec::find_all(&[]);
    let facts = json!({"found": found.iter().map(install::spec_to_json).collect::<Vec<_>>()});
    let lines: Vec<String> =
        found.iter().map(|s| format!("{} in {}", s.name, s.dir.display())).collect();
    // The program registers the kernel for its own JupyterLab again each time it opens it.
    let renewed = |spec: &&KernelSpec| {
        jupyter::environment_dir().is_some_and(|home| spec.dir.starts_with(home))
    };
    let check = match found.iter().find(|spec| !spec.binary_exists() && !renewed(spec)) {
        Some(broken) => Check::new(
            "kernelspecs",
            CheckStatus::Action,
            format!("{} starts {}: no such file", broken.dir.display(), broken.binary.display()),
        )
        .with_advice(format!(
            "`{}` (same options) corrects it, `{}` removes it",
            program::command("install"),
            program::command("uninstall")
        )),
        None if found.is_empty() => {
            Check::new("kernelspecs", CheckStatus::Note, "not installed in any Jupyter")
                .with_advice(format!(
                    "needed only for your own Jupyter or VS Code: `{}`",
                    program::command("install")
                ))
        }
        None => Check::new("kernelspecs", CheckStatus::Ok, lines.join("\n")),
    };
    check.with_details(facts)
}

fn check_jupyterlab() -> Check {
    let (found, own) = (jupyter::find_on_path(), jupyter::find_own());
    let facts = json!({"on_path": found, "own": own, "python": programs::find_python()});
    let check = match found.or(own) {
        Some(lab) => {
            Check::new("jupyter", CheckStatus::Ok, format!("JupyterLab: {}", lab.display()))
        }
        None if facts["python"].is_null() => {
            Check::new("jupyter", CheckStatus::Note, "neither JupyterLab nor Python 3 found")
                .with_advice(format!(
                    "needed only for JupyterLab: install Python 3; `{}` does not need it",
                    program::command("run")
                ))
        }
        None => Check::new("jupyter", CheckStatus::Note, "no JupyterLab yet").with_advice(format!(
            "no action needed: `{}` installs it into its own environment",
            program::name()
        )),
    };
    check.with_details(facts)
}

#[cfg(test)]
mod tests {
    use epsilab::{Error, ErrorKind};

    use super::*;
    use crate::prebuilt::Toolchain;

    fn status(lab: Lab) -> InstallationStatus {
        InstallationStatus {
            dir: "/labs/1".into(),
            toolchain: Toolchain::find(),
            library: lab,
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
            let check = check_library(&status);
            assert_eq!(check.state, CheckStatus::Note, "{}", check.summary);
            assert!(check.advice.contains("built when a notebook is opened"), "{}", check.advice);
            status.writable = Err(error("/labs can't be written"));
            let check = check_library(&status);
            assert_eq!((check.state, check.advice.as_str()), (CheckStatus::Action, "the advice"));
            assert!(check.summary.contains("can't be written"), "{}", check.summary);
        }
        // A lab that is there can be used from a folder that can't be written.
        let mut ready = status(Lab::Ready);
        ready.writable = Err(error("/labs can't be written"));
        assert_eq!(check_library(&ready).state, CheckStatus::Ok);
    }

    #[test]
    fn without_a_toolchain_other_checks_refer_to_it() {
        let mut status = status(Lab::OtherToolchain);
        status.toolchain = Err(error("Rust toolchain = none"));
        status.rust_src = false;
        let (source, lab) = (check_rust_src(&status), check_library(&status));
        assert_eq!((source.state, source.advice.as_str()), (CheckStatus::Note, ""));
        assert_eq!(lab.state, CheckStatus::Note);
        assert!(lab.advice.contains("see the toolchain above"), "{}", lab.advice);
    }

    #[test]
    fn damage_that_no_start_notices_needs_an_action() {
        let damaged =
            |at_start| check_library(&status(Lab::Damaged { why: "a file".into(), at_start }));
        assert_eq!(damaged(true).state, CheckStatus::Note);
        let unnoticed = damaged(false);
        assert_eq!(unnoticed.state, CheckStatus::Action);
        assert!(unnoticed.advice.contains("remove the folder /labs/1"), "{}", unnoticed.advice);
    }
}
