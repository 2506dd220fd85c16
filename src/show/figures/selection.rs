//! The cost of selecting the best of several trials.

use super::epsilon_panel::{POINTS, geomspace};
use super::sorted;
use crate::privacy::{Delta, Event, Rdp, Trials};
use crate::show::{Chart, Coverage, Panel, Series, format};
use crate::{Error, ErrorKind, Result};

/// Constructor of a distribution of the number of trials, given its mean.
type TrialConstructor = fn(f64) -> Trials;
/// Distributions of the number of trials that are drawn.
const TRIAL_DISTRIBUTIONS: [(&str, TrialConstructor); 3] = [
    ("logarithmic", Trials::logarithmic),
    ("geometric", Trials::geometric),
    ("Poisson", Trials::poisson),
];

/// Plots the epsilon of the best of a random number of trials over their mean number, by law,
/// beside that of as many trials that are all shown (Papernot and Steinke, 2022). `trial` is the
/// event of one trial.
///
/// ```
/// use epsilab::prelude::*;
/// let chart = figures::selection_cost(&Event::poisson(0.01, 2.0, 1000), Delta(1e-6))?;
/// let lines = chart.panels()[0].all_series();
/// let names: Vec<&str> = lines.iter().map(|line| line.name()).collect();
/// assert_eq!(names, ["logarithmic", "geometric", "Poisson", "all trials shown"]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// `Setting` for a number outside its range; `Accounting` if RDP does not support the trial.
pub fn selection_cost(trial: &Event, delta: Delta) -> Result<Chart> {
    let rdp = Rdp::default();
    let one = rdp.epsilon(std::slice::from_ref(trial), delta)?.epsilon;
    if one == 0.0 {
        let what = format!("the cost of selecting among trials of {trial}");
        return Err(Error::new(ErrorKind::Setting, what, "a trial releases nothing")
            .fix("pass the event of a training run, such as plan.event()"));
    }
    let means = geomspace(1.1, 1000.0, POINTS);
    let mut panel = Panel::new(format!("epsilon at delta = {}", format::delta(delta.0)))
        .epsilon()
        .log()
        .reference(one, format!("one trial: {}", format::eps(one)))
        .values_at(10.0, "mean 10");
    let line = |event_at: &dyn Fn(f64) -> Event, means: &[f64]| -> Vec<(f64, f64)> {
        let at = |&mean: &f64| {
            let spent = rdp.epsilon(&[event_at(mean)], delta);
            (mean, spent.map_or(f64::NAN, |spent| spent.epsilon))
        };
        means.iter().map(at).collect()
    };
    let means = sorted(means.into_iter().chain([10.0]));
    for (slot, (name, law)) in TRIAL_DISTRIBUTIONS.into_iter().enumerate() {
        let points = line(&|mean| trial.best_of(law(mean)), &means);
        panel = panel.series(Series::line(name, points).colour(slot));
    }
    let counts = sorted(means.iter().map(|mean| mean.round()));
    let all = line(&|count| trial.repeated(count as u64), &counts);
    let panel =
        panel.series(Series::line("all trials shown", all).colour(TRIAL_DISTRIBUTIONS.len()));
    Ok(Chart::new("The cost of showing only the best trial, and of showing all")
        .coverage(Coverage::Public)
        .note(format!("One trial: {trial}. RDP; both axes logarithmic."))
        .panel(panel)
        .x_label("mean number of trials")
        .x_log())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_is_dearer_than_one_trial_and_cheaper_than_all() {
        let chart = selection_cost(&Event::poisson(0.01, 2.0, 1000), Delta(1e-6)).unwrap();
        let lines = chart.panels()[0].all_series();
        let names: Vec<&str> = lines.iter().map(Series::name).collect();
        assert_eq!(names, ["logarithmic", "geometric", "Poisson", "all trials shown"]);
        let at = |line: usize, mean: f64| {
            let found = lines[line].points().iter().find(|point| point.0 == mean);
            found.unwrap_or_else(|| panic!("{mean}")).1
        };
        assert!(at(0, 10.0) < at(1, 10.0) && at(1, 10.0) < at(3, 10.0));
        let last = |line: usize| lines[line].last().unwrap();
        assert!(last(1) < last(2), "the Poisson law is dear for many trials");
        assert!(last(1) < 0.2 * last(3), "{} {}", last(1), last(3));
        assert!(chart.text().contains("one trial"), "{}", chart.text());
        let nothing = Event::Composed { events: Vec::new() };
        assert!(selection_cost(&nothing, Delta(1e-6)).is_err());
    }
}
