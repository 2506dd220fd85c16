//! Signal against noise.

use crate::mask::{SignalNoise, SignalPoint};
use crate::show::{Chart, Coverage, Panel, Series, Table, format};

/// Plots the L2 norm of the sum of clipped gradients and of its noise for each batch that was
/// drawn, on the selected coordinates and on all, and the ratio of signal to noise. Batches are
/// drawn independently, so no line joins them; the values beside the names are means over the
/// batches.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(100, 0, 1)?;
/// let model = models::linear(&data).seed(1).build()?;
/// let method = DpSsgd::new().noise_multiplier(1.0).batch_size(20).seed(1);
/// let method = method.drop_gradients(Dropping::random(0.5));
/// let signal = method.signal_and_noise(&model, &data)?;
/// assert!(signal.points.iter().all(|batch| batch.noise < batch.noise_all));
/// let chart = figures::signal_and_noise(&signal);
/// assert_eq!(chart.panels().len(), 2); // norms and ratios
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// None: norms of private gradients without noise. The figure carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED) unless the record says that the examples are not
/// private.
pub fn signal_and_noise(signal: &SignalNoise) -> Chart {
    let mean = |value: fn(&SignalPoint) -> f64| {
        signal.points.iter().map(value).sum::<f64>() / signal.points.len() as f64
    };
    let series = |name: &str, colour: usize, value: fn(&SignalPoint) -> f64, summary: f64| {
        let points = signal.points.iter().map(|p| (p.step as f64 + 1.0, value(p)));
        let points = points.collect::<Vec<_>>();
        let series = Series::line(name, points).colour(colour).markers_only();
        if signal.points.is_empty() { series } else { series.summary(summary) }
    };
    let norm = |name: &str, colour: usize, value: fn(&SignalPoint) -> f64| {
        series(name, colour, value, mean(value))
    };
    let (selected, all) = signal.ratios();
    let norms = Panel::new("L2 norm (logarithmic)")
        .log()
        .series(norm("signal, selected", 0, |p| p.signal))
        .series(norm("noise, selected", 1, |p| p.noise))
        .series(norm("signal, all", 2, |p| p.signal_all))
        .series(norm("noise, all", 3, |p| p.noise_all));
    let ratios = Panel::new("signal over noise")
        .from_zero()
        .series(series("selected", 0, |p| p.signal / p.noise, selected))
        .series(series("all coordinates", 2, |p| p.signal_all / p.noise_all, all));
    let panel = |panel: Panel| {
        let panel = panel.value_label("means");
        if signal.private { panel.not_covered() } else { panel }
    };
    let three = |value: f64| format::significant(value, 3);
    let row = |name: &str, signal: f64, noise: f64, ratio: f64| {
        [name.to_owned(), three(signal), three(noise), three(ratio)]
    };
    let table = Table::new(["", "signal", "noise", "signal over noise"])
        .row(row("selected, mean", mean(|p| p.signal), mean(|p| p.noise), selected))
        .row(row("all, mean", mean(|p| p.signal_all), mean(|p| p.noise_all), all));
    let chart = Chart::new("Signal and noise of a batch, with the selection and without")
        .coverage(Coverage::Public)
        .note(super::as_sentence(&signal.to_string()))
        .panel(panel(norms))
        .panel(panel(ratios))
        .x_label("batch (drawn independently)");
    if signal.points.is_empty() { chart } else { chart.details(table.text()) }
}
