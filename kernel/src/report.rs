//! The command `report`: a stored run or grid as one document.

use std::path::{Path, PathBuf};

use epsilab::grid::GridResult;
use epsilab::lab::{self, Report};
use epsilab::program;
use epsilab::{Error, ErrorKind, Result};

use crate::experiment::{PLAN_FILE, grid, sanitise_file_name};

/// Write a report of a stored run or of a grid.
#[derive(clap::Args, Clone, Debug)]
pub struct ReportArgs {
    /// A run, by its name, the beginning of its name or its label; or the folder or plan of a grid
    #[arg(value_name = "RUN|GRID")]
    source: String,
    /// Write an HTML page (the default)
    #[arg(long)]
    html: bool,
    /// Write Markdown, with the figures in a folder beside it
    #[arg(long)]
    markdown: bool,
    /// Write a LaTeX document, with the figures in a folder beside it
    #[arg(long)]
    latex: bool,
    /// The file; its extension (.html, .md, .tex) determines the format if no option does. An
    /// existing file is replaced
    #[arg(long, value_name = "FILE", default_value = "report")]
    out: PathBuf,
    /// Leave out everything that no epsilon covers
    #[arg(long)]
    covered: bool,
}

/// Runs `report`.
///
/// # Errors
/// Kind `MissingData` if there is no such run, or no run of the grid is stored; errors of reading
/// and writing.
pub fn report(args: &ReportArgs) -> Result<()> {
    let files = output_paths(args)?;
    for (suffix, report) in load_reports(&args.source)? {
        let report = if args.covered { report.covered() } else { report };
        for file in &files {
            let path = with_suffix(file, &suffix);
            report.save(&path)?;
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// Returns the reports, each with the suffix of its file's name where there are several.
fn load_reports(name: &str) -> Result<Vec<(String, Report)>> {
    let path = Path::new(name);
    let plan = match (path.is_dir(), path.is_file()) {
        (true, _) => path.join(PLAN_FILE),
        (_, true) => path.to_owned(),
        _ => {
            let runs = lab::runs()?;
            return runs.report(name).map(|report| vec![(String::new(), report)]).map_err(
                |error| {
                    if error.kind() != ErrorKind::MissingData {
                        return error;
                    }
                    let why = if name.contains(['/', '.']) {
                        "there is no such file or folder"
                    } else {
                        "neither a label nor the beginning of exactly one stored run's name"
                    };
                    Error::new(ErrorKind::MissingData, name, why).fix(format!(
                    "`{}` lists the names; a grid is named by the folder of `grid --out`, or by \
                     its plan",
                    program::command("runs")
                ))
                },
            );
        }
    };
    if path.is_dir() && !plan.is_file() {
        let why = format!("a folder of a grid contains {}", PLAN_FILE);
        return Err(Error::new(ErrorKind::MissingData, format!("the folder {name}"), why)
            .fix("name the folder of `grid --out`, or the name of a run"));
    }
    let (plan, results) = grid::stored(&plan)?;
    let instructions = format!(
        "{}Save this plan as plan.json and run this command. Its runs have the seeds 0, 1, …, so \
         on the CPU and the same data their results are identical bit for bit.",
        program::how_to_get()
    );
    let command = program::command("grid --plan plan.json");
    let names: Vec<String> = results
        .iter()
        .map(|result| sanitise_file_name(&format!("_{}_{}", result.data(), result.model())))
        .collect();
    let suffix = |at: usize| match names.iter().filter(|name| **name == names[at]).count() {
        _ if names.len() == 1 => String::new(),
        1 => names[at].clone(),
        // Results that differ in their start have the same names.
        _ => format!("{}_{}", names[at], at + 1),
    };
    let report = |(at, result): (usize, &GridResult)| {
        let report = result.report()?.repeated_by(&instructions, command.clone(), plan.to_json()?);
        Ok((suffix(at), report))
    };
    results.iter().enumerate().map(report).collect()
}

/// Returns the files to write, one for each format.
fn output_paths(args: &ReportArgs) -> Result<Vec<PathBuf>> {
    let ending = args.out.extension().map(|e| e.to_string_lossy().to_lowercase());
    let known = ["html", "md", "tex"];
    let requested = [args.html, args.markdown, args.latex];
    let chosen =
        known.iter().zip(requested).filter(|(_, requested)| *requested).map(|(ending, _)| *ending);
    let chosen: Vec<&str> = chosen.collect();
    match ending {
        Some(ending) if known.contains(&ending.as_str()) => {
            if chosen.iter().all(|only| *only == ending) {
                return Ok(vec![args.out.clone()]);
            }
            let why = "the file extension does not match the requested formats";
            Err(Error::setting("--out", args.out.display(), why)
                .fix("leave out the extension or the options"))
        }
        Some(ending) if ending.len() > 1 && ending.chars().all(|c| c.is_ascii_alphabetic()) => {
            Err(Error::setting(
                "--out",
                args.out.display(),
                "the file extension is not a format of reports",
            )
            .fix("end the name in .html, .md or .tex, or leave out the extension"))
        }
        _ => {
            let chosen = if chosen.is_empty() { vec!["html"] } else { chosen };
            let with = |ending: &str| PathBuf::from(format!("{}.{ending}", args.out.display()));
            Ok(chosen.into_iter().map(with).collect())
        }
    }
}

/// Returns the path of the file with a suffix before its extension.
fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let ending = file.extension().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{stem}{suffix}.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(out: &str, formats: [bool; 3]) -> ReportArgs {
        let [html, markdown, latex] = formats;
        let (source, out, covered) = ("3f09".to_owned(), out.into(), false);
        ReportArgs { source, html, markdown, latex, out, covered }
    }

    #[test]
    fn the_format_is_that_of_the_options_or_of_the_ending() {
        let none = [false; 3];
        let all = |out: &str, formats| {
            output_paths(&args(out, formats)).map(|files| {
                files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
            })
        };
        assert_eq!(all("report", none).unwrap(), ["report.html"]);
        assert_eq!(all("a/b.md", none).unwrap(), ["a/b.md"]);
        assert_eq!(all("a/b", [true, false, true]).unwrap(), ["a/b.html", "a/b.tex"]);
        assert_eq!(all("v1.2", none).unwrap(), ["v1.2.html"]);
        assert_eq!(all("b.tex", [false, false, true]).unwrap(), ["b.tex"]);
        assert!(all("b.tex", [true, false, false]).is_err());
        assert!(all("b.pdf", none).unwrap_err().to_string().contains(".tex"));
        assert_eq!(with_suffix(Path::new("a/b.md"), "_x"), Path::new("a/b_x.md"));
    }

    #[test]
    fn a_folder_without_a_plan_and_a_missing_file_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = load_reports(&folder.path().display().to_string()).unwrap_err().to_string();
        assert!(error.contains("plan.json"), "{error}");
        let error = load_reports("nowhere/plan.json").unwrap_err().to_string();
        assert!(error.contains("no such file"), "{error}");
        let error = load_reports("nosuchrun").unwrap_err().to_string();
        assert!(error.contains("lab runs"), "{error}");
    }
}
