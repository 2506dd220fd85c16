//! The live display of a grid.

use super::result::{CellResult, CellRun, GridResult};
use super::table::{describe_cell, table};
use super::{GridObserver, GridProgress};
use crate::Error;
use crate::privacy::digits::{format_count, pluralise};
use crate::show::{Coverage, LiveDisplay, MimeBundle, display, format};

/// Live display of the progress of a grid, in one output of the notebook.
#[derive(Default)]
pub(super) struct LiveGrid {
    display: LiveDisplay,
}

impl LiveGrid {
    /// Shows the final line, with the number of finished runs.
    pub(super) fn finish(&self, result: &GridResult) {
        let (done, all) = (result.runs(), result.planned_runs());
        let stopped = if result.is_interrupted() {
            ": stopped; run this again to continue from there"
        } else {
            ""
        };
        let (all, are) = (pluralise(all, "run"), if all == 1 { "is" } else { "are" });
        let line = format!("{} of {all} {are} finished{stopped}", format_count(done));
        self.display.finish(&MimeBundle::text(line).with_coverage(Coverage::Public));
    }

    fn draw(&self, line: impl FnOnce() -> String, cells: &[CellResult]) {
        if !self.display.is_due() {
            return;
        }
        let line = line();
        let seeds = cells.iter().map(|cell| cell.runs.len()).max().unwrap_or(0).max(1);
        let table = table(cells, seeds as u64);
        let html = format!("<p>{}</p>\n{}", format::html_escape(&line), table.html());
        self.display
            .update(&MimeBundle::text(format!("{line}\n\n{}", table.text())).with_html(html));
    }
}

impl GridObserver for LiveGrid {
    fn on_progress(&mut self, progress: &GridProgress<'_>) {
        let line = || {
            let GridProgress { step, steps, seed, .. } = progress;
            let cell = describe_cell(progress.cell);
            format!("{}; now {cell}, seed {seed}: step {step}/{steps}", progress.progress_line())
        };
        self.draw(line, progress.cells);
    }

    fn on_run_end(&mut self, progress: &GridProgress<'_>, run: Result<&CellRun, &Error>) {
        self.draw(|| progress.run_line(run), progress.cells);
    }

    fn on_note(&mut self, text: &str) {
        display(&MimeBundle::text(text));
    }

    fn on_warning(&mut self, error: &Error) {
        display(&MimeBundle::text(format!("the run is trained, but: {error}")));
    }
}

impl GridProgress<'_> {
    /// Formats the progress of the grid: `5 of 12 runs, 42 s, about 1 min 10 s left`. Several runs
    /// at once and failed runs are counted: `5 of 12 runs, 2 at once, 1 failed, 42 s, …`.
    pub fn progress_line(&self) -> String {
        let left = match self.seconds_left {
            Some(left) if self.completed < self.total => {
                format!(", about {} left", format::seconds(left))
            }
            _ => String::new(),
        };
        let (done, all) = (format_count(self.completed), pluralise(self.total, "run"));
        let number = |n: usize, least: usize, what: &str| {
            if n >= least { format!(", {} {what}", format_count(n)) } else { String::new() }
        };
        let now = number(self.running, 2, "at once") + &number(self.failed, 1, "failed");
        format!("{done} of {all}{now}{}{left}", time(self.seconds))
    }

    /// Formats a line about a run that has ended.
    pub fn run_line(&self, run: Result<&CellRun, &Error>) -> String {
        let outcome = match run {
            Ok(run) => {
                let accuracy = run.accuracy.map_or("no test part".into(), super::table::percent);
                let how = if run.restored { "shown again" } else { "trained" };
                format!("{accuracy} ({how}{})", time(run.seconds))
            }
            Err(error) => format!("failed: {}", error.to_string().replace('\n', " ")),
        };
        format!(
            "{}; {}, seed {}: {outcome}",
            self.progress_line(),
            describe_cell(self.cell),
            self.seed
        )
    }
}

/// Returns a time as the end of a phrase: `, 42 s`.
fn time(seconds: Option<f64>) -> String {
    seconds.map(|seconds| format!(", {}", format::seconds(seconds))).unwrap_or_default()
}
