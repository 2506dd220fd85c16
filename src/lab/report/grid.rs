//! The report of a grid.

use super::{Block, Report, SOFTWARE, software};
use crate::Result;
use crate::grid::{CellResult, GridResult};
use crate::lab::Preview;
use crate::show::{Coverage, format};
use crate::store::RunStore;

pub(super) fn report(result: &GridResult, store: &RunStore) -> Result<Report> {
    let reveals = result.coverage();
    let lead = Block::prose(finding(result), reveals);
    let results = Block::Table(result.table().coverage(reveals));
    let figures = result.figures().into_iter().map(|(_, figure)| Block::figure(figure));
    let notes = result.notes().into_iter().map(|note| Block::prose(note, reveals));
    let on_record = result.on_record().map(|note| Block::prose(note, Coverage::Public));
    let (mut settings, mut trained_with) = (Vec::new(), Vec::new());
    for cell in last_of_each(result.cells()) {
        let Some(run) = cell.runs.first() else { continue };
        let record = store.find_record(&run.id)?;
        let preview = Preview::settings(&record.plan)?;
        settings.push(Block::Table(preview.table().caption(cell.describe())));
        trained_with.push(record.software);
    }
    trained_with.sort();
    trained_with.dedup();
    Ok(Report::new(format!("A grid of {} on {}", result.model(), result.data()))
        .section("", [lead])
        .section("Results", std::iter::once(results).chain(figures))
        .section("Privacy cost and seed noise", notes.chain(on_record))
        .section("Settings", settings)
        .section(SOFTWARE, [software(&trained_with)]))
}

/// Describes the result: the number of finished runs, and the best case.
fn finding(result: &GridResult) -> String {
    let runs = format!(
        "{} of {} are finished, {} for each of {}.",
        result.runs(),
        format::pluralise(result.planned_runs(), "run"),
        format::pluralise(result.seeds(), "seed"),
        format::pluralise(result.cells().len(), "case"),
    );
    let measured = result.cells().iter().filter_map(|cell| Some((cell, cell.mean()?)));
    let Some((best, mean)) = measured.max_by(|a, b| a.1.total_cmp(&b.1)) else { return runs };
    let within = result.noise_threshold().map_or(String::new(), |threshold| {
        let others = result.cells().iter().filter(|cell| !std::ptr::eq(*cell, best));
        let close = others.filter_map(CellResult::mean).filter(|other| mean - other < threshold);
        match close.count() {
            0 => " No other case is within the noise of the seeds.".to_owned(),
            1 => " One other case is within the noise of the seeds.".to_owned(),
            n => format!(" {n} other cases are within the noise of the seeds."),
        }
    });
    format!(
        "{runs}\nHighest mean accuracy: {:.2} %, {}.{within} Choosing a case by its accuracy is \
         not covered by the epsilon of that case.",
        100.0 * mean,
        best.describe()
    )
}

/// Returns the last case with a finished run for each method and epsilon: the one with the highest
/// rates.
fn last_of_each(cells: &[CellResult]) -> Vec<&CellResult> {
    let mut found: Vec<&CellResult> = Vec::new();
    for cell in cells.iter().filter(|cell| !cell.runs.is_empty()) {
        let same =
            |other: &&mut &CellResult| (other.method, other.epsilon) == (cell.method, cell.epsilon);
        match found.iter_mut().find(same) {
            Some(other) => *other = cell,
            None => found.push(cell),
        }
    }
    found
}
