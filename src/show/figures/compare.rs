//! All accountants beside one another: what each finds, and why they differ.

use super::sweep::{geometric, points, short_name};
use super::{colour, sentence};
use crate::privacy::{
    Accountant, Conversion, Delta, Event, Gdp, GdpClt, Neighbouring, Pld, Rdp, Spent, Zcdp, compare,
};
use crate::show::{Chart, Panel, Series, Table, format};
use crate::{Error, ErrorKind, Result};

/// The delta at which the values beside the names are read.
const READ_AT: f64 = 1e-5;

/// Epsilon of the releases for delta from 1e-10 to 1e-2, by every accountant that can account
/// them. Estimates are dashed and named so.
///
/// # Errors
/// The first refusal, if nobody can account the events.
pub fn epsilon_vs_delta(events: &[Event]) -> Result<Chart> {
    chart_of(events, &accountants(events))
}

fn chart_of(events: &[Event], asked: &[(Box<dyn Accountant>, usize)]) -> Result<Chart> {
    // Four points for each power of ten, 1e-5 among them.
    let deltas = geometric(1e-10, 1e-2, 33);
    let mut drawn: Vec<Series> = Vec::new();
    let mut refused: Vec<String> = Vec::new();
    let mut refusals: Vec<Error> = Vec::new();
    for (accountant, colour) in asked {
        let name = short_name(accountant.name());
        let answers = ask(accountant.as_ref(), events, &deltas);
        if let Some(refusal) = all_refused(&answers) {
            refused.push(name);
            refusals.push(refusal);
            continue;
        }
        let series = Series::line(name, points(&deltas, &answers)).colour(*colour);
        drawn.push(if accountant.is_approximate() { series.approximate() } else { series });
    }
    if drawn.is_empty() {
        let nobody = || Error::new(ErrorKind::Accounting, "these releases", "nobody answers");
        return Err(refusals.into_iter().next().unwrap_or_else(nobody));
    }
    let relation = Neighbouring::AddOrRemoveOne;
    // A single line is named by its panel.
    let label = match drawn.as_slice() {
        [only] => format!("epsilon ({relation}), {}", only.name()),
        _ => format!("epsilon ({relation})"),
    };
    let mut panel = Panel::new(label).epsilon().values_at(READ_AT, format!("delta = {READ_AT:e}"));
    if let Some(top) = top_of_axis(&drawn) {
        panel = panel.y_range(0.0, top);
        for series in drawn.iter_mut().filter(|series| finite(series).all(|y| y > top)) {
            series.name.push_str(" (above the axis)");
        }
    }
    if !refused.is_empty() {
        panel = panel.note(format!("can't account this: {}", refused.join(", ")));
    }
    let panel = drawn.into_iter().fold(panel, Panel::series);
    Ok(Chart::new("Epsilon for every delta, by accountant")
        .note(sentence(events))
        .panel(panel)
        .x_label("delta")
        .x_log())
}

/// A table in plain words: what each accountant finds at `delta`, what it knows of the releases,
/// and why its epsilon is not the same as the others'.
///
/// # Errors
/// Kind `Setting` for a number outside its range, kind `Accounting` if nobody can account the
/// events.
pub fn why_they_differ(events: &[Event], delta: Delta) -> Result<Table> {
    delta.check()?;
    let relation = Neighbouring::AddOrRemoveOne;
    let mut answers: Vec<(String, Result<Spent>)> = compare(events, delta, relation)
        .into_iter()
        .map(|answer| (answer.accountant, answer.spent))
        .collect();
    if let Some(refusal) = answers.iter().all(|(_, a)| a.is_err()).then(|| answers.remove(0).1) {
        refusal?;
    }
    // Under the production conversion: the step that old numbers were made with.
    let classic = Rdp::default().with_conversion(Conversion::Classic).epsilon(events, delta);
    let after_rdp = answers.iter().position(|(name, _)| name == "rdp").map_or(0, |at| at + 1);
    answers.insert(after_rdp, ("rdp_classic".into(), classic));

    let mut table = Table::new(["accountant", "epsilon", "what it knows", "why it differs"])
        .caption(format!(
            "{} (delta = {}, neighbours: {relation})",
            sentence(events),
            format::delta(delta.0)
        ));
    for (name, spent) in answers {
        let (label, knows, why) = explained(&name);
        let (epsilon, why) = match spent {
            Ok(spent) => (format::eps(spent.epsilon), why.to_string()),
            Err(error) => ("-".into(), format!("refuses: {}", reason(&error))),
        };
        table = table.row([label, epsilon, knows.into(), why]);
    }
    Ok(table)
}

/// Label, what the accountant knows, and why it differs.
fn explained(name: &str) -> (String, &'static str, &'static str) {
    let (knows, why) = match name {
        "pld" => (
            "the whole distribution of the privacy loss",
            "loses nothing but a rounding up to a fine grid",
        ),
        "rdp" => (
            "only moments of that distribution",
            "the way back from moments to (epsilon, delta) costs the rest",
        ),
        "rdp_classic" => ("the same moments", "takes an older and looser way back (Mironov 2017)"),
        "gdp" => (
            "one number: how far two bell curves lie apart",
            "loses nothing: without sampling, the loss is a bell curve",
        ),
        "gdp_clt" => (
            "only mean and spread of the loss",
            "replaces the loss by a bell curve and so forgets its tail; no guarantee",
        ),
        "zcdp" => (
            "one line above all moments",
            "takes a looser way back from that line, and knows no gain from sampling",
        ),
        _ => ("", ""),
    };
    let label = match name {
        "rdp_classic" => "RDP, classic conversion".into(),
        other => short_name(other),
    };
    (label, knows, why)
}

/// The second half of an error's first line: why.
fn reason(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.split_once(": ").map_or(line, |(_, why)| why).to_string()
}

/// Who is asked, with the colour of each: the central limit only where there is no exact answer.
fn accountants(events: &[Event]) -> Vec<(Box<dyn Accountant>, usize)> {
    let gdp: Box<dyn Accountant> = match Gdp::default().epsilon(events, Delta(READ_AT)) {
        Ok(_) => Box::new(Gdp::default()),
        Err(_) => Box::new(GdpClt::default()),
    };
    vec![
        (Box::new(Pld::default()), colour::PLD),
        (Box::new(Rdp::default()), colour::RDP),
        (gdp, colour::GDP),
        (Box::new(Zcdp::default()), colour::ZCDP),
    ]
}

fn ask(accountant: &dyn Accountant, events: &[Event], deltas: &[f64]) -> Vec<Result<Spent>> {
    if accountant.name() == "pld" {
        let all: Vec<Delta> = deltas.iter().copied().map(Delta).collect();
        // One distribution answers for all deltas; if it has to pass on one of them, they are
        // asked one by one and that one is a gap.
        if let Ok(answers) = Pld::default().curve(events, &all) {
            return answers.into_iter().map(Ok).collect();
        }
    }
    deltas.iter().map(|&delta| accountant.epsilon(events, Delta(delta))).collect()
}

fn all_refused(answers: &[Result<Spent>]) -> Option<Error> {
    answers.iter().all(Result::is_err).then(|| answers.iter().find_map(|a| a.clone().err()))?
}

/// Where the axis ends, if a curve lies so far above the others that it would press them flat:
/// its value stands in the legend all the same.
fn top_of_axis(drawn: &[Series]) -> Option<f64> {
    let largest = |series: &Series| finite(series).fold(0.0, f64::max);
    let smallest = |series: &Series| finite(series).fold(f64::INFINITY, f64::min);
    let best = drawn.iter().filter(|s| !s.is_approximate()).map(largest);
    let limit = 3.0 * best.fold(f64::INFINITY, f64::min);
    let (far, near): (Vec<&Series>, Vec<&Series>) =
        drawn.iter().partition(|series| smallest(series) > limit);
    (!far.is_empty()).then(|| 1.08 * near.into_iter().map(largest).fold(0.0, f64::max))
}

fn finite(series: &Series) -> impl Iterator<Item = f64> + '_ {
    series.points().iter().map(|p| p.1).filter(|y| y.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers `scale * ln(1/delta)`, below 1e-9 only if it is bold.
    struct Fake {
        name: &'static str,
        scale: f64,
        approximate: bool,
    }

    impl Accountant for Fake {
        fn name(&self) -> &str {
            self.name
        }
        fn epsilon(&self, _: &[Event], delta: Delta) -> Result<Spent> {
            if self.scale <= 0.0 || (self.approximate && delta.0 < 1e-9) {
                return Err(Error::new(ErrorKind::Accounting, "this", "is not for me"));
            }
            Ok(Spent::new(-self.scale * delta.0.ln(), self.name))
        }
        fn is_approximate(&self) -> bool {
            self.approximate
        }
    }

    fn asked(list: &[(&'static str, f64, bool)]) -> Vec<(Box<dyn Accountant>, usize)> {
        let fake = |&(name, scale, approximate): &(&'static str, f64, bool)| {
            Box::new(Fake { name, scale, approximate }) as Box<dyn Accountant>
        };
        list.iter().enumerate().map(|(i, one)| (fake(one), i)).collect()
    }

    fn named(chart: &Chart, name: &str) -> Series {
        let found = chart.panels()[0].lines().iter().find(|s| s.name().starts_with(name));
        found.unwrap_or_else(|| panic!("no line {name}")).clone()
    }

    #[test]
    fn estimates_are_dashed_and_far_curves_do_not_press_the_others_flat() {
        let list = [("rdp", 0.2, false), ("gdp_clt", 0.15, true), ("zcdp", 9.0, false)];
        let chart = chart_of(&[], &asked(&list)).unwrap();
        let clt = named(&chart, "GDP CLT (approximate, under-estimates)");
        assert!(clt.is_approximate() && !named(&chart, "RDP").is_approximate());
        // A delta that was refused is a gap.
        assert!(clt.points()[0].1.is_nan() && clt.points()[20].1 > 0.0);
        let far = named(&chart, "zCDP");
        assert_eq!(far.name(), "zCDP (above the axis)");
        // Its value is told all the same: 9 ln(1e5) = 103.6, rounded up.
        assert!(chart.text().contains("104"), "{}", chart.text());
        let near = [("rdp", 0.2, false), ("zcdp", 0.4, false)];
        let chart = chart_of(&[], &asked(&near)).unwrap();
        assert_eq!(named(&chart, "zCDP").name(), "zCDP");
    }

    #[test]
    fn who_refuses_is_named_and_nobody_is_an_error() {
        let list = [("pldx", 0.0, false), ("rdp", 0.2, false)];
        let chart = chart_of(&[], &asked(&list)).unwrap();
        assert!(chart.text().contains("[can't account this: PLDX]"), "{}", chart.text());
        let error = chart_of(&[], &asked(&list[..1])).unwrap_err();
        assert!(error.to_string().contains("is not for me"), "{error}");
    }
}
