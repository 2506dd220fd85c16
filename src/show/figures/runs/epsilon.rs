//! Accuracy against epsilon of many runs.

use std::collections::BTreeSet;

use super::RunPoint;
use super::compare::with_coverage_badge;
use crate::show::figures::grids::SeedStats;
use crate::show::method_style::style_by_method;
use crate::show::series::extent;
use crate::show::{Chart, Coverage, Panel, Series, Table, format};
use crate::{Error, Result};

/// Reason why no run of a figure is called the best.
const SELECTION_CAVEAT: &str = "Choosing a run by its test accuracy overstates what its settings \
                        reach: confirm the choice with other seeds or data.";

/// Plots accuracy against the epsilon that was spent: a point for each run, identified by its
/// tooltip, and the Pareto front as a step line. At a point of the front, no run with the same or
/// a smaller epsilon has a higher accuracy. A dashed line is the mean of the runs without a
/// guarantee.
///
/// ```no_run
/// # use epsilab::prelude::*;
/// # fn draw(runs: &[Run], result: &epsilab::grid::GridResult) -> Result<()> {
/// let points: Vec<figures::RunPoint> = runs.iter().map(Into::into).collect();
/// figures::pareto(&points)?.show();
/// figures::pareto(&result.run_points())?.show();
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
/// Accuracies are computed on the test part without noise. A point of the front is the best of
/// several noisy accuracies, which overstates what its settings reach. The epsilon of a point is
/// that of one run: all runs on the same data together cost more.
///
/// # Errors
/// `Setting` without a run that has a positive finite epsilon and an accuracy.
pub fn pareto(points: &[RunPoint]) -> Result<Chart> {
    let all = runs_with_epsilon(points)?;
    let front = pareto_front(&all);
    let steps = step_line(&front, all.iter().map(|(epsilon, _)| *epsilon).fold(0.0, f64::max));
    let (first, last) = (front[0], front[front.len() - 1]);
    let line = Series::line("Pareto front", steps).colour(4).without_markers().summary(last.1);
    // First, so that the points lie on it.
    let panel = accuracy_panel(points).series(line).value_label("the highest accuracy");
    let names = series_names(&all);
    let series = names.iter().map(|&name| {
        let of_name: Vec<_> = all.iter().filter(|(_, point)| point.series == name).collect();
        let at = of_name.iter().map(|(epsilon, point)| (*epsilon, point.accuracy));
        let about: Vec<String> = of_name.iter().map(|(_, point)| point.tooltip.clone()).collect();
        let line = Series::line(name, at.collect::<Vec<_>>());
        let line = line.markers_only().without_offset().tooltips(about);
        let accuracies = of_name.iter().map(|(_, point)| point.accuracy);
        line.summary(accuracies.fold(f64::NEG_INFINITY, f64::max))
    });
    let series = style_by_method(series.collect(), &names);
    let panel = series.into_iter().fold(panel, Panel::series);
    let at = |(epsilon, accuracy): (f64, f64)| {
        format!("{} at epsilon {}", format::percent(accuracy), format::eps(epsilon))
    };
    let to = if front.len() > 1 { format!(" to {}", at(last)) } else { String::new() };
    let title = format!("Front of {}: {}{to}", format::pluralise(all.len(), "run"), at(first));
    Ok(epsilon_chart(title, points, panel).note(SELECTION_CAVEAT))
}

/// Plots the mean accuracy over the target epsilon (or the epsilon that was spent, without a
/// target), a line for each series. Its band is one standard deviation over the runs at the same
/// epsilon.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::show::{Coverage, figures::RunPoint};
/// let point = |epsilon, accuracy| RunPoint {
///     series: "DP-SGD".into(),
///     epsilon: Some(epsilon),
///     target: Some(epsilon),
///     accuracy,
///     tooltip: String::new(),
///     coverage: Coverage::TestPart,
/// };
/// let points = [point(1.0, 0.93), point(3.0, 0.95), point(3.0, 0.97)]; // or result.run_points()
/// let chart = figures::accuracy_over_epsilon(&points)?;
/// assert_eq!(chart.panels()[0].all_series()[0].points().len(), 2); // a mean for each target
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// As [`pareto`].
///
/// # Errors
/// `Setting` without a run that has a positive finite epsilon and an accuracy.
pub fn accuracy_over_epsilon(points: &[RunPoint]) -> Result<Chart> {
    let all = runs_with_epsilon(points)?;
    let mut lines = Vec::new();
    let mut table = Table::new(["series", "epsilon", "accuracy", "± sd", "runs"]);
    let mut repeated = false;
    let names = series_names(&all);
    for &name in &names {
        let mut of_name: Vec<(f64, f64)> = all
            .iter()
            .filter(|(_, point)| point.series == name)
            .map(|(spent, point)| (point.target.unwrap_or(*spent), point.accuracy))
            .collect();
        of_name.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut means, mut deviations) = (Vec::new(), Vec::new());
        for same in of_name.chunk_by(|a, b| a.0 == b.0) {
            let accuracies: Vec<f64> = same.iter().map(|(_, accuracy)| *accuracy).collect();
            let seeds = SeedStats::from_values(&accuracies);
            let deviation = seeds.deviation();
            repeated |= deviation.is_some();
            means.push((same[0].0, seeds.mean));
            deviations.push(deviation.unwrap_or(0.0));
            table = table.row([
                name.to_owned(),
                format::significant(same[0].0, 4),
                format::percent(seeds.mean),
                deviation.map_or("-".into(), |d| format::fixed(100.0 * d, 2)),
                format::format_count(same.len()),
            ]);
        }
        lines.push(Series::line(name, means).band(deviations));
    }
    let panel =
        style_by_method(lines, &names).into_iter().fold(accuracy_panel(points), Panel::series);
    let bands = if repeated {
        "Means over runs with the same target; bands: ± one standard deviation. "
    } else {
        ""
    };
    let title = "Test accuracy over epsilon";
    Ok(epsilon_chart(title.into(), points, panel)
        .note(format!("{bands}{SELECTION_CAVEAT}"))
        .details(table.text()))
}

/// Returns the runs with a positive epsilon and an accuracy, by epsilon.
fn runs_with_epsilon(points: &[RunPoint]) -> Result<Vec<(f64, &RunPoint)>> {
    let known = points.iter().filter(|point| point.accuracy.is_finite());
    let with_epsilon = known.filter_map(|point| Some((point.epsilon?, point)));
    let mut all: Vec<_> =
        with_epsilon.filter(|(epsilon, _)| *epsilon > 0.0 && epsilon.is_finite()).collect();
    if all.is_empty() {
        let what = format::pluralise(points.len(), "run");
        let why = "none of them has a finite epsilon and a test accuracy";
        return Err(
            Error::setting("points", what, why).fix("pass private runs on data with a test part")
        );
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(all)
}

/// Returns the names of the series, sorted, each once.
fn series_names<'p>(all: &[(f64, &'p RunPoint)]) -> Vec<&'p str> {
    let names: BTreeSet<&str> = all.iter().map(|(_, point)| point.series.as_str()).collect();
    names.into_iter().collect()
}

/// Creates the accuracy panel, with a reference line at the mean accuracy of the runs that have
/// neither an epsilon nor a target.
fn accuracy_panel(points: &[RunPoint]) -> Panel {
    let coverage = points.iter().map(|point| point.coverage).fold(Coverage::Public, Coverage::max);
    let panel = with_coverage_badge(Panel::new("test accuracy").percent(), coverage);
    // Runs with noise but without a guarantee are no measure of what privacy costs.
    let raw = points.iter().filter(|point| point.epsilon.is_none() && point.target.is_none());
    let raw: Vec<f64> = raw.map(|point| point.accuracy).filter(|a| a.is_finite()).collect();
    match raw.len() {
        0 => panel,
        n => {
            let mean = raw.iter().sum::<f64>() / n as f64;
            panel.reference(mean, format!("without guarantee: {}", format::percent(mean)))
        }
    }
}

/// Returns the chart; its axis is logarithmic if the epsilons differ by more than a factor of ten.
fn epsilon_chart(title: String, points: &[RunPoint], panel: Panel) -> Chart {
    let chart = Chart::new(title).coverage(Coverage::Public).panel(panel).x_label("epsilon");
    let epsilons = points.iter().filter_map(|point| point.epsilon).filter(|e| *e > 0.0);
    let (low, high) = extent(epsilons).unwrap_or_default();
    // Room for markers at the ends.
    let margin = 0.03 * (high - low).max(0.1 * high);
    if high > 10.0 * low {
        chart.x_range(low / 1.1, high * 1.1).x_log()
    } else {
        chart.x_range((low - margin).max(0.0), high + margin)
    }
}

/// Returns (epsilon, accuracy) of the runs that no run with the same or a smaller epsilon exceeds
/// in accuracy.
fn pareto_front(all: &[(f64, &RunPoint)]) -> Vec<(f64, f64)> {
    let mut front: Vec<(f64, f64)> = Vec::new();
    for (epsilon, point) in all {
        match front.last_mut() {
            Some((last, accuracy)) if *last == *epsilon => *accuracy = accuracy.max(point.accuracy),
            Some((_, accuracy)) if point.accuracy <= *accuracy => {}
            _ => front.push((*epsilon, point.accuracy)),
        }
    }
    front
}

/// Returns the front as a step line up to the largest epsilon.
fn step_line(front: &[(f64, f64)], largest: f64) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> = Vec::new();
    for &(epsilon, accuracy) in front {
        line.extend(line.last().map(|&(_, before)| (epsilon, before)));
        line.push((epsilon, accuracy));
    }
    line.extend(line.last().filter(|last| last.0 < largest).map(|&(_, last)| (largest, last)));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::NOT_COVERED;
    use crate::show::layout::{layout_chart, tests::collisions};

    fn point(series: &str, epsilon: f64, accuracy: f64) -> RunPoint {
        RunPoint {
            series: series.into(),
            epsilon: Some(epsilon).filter(|epsilon| epsilon.is_finite()),
            target: None,
            accuracy,
            tooltip: format!("{series} at {epsilon}"),
            coverage: Coverage::TestPart,
        }
    }

    #[test]
    fn the_front_has_the_runs_that_no_cheaper_run_exceeds() {
        let runs = [
            point("b", 4.0, 0.90),
            point("a", 1.0, 0.80),
            point("a", 2.0, 0.78),
            point("a", 2.0, 0.85),
            point("b", 3.0, 0.85),
            point("b", 8.0, 0.89),
        ];
        let chart = pareto(&runs).unwrap();
        let lines = chart.panels()[0].all_series();
        assert_eq!(lines.iter().map(Series::name).collect::<Vec<_>>(), ["Pareto front", "a", "b"]);
        let expected =
            [(1.0, 0.80), (2.0, 0.80), (2.0, 0.85), (4.0, 0.85), (4.0, 0.90), (8.0, 0.90)];
        assert_eq!(lines[0].points(), expected);
        let svg = chart.svg();
        assert!(svg.contains("Front of 6 runs: 80.0 % at epsilon 1 to 90.0 % at epsilon 4"));
        assert!(svg.contains("Choosing a run") && !svg.to_lowercase().contains("best"), "{svg}");
        assert!(chart.vega_lite().to_string().contains("b at 4"), "tooltips say what a point is");
        assert!(!svg.contains(NOT_COVERED));
        assert_eq!(chart.bundle().coverage, Coverage::TestPart);
        assert_eq!(collisions(&layout_chart(&chart)), Vec::<String>::new());
    }

    #[test]
    fn repetitions_are_averaged_and_runs_without_privacy_are_a_line() {
        let mut runs: Vec<RunPoint> = Vec::new();
        for (spent, target, accuracy) in [(2.97, 3.0, 0.90), (2.99, 3.0, 0.94), (7.9, 8.0, 0.95)] {
            runs.push(RunPoint { target: Some(target), ..point("dp-sgd", spent, accuracy) });
        }
        let raw = |accuracy| RunPoint {
            coverage: Coverage::NotCovered,
            ..point("non-private", f64::INFINITY, accuracy)
        };
        runs.extend([raw(0.97), raw(0.99), point("dp-sgd", 5.0, f64::NAN)]);
        let chart = accuracy_over_epsilon(&runs).unwrap();
        let line = &chart.panels()[0].all_series()[0];
        let [low, high] = line.points() else { panic!("{line:?}") };
        assert!((low.1 - 0.92).abs() < 1e-12 && low.0 == 3.0, "{low:?}");
        assert_eq!(*high, (8.0, 0.95));
        // The sample standard deviation of 90 % and 94 %.
        assert!(chart.text().contains("2.83"), "{}", chart.text());
        assert!(
            chart.svg().contains("without guarantee: 98.0 %") && chart.svg().contains(NOT_COVERED)
        );
        assert_eq!(collisions(&layout_chart(&chart)), Vec::<String>::new());
        assert!(pareto(&[raw(0.9)]).is_err() && pareto(&[]).is_err());
    }

    #[test]
    fn wide_ranges_of_epsilon_are_logarithmic() {
        let runs = [0.1, 1.0, 10.0].map(|epsilon| point("a", epsilon, 0.5 + epsilon / 40.0));
        assert!(pareto(&runs).unwrap().svg() != pareto(&runs[1..]).unwrap().svg());
        assert_eq!(collisions(&layout_chart(&pareto(&runs).unwrap())), Vec::<String>::new());
    }
}
