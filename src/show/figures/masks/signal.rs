//! Signal against noise.

use crate::mask::{SignalNoise, SignalPoint};
use crate::show::{Chart, NOT_COVERED, Panel, Series, Table, format};

/// The L2 norm of the sum of clipped gradients and of its noise, with the selection and with all
/// coordinates, and the ratio of both. A selection pays only if its ratio is the larger one.
///
/// # Guarantee
/// None: norms of private gradients without noise; it carries [`NOT_COVERED`] unless the record
/// says that the examples are not private.
pub fn signal_and_noise(signal: &SignalNoise) -> Chart {
    let line = |name: &str, colour: usize, of: fn(&SignalPoint) -> f64| {
        let points = signal.points.iter().map(|p| (p.step as f64, of(p)));
        let line = Series::line(name, points.collect::<Vec<_>>()).colour(colour);
        // A few steps are points, many are a line.
        if signal.points.len() <= 20 { line.marked() } else { line }
    };
    let norms = Panel::new("L2 norm")
        .log()
        .series(line("signal, selected", 0, |p| p.signal))
        .series(line("noise, selected", 1, |p| p.noise))
        .series(line("signal, all", 2, |p| p.signal_all))
        .series(line("noise, all", 3, |p| p.noise_all));
    let ratios = Panel::new("signal over noise")
        .series(line("selected", 0, |p| p.signal / p.noise))
        .series(line("all coordinates", 2, |p| p.signal_all / p.noise_all));
    let badge = |panel: Panel| if signal.private { panel.note(NOT_COVERED) } else { panel };
    let mut table = Table::new(["", "signal", "noise", "signal over noise"]);
    let mean = |of: fn(&SignalPoint) -> f64| {
        signal.points.iter().map(of).sum::<f64>() / signal.points.len() as f64
    };
    let (selected, all) = signal.ratios();
    let three = |value: f64| format::significant(value, 3);
    for (name, signal, noise, ratio) in [
        ("selected, mean", mean(|p| p.signal), mean(|p| p.noise), selected),
        ("all, mean", mean(|p| p.signal_all), mean(|p| p.noise_all), all),
    ] {
        table = table.row([name.to_owned(), three(signal), three(noise), three(ratio)]);
    }
    let chart = Chart::new("Signal and noise of a step, with the selection and without")
        .note(super::sentence(&signal.to_string()))
        .panel(badge(norms))
        .panel(badge(ratios))
        .x_label("step");
    if signal.points.is_empty() { chart } else { chart.details(table.text()) }
}
