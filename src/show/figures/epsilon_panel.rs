//! Epsilon over one setting: the reported value and RDP's.

use super::{colour, sorted};
use crate::privacy::{Accountant, Delta, Event, PrivacyCost, Rdp, TightestAccountant};
use crate::show::{Panel, Series, format};
use crate::{Result, privacy};

/// Number of points of a curve.
pub(super) const POINTS: usize = 33;

/// Returns a panel with the reported epsilon and, where it differs, RDP's, of `event_at(x)` at
/// each `x`.
///
/// # Errors
/// Kind `Accounting` with the first refusal, if no point with a release has an epsilon.
pub(super) fn epsilon_panel(
    xs: &[f64],
    delta: Delta,
    event_at: impl Fn(f64) -> Event,
) -> Result<Panel> {
    delta.check()?;
    let ask = |accountant: &dyn Accountant| -> Vec<privacy::Result<PrivacyCost>> {
        xs.iter().map(|&x| accountant.epsilon(&[event_at(x)], delta)).collect()
    };
    let events: Vec<Event> = xs.iter().map(|&x| event_at(x)).collect();
    let tightest = TightestAccountant::for_events(&events);
    let reported = ask(&tightest);
    // Every accountant gives 0 where nothing is released, so that is no answer.
    let says_something =
        |result: &privacy::Result<PrivacyCost>| result.as_ref().is_ok_and(|s| s.epsilon > 0.0);
    let refusal = reported.iter().find_map(|result| result.as_ref().err());
    if let Some(refusal) = refusal.filter(|_| !reported.iter().any(says_something)) {
        return Err(refusal.clone().into());
    }
    let rdp = ask(&Rdp::with_neighbouring(tightest.neighbouring()));
    let same = reported.iter().zip(&rdp).all(|(a, b)| match (a, b) {
        (Ok(a), Ok(b)) => a.epsilon == b.epsilon,
        (a, _) => a.is_err(),
    });
    let name = format!("reported{}", accountant_suffix(&reported));
    let is_single = same || rdp.iter().all(Result::is_err);
    // A single line is named by its panel.
    let suffix = if is_single { format!(", {name}") } else { String::new() };
    let relation = tightest.neighbouring();
    let label = format!("epsilon at delta = {} ({relation}){suffix}", format::delta(delta.0));
    // Where no accountant proves a finite epsilon it is infinite, not unknown.
    let all = epsilon_points(xs, &reported).into_iter();
    let all: Vec<_> = all.map(|(x, y)| (x, if y.is_nan() { f64::INFINITY } else { y })).collect();
    let panel = Panel::new(label).epsilon().series(Series::line(name, all).colour(colour::PLD));
    Ok(if is_single {
        panel
    } else {
        panel.series(Series::line("RDP", epsilon_points(xs, &rdp)).colour(colour::RDP))
    })
}

/// Returns the explanation of the jump of RDP's curve at 0, for the note of a figure that begins
/// there; empty where RDP is not drawn.
pub(super) fn rdp_jump_note(panel: &Panel) -> &'static str {
    if panel.all_series().iter().any(|series| series.name() == "RDP") {
        ". RDP jumps at the first step: its conversion to epsilon adds about \
         ln(1/delta) / (order - 1), however little was released"
    } else {
        ""
    }
}

/// Returns a point for each x; refusals are gaps.
pub(super) fn epsilon_points(
    xs: &[f64],
    answers: &[privacy::Result<PrivacyCost>],
) -> Vec<(f64, f64)> {
    let epsilon =
        |result: &privacy::Result<PrivacyCost>| result.as_ref().map_or(f64::NAN, |s| s.epsilon);
    xs.iter().copied().zip(answers.iter().map(epsilon)).collect()
}

/// Returns the accountant that gave all epsilons, in brackets, or the remark that they are the
/// smallest of several.
fn accountant_suffix(answers: &[privacy::Result<PrivacyCost>]) -> String {
    let mut names: Vec<&str> = answers
        .iter()
        .flatten()
        .filter(|spent| spent.epsilon > 0.0)
        .map(|spent| spent.accountant.as_str())
        .collect();
    names.dedup();
    match names[..] {
        [] => String::new(),
        [one] => format!(" ({})", accountant_label(one)),
        _ => " (smallest proved)".into(),
    }
}

/// Returns the name of an accountant for a legend.
pub(super) fn accountant_label(name: &str) -> String {
    match name {
        "gdp" => "GDP, exact".into(),
        "gdp_clt" => "GDP CLT (approximate: may be below or above)".into(),
        "zcdp" => "zCDP".into(),
        "tcdp" => "tCDP".into(),
        other => other.to_uppercase(),
    }
}

/// Returns `count` values from `low` to `high` in geometric progression.
pub(super) fn geomspace(low: f64, high: f64, count: usize) -> Vec<f64> {
    let at = |i: usize| low * (high / low).powf(i as f64 / (count - 1) as f64);
    let inner = (1..count - 1).map(at);
    std::iter::once(low).chain(inner).chain([high]).collect()
}

/// Returns at most `count` integers from `low` to `high` in about geometric progression, and
/// `extra`.
pub(super) fn geomspace_integers(
    low: u64,
    high: u64,
    count: usize,
    extra: Option<u64>,
) -> Vec<f64> {
    let integers = geomspace(low as f64, high as f64, count).into_iter().map(f64::round);
    sorted(integers.chain(extra.map(|n| n as f64)))
}
