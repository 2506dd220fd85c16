//! Display of values at the end of a cell, and their `show()`.

use crate::Result;
use crate::audit::{AuditReport, Membership, OneRunReport};
use crate::data::{Augment, Dataset, Examples, PublicData, Vocabulary, shape_text};
use crate::device::DeviceSpec;
use crate::engine::{AutoExecutor, ClipShares, Executor, GradientNorms, Proof};
use crate::grid::{Grid, GridResult};
use crate::lab::{
    BudgetView, Checked, Guide, LedgerView, Preview, Report, Runs, Scaffold, Statement, record,
};
use crate::mask::{Mask, Overlap, Saliency, SelectionLog, SignalNoise};
use crate::methods::{Plan, PrivateSelection, Scaled};
use crate::nn::{Model, ModelBuilder, Summary, WeightReport};
use crate::optim::LearningRate;
use crate::privacy::{
    Budget, Calibrated, CalibratedBatchSize, CalibratedDelta, CalibratedSteps, Event, Meaning,
    Spent, Stages, TradeOff,
};
use crate::show::figures::{ClassAccuracy, ConfusionMatrix, Filters, Predictions};
use crate::show::{self, Bundle, Chart, Coverage, Figure, Table, figures, format};
use crate::train::{Curve, Divergence, Run, RunRecord};
use crate::tuning::Tuned;
use std::fmt;

/// A value that a notebook shows.
pub trait Show {
    /// Shows the value in the notebook, or prints it outside of one.
    fn show(&self);

    /// Display of the value at the end of a cell.
    #[doc(hidden)]
    fn show_last(&self) {
        self.show();
    }

    /// The method that evcxr calls on the value of a cell.
    #[doc(hidden)]
    fn evcxr_display(&self) {
        self.show_last();
    }
}

/// Shows a result at the end of a cell, where `?` was forgotten: its value as with `?`, or the
/// error.
#[doc(hidden)]
pub fn display_result<T: Show, E: fmt::Display>(result: &Result<T, E>) {
    match result {
        Ok(value) => value.show_last(),
        Err(error) => show::display(&Bundle::prose(format!(
            "{error}\nThis is an error. With `?` behind the call, the cell stops at it."
        ))),
    }
}

/// Implements [`Show`] for a type, through the sink. With a coverage, every output of the type has
/// it; without, the bundle states its own.
macro_rules! shown {
    ($type:ty, $coverage:expr, $bundle:expr) => {
        shown!($type, |value: &$type| {
            let bundle: fn(&$type) -> Bundle = $bundle;
            bundle(value).with_coverage($coverage)
        });
    };
    ($type:ty, $bundle:expr) => {
        impl Show for $type {
            fn show(&self) {
                let bundle: fn(&Self) -> Bundle = $bundle;
                show::display(&bundle(self));
            }
        }
    };
}

impl Show for Run {
    fn show(&self) {
        show::display(&show::run_figure(self));
    }

    /// Unless the cell has just trained or shown the run.
    fn show_last(&self) {
        show::display_value(&show::run_figure(self));
    }
}

/// Table, costs and heat map.
impl<M> Show for Tuned<M> {
    fn show(&self) {
        self.bundles().iter().for_each(show::display);
    }
}

impl<F> Show for ModelBuilder<F> {
    fn show(&self) {
        show::display(&Bundle::prose(self.to_string()).with_coverage(Coverage::Public));
    }
}

shown!(Grid, Coverage::Public, |grid| Bundle::prose(grid.to_string()));
shown!(Preview, Preview::bundle);
shown!(Statement, Coverage::Covered, |statement| Bundle::prose(statement.to_string()));
shown!(Plan, Coverage::Public, record::plan_bundle);
shown!(PrivateSelection, Coverage::Public, |selection| Bundle::prose(selection.to_string()));
shown!(Scaled<Plan>, Coverage::Public, |scaled| Bundle::prose(scaled.to_string()));
shown!(RunRecord, |run| record::record_table(run).bundle());
shown!(Curve, record::curve_bundle);
shown!(Guide, Coverage::Public, Guide::bundle);
shown!(Scaffold, Coverage::Public, Scaffold::bundle);
shown!(Checked, Coverage::Public, |checked| Bundle::prose(checked.to_string()));
shown!(LedgerView, Coverage::Public, LedgerView::bundle);
shown!(Report, Coverage::Public, Report::bundle);
shown!(BudgetView, Coverage::Public, BudgetView::bundle);
shown!(Dataset, data_bundle);
shown!(ConfusionMatrix, ConfusionMatrix::bundle);
shown!(ClassAccuracy, ClassAccuracy::bundle);
shown!(Predictions, Predictions::bundle);
shown!(Filters, Filters::bundle);
shown!(DeviceSpec, Coverage::Public, |place| Bundle::text(place.describe()));
shown!(Model, Coverage::Public, |model| model_table(model).bundle());
shown!(Proof, Coverage::NotCovered, |proof| Bundle::text(proof.to_string()));
shown!(Event, Coverage::Public, |event| Bundle::prose(event.to_string()));
shown!(Spent, Coverage::Public, |spent| Bundle::prose(spent.to_string()));
shown!(Meaning, Coverage::Public, |meaning| Bundle::prose(meaning.to_string()));
shown!(TradeOff, Coverage::Public, trade_off_bundle);
shown!(Mask, |mask| with_text(figures::mask(mask), mask.to_string()));
shown!(Saliency, |saliency| figures::saliency_histograms(saliency).bundle());
shown!(Overlap, |overlap| Bundle::prose(overlap.to_string()));
shown!(SelectionLog, |touched| figures::selection_log(touched).bundle());
shown!(ClipShares, |shares| figures::clip_shares(shares).bundle());
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

shown_by_itself!(Chart, Figure, Table, Bundle, GridResult, Runs);

/// Implements [`Show`] for types whose `Display` is what a user reads.
macro_rules! shown_as_text {
    ($coverage:expr, [$($type:ty),* $(,)?]) => {$(
        shown!($type, $coverage, |value| Bundle::text(value.to_string()));
    )*};
}

shown_as_text!(
    Coverage::Public,
    [
        Summary,
        WeightReport,
        AuditReport,
        Budget,
        Calibrated,
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
    Bundle::text(report.to_string()).with_coverage(coverage)
});
shown_as_text!(Coverage::Unmarked, [Vocabulary]);
// An attack that knows who was in the data.
shown_as_text!(Coverage::NotCovered, [Membership]);

/// What the data are, with examples.
fn data_bundle(data: &Dataset) -> Bundle {
    let words = format!("{data}\n{}", data.source());
    let about = || Bundle::prose(&words).with_coverage(Coverage::Public);
    let shown = if data.vocabulary().is_some() { 12 } else { 40 };
    match figures::examples(data, shown) {
        Ok(figure) => match figure.bundle() {
            all if all.coverage == Coverage::NotCovered => all.with_covered_part(about()),
            all => all,
        },
        Err(error) => Bundle::prose(format!("{words}\nNo examples are shown: {error}")),
    }
}

/// A figure whose text begins with `first`.
fn with_text(figure: Figure, first: String) -> Bundle {
    let mut bundle = figure.bundle();
    bundle.text = format!("{first}\n{}", bundle.text);
    bundle
}

fn trade_off_bundle(trade_off: &TradeOff) -> Bundle {
    let mut bundle = figures::trade_off_curve(trade_off).bundle();
    bundle.text = trade_off.to_string();
    bundle
}

/// Table of the layers with the norm method of the largest parameter of each, as the executor
/// chooses it.
pub(super) fn model_table(model: &Model) -> Table {
    let parameters = model.network().parameters();
    let how = AutoExecutor::default().norm_methods(model.network());
    let norms = |layer: &str| {
        let prefix = format!("{layer}.");
        let own = parameters.iter().zip(&how).filter(|(p, _)| p.path.starts_with(&prefix));
        own.max_by_key(|(p, _)| p.len()).map_or("-", |(_, how)| how)
    };
    let rows = model.layers().into_iter().map(|layer| {
        let (count, norms) = match layer.parameters {
            0 => ("-".to_owned(), "-"),
            n => (format::count(n), norms(&layer.name)),
        };
        let output = shape_text(&layer.output_shape);
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
