//! The results of experiments: made here or on a cluster, as text and in files.

use std::path::Path;

use epsilab::device::with_rehearsal_mark;
use epsilab::grid::{self, GridResult, redact_hashes};
use epsilab::show::format;
use epsilab::{Error, ErrorKind, Result, file};
use serde::Serialize;

use super::file::Experiment;
use super::options::Options;
use super::paper::{PaperResults, format_as_printed};
use super::run::{ExecutorArgs, Group, GroupOrError, Outcome};

/// Origin of experiments, which determines how cases that can't be trained are treated, and the
/// form of the results.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// Options of `grid`, which make one experiment and the file of its plan. Nothing is trained
    /// if one of its cases can't be.
    Options { plan: &'a str },
    /// A file of experiments, which have names. Cases that can't be trained are reported.
    File,
}

impl Source<'_> {
    /// Returns the name of the command, which is part of the names of its files.
    pub fn command(self) -> &'static str {
        if self.is_file() { "sweep" } else { "grid" }
    }

    /// Returns whether the experiments are from a file.
    pub fn is_file(self) -> bool {
        matches!(self, Self::File)
    }
}

/// The file of `--out` from which `report` knows the grid.
pub const PLAN_FILE: &str = "plan.json";

/// Results of the cases of an experiment that were trained together.
struct GroupResult {
    /// Indices of the cases in the experiment.
    places: Vec<usize>,
    /// Results that papers print for the cases, in the same order.
    papers: Vec<PaperResults>,
    result: GridResult,
}

/// Experiment with its results.
pub struct Results<'a> {
    experiment: &'a Experiment,
    trained: Vec<GroupResult>,
    /// Indices of cases without any result, with the error.
    errors: Vec<(usize, Error)>,
}

impl<'a> Results<'a> {
    /// Trains the groups of an experiment.
    ///
    /// # Errors
    /// Those of a cluster, and with cases from options the first of any.
    pub fn train(
        experiment: &'a Experiment,
        groups: Vec<GroupOrError>,
        executor: &ExecutorArgs,
        source: Source<'_>,
    ) -> Result<(Self, Outcome)> {
        let mut all = Self { experiment, trained: Vec::new(), errors: Vec::new() };
        let mut ended = Outcome::Finished;
        for group in groups {
            let group = match group {
                Ok(group) => group,
                Err((places, error)) => {
                    all.errors
                        .extend(places.into_iter().map(|case_index| (case_index, error.clone())));
                    continue;
                }
            };
            let (result, outcome) = match group.run(executor) {
                Ok(ended) => ended,
                Err(error) if !source.is_file() || executor.is_cluster() => return Err(error),
                Err(error) => (all.stored_after(&group, &error), Outcome::Finished),
            };
            all.trained.extend(result.map(|result| GroupResult::new(experiment, &group, result)));
            match outcome {
                Outcome::Interrupted => return Ok((all, outcome)),
                Outcome::Finished => {}
                // The other groups have the part done as well.
                Outcome::Part(_) => ended = outcome,
            }
        }
        Ok((all, ended))
    }

    /// Returns the runs that were finished before the error of a group. Cases without any have the
    /// error.
    fn stored_after(&mut self, group: &Group, error: &Error) -> Option<GridResult> {
        let stored = group.stored().ok();
        for (at, &case_index) in group.places.iter().enumerate() {
            let cell = stored.as_ref().and_then(|result| result.cells().get(at));
            if cell.is_none_or(|cell| cell.runs.is_empty()) {
                self.errors.push((case_index, group.error(at, error)));
            }
        }
        stored.filter(|result| result.runs() > 0)
    }

    /// Returns the results with the differences to the case at index `case_index`, in the group
    /// that has it.
    ///
    /// # Errors
    /// As [`GridResult::with_baseline`].
    pub fn with_baseline(mut self, case_index: usize) -> Result<Self> {
        for group in &mut self.trained {
            if let Some(at) = group.places.iter().position(|&known| known == case_index) {
                group.result = group.result.clone().with_baseline(at)?;
            }
        }
        Ok(self)
    }

    pub fn grids(&self) -> impl Iterator<Item = &GridResult> {
        self.trained.iter().map(|trained| &trained.result)
    }

    /// Returns the errors of cases and of runs, each with its case.
    pub fn missing(&self) -> Vec<(String, String)> {
        let location =
            |case_index: usize| self.experiment.place(&self.experiment.cases[case_index]);
        let cases = self.errors.iter().map(|(at, error)| (location(*at), error.to_string()));
        let cells = |trained: &GroupResult| {
            let cells = trained.places.clone().into_iter().zip(trained.result.cells().to_vec());
            cells.flat_map(|(at, cell)| cell.errors.into_iter().map(move |error| (at, error)))
        };
        let unknown = |(at, _): &(usize, String)| self.errors.iter().all(|(known, _)| known != at);
        let runs = self.trained.iter().flat_map(cells).filter(unknown);
        cases.chain(runs.map(|(at, error)| (location(at), error))).collect()
    }

    /// Returns the name and the title of an experiment that has a name.
    fn title(&self, source: Source<'_>) -> Option<String> {
        source.is_file().then(|| self.experiment.caption())
    }

    /// Returns lines about the cases that have no row in a table.
    fn missing_cases(&self) -> Vec<String> {
        let line = |(at, error): &(usize, Error)| {
            let location = self.experiment.place(&self.experiment.cases[*at]);
            format!("Not trained: {location}, {}", redact_hashes(&to_single_line(error)))
        };
        self.errors.iter().map(line).collect()
    }

    /// Returns tables and notes as text.
    pub fn text(&self, source: Source<'_>) -> String {
        let results = self.grids().map(ToString::to_string);
        let missing = self.missing_cases();
        let missing = (!missing.is_empty()).then(|| missing.join("\n"));
        let parts = self.title(source).into_iter().chain(results).chain(missing);
        parts.collect::<Vec<_>>().join("\n\n")
    }

    /// Returns tables and notes as Markdown.
    pub fn markdown(&self, source: Source<'_>) -> String {
        let results: Vec<GridResult> = self.grids().cloned().collect();
        let title = self.title(source).map(|title| format!("# {title}\n\n")).unwrap_or_default();
        let missing: Vec<String> =
            self.missing_cases().iter().map(|line| format!("- {line}\n")).collect();
        let missing = missing.concat().replace('|', "\\|");
        let space = if results.is_empty() || missing.is_empty() { "" } else { "\n" };
        title + &grid::markdown(&results) + space + &missing
    }
}

impl GroupResult {
    /// Returns the result with columns for the paper's results of the same work.
    fn new(experiment: &Experiment, group: &Group, result: GridResult) -> Self {
        let examples = group.data.train().len();
        let paper = |&case_index: &usize| experiment.cases[case_index].paper.on(examples);
        let papers: Vec<PaperResults> = group.places.iter().map(paper).collect();
        let is_timed = papers.iter().any(|paper| paper.seconds_per_epoch.is_some());
        let times = result.cells().iter().map(|cell| {
            let seconds = cell.seconds_per_epoch().filter(|_| is_timed);
            seconds.map(format::seconds).unwrap_or_default()
        });
        let numbers = |number: fn(&PaperResults) -> Option<f64>| {
            papers
                .iter()
                .map(|paper| number(paper).map(format_as_printed).unwrap_or_default())
                .collect()
        };
        let columns: [(&str, Vec<String>); 4] = [
            ("paper's accuracy %", numbers(|paper| paper.accuracy)),
            ("paper's epsilon", numbers(|paper| paper.epsilon)),
            ("s per epoch", times.collect()),
            ("paper's s per epoch", numbers(|paper| paper.seconds_per_epoch)),
        ];
        let filled = columns.into_iter().filter(|(_, texts)| texts.iter().any(|t| !t.is_empty()));
        let result = filled.fold(result, |result, (name, texts)| result.with_column(name, texts));
        Self { places: group.places.clone(), papers, result }
    }
}

/// Row of results: one case over its seeds. It has no names of runs, which are derived from the
/// data.
#[derive(Serialize)]
pub struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    experiment: Option<String>,
    /// The `train` options of the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<Options>,
    #[serde(flatten)]
    pub cell: grid::GridRow,
    /// Mean over seeds of the seconds of training per epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_per_epoch: Option<f64>,
    /// Results that a paper prints for the same work.
    #[serde(skip_serializing_if = "has_no_results")]
    paper: PaperResults,
}

fn has_no_results(paper: &PaperResults) -> bool {
    !paper.has_results()
}

/// Returns the rows of all cases.
pub fn rows(all: &[Results<'_>], source: Source<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for Results { experiment, trained, errors } in all {
        let first = rows.len();
        rows.extend(experiment.cases.iter().map(|case| Row {
            experiment: source.is_file().then(|| with_rehearsal_mark(&experiment.name)),
            options: source.is_file().then(|| case.options.clone()),
            cell: case.row(),
            seconds_per_epoch: None,
            paper: case.paper.clone(),
        }));
        for GroupResult { places, papers, result } in trained {
            let cells = result.cells().iter().zip(result.rows());
            for ((case_index, paper), (cell, of_cell)) in places.iter().zip(papers).zip(cells) {
                let row: &mut Row = &mut rows[first + case_index];
                row.cell = of_cell;
                row.seconds_per_epoch = cell.seconds_per_epoch().filter(|_| source.is_file());
                row.paper = paper.clone();
            }
        }
        for (case_index, error) in errors {
            rows[first + case_index].cell.errors = vec![redact_hashes(&to_single_line(error))];
        }
    }
    rows
}

/// Returns an error as one line.
pub fn to_single_line(error: &Error) -> String {
    error.to_string().replace("\n  what to do: ", "; what to do: ").replace('\n', " ")
}

/// Returns rows as a JSON list.
///
/// # Errors
/// If they can't be written as JSON, for which no case is known.
pub fn json(rows: &[impl Serialize]) -> Result<String> {
    serde_json::to_string(rows)
        .map_err(|e| Error::new(ErrorKind::Io, "the results as JSON", e.to_string()))
}

/// Writes the JSON list and, for each experiment, a CSV file and the figures as SVG and PNG, and
/// the plan.
///
/// # Errors
/// Kind `Io` for the first file that can't be written.
pub fn write(folder: &Path, json: &str, all: &[Results<'_>], source: Source<'_>) -> Result<()> {
    let write = |name: &str, bytes: &[u8]| file::write(folder.join(name), bytes);
    write(&format!("{}.json", source.command()), format!("{json}\n").as_bytes())?;
    for one in all {
        let results: Vec<GridResult> = one.grids().cloned().collect();
        let name = sanitise_file_name(&one.experiment.name);
        write(&format!("{name}.csv"), grid::csv(&results)?.as_bytes())?;
        let prefix = if source.is_file() { format!("{name}_") } else { String::new() };
        for result in &results {
            for (figure, bundle) in result.figures() {
                let ends =
                    sanitise_file_name(&format!("{figure}_{}_{}", result.data(), result.model()));
                if let Some(svg) = &bundle.svg {
                    write(&format!("{prefix}{ends}.svg"), svg.as_bytes())?;
                }
                if let Some(png) = &bundle.png {
                    write(&format!("{prefix}{ends}.png"), png)?;
                }
            }
        }
    }
    match source {
        Source::Options { plan } => write(PLAN_FILE, plan.as_bytes()),
        Source::File => Ok(()),
    }
}

/// Replaces all characters but letters, digits, dots, dashes and underscores by underscores.
pub fn sanitise_file_name(text: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.chars().map(|c| if fine(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_leave_no_folder() {
        assert_eq!(
            sanitise_file_name("heat_map_eps_3_Fashion-MNIST, 1/2_../x"),
            "heat_map_eps_3_Fashion-MNIST__1_2_.._x"
        );
    }
}
