//! Command `redact`: copies of notebooks without outputs that no epsilon covers. `rules` decides on
//! one output, `redacted_notebook` applies the rules to a notebook, `counts` adds up what was
//! removed, and `target` finds the path of the copy. Begin with `redact`.

mod counts;
mod redacted_notebook;
mod rules;
mod target;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use epsilab::{Result, file};

use crate::html;
use crate::run::notebook::Notebook;
use crate::run::result_paths::ResultPaths;
use redacted_notebook::RedactedNotebook;
use rules::RedactionRules;

/// Copy notebooks without outputs that no epsilon covers, or check that none are left.
#[derive(clap::Args, Debug)]
pub struct RedactArgs {
    /// The notebooks (.ipynb), with their outputs.
    #[arg(value_name = "NB", required = true)]
    pub notebooks: Vec<PathBuf>,
    /// Write nothing, list what would be removed, and exit with 1 if there is something.
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    rules: RedactionRules,
    /// Write DIR/NB.ipynb, or FILE, which ends in .ipynb [default: NB.redacted.ipynb beside NB].
    /// Only earlier redacted copies are overwritten.
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "check")]
    pub out: Option<PathBuf>,
    /// Also write the copy as an HTML page.
    #[arg(long, conflicts_with = "check")]
    pub html: bool,
}

/// Redacts or checks the notebooks, one after the other. A notebook that fails does not stop the
/// others. The exit code is 1 if one failed or, with `--check`, if something must be removed.
///
/// # Errors
/// None: errors of single notebooks are printed.
pub fn redact(args: &RedactArgs) -> Result<ExitCode> {
    let mut is_fine = true;
    let mut written = HashSet::new();
    for path in &args.notebooks {
        match redact_or_check(path, args, &mut written) {
            Ok(fine) => is_fine &= fine,
            Err(error) => {
                eprintln!("error: {error}");
                is_fine = false;
            }
        }
    }
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Redacts or checks a notebook, and returns whether it passes the check.
fn redact_or_check(path: &Path, args: &RedactArgs, written: &mut HashSet<PathBuf>) -> Result<bool> {
    let notebook = Notebook::open_with_outputs(path)?;
    let copy = RedactedNotebook::from_notebook(notebook.as_json(), args.rules);
    if args.check {
        println!("{}", report(path, &copy, "must be removed"));
        return Ok(!copy.is_changed());
    }
    let ResultPaths { notebook: target, page } =
        ResultPaths::of_copy(path, args.out.as_deref(), args.html, written)?;
    file::write(&target, Notebook::from_json(copy.notebook.clone()).to_text()?)?;
    println!("{}", report(path, &copy, "removed"));
    eprintln!("wrote {}", target.display());
    if args.html {
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = path.parent().unwrap_or(Path::new(""));
        file::write(&page, html::render_page(&copy.notebook, &name, folder))?;
        eprintln!("wrote {}", page.display());
    }
    Ok(true)
}

/// Returns the report on a copy: the counts of each cell and in total, and remarks for the reader.
fn report(path: &Path, copy: &RedactedNotebook, verb: &str) -> String {
    let total = if copy.is_changed() {
        format!("{}: {verb}: {}", path.display(), copy.total())
    } else {
        format!("{}: nothing {verb}", path.display())
    };
    let cells = copy.cells.iter().map(|(label, counts)| format!("  {label}: {counts}"));
    let (study_mode, seeds) = (copy.study_mode_cells.join(", "), copy.seeded_cells.join(", "));
    let outputs = match copy.test_part_outputs {
        1 => "1 output is".to_owned(),
        n => format!("{n} outputs are"),
    };
    let unmarked = "note: no output says what it reveals. The notebook was run by another kernel \
                    or an older version; run it again with this one";
    let test_parts = format!(
        "note: {outputs} left with evaluations on a test part that was split off the private data. \
         The epsilon of a run protects the training part only"
    );
    let study_mode = format!(
        "warning: study mode in {study_mode}: anyone who knows the seed can compute the noise, and \
         the notebook's code may show the seed"
    );
    let seeds = format!(
        "warning: a seed is set in {seeds}. If it belongs to a private run or mask, anyone who \
         reads the code can compute the noise and remove it"
    );
    let notes = [
        (copy.is_unmarked, unmarked.to_owned()),
        (copy.test_part_outputs > 0, test_parts),
        (!copy.study_mode_cells.is_empty(), study_mode),
        (!copy.seeded_cells.is_empty(), seeds),
    ];
    let notes = notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note);
    std::iter::once(total).chain(cells).chain(notes).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(path: &Path) -> RedactArgs {
        RedactArgs {
            notebooks: vec![path.to_owned()],
            check: false,
            rules: RedactionRules::default(),
            out: None,
            html: true,
        }
    }

    fn redact_one(path: &Path, args: &RedactArgs) -> Result<bool> {
        redact_or_check(path, args, &mut HashSet::new())
    }

    fn written(folder: &Path) -> PathBuf {
        let stream = json!({ "output_type": "stream", "name": "stdout", "text": ["secret\n"] });
        let notebook = json!({ "nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
            { "cell_type": "code", "id": "a", "source": ["1"], "metadata": {},
              "execution_count": 1, "outputs": [stream] },
        ] });
        let path = folder.join("a.ipynb");
        std::fs::write(&path, notebook.to_string()).unwrap();
        path
    }

    #[test]
    fn a_notebook_fails_the_check_and_its_copy_passes() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let before = std::fs::read(&path).unwrap();
        let check =
            |path: &Path| redact_one(path, &RedactArgs { check: true, ..args(path) }).unwrap();
        assert!(!check(&path));
        assert!(redact_one(&path, &args(&path)).unwrap());
        let copy = folder.path().join("a.redacted.ipynb");
        assert!(check(&copy));
        assert_eq!(std::fs::read(&path).unwrap(), before, "the notebook itself is left alone");
        for name in ["a.redacted.ipynb", "a.redacted.html"] {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(!text.contains("secret") && text.contains("removed before"), "{name}");
        }
        assert!(
            redact_one(
                &path,
                &RedactArgs {
                    check: true,
                    rules: RedactionRules { keep_text: true, ..RedactionRules::default() },
                    ..args(&path)
                }
            )
            .unwrap()
        );
    }

    #[test]
    fn the_notebook_is_never_overwritten_and_bad_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let out = Some(folder.path().join("."));
        let error = redact_one(&path, &RedactArgs { out, ..args(&path) }).unwrap_err().to_string();
        assert!(error.contains("notebook itself") && error.contains("--out"), "{error}");
        let bad = folder.path().join("bad.ipynb");
        std::fs::write(&bad, "{").unwrap();
        let error = redact_one(&bad, &args(&bad)).unwrap_err().to_string();
        assert!(error.contains("bad.ipynb is not a notebook"), "{error}");
        // The others are redacted all the same.
        let both = RedactArgs { notebooks: vec![bad, path.clone()], ..args(&path) };
        assert_eq!(redact(&both).unwrap(), ExitCode::FAILURE);
        assert!(folder.path().join("a.redacted.ipynb").exists());
    }
}
