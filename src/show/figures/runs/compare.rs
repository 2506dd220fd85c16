//! Several runs in one chart.

use crate::show::figures::check_not_empty;
use crate::show::method_style::style_by_method;
use crate::show::run_chart::private_loss;
use crate::show::{Chart, Coverage, Panel, Series, format, run_coverage};
use crate::train::Run;
use crate::{Error, Result};

/// Plots the test accuracy and training loss of several runs, over steps; over epochs if the runs
/// take different parts of their data in a step.
///
/// ```no_run
/// # use epsilab::prelude::*;
/// # fn draw(small: &Run, large: &Run) -> Result<()> {
/// figures::compare_runs(&[("batch 256", small), ("batch 1024", large)])?.show();
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
/// Test accuracies are computed on the test part: the guarantee of a run protects its training
/// part. The loss is computed without noise: its panel carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED) unless all runs are without privacy on public data.
/// Accuracies carry it too if one of the runs is not covered: without privacy on private data, or
/// in study mode.
///
/// # Errors
/// `Setting` for an empty list, or without any accuracy and loss.
pub fn compare_runs(runs: &[(&str, &Run)]) -> Result<Chart> {
    check_not_empty("runs", runs, "pass names and runs, such as &[(\"DP-SGD\", &run)]")?;
    let share = |run: &Run| run.plan().sampling_rate();
    let first = share(runs[0].1);
    let in_epochs = runs.iter().any(|(_, run)| (share(run) / first - 1.0).abs() > 1e-9);
    let coverage = runs
        .iter()
        .map(|(_, run)| run_coverage(run.record()))
        .fold(Coverage::Public, Coverage::max);
    let is_private = runs.iter().any(|(_, run)| run.plan().privacy().is_some());
    let accuracy = with_coverage_badge(Panel::new("test accuracy").percent(), coverage);
    let loss = Panel::new("training loss").from_zero();
    let loss =
        if is_private { private_loss(loss, coverage) } else { with_coverage_badge(loss, coverage) };
    let (mut accuracies, mut losses) = (Vec::new(), Vec::new());
    for (slot, (name, run)) in runs.iter().enumerate() {
        let unit = if in_epochs { share(run) } else { 1.0 };
        let scaled = |points: Vec<(f64, f64)>| {
            points.into_iter().map(|(step, value)| (step * unit, value)).collect::<Vec<_>>()
        };
        let name = match run.record().epsilon {
            Some(epsilon) => format!("{name}, epsilon {}", format::eps(epsilon)),
            None => (*name).to_owned(),
        };
        let points = scaled(run.curve().series(|point| point.test_accuracy));
        let line = Series::line(&name, points);
        accuracies.push(if slot < 5 { line } else { line.with_markers() });
        let points = scaled(run.curve().series(|point| point.loss));
        losses.push(Series::line(&name, points).smooth());
    }
    let methods: Vec<&str> = runs.iter().map(|(_, run)| run.plan().method()).collect();
    let accuracy = style_by_method(accuracies, &methods).into_iter().fold(accuracy, Panel::series);
    let loss = style_by_method(losses, &methods).into_iter().fold(loss, Panel::series);
    let has_points =
        |panel: &Panel| panel.all_series().iter().any(|line| !line.points().is_empty());
    let panels: Vec<Panel> = [accuracy, loss].into_iter().filter(has_points).collect();
    if panels.is_empty() {
        return Err(Error::setting("runs", runs[0].0, "the runs recorded nothing to draw")
            .fix("train at least one step"));
    }
    let chart = Chart::new(title(runs))
        .coverage(Coverage::Public)
        .note("One run each: another seed gives another accuracy.")
        .x_label(if in_epochs { "epoch" } else { "step" });
    Ok(panels.into_iter().fold(chart, Chart::panel))
}

/// Returns a panel of this coverage, with the badge where no epsilon covers it.
pub(super) fn with_coverage_badge(panel: Panel, coverage: Coverage) -> Panel {
    match coverage {
        Coverage::NotCovered => panel.not_covered(),
        coverage => panel.coverage(coverage),
    }
}

/// Returns the title: two runs are identified by their accuracies, more by their number.
fn title(runs: &[(&str, &Run)]) -> String {
    let accuracy = |run: &Run| Some(run.accuracy()).filter(|accuracy| accuracy.is_finite());
    match runs {
        [(a, one), (b, other)] => match (accuracy(one), accuracy(other)) {
            (Some(one), Some(other)) => {
                format!("{a}: {}, {b}: {}", format::percent(one), format::percent(other))
            }
            _ => format!("{a} and {b}"),
        },
        runs => format!("{} compared", format::pluralise(runs.len(), "run")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{self, Dataset};
    use crate::methods::{DpSgd, NonPrivate, Plan};
    use crate::nn::models;
    use crate::privacy::{Delta, Epsilon};
    use crate::show::NOT_COVERED;
    use crate::show::layout::{layout_chart, tests::collisions};
    use crate::store::open_ledger;
    use crate::train::{NoopObserver, fit};

    fn trained(plan: &Plan, data: &Dataset) -> Run {
        let model = models::linear(data).seed(1).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{}.jsonl", data.origin()));
        fit("r", plan, &model, data, &open_ledger(&path).unwrap(), &mut NoopObserver).unwrap()
    }

    #[test]
    fn runs_share_their_axes_and_the_loss_of_private_runs_is_marked() {
        let glyphs = data::glyphs_with(240, 0, 95).unwrap();
        let (x, y) = (glyphs.train().features_flat().to_vec(), glyphs.train().labels().to_vec());
        let data = data::from_vecs(x, glyphs.shape(), y, 10).unwrap().split(0.8, 1).unwrap();
        let share =
            |batch: usize, steps: u64| (batch as u64 * steps) as f64 / data.train().len() as f64;
        let dp = |batch: usize, steps: u64| {
            let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-4)).batch_size(batch);
            trained(&method.steps(steps).plan(&data).unwrap(), &data)
        };
        let (small, large) = (dp(20, 20), dp(40, 10));
        let chart = compare_runs(&[("small", &small), ("large", &large)]).unwrap();
        let ends = |panel: usize| {
            let lines = chart.panels()[panel].all_series().iter();
            lines.map(|line| line.points().last().unwrap().0).collect::<Vec<_>>()
        };
        let epochs = vec![share(20, 20), share(40, 10)];
        assert_eq!((ends(0), ends(1)), (epochs.clone(), epochs));
        let last = chart.panels()[0].all_series()[1].last().unwrap();
        assert_eq!(last, large.accuracy());
        let bundle = chart.bundle();
        assert!(bundle.text.contains(NOT_COVERED) && bundle.text.contains("small, epsilon "));
        let part = bundle.covered_part.expect("accuracies are left");
        assert!(!part.text.contains("loss") && part.coverage == Coverage::TestPart);
        assert_eq!(collisions(&layout_chart(&chart)), Vec::<String>::new());

        let raw = |data: &Dataset| {
            let plan = NonPrivate::new().batch_size(20).steps(8).seed(1).plan(data).unwrap();
            trained(&plan, data)
        };
        let chart = compare_runs(&[("raw", &raw(&glyphs))]).unwrap();
        assert!(!chart.text().contains(NOT_COVERED) && chart.svg().contains("\nstep\n"));
        // Without a test part there is the loss alone.
        assert_eq!((chart.panels().len(), chart.bundle().coverage), (1, Coverage::Public));
        let chart = compare_runs(&[("small", &small), ("raw", &raw(&data))]).unwrap();
        assert_eq!(chart.svg().matches(&format!("\n{NOT_COVERED}\n")).count(), 2);
        assert!(chart.bundle().covered_part.is_none());
        assert!(compare_runs(&[]).is_err());
    }
}
