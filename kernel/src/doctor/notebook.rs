//! Checks of the toolchain, of the lab that cells are linked to, and of Jupyter.

use serde_json::json;

use super::{Check, State};
use crate::kernelspec::Spec;
use crate::prebuilt::State as Lab;
use crate::{install, jupyter, kernelspec, prebuilt, programs};

/// The checks of what notebooks need.
pub fn checks() -> Vec<Check> {
    let mut checks = toolchain_and_lab();
    checks.extend([kernelspecs(), jupyterlab()]);
    checks
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
    let source = match status.rust_src {
        true => {
            Check::new("rust_src", State::Ok, "the sources of the standard library are installed")
        }
        false => {
            Check::new("rust_src", State::Action, "the sources of the standard library are missing")
                .todo(match &status.toolchain {
                    Ok(toolchain) => toolchain.rust_src_advice(),
                    Err(_) => "first install the toolchain, see above".into(),
                })
        }
    }
    .facts(json!({"present": status.rust_src}));
    let current = matches!(status.lab, Lab::Ready | Lab::Damaged(_));
    let facts = json!({"dir": status.dir, "built": status.lab != Lab::Missing,
        "matches_toolchain": current || status.lab == Lab::OtherSources,
        "matches_sources": current, "intact": status.lab == Lab::Ready});
    let note = |what: String| {
        Check::new("lab", State::Note, what).todo("nothing: it is built when a notebook is opened")
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
    // `cargo lab` registers the kernel for its own JupyterLab again each time it opens it.
    let renewed = |spec: &&Spec| jupyter::home().is_some_and(|home| spec.dir.starts_with(home));
    let check = match found.iter().find(|spec| !spec.works() && !renewed(spec)) {
        Some(broken) => Check::new(
            "kernelspecs",
            State::Action,
            format!("{} starts {}: no such file", broken.dir.display(), broken.binary.display()),
        )
        .todo("`cargo lab install` (same options) corrects it, `cargo lab uninstall` removes it"),
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
            Check::new("jupyter", State::Note, "neither JupyterLab nor Python 3 found")
                .todo("only for JupyterLab: install Python 3; `cargo lab run` does not need it")
        }
        None => Check::new("jupyter", State::Note, "no JupyterLab yet")
            .todo("nothing: `cargo lab` installs it into its own environment"),
    };
    check.facts(facts)
}
