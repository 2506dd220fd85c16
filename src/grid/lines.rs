//! Charts of the accuracy over a setting, such as clip norm or epsilon.

use super::figures::{coverage, note, to_figure_cell};
use super::result::{CellResult, GridResult};
use super::table::{describe_cell, labels};
use crate::show::{Chart, MimeBundle, Panel, Series};

/// Largest number of lines in a chart that a reader can distinguish.
const MAX_LINES: usize = 8;

/// Returns a chart by name for each setting with several numbers as values: mean accuracy over the
/// setting, a line for all cases that are alike otherwise. Error bars are one standard deviation
/// over seeds. Epsilon is such a setting where there are no rates, which have figures of their own.
pub(super) fn charts(result: &GridResult) -> Vec<(String, MimeBundle)> {
    let cells = result.cells();
    let has_rates = cells.iter().any(|cell| cell.pre_prune > 0.0 || cell.drop > 0.0);
    let settings = (!has_rates).then_some("epsilon").into_iter().chain(labels(cells));
    let drawn = settings.filter_map(|setting| {
        let chart = chart(result, setting)?.coverage(coverage(result));
        Some((format!("accuracy_over_{setting}"), chart.bundle()))
    });
    drawn.collect()
}

fn chart(result: &GridResult, setting: &str) -> Option<Chart> {
    let lines = lines(result.cells(), setting);
    let xs = || lines.iter().flat_map(|(_, cells)| cells).map(|(x, _)| *x);
    let (low, high) = (xs().reduce(f64::min)?, xs().reduce(f64::max)?);
    if low == high || lines.len() > MAX_LINES {
        return None;
    }
    let panel = Panel::new("test accuracy ± standard deviation over seeds")
        .percent()
        .values_at(high, format!("{setting} {high}"));
    let panel = lines.iter().fold(panel, |panel, (name, cells)| panel.series(line(name, cells)));
    let title = format!("Accuracy over {setting}, {} on {}", result.model(), result.data());
    let chart = Chart::new(title).note(note(result)).panel(panel).x_label(setting);
    // Space for lines that are shifted sideways at the ends.
    Some(if low > 0.0 && high >= 4.0 * low {
        let space = (high / low).powf(0.03);
        chart.x_log().x_range(low / space, high * space)
    } else {
        let space = 0.03 * (high - low);
        chart.x_range(low - space, high + space)
    })
}

/// A line: its name, and its cases with the value of the setting.
type Line<'a> = (String, Vec<(f64, &'a CellResult)>);

/// Returns the finished cases that have a number for the setting, in lines.
fn lines<'a>(cells: &'a [CellResult], setting: &str) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.mean().is_some()) {
        let Some((x, name)) = without(cell, setting) else { continue };
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, line)) => line.push((x, cell)),
            None => lines.push((name, vec![(x, cell)])),
        }
    }
    lines
}

/// Returns the value of a setting, and the other settings of the case in words.
fn without(cell: &CellResult, setting: &str) -> Option<(f64, String)> {
    let mut others = CellResult { runs: Vec::new(), errors: Vec::new(), ..cell.clone() };
    let value = match setting {
        "epsilon" => others.epsilon.take()?,
        _ => cell.label(setting)?.parse().ok()?,
    };
    others.labels.retain(|(name, _)| name != setting);
    Some((value, describe_cell(&others)))
}

fn line(name: &str, cells: &[(f64, &CellResult)]) -> Series {
    let mut cells = cells.to_vec();
    cells.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let points: Vec<(f64, f64)> =
        cells.iter().filter_map(|(x, cell)| Some((*x, cell.mean()?))).collect();
    let deviation =
        |(_, cell): &(f64, &CellResult)| to_figure_cell(cell).deviation().unwrap_or(0.0);
    Series::line(name, points).errors(cells.iter().map(deviation).collect::<Vec<_>>())
}
