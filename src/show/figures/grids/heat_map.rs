//! A grid of accuracies as a heat map.

use super::stats::{MARK_THRESHOLD, SeedStats, pool_variance, standard_errors_above};
use super::{GridCell, GridFigure, GridSlices, sorted, two_decimals, with_spread};
use crate::Result;
use crate::show::figure_card::FigureHeader;
use crate::show::heat_map::{CellMark, HeatMap, HeatMapCell, HeatMapSlices};
use crate::show::series::extent;
use crate::show::{Coverage, Figure, Table, format};

/// Draws the mean test accuracy ± standard deviation over seeds (percent) for each pre-pruning
/// rate (columns) and dropping rate (rows, 0 at the bottom), as in Figure 3 (left) of the
/// pre-pruning paper.
///
/// A case is marked with a frame and a triangle if its mean differs from that of the case without
/// sparsity by more than two standard errors. The variance is pooled over the map, or over the two
/// cases if theirs is larger. Nothing is marked if the case without sparsity is missing or there is
/// only one seed. The best case is not marked as such.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::show::figures::{GridCell, GridFigure};
/// let cell = |pre_prune: f64, accuracy: [f64; 2]| {
///     GridCell { pre_prune, drop: 0.0, accuracy: accuracy.to_vec() } // of two seeds
/// };
/// let cells = vec![cell(0.0, [0.94, 0.95]), cell(0.5, [0.95, 0.96])];
/// let grid = GridFigure { title: "DP-SSGD".into(), cells, ..Default::default() };
/// let figure = figures::accuracy_heat_map(&grid)?;
/// assert_eq!((figure.title(), figure.table().len()), ("DP-SSGD", 2));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` without cases, for a rate outside [0, 1), an accuracy outside [0, 1], or two
/// cases of the same rates.
pub fn accuracy_heat_map(grid: &GridFigure) -> Result<Figure> {
    grid.check()?;
    let (prune, drop) =
        (grid.sorted_rates(|cell| cell.pre_prune), grid.sorted_rates(|cell| cell.drop));
    let map = GridHeatMap::new(grid, (&prune, &drop), &ShadeScale::new(&grid.seeds()));
    let table = Table::new(COLUMNS).rows(map.rows);
    Ok(grid_header(&grid.title, &grid.note, map.compared_cells).figure(&map.heat, table))
}

/// Draws heat maps as [`accuracy_heat_map`] for several values of a further setting, such as
/// epsilon, side by side and with the same shades. The interactive format shows one of them at a
/// time, which a slider chooses. In each map, cases are compared with the case without sparsity of
/// that map.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::show::figures::{GridCell, GridSlices};
/// let cells = |accuracy| vec![GridCell { pre_prune: 0.0, drop: 0.0, accuracy }];
/// let slices = vec![("1".into(), cells(vec![0.93])), ("3".into(), cells(vec![0.96]))];
/// let grids = GridSlices { setting: "epsilon".into(), slices, ..Default::default() };
/// assert_eq!(figures::accuracy_heat_maps(&grids)?.table().len(), 2); // a row for each cell
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` without values, for a value that occurs twice, without cases, for a rate outside
/// [0, 1), an accuracy outside [0, 1], or two cases of the same rates.
pub fn accuracy_heat_maps(grids: &GridSlices) -> Result<Figure> {
    let slices = grids.checked_grids()?;
    let rates = |rate: fn(&GridCell) -> f64| {
        sorted(slices.iter().flat_map(|(_, grid)| grid.sorted_rates(rate)))
    };
    let (prune, drop) = (rates(|cell| cell.pre_prune), rates(|cell| cell.drop));
    let scale =
        ShadeScale::new(&slices.iter().flat_map(|(_, grid)| grid.seeds()).collect::<Vec<_>>());
    let setting = grids.setting.as_str();
    let mut table = Table::new(std::iter::once(setting).chain(COLUMNS));
    let mut maps = Vec::new();
    let mut compared = 0;
    for (value, grid) in &slices {
        let map = GridHeatMap::new(grid, (&prune, &drop), &scale);
        compared += map.compared_cells;
        table = table.rows(map.rows.into_iter().map(|row| [value.clone()].into_iter().chain(row)));
        maps.push((value.clone(), map.heat));
    }
    let maps = HeatMapSlices { setting: setting.to_owned(), maps };
    Ok(grid_header(&grids.title, &grids.note, compared).figure(&maps, table))
}

const COLUMNS: [&str; 5] = ["pre-pruning", "dropping", "accuracy", "seeds", "from (0, 0)"];

/// Returns the header of heat maps with `compared` cases that may be marked.
fn grid_header(title: &str, note: &str, compared: usize) -> FigureHeader {
    FigureHeader::new(if title.is_empty() { "Accuracy" } else { title })
        .note(note)
        .coverage(Coverage::TestPart)
        .note("Mean test accuracy ± standard deviation over seeds, in percent.")
        .note(marks_note(compared))
}

/// Heat map with the rows of its table.
struct GridHeatMap {
    heat: HeatMap,
    rows: Vec<[String; 5]>,
    /// Number of cases that were compared with the case without sparsity.
    compared_cells: usize,
}

impl GridHeatMap {
    /// Creates the map with a column for each pre-pruning rate and a row for each dropping rate
    /// (both ascending), shaded by `scale`.
    fn new(grid: &GridFigure, (prune, drop): (&[f64], &[f64]), scale: &ShadeScale) -> Self {
        let all = grid.seeds();
        let base = grid.cell(0.0, 0.0).map(|cell| SeedStats::from_values(&cell.accuracy));
        let (mut cells, mut rows, mut compared) = (Vec::new(), Vec::new(), 0);
        for &drop in drop.iter().rev() {
            let mut row = Vec::new();
            for &prune in prune {
                let Some(cell) = grid.cell(prune, drop) else {
                    row.push(HeatMapCell::default());
                    continue;
                };
                let seeds = SeedStats::from_values(&cell.accuracy);
                let is_base = prune == 0.0 && drop == 0.0;
                let errors = base.as_ref().filter(|_| !is_base);
                let errors = errors.and_then(|base| standard_errors_above(&seeds, base, &all));
                compared += usize::from(errors.is_some());
                let sign = match errors {
                    Some(errors) if errors > MARK_THRESHOLD => CellMark::Above,
                    Some(errors) if errors < -MARK_THRESHOLD => CellMark::Below,
                    _ => CellMark::None,
                };
                rows.push(table_row(cell, &seeds, errors));
                row.push(heat_cell(&seeds, scale, sign));
            }
            cells.push(row);
        }
        let percent = |rate: &f64| super::format_rate(*rate);
        let heat = HeatMap {
            rows: drop.iter().rev().map(percent).collect(),
            columns: prune.iter().map(percent).collect(),
            row_name: "gradient-dropping rate".into(),
            column_name: "pre-pruning rate".into(),
            cells,
        };
        Self { heat, rows, compared_cells: compared }
    }
}

/// Returns the explanation of the marks. It states no expected number of false marks: with few
/// degrees of freedom and a shared reference case that number exceeds the tail of a normal
/// distribution.
fn marks_note(compared: usize) -> String {
    match compared {
        0 => "Nothing is marked: marks need several seeds and a case without sparsity.".into(),
        n => format!(
            "Framed: more than {MARK_THRESHOLD} pooled standard errors from no sparsity; of {n} \
             cases some may be framed by chance alone."
        ),
    }
}

/// Scale of the shades: the range of the means, but at least six standard deviations over seeds, so
/// that variation over seeds is not emphasised.
struct ShadeScale {
    low: f64,
    range: f64,
}

impl ShadeScale {
    fn new(all: &[SeedStats]) -> Self {
        let means = all.iter().filter(|seeds| seeds.count > 0).map(|seeds| seeds.mean);
        let (low, high) = extent(means).unwrap_or_default();
        let noise = pool_variance(all).map_or(0.0, |noise| noise.deviation());
        let range = (high - low).max(6.0 * noise).max(1e-3);
        // Centred on the range of the means.
        Self { low: (low + high - range) / 2.0, range }
    }

    fn shade(&self, mean: f64) -> f64 {
        (mean - self.low) / self.range
    }
}

fn heat_cell(seeds: &SeedStats, scale: &ShadeScale, sign: CellMark) -> HeatMapCell {
    if seeds.count == 0 {
        return HeatMapCell { label: "-".into(), ..HeatMapCell::default() };
    }
    HeatMapCell {
        shade: Some(scale.shade(seeds.mean)),
        label: two_decimals(seeds.mean),
        sublabel: seeds
            .deviation()
            .map_or(String::new(), |deviation| format!("± {}", two_decimals(deviation))),
        mark: sign,
    }
}

fn table_row(cell: &GridCell, seeds: &SeedStats, errors: Option<f64>) -> [String; 5] {
    let accuracy = if seeds.count == 0 { "-".into() } else { with_spread(seeds) };
    let from = errors.map_or("-".into(), |errors| {
        let mark = if errors.abs() > MARK_THRESHOLD { ", marked" } else { "" };
        if errors.is_finite() {
            format!("{} standard errors{mark}", format::fixed(errors, 1))
        } else {
            format!("no spread{mark}")
        }
    });
    let [prune, drop] = [cell.pre_prune, cell.drop].map(super::format_rate);
    [prune, drop, accuracy, format::format_count(seeds.count), from]
}
