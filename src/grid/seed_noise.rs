//! Differences between cases that are within the noise of the seeds, for the cases of one method
//! and epsilon, which are one heat map; its frames follow the same rule. Where no heat map has two
//! cases, the cases of one method are pooled.

use super::figures::{group_by_epsilon, heading_suffix, to_figure_cell};
use super::result::{CellResult, Inner};
use crate::show::figures::GridFigure;
use crate::show::format;

/// Noise of the seeds in a group of cases.
pub(super) struct Pool {
    /// The method of the cases, and their epsilon if it is the same.
    name: String,
    /// Threshold below which differences of two means are within the noise.
    pub(super) threshold: f64,
    deviation: f64,
    freedom: usize,
}

/// Returns the pools with an estimate. Cases may share runs (dp-sgd has those of dp-ssgd without
/// sparsity), so a pool whose runs are all in another pool is skipped.
pub(super) fn seed_noise_by_group(result: &Inner) -> Vec<Pool> {
    let maps: Vec<&[CellResult]> = group_by_epsilon(&result.cells).collect();
    let are_single = maps.iter().all(|map| map.len() == 1);
    let all: Vec<&[CellResult]> = if are_single {
        result.cells.chunk_by(|a, b| a.method == b.method).collect()
    } else {
        maps
    };
    let alone = |at: usize| {
        let inside = |other: usize| {
            let same = ids(all[other]).count() == ids(all[at]).count();
            // Of two equal pools, the first is kept.
            other != at
                && (!same || other < at)
                && ids(all[at]).all(|id| ids(all[other]).any(|known| known == id))
        };
        !(0..all.len()).any(inside)
    };
    let distinct = (0..all.len()).filter(|&at| alone(at));
    let name = |cells: &[CellResult]| {
        let at = if are_single { String::new() } else { heading_suffix(cells.iter()) };
        format!("{}{at}", cells[0].method)
    };
    distinct.filter_map(|at| pool(name(all[at]), all[at], result.seeds)).collect()
}

fn ids(cells: &[CellResult]) -> impl Iterator<Item = &str> {
    cells.iter().flat_map(|cell| &cell.runs).map(|run| run.id.as_str())
}

fn pool(name: String, cells: &[CellResult], seeds: u64) -> Option<Pool> {
    let figure =
        GridFigure { cells: cells.iter().map(to_figure_cell).collect(), ..GridFigure::default() };
    let noise = figure.pooled_variance()?;
    let (threshold, deviation) = (noise.min_marked_difference(seeds), noise.deviation());
    Some(Pool { name, threshold, deviation, freedom: noise.degrees_of_freedom })
}

/// Returns the notes: a line per pool, then the rule.
pub(super) fn notes(result: &Inner) -> Vec<String> {
    let pools = seed_noise_by_group(result);
    if pools.is_empty() {
        let note = match result.seeds {
            1 => "One seed gives no estimate of noise: use several before you compare cases.",
            _ => "No case has two finished runs yet, so the seed noise is unknown.",
        };
        return vec![note.into()];
    }
    let mut notes: Vec<String> = match pools.as_slice() {
        [only] => vec![format!("Differences{}", only.description())],
        several => several
            .iter()
            .map(|pool| format!("{}: differences{}", pool.name, pool.description()))
            .collect(),
    };
    let seeds = result.seeds;
    let mut rule = format!(
        "Seed noise: 2 x pooled standard deviation x sqrt(2 / {seeds} seeds), about two standard \
         errors of a difference of two cases; two cases with a larger spread or missing runs need \
         a larger difference."
    );
    if pools.len() > 1 {
        rule.push_str(" Across methods or epsilons use the larger number.");
    }
    if seeds < 5 {
        rule.push_str(" With so few seeds this is a rough estimate.");
    }
    if result.cells.len() > 2 {
        rule.push_str(" Among many cases some differ by more by chance alone.");
    }
    notes.push(rule);
    notes
}

impl Pool {
    fn description(&self) -> String {
        let points = |share: f64| format!("{} points", format::significant(100.0 * share, 2));
        let freedom = match self.freedom {
            1 => "1 degree of freedom".to_owned(),
            n => format!("{n} degrees of freedom"),
        };
        format!(
            " below {} are within seed noise (pooled standard deviation {}, {freedom}).",
            points(self.threshold),
            points(self.deviation)
        )
    }
}
