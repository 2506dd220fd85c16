//! Figures of a grid of runs: pre-pruning rate x dropping rate, several seeds each.
//!
//! Accuracies are those on the test part. The guarantee of a run protects the training part only.
//! Selecting the best case by test accuracy would overfit to the test part, so no case is marked as
//! the best; see [`accuracy_heat_map`].

mod heat_map;
mod lines;
mod stats;
#[cfg(test)]
mod tests;

pub use heat_map::{accuracy_heat_map, accuracy_heat_maps};
pub use lines::accuracy_lines;
pub(super) use stats::SeedStats;

use super::sorted;
use crate::show::format;
use crate::{Error, Result};

/// The runs of one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct GridCell {
    /// Fraction of coordinates that a mask drops before training.
    pub pre_prune: f64,
    /// Fraction of the remaining coordinates that each step drops.
    pub drop: f64,
    /// Test accuracy for each seed, in [0, 1]. NaN values are left out.
    pub accuracy: Vec<f64>,
}

impl GridCell {
    /// Returns the mean accuracy; `None` without runs.
    pub(crate) fn mean(&self) -> Option<f64> {
        let seeds = SeedStats::from_values(&self.accuracy);
        (seeds.count > 0).then_some(seeds.mean)
    }

    /// Returns the sample standard deviation (divisor n - 1); `None` for fewer than two runs.
    pub(crate) fn deviation(&self) -> Option<f64> {
        SeedStats::from_values(&self.accuracy).deviation()
    }
}

/// The content of the figures of a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GridFigure {
    /// Title.
    pub title: String,
    /// Note under the title: model, data, epsilon, seeds, epsilon of the whole grid.
    pub note: String,
    /// One case per setting, in any order; not every pair of rates needs one.
    pub cells: Vec<GridCell>,
}

/// The content of [`accuracy_heat_maps`]: grids of the same rates at several values of a setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GridSlices {
    /// Title.
    pub title: String,
    /// Note under the title, as of a [`GridFigure`].
    pub note: String,
    /// Name of the setting that differs: `epsilon`.
    pub setting: String,
    /// Values of the setting and their cases, in the order of the slider.
    pub slices: Vec<(String, Vec<GridCell>)>,
}

impl GridSlices {
    /// Returns the checked grids by value.
    fn checked_grids(&self) -> Result<Vec<(String, GridFigure)>> {
        if self.slices.is_empty() {
            let why = "there is nothing to draw";
            return Err(Error::setting("slices of a grid", 0, why).fix("give at least one slice"));
        }
        let mut grids: Vec<(String, GridFigure)> = Vec::new();
        for (value, cells) in &self.slices {
            let grid = GridFigure { cells: cells.clone(), ..GridFigure::default() };
            grid.check()?;
            if grids.iter().any(|(other, _)| other == value) {
                let what = format!("{} {value}", self.setting);
                return Err(Error::setting(
                    "slices of a grid",
                    what,
                    "the grid contains the case twice",
                )
                .fix("put all cases of a value into one slice"));
            }
            grids.push((value.clone(), grid));
        }
        Ok(grids)
    }
}

impl GridFigure {
    /// Checks rates and accuracies.
    ///
    /// # Errors
    /// Kind `Setting` without cases, for a rate outside [0, 1), an accuracy outside [0, 1], or two
    /// cases of the same rates.
    fn check(&self) -> Result<()> {
        if self.cells.is_empty() {
            let why = "there is nothing to draw";
            return Err(Error::setting("cases of a grid", 0, why).fix("give at least one case"));
        }
        for (i, cell) in self.cells.iter().enumerate() {
            for (name, rate) in [("pre_prune", cell.pre_prune), ("drop", cell.drop)] {
                if !(0.0..1.0).contains(&rate) {
                    let why = "a rate is the fraction that is left out, from 0 to below 1";
                    return Err(Error::setting(name, rate, why));
                }
            }
            if let Some(bad) = cell.accuracy.iter().find(|a| **a < 0.0 || **a > 1.0) {
                let why = "an accuracy lies in [0, 1]";
                return Err(Error::setting("accuracy", bad, why).fix("divide percent by 100"));
            }
            let same =
                |other: &GridCell| other.pre_prune == cell.pre_prune && other.drop == cell.drop;
            if self.cells[..i].iter().any(same) {
                let what = format!("({}, {})", cell.pre_prune, cell.drop);
                return Err(Error::setting(
                    "case of a grid",
                    what,
                    "the grid contains the case twice",
                )
                .fix("put the accuracies of all seeds into one case"));
            }
        }
        Ok(())
    }

    /// Returns the variation over seeds that marks are based on; `None` if no case has two runs.
    pub(crate) fn pooled_variance(&self) -> Option<stats::PooledVariance> {
        stats::pool_variance(&self.seeds())
    }

    /// Returns the seeds of each case.
    fn seeds(&self) -> Vec<SeedStats> {
        self.cells.iter().map(|cell| SeedStats::from_values(&cell.accuracy)).collect()
    }

    fn cell(&self, pre_prune: f64, drop: f64) -> Option<&GridCell> {
        self.cells.iter().find(|cell| cell.pre_prune == pre_prune && cell.drop == drop)
    }

    /// Returns the rates that occur, sorted.
    fn sorted_rates(&self, rate: fn(&GridCell) -> f64) -> Vec<f64> {
        // Adding zero turns -0 into 0.
        sorted(self.cells.iter().map(|cell| rate(cell) + 0.0))
    }
}

/// Formats a fraction as percent with two decimals, without the percent sign.
fn two_decimals(share: f64) -> String {
    format::fixed(100.0 * share, 2)
}

/// Formats the mean, with the standard deviation over several seeds.
fn with_spread(seeds: &SeedStats) -> String {
    let spread = seeds.deviation().map_or(String::new(), |d| format!(" ± {}", two_decimals(d)));
    format!("{}{spread}", two_decimals(seeds.mean))
}

/// Formats a rate as percent without trailing zeros: `30 %`.
fn format_rate(rate: f64) -> String {
    format!("{} %", format::short(100.0 * rate, 4))
}
