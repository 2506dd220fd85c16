//! The live display of a tuning.

use crate::grid::{CellResult, CellRun, GridObserver, GridProgress};
use crate::show::{Coverage, LiveDisplay, MimeBundle, display};
use crate::{Error, ErrorKind, Result};

/// Live display of the progress of a tuning in one output of the notebook.
#[derive(Default)]
pub(super) struct LiveTuning {
    display: LiveDisplay,
    step: String,
    /// The cases whose parameters became infinite or NaN.
    diverged: Vec<String>,
    /// The first other error of a run.
    failure: Option<Error>,
}

impl LiveTuning {
    /// Begins a step of the procedure.
    pub(super) fn begin(&mut self, step: &str) {
        step.clone_into(&mut self.step);
        self.display.update(&MimeBundle::text(step));
    }

    /// Checks that the run of each case was trained or diverged.
    ///
    /// # Errors
    /// The first other error.
    pub(super) fn check(&mut self, cells: &[CellResult]) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let is_lost =
            |cell: &&CellResult| cell.runs.is_empty() && !self.diverged.contains(&cell.describe());
        match cells.iter().find(is_lost) {
            None => Ok(()),
            Some(cell) => {
                let what = format!("tuning, {}: {}", self.step, cell.describe());
                Err(Error::new(ErrorKind::Setting, what, cell.errors.join("\n")))
            }
        }
    }

    pub(super) fn finish(&self) {
        self.display
            .finish(&MimeBundle::text("The tuning is finished.").with_coverage(Coverage::Public));
    }

    fn draw(&self, progress: &GridProgress<'_>, end: &str) {
        if self.display.is_due() {
            let (how_far, cell) = (progress.progress_line(), progress.cell.describe());
            self.display
                .update(&MimeBundle::text(format!("{}: {how_far}; {cell}{end}", self.step)));
        }
    }
}

impl GridObserver for LiveTuning {
    fn on_progress(&mut self, progress: &GridProgress<'_>) {
        self.draw(progress, &format!(": step {}/{}", progress.step, progress.steps));
    }

    fn on_run_end(&mut self, progress: &GridProgress<'_>, run: Result<&CellRun, &Error>) {
        match run {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Model => {
                self.diverged.push(progress.cell.describe());
            }
            Err(error) => {
                self.failure.get_or_insert_with(|| error.clone());
            }
        }
        self.draw(progress, "");
    }

    fn on_warning(&mut self, error: &Error) {
        display(&MimeBundle::text(format!("the run is trained, but: {error}")));
    }
}
