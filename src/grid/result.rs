//! The result of a grid.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::footer::GridPrivacyCost;
use super::redaction::redact_hashes;
use super::{MaskKind, export, figures, footer, seed_noise, table};
use crate::mask::DroppingRule;
use crate::privacy::Badge;
use crate::privacy::digits::pluralise;
use crate::show::figures::{GridCell, RunPoint};
use crate::show::{self, Coverage, MimeBundle, Table};
use crate::train::LedgerEntryRef;
use crate::{Error, Result, file};

/// One finished run of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRun {
    /// Seed that the run was trained with.
    pub seed: u64,
    /// Id of the run in the run store, a hash of settings and data. It is for the owner of the
    /// data only.
    pub id: String,
    /// Random name of the run, which files for others contain: `lab::runs()?.get(label)` finds the
    /// run.
    pub label: String,
    /// Accuracy on the test part, in [0, 1]; `None` if the data has none.
    pub accuracy: Option<f64>,
    /// Epsilon spent; `None` if no epsilon covers the run.
    pub epsilon: Option<f64>,
    /// Badge of the guarantee: `proved`, `assumption` or `none`.
    pub badge: Badge,
    /// Epsilon that the paper of the method claims without a valid proof.
    pub claimed_epsilon: Option<f64>,
    /// Mean clip norm of the steps, of a method that adapts it.
    pub mean_threshold: Option<f64>,
    /// Wall-clock seconds of training, per expected pass over the data; `None` for a private
    /// selection, whose time is secret.
    pub seconds_per_epoch: Option<f64>,
    /// Wall-clock seconds of training; `None` for a private selection.
    pub seconds: Option<f64>,
    /// Whether the run was found in the store.
    pub restored: bool,
    /// Ledger entry that charges the run.
    pub(super) charged: LedgerEntryRef,
}

/// Case of a grid: the same settings with several seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct CellResult {
    /// The method: `dp-sgd`, `dp-ssgd`, `non-private`.
    pub method: &'static str,
    /// Method of making the mask, if there is one.
    pub mask: Option<MaskKind>,
    /// Rule by which dropped coordinates were chosen, if any were.
    pub drop_rule: Option<DroppingRule>,
    /// Pruning rate: fraction of the weights that were not trained.
    pub pre_prune: f64,
    /// Dropping rate: fraction of each tensor's coordinates that each step dropped.
    pub drop: f64,
    /// Settings that tell the case from others, beside method, epsilon and rates.
    pub labels: Vec<(String, String)>,
    /// Target epsilon; `None` without privacy or without a target.
    pub epsilon: Option<f64>,
    /// Delta of the epsilons.
    pub delta: Option<f64>,
    /// Finished runs of the case, in the order of their seeds.
    pub runs: Vec<CellRun>,
    /// Errors of missing runs, unabridged: they may contain hashes of runs and data.
    pub errors: Vec<String>,
}

impl CellResult {
    /// Returns the accuracies, in the order of the seeds.
    pub fn accuracies(&self) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.accuracy).collect()
    }

    /// Returns the mean of the accuracies; `None` without any.
    pub fn mean(&self) -> Option<f64> {
        figures::to_figure_cell(self).mean()
    }

    /// Returns the sample standard deviation of the accuracies (divisor n - 1); `None` for fewer
    /// than two.
    pub fn std(&self) -> Option<f64> {
        figures::to_figure_cell(self).deviation()
    }

    /// Returns the value of a setting that tells the case from others.
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the settings that tell the case from others as the part of a heading: `, clip 0.1`.
    pub(super) fn label_suffix(&self) -> String {
        self.labels.iter().map(|(name, value)| format!(", {name} {value}")).collect()
    }

    /// Describes the settings of the case: method, epsilon and rates.
    pub(crate) fn describe(&self) -> String {
        table::describe_cell(self)
    }

    /// Returns the largest epsilon spent by one of the runs; `None` if there is no run, or one
    /// that no epsilon covers.
    pub fn epsilon_spent(&self) -> Option<f64> {
        let spent: Option<Vec<f64>> = self.runs.iter().map(|run| run.epsilon).collect();
        spent?.into_iter().reduce(f64::max).filter(|_| self.badge() != Some("none"))
    }

    /// Returns the weakest badge of the runs: `proved`, `assumption` or `none`.
    pub fn badge(&self) -> Option<&'static str> {
        let of_run = |badge: &Badge| match badge {
            Badge::Proved => "proved",
            Badge::Conditional(_) => "assumption",
            Badge::NoGuarantee(_) => "none",
        };
        let has = |badge: &&str| self.runs.iter().any(|run| of_run(&run.badge) == *badge);
        ["none", "assumption", "proved"].into_iter().find(has)
    }

    /// Returns the mean epsilon that the paper of the method claims for the runs without a valid
    /// proof.
    pub fn claimed_epsilon(&self) -> Option<f64> {
        self.mean_over_runs(|run| run.claimed_epsilon)
    }

    /// Returns the mean clip norm of the runs, of a method that adapts it.
    pub fn mean_threshold(&self) -> Option<f64> {
        self.mean_over_runs(|run| run.mean_threshold)
    }

    /// Returns the mean of the runs' seconds of training per expected pass over the data; `None`
    /// for a private selection, whose time is secret.
    pub fn seconds_per_epoch(&self) -> Option<f64> {
        self.mean_over_runs(|run| run.seconds_per_epoch)
    }

    /// Returns the difference of the case's accuracies to those of another case, paired by seed;
    /// `None` if no seed has an accuracy in both. In one grid, runs of one seed begin with the same
    /// initial model.
    pub fn difference(&self, baseline: &Self) -> Option<PairedDifference> {
        let accuracy = |run: &CellRun| run.accuracy.map(|accuracy| (run.seed, accuracy));
        let known: HashMap<u64, f64> = baseline.runs.iter().filter_map(accuracy).collect();
        let pairs = self.runs.iter().filter_map(accuracy);
        let differences: Vec<f64> =
            pairs.filter_map(|(seed, accuracy)| Some(accuracy - known.get(&seed)?)).collect();
        let seeds = differences.len();
        let cell = GridCell { pre_prune: 0.0, drop: 0.0, accuracy: differences };
        Some(PairedDifference { mean: cell.mean()?, deviation: cell.deviation(), seeds })
    }

    fn mean_over_runs(&self, value: fn(&CellRun) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.runs.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// The difference of the accuracies of two cases, over the seeds that both have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PairedDifference {
    /// Mean of the differences, as a fraction of 1.
    pub mean: f64,
    /// Sample standard deviation of the differences (divisor n - 1); `None` for one seed.
    pub deviation: Option<f64>,
    /// Number of seeds.
    pub seeds: usize,
}

/// A difference in percentage points: `+0.42 ± 0.10`.
impl fmt::Display for PairedDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded first, and without the sign of a zero.
        write!(f, "{:+.2}", (10_000.0 * self.mean).round() / 100.0 + 0.0)?;
        self.deviation
            .map_or(Ok(()), |deviation| write!(f, " ± {}", table::format_points(deviation)))
    }
}

/// A case as an entry of a JSON list. Accuracies and rates are fractions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GridRow {
    /// Name of the data.
    pub data: String,
    /// Name of the model.
    pub model: String,
    /// The method.
    pub method: &'static str,
    /// The settings that tell the case from others, beside method, epsilon and rates.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Method of making the mask; null without a mask.
    pub mask: Option<MaskKind>,
    /// Rule by which dropped coordinates were chosen; null without dropping.
    pub drop_rule: Option<DroppingRule>,
    /// Pruning rate.
    pub pre_prune: f64,
    /// Dropping rate.
    pub drop: f64,
    /// The target epsilon; null without one.
    pub epsilon: Option<f64>,
    /// The delta.
    pub delta: Option<f64>,
    /// The largest epsilon spent by one run; null if no epsilon covers one of them.
    pub epsilon_spent: Option<f64>,
    /// The weakest badge of the runs: `proved`, `assumption` or `none`; null without runs.
    pub badge: Option<&'static str>,
    /// Mean epsilon that the method's paper claims without a valid proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_epsilon: Option<f64>,
    /// Mean clip norm, of a method that adapts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_threshold: Option<f64>,
    /// Mean accuracy.
    pub accuracy_mean: Option<f64>,
    /// Sample standard deviation of the accuracies; null for fewer than two.
    pub accuracy_std: Option<f64>,
    /// The accuracies, in the order of the seeds.
    pub accuracies: Vec<f64>,
    /// Difference to the baseline of the result, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<PairedDifference>,
    /// Number of finished runs.
    pub runs: usize,
    /// [Labels](CellRun::label), in the order of the seeds.
    pub run_labels: Vec<String>,
    /// Errors of missing runs.
    pub errors: Vec<String>,
}

/// The result of a grid. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GridResult(pub(super) Arc<Inner>);

#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) data: String,
    pub(super) model: String,
    pub(super) test_examples: usize,
    /// Whether the data are public.
    pub(super) public_data: bool,
    pub(super) cells: Vec<CellResult>,
    pub(super) seeds: u64,
    /// Number of runs of the grid.
    pub(super) planned_runs: usize,
    pub(super) interrupted: bool,
    pub(super) privacy_cost: GridPrivacyCost,
    /// Index of the case that others are compared with.
    pub(super) baseline: Option<usize>,
    /// Further columns of the table, with a text for each case.
    pub(super) columns: Vec<(String, Vec<String>)>,
}

impl GridResult {
    /// Returns the name of the data.
    pub fn data(&self) -> &str {
        &self.0.data
    }

    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        &self.0.model
    }

    /// Returns the results of the cases in their order; those of a [`Grid`](super::Grid) by method,
    /// then epsilon, pruning rate and dropping rate.
    pub fn cells(&self) -> &[CellResult] {
        &self.0.cells
    }

    /// Returns the number of finished runs.
    pub fn runs(&self) -> usize {
        self.cells().iter().map(|cell| cell.runs.len()).sum()
    }

    /// Returns the number of seeds per case.
    pub fn seeds(&self) -> u64 {
        self.0.seeds
    }

    /// Returns the number of runs of the grid, finished or not.
    pub(crate) fn planned_runs(&self) -> usize {
        self.0.planned_runs
    }

    /// Returns whether the grid was interrupted before the last run.
    pub fn is_interrupted(&self) -> bool {
        self.0.interrupted
    }

    /// Returns the same result, of a grid that was interrupted.
    pub(crate) fn into_interrupted(mut self) -> Self {
        Arc::make_mut(&mut self.0).interrupted = true;
        self
    }

    /// Returns the threshold below which differences of two cases' means are within the noise of
    /// the seeds: 2 x pooled standard deviation x sqrt(2 / seeds), about two standard errors of a
    /// difference. The pool is the cases of one method and epsilon, or of one method if no two
    /// cases differ in their rates alone. Of several pools this is the largest value, and the
    /// notes have each. `None` for one seed.
    pub fn noise_threshold(&self) -> Option<f64> {
        seed_noise::seed_noise_by_group(&self.0).iter().map(|pool| pool.threshold).reduce(f64::max)
    }

    /// Returns the notes below the table: the cost of all runs together and of choosing a case,
    /// the differences that are noise, and missing runs. The first call composes the runs, which
    /// takes a while for hundreds of them.
    pub fn notes(&self) -> Vec<String> {
        footer::notes(&self.0)
    }

    /// Returns the cost of all private runs on record for these data, if there are others than
    /// those of this grid. It changes with runs made elsewhere, so files and notes do not have it.
    pub fn on_record(&self) -> Option<String> {
        footer::total_cost_note(&self.0)
    }

    /// Returns the result with a further column in its table, such as published values. It has a
    /// text for each case, and cases without one get a dash.
    pub fn with_column(mut self, name: impl Into<String>, texts: Vec<String>) -> Self {
        Arc::make_mut(&mut self.0).columns.push((name.into(), texts));
        self
    }

    /// Returns the result with the differences in accuracy to one of its cases, in percentage
    /// points over the seeds that both have: mean and sample standard deviation. Runs of one seed
    /// begin with the same parameters, which the difference of two means does not use.
    ///
    /// # Errors
    /// Kind `Setting` if there is no such case.
    pub fn with_baseline(mut self, cell: usize) -> Result<Self> {
        let cells = self.cells();
        if cell >= cells.len() {
            let why = format!("the result has {}, numbered from 0", pluralise(cells.len(), "case"));
            return Err(Error::setting("the baseline", cell, why).fix("choose one of its cases"));
        }
        Arc::make_mut(&mut self.0).baseline = Some(cell);
        let name = format!("minus {}", table::describe_cell(&self.cells()[cell]));
        let text = |at| self.baseline_difference(at).map(|difference| difference.to_string());
        let texts = (0..self.cells().len()).map(|at| text(at).unwrap_or_default()).collect();
        Ok(self.with_column(name, texts))
    }

    /// Returns the difference of another case to the baseline.
    fn baseline_difference(&self, cell: usize) -> Option<PairedDifference> {
        let baseline = self.0.baseline.filter(|&baseline| baseline != cell)?;
        self.cells()[cell].difference(&self.cells()[baseline])
    }

    /// Returns the cases as a table.
    pub fn table(&self) -> Table {
        let caption =
            format!("{} on {}: {}", self.model(), self.data(), table::describe_axes(self.cells()));
        self.cell_table().caption(caption)
    }

    /// Returns the table without a caption.
    pub(super) fn cell_table(&self) -> Table {
        let table = table::table(self.cells(), self.0.seeds);
        self.0.columns.iter().fold(table, |table, (name, texts)| table.column(name, texts))
    }

    /// Returns the cases as plain data, for JSON.
    pub fn rows(&self) -> Vec<GridRow> {
        (0..self.cells().len()).map(|at| self.row(at)).collect()
    }

    fn row(&self, at: usize) -> GridRow {
        let cell = &self.cells()[at];
        GridRow {
            data: self.data().to_owned(),
            model: self.model().to_owned(),
            method: cell.method,
            settings: cell.labels.iter().cloned().collect(),
            mask: cell.mask,
            drop_rule: cell.drop_rule,
            pre_prune: cell.pre_prune,
            drop: cell.drop,
            epsilon: cell.epsilon,
            delta: cell.delta,
            epsilon_spent: cell.epsilon_spent(),
            badge: cell.badge(),
            claimed_epsilon: cell.claimed_epsilon(),
            mean_threshold: cell.mean_threshold(),
            accuracy_mean: cell.mean(),
            accuracy_std: cell.std(),
            accuracies: cell.accuracies(),
            difference: self.baseline_difference(at),
            runs: cell.runs.len(),
            run_labels: cell.runs.iter().map(|run| run.label.clone()).collect(),
            errors: cell.errors.iter().map(|error| redact_hashes(error)).collect(),
        }
    }

    /// Writes a CSV file, one line per finished run.
    ///
    /// # Errors
    /// Kind `Io` if the file can't be written.
    pub fn save_csv(&self, path: impl AsRef<Path>) -> Result<()> {
        file::write(path, export::csv(std::slice::from_ref(self))?)
    }

    /// Writes a Markdown file: a table per method and epsilon, and the notes.
    ///
    /// # Errors
    /// Kind `Io` if the file can't be written.
    pub fn save_markdown(&self, path: impl AsRef<Path>) -> Result<()> {
        file::write(path, export::markdown(std::slice::from_ref(self)))
    }

    /// Draws the figures by name: for rates one set per method and epsilon
    /// (`heat_map_dp-ssgd_eps_3`), and for each other setting with several numbers as values
    /// `accuracy_over_clip`.
    pub fn figures(&self) -> Vec<(String, MimeBundle)> {
        figures::figures(self)
    }

    /// Returns the coverage of the accuracies: what they reveal of private data.
    pub(crate) fn coverage(&self) -> Coverage {
        figures::coverage(self)
    }

    /// Returns accuracy and epsilon of every finished run, for [`figures::pareto`] and
    /// [`figures::accuracy_over_epsilon`]. Runs without a guarantee have no epsilon.
    ///
    /// # Guarantee
    /// None on private data: the seeds of a grid are known, so whoever has its settings can compute
    /// the noise.
    ///
    /// [`figures::pareto`]: crate::show::figures::pareto
    /// [`figures::accuracy_over_epsilon`]: crate::show::figures::accuracy_over_epsilon
    pub fn run_points(&self) -> Vec<RunPoint> {
        table::run_points(self.cells(), figures::coverage(self))
    }

    /// Returns the table and the notes.
    pub fn bundle(&self) -> MimeBundle {
        figures::bundle(self)
    }

    /// Shows table and notes, the cost of all runs on record, then the figures.
    pub fn show(&self) {
        show::display(&self.bundle());
        self.on_record().iter().for_each(|line| {
            show::display(&MimeBundle::text(line).with_coverage(Coverage::Public))
        });
        self.figures().iter().for_each(|(_, figure)| show::display(figure));
    }
}

impl fmt::Display for GridResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.table().text(), self.notes().join("\n"))
    }
}
