//! A grid of accuracies as lines.

use super::stats::SeedStats;
use super::{GridFigure, with_spread};
use crate::Result;
use crate::show::{Chart, Coverage, Panel, Series, Table, format};

/// Plots the mean test accuracy over the pre-pruning rate, one line per dropping rate. Error bars
/// are one standard deviation over seeds. As in Figure 3 (top) of the pre-pruning paper.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::show::figures::{GridCell, GridFigure};
/// let cell = |pre_prune: f64, drop: f64, accuracy: [f64; 2]| {
///     GridCell { pre_prune, drop, accuracy: accuracy.to_vec() } // of two seeds
/// };
/// let cells = vec![cell(0.0, 0.0, [0.94, 0.95]), cell(0.5, 0.0, [0.95, 0.96])];
/// let chart = figures::accuracy_lines(&GridFigure { cells, ..Default::default() })?;
/// let lines = chart.panels()[0].all_series();
/// assert_eq!((lines.len(), lines[0].points().len()), (1, 2)); // one dropping rate, two of pruning
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` without cases, for a rate outside [0, 1), an accuracy outside [0, 1], or two
/// cases of the same rates.
pub fn accuracy_lines(grid: &GridFigure) -> Result<Chart> {
    grid.check()?;
    let prune = grid.sorted_rates(|cell| cell.pre_prune);
    let mut panel = Panel::new("test accuracy ± standard deviation over seeds").percent();
    let mut table = Table::new(["dropping", "pre-pruning", "accuracy", "seeds"]);
    for drop in grid.sorted_rates(|cell| cell.drop) {
        let (mut points, mut errors) = (Vec::new(), Vec::new());
        for &rate in &prune {
            let seeds = grid.cell(rate, drop).map(|cell| SeedStats::from_values(&cell.accuracy));
            let Some(seeds) = seeds.filter(|seeds| seeds.count > 0) else { continue };
            points.push((100.0 * rate, seeds.mean));
            errors.push(seeds.deviation().unwrap_or(0.0));
            let row = [super::format_rate(drop), super::format_rate(rate), with_spread(&seeds)];
            table = table.row(row.into_iter().chain([format::format_count(seeds.count)]));
        }
        let name = format!("{} dropped", super::format_rate(drop));
        panel = panel.series(Series::line(name, points).errors(errors));
    }
    if let Some(&last) = prune.last().filter(|_| prune.len() > 1) {
        panel = panel.values_at(100.0 * last, format!("{} pre-pruned", super::format_rate(last)));
    }
    let title = if grid.title.is_empty() { "Accuracy" } else { &grid.title };
    let mut chart =
        Chart::new(title).coverage(Coverage::TestPart).panel(panel).x_label("pre-pruning rate (%)");
    chart.note = Some(grid.note.clone()).filter(|note| !note.is_empty());
    let last = prune.last().map_or(0.0, |rate| 100.0 * rate);
    // Space for series that are shifted sideways at the ends.
    Ok(chart.x_range(-0.03 * last, 1.03 * last).details(table.text()))
}
