//! Display of values at the end of a cell, and their `show()`.

use crate::Result;
use crate::audit::{AuditReport, MembershipReport, OneRunReport};
use crate::data::{Augment, Dataset, Examples, PublicData, Vocabulary, format_shape};
use crate::device::DeviceSpec;
use crate::engine::{AutoExecutor, ClippedFractions, Executor, GradientCheck, GradientNorms};
use crate::grid::{Grid, GridResult};
use crate::lab::{
    BudgetView, Checked, Guide, LedgerView, Preview, Report, RunList, Scaffold, Statement,
    record_tables,
};
use crate::mask::{Mask, Overlap, Saliency, SelectionLog, SignalNoise};
use crate::methods::{Plan, PrivateSelection, Scaled};
use crate::nn::{Model, ModelBuilder, ModelSummary, WeightReport};
use crate::optim::LearningRate;
use crate::privacy::{
    AttackBounds, Budget, CalibratedBatchSize, CalibratedDelta, CalibratedNoise, CalibratedSteps,
    Event, PrivacyCost, Stages, TradeOff,
};
use crate::show::figures::{ClassAccuracy, ConfusionMatrix, Filters, Predictions};
use crate::show::{self, Chart, Coverage, Figure, MimeBundle, Table, figures, format};
use crate::train::{Curve, Divergence, Run, RunRecord};
use crate::tuning::TuningResult;
use std::fmt;

/// A value that a notebook shows.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::linear(&data).seed(1).build()?;
/// model.show(); // a table of its layers, as at the end of a cell
/// # let shown = epsilab::show::with_capture(|| model.show());
/// # assert!(shown[0].text.contains("Linear"));
/// # Ok::<(), Error>(())
/// ```
pub trait Show {
    /// Shows the value in the notebook, or prints it outside of one.
    fn show(&self);

    /// Shows the value at the end of a cell.
    #[doc(hidden)]
    fn show_last(&self) {
        self.show();
    }

    /// Shows the value of a cell; evcxr calls this method.
    #[doc(hidden)]
    fn evcxr_display(&self) {
        self.show_last();
    }
}

/// Shows a result at the end of a cell without `?`: its value as with `?`, or the error.
#[doc(hidden)]
pub fn display_result<T: Show, E: fmt::Display>(result: &Result<T, E>) {
    match result {
        Ok(value) => value.show_last(),
        Err(error) => show::display(&MimeBundle::prose(format!(
            "{error}\nThis is an error. With `?` after the call, the cell stops at it."
        ))),
    }
}

/// Implements [`Show`] for a type, through the sink. With a coverage, every output of the type has
/// it; without, the bundle states its own.
macro_rules! shown {
    ($type:ty, $coverage:expr, $bundle:expr) => {
        shown!($type, |value: &$type| {
            let bundle: fn(&$type) -> MimeBundle = $bundle;
            bundle(value).with_coverage($coverage)
        });
    };
    ($type:ty, $bundle:expr) => {
        impl Show for $type {
            fn show(&self) {
                let bundle: fn(&Self) -> MimeBundle = $bundle;
                show::display(&bundle(self));
            }
        }
    };
}

impl Show for Run {
    fn show(&self) {
        show::display(&show::run_figure(self));
    }

    /// Shows the run, unless the cell has just trained or shown it.
    fn show_last(&self) {
        show::display_value(&show::run_figure(self));
    }
}

/// Table, costs and heat map.
impl<M> Show for TuningResult<M> {
    fn show(&self) {
        self.bundles().iter().for_each(show::display);
    }
}

impl<F> Show for ModelBuilder<F> {
    fn show(&self) {
        show::display(&MimeBundle::prose(self.to_string()).with_coverage(Coverage::Public));
    }
}

shown!(Grid, Coverage::Public, |grid| MimeBundle::prose(grid.to_string()));
shown!(Preview, Preview::bundle);
shown!(Statement, Coverage::Covered, |statement| MimeBundle::prose(statement.to_string()));
shown!(Plan, Coverage::Public, record_tables::plan_bundle);
shown!(PrivateSelection, Coverage::Public, |selection| MimeBundle::prose(selection.to_string()));
shown!(Scaled<Plan>, Coverage::Public, |scaled| MimeBundle::prose(scaled.to_string()));
shown!(RunRecord, |run| record_tables::record_table(run).bundle());
shown!(Curve, record_tables::curve_bundle);
shown!(Guide, Coverage::Public, Guide::bundle);
shown!(Scaffold, Coverage::Public, Scaffold::bundle);
shown!(Checked, Coverage::Public, |checked| MimeBundle::prose(checked.to_string()));
shown!(LedgerView, Coverage::Public, LedgerView::bundle);
shown!(Report, Coverage::Public, Report::bundle);
shown!(BudgetView, Coverage::Public, BudgetView::bundle);
shown!(Dataset, data_bundle);
shown!(ConfusionMatrix, ConfusionMatrix::bundle);
shown!(ClassAccuracy, ClassAccuracy::bundle);
shown!(Predictions, Predictions::bundle);
shown!(Filters, Filters::bundle);
shown!(DeviceSpec, Coverage::Public, |device| MimeBundle::text(device.describe()));
shown!(Model, Coverage::Public, |model| model_table(model).bundle());
shown!(GradientCheck, Coverage::NotCovered, |proof| MimeBundle::text(proof.to_string()));
shown!(Event, Coverage::Public, |event| MimeBundle::prose(event.to_string()));
shown!(PrivacyCost, Coverage::Public, |spent| MimeBundle::prose(spent.to_string()));
shown!(AttackBounds, Coverage::Public, |meaning| MimeBundle::prose(meaning.to_string()));
shown!(TradeOff, Coverage::Public, trade_off_bundle);
shown!(Mask, |mask| with_text(figures::mask(mask), mask.to_string()));
shown!(Saliency, |saliency| figures::saliency_histograms(saliency).bundle());
shown!(Overlap, |overlap| MimeBundle::prose(overlap.to_string()));
shown!(SelectionLog, |log| figures::selection_log(log).bundle());
shown!(ClippedFractions, |shares| figures::clipped_fractions(shares).bundle());
shown!(SignalNoise, |signal| figures::signal_and_noise(signal).bundle());
shown!(GradientNorms, |norms| figures::gradient_norm_histogram(norms).bundle());

/// Implements [`Show`] for types that have a method `show` of their own.
macro_rules! shown_by_itself {
    ($($type:ty),*) => {$(
        impl Show for $type {
            fn show(&self) {
                <$type>::show(self);
            }
        }
    )*};
}

shown_by_itself!(Chart, Figure, Table, MimeBundle, GridResult, RunList);

/// Implements [`Show`] for types with a `Display` for users.
macro_rules! shown_as_text {
    ($coverage:expr, [$($type:ty),* $(,)?]) => {$(
        shown!($type, $coverage, |value| MimeBundle::text(value.to_string()));
    )*};
}

shown_as_text!(
    Coverage::Public,
    [
        ModelSummary,
        WeightReport,
        AuditReport,
        Budget,
        CalibratedNoise,
        CalibratedBatchSize,
        CalibratedDelta,
        CalibratedSteps,
        Stages,
        LearningRate,
        Augment,
        Examples,
        PublicData,
    ]
);
shown_as_text!(Coverage::Covered, [Divergence]);
shown!(OneRunReport, |report| {
    let coverage = if report.public_data { Coverage::Public } else { Coverage::NotCovered };
    MimeBundle::text(report.to_string()).with_coverage(coverage)
});
shown_as_text!(Coverage::Unmarked, [Vocabulary]);
// An attack that knows who was in the data.
shown_as_text!(Coverage::NotCovered, [MembershipReport]);

/// Returns the description of the data, with examples.
fn data_bundle(data: &Dataset) -> MimeBundle {
    let description = format!("{data}\n{}", data.source());
    let about = || MimeBundle::prose(&description).with_coverage(Coverage::Public);
    let shown = if data.vocabulary().is_some() { 12 } else { 40 };
    match figures::examples(data, shown) {
        Ok(figure) => match figure.bundle() {
            all if all.coverage == Coverage::NotCovered => all.with_covered_part(about()),
            all => all,
        },
        Err(error) => MimeBundle::prose(format!("{description}\nNo examples are shown: {error}")),
    }
}

/// Returns a figure whose text begins with `first`.
fn with_text(figure: Figure, first: String) -> MimeBundle {
    let mut bundle = figure.bundle();
    bundle.text = format!("{first}\n{}", bundle.text);
    bundle
}

fn trade_off_bundle(trade_off: &TradeOff) -> MimeBundle {
    let mut bundle = figures::trade_off_curve(trade_off).bundle();
    bundle.text = trade_off.to_string();
    bundle
}

/// Returns the table of the layers with the norm method of the largest parameter of each, as the
/// executor chooses it.
pub(super) fn model_table(model: &Model) -> Table {
    let parameters = model.network().parameters();
    let how = AutoExecutor::default().norm_methods(model.network());
    let norms = |layer: &str| {
        let prefix = format!("{layer}.");
        let layer_parameters =
            parameters.iter().zip(&how).filter(|(p, _)| p.path.starts_with(&prefix));
        layer_parameters.max_by_key(|(p, _)| p.len()).map_or("-", |(_, how)| how)
    };
    let rows = model.layers().into_iter().map(|layer| {
        let (count, norms) = match layer.parameters {
            0 => ("-".to_owned(), "-"),
            n => (format::format_count(n), norms(&layer.name)),
        };
        let output = format_shape(&layer.output_shape);
        [layer.name, layer.kind.to_owned(), output, count, norms.to_owned()]
    });
    Table::new(["layer", "kind", "output", "parameters", "per-example norms"])
        .rows(rows)
        .caption(model.to_string())
        .coverage(Coverage::Public)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::models;

    #[test]
    fn the_table_of_a_model_shows_the_norm_method_of_each_layer() {
        let data = crate::data::glyphs_with(2, 0, 1).unwrap();
        let model = models::papernot_cnn(&data).seed(1).build().unwrap();
        let text = model_table(&model).text();
        let line = |kind| text.lines().filter(move |line| line.contains(kind)).collect::<Vec<_>>();
        let how = AutoExecutor::default().norm_methods(model.network());
        for (line, how) in line("Conv2d").iter().chain(&line("Linear")).zip(how.iter().step_by(2)) {
            assert!(line.contains(how), "{how} is not in: {line}");
        }
        assert_eq!((line("Conv2d").len(), line("Linear").len(), how.len()), (2, 2, 8));
        assert!(line("Tanh").iter().all(|line| line.contains('-')), "{text}");
    }
}
