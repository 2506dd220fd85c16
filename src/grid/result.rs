//! What a grid gives back.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::footer::Together;
use super::public::{Numbers, without_names};
use super::{MaskKind, draw, footer, noise, table, write};
use crate::mask::DroppingRule;
use crate::show::{self, Bundle, Table};
use crate::train::Charged;
use crate::{Error, Result};

/// One finished run of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRun {
    /// The seed it was trained with.
    pub seed: u64,
    /// Its name in the run store. A hash of settings and data: for the owner of the data only, in
    /// files for others runs are numbered.
    pub id: String,
    /// Accuracy on the test part, in [0, 1]; `None` if the data has none.
    pub accuracy: Option<f64>,
    /// Epsilon truly spent; `None` if no epsilon covers it.
    pub epsilon: Option<f64>,
    /// Wall-clock seconds of its training.
    pub seconds: f64,
    /// It was found in the store.
    pub restored: bool,
    /// Where it is charged.
    pub(super) charged: Option<Charged>,
}

/// One cell: the same settings with several seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct CellResult {
    /// The method: `dp-sgd`, `dp-ssgd`, `non-private`.
    pub method: &'static str,
    /// How its mask was made, if it has one.
    pub mask: Option<MaskKind>,
    /// How dropped coordinates were chosen, if any were.
    pub drop_rule: Option<DroppingRule>,
    /// Share of the weights that was not trained at all.
    pub pre_prune: f64,
    /// Share of each tensor's coordinates that each step left out.
    pub drop: f64,
    /// The epsilon that was aimed at; `None` without privacy or without a target.
    pub epsilon: Option<f64>,
    /// The delta of its epsilons.
    pub delta: Option<f64>,
    /// Its finished runs, in the order of their seeds.
    pub runs: Vec<CellRun>,
    /// Why runs are missing, in full: an error may name runs and data by their hashes.
    pub errors: Vec<String>,
}

impl CellResult {
    /// The accuracies, in the order of the seeds.
    pub fn accuracies(&self) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.accuracy).collect()
    }

    /// Their mean; `None` without any.
    pub fn mean(&self) -> Option<f64> {
        draw::cell_of(self).mean()
    }

    /// Their sample standard deviation (divisor n - 1); `None` for fewer than two.
    pub fn std(&self) -> Option<f64> {
        draw::cell_of(self).deviation()
    }

    /// The largest epsilon that one of its runs has truly spent; `None` if there is no run or no
    /// epsilon covers it.
    pub fn epsilon_spent(&self) -> Option<f64> {
        let spent: Option<Vec<f64>> = self.runs.iter().map(|run| run.epsilon).collect();
        spent?.into_iter().reduce(f64::max)
    }
}

/// A cell as a line of a JSON list. Shares, accuracies and rates are fractions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the data.
    pub data: String,
    /// Name of the model.
    pub model: String,
    /// The method.
    pub method: &'static str,
    /// How the mask was made; null without one.
    pub mask: Option<MaskKind>,
    /// How dropped coordinates were chosen; null if none were.
    pub drop_rule: Option<DroppingRule>,
    /// Pruning rate.
    pub pre_prune: f64,
    /// Dropping rate.
    pub drop: f64,
    /// The target; null without one.
    pub epsilon: Option<f64>,
    /// The delta.
    pub delta: Option<f64>,
    /// The largest epsilon truly spent by one run.
    pub epsilon_spent: Option<f64>,
    /// Mean accuracy.
    pub accuracy_mean: Option<f64>,
    /// Sample standard deviation of the accuracies; null for one.
    pub accuracy_std: Option<f64>,
    /// The accuracies, in the order of the seeds.
    pub accuracies: Vec<f64>,
    /// How many finished runs there are.
    pub runs: usize,
    /// Their numbers, from 1: the same run has the same one in every cell.
    pub run_numbers: Vec<usize>,
    /// Why runs are missing.
    pub errors: Vec<String>,
}

/// What a grid gives back. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GridResult(pub(super) Arc<Inner>);

#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) data: String,
    pub(super) model: String,
    pub(super) test_examples: usize,
    pub(super) cells: Vec<CellResult>,
    pub(super) seeds: u64,
    /// Runs that were to be made.
    pub(super) all: usize,
    pub(super) interrupted: bool,
    pub(super) together: Together,
}

impl GridResult {
    /// Name of the data.
    pub fn data(&self) -> &str {
        &self.0.data
    }

    /// Name of the model.
    pub fn model(&self) -> &str {
        &self.0.model
    }

    /// The cells: by method, then epsilon, pruning rate and dropping rate.
    pub fn cells(&self) -> &[CellResult] {
        &self.0.cells
    }

    /// How many runs are finished.
    pub fn runs(&self) -> usize {
        self.cells().iter().map(|cell| cell.runs.len()).sum()
    }

    /// How many seeds each cell was to be trained with.
    pub fn seeds(&self) -> u64 {
        self.0.seeds
    }

    /// How many runs it was to be.
    pub fn planned_runs(&self) -> usize {
        self.0.all
    }

    /// Whether it was interrupted before the last run.
    pub fn is_interrupted(&self) -> bool {
        self.0.interrupted
    }

    /// Differences of two cells' means below this are within the noise of the seeds: 2 x pooled
    /// standard deviation x sqrt(2 / seeds), about two standard errors of such a difference. Pooled
    /// are the cells of one method and epsilon; if there are several, this is the largest number,
    /// and the notes hold each. `None` for one seed.
    pub fn noise_threshold(&self) -> Option<f64> {
        noise::of(&self.0).iter().map(|group| group.threshold).reduce(f64::max)
    }

    /// What has to be known beside the table: what the runs cost together, what choosing a cell
    /// costs, which differences are noise, and what is missing. The first call adds up what the
    /// runs cost, which takes a while for hundreds of them.
    pub fn notes(&self) -> Vec<String> {
        footer::notes(&self.0)
    }

    /// What all private runs on record for these data cost, if there are others than this grid's
    /// own. It grows with every run made elsewhere, so files and notes don't hold it.
    pub fn on_record(&self) -> Option<String> {
        footer::on_record(&self.0)
    }

    /// The cells as a table.
    pub fn table(&self) -> Table {
        let caption = format!("{} on {}: {}", self.model(), self.data(), table::axes(self.cells()));
        table::table(self.cells(), self.0.seeds).caption(caption)
    }

    /// The cells as plain data, for JSON: as [`rows`](super::rows) of this result alone.
    pub fn rows(&self) -> Vec<Row> {
        write::rows(std::slice::from_ref(self))
    }

    pub(super) fn row(&self, cell: &CellResult, numbers: &Numbers<'_>) -> Row {
        Row {
            data: self.data().to_owned(),
            model: self.model().to_owned(),
            method: cell.method,
            mask: cell.mask,
            drop_rule: cell.drop_rule,
            pre_prune: cell.pre_prune,
            drop: cell.drop,
            epsilon: cell.epsilon,
            delta: cell.delta,
            epsilon_spent: cell.epsilon_spent(),
            accuracy_mean: cell.mean(),
            accuracy_std: cell.std(),
            accuracies: cell.accuracies(),
            runs: cell.runs.len(),
            run_numbers: cell.runs.iter().map(|run| numbers.get(&run.id)).collect(),
            errors: cell.errors.iter().map(|error| without_names(error)).collect(),
        }
    }

    /// Writes a CSV file, one line per finished run.
    ///
    /// # Errors
    /// Kind `Io` if the file can't be written.
    pub fn save_csv(&self, path: impl AsRef<Path>) -> Result<()> {
        save(path.as_ref(), &write::csv(std::slice::from_ref(self))?)
    }

    /// Writes a Markdown file: a table per method and epsilon, and the notes.
    ///
    /// # Errors
    /// Kind `Io` if the file can't be written.
    pub fn save_markdown(&self, path: impl AsRef<Path>) -> Result<()> {
        save(path.as_ref(), &write::markdown(std::slice::from_ref(self)))
    }

    /// The figures by name, one set per method and epsilon: `heat_map_dp-ssgd_eps_3`.
    pub fn figures(&self) -> Vec<(String, Bundle)> {
        draw::figures(self)
    }

    /// Table and notes.
    pub fn bundle(&self) -> Bundle {
        draw::bundle(self)
    }

    /// Shows table and notes, what else is on record, then the figures.
    pub fn show(&self) {
        show::display(&self.bundle());
        self.on_record().iter().for_each(|line| show::display(&Bundle::text(line)));
        self.figures().iter().for_each(|(_, figure)| show::display(figure));
    }
}

impl fmt::Display for GridResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.table().text(), self.notes().join("\n"))
    }
}

fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| Error::io(format!("writing {}", path.display()), &e))
}
