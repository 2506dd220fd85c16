//! Comparison of the accountants: epsilon by each of them, with the reasons for the differences.

use super::epsilon_panel::{accountant_label, epsilon_points, geomspace};
use super::{check_events, colour, describe_events, sorted};
use crate::methods::Plan;
use crate::privacy::{
    Accountant, Conversion, Delta, Event, Gdp, GdpClt, Pld, PrivacyCost, Rdp, TightestAccountant,
    Zcdp, compare_accountants,
};
use crate::show::{Chart, Coverage, Panel, Series, Table, format};
use crate::train::Run;
use crate::{Error, ErrorKind, Result, privacy};

/// Releases and the delta at which their epsilon is read, for [`epsilon_vs_delta`].
///
/// Made from a list of events (delta 1e-5), a list with a delta, `&plan` or `&run` (their own
/// delta).
#[derive(Clone, Debug)]
pub struct Releases {
    events: Vec<Event>,
    delta: Delta,
}

impl<T: AsRef<[Event]> + ?Sized> From<&T> for Releases {
    fn from(events: &T) -> Self {
        Self { events: events.as_ref().to_vec(), delta: Delta::DEFAULT }
    }
}

impl<T: Into<Releases>> From<(T, Delta)> for Releases {
    fn from((releases, delta): (T, Delta)) -> Self {
        Self { delta, ..releases.into() }
    }
}

impl From<&Plan> for Releases {
    fn from(plan: &Plan) -> Self {
        let delta = plan.privacy().map_or(Delta::DEFAULT, |privacy| privacy.delta);
        Self { events: plan.releases_after(plan.steps()), delta }
    }
}

impl From<&Run> for Releases {
    fn from(run: &Run) -> Self {
        Self { events: run.record().events(), ..run.plan().into() }
    }
}

/// Plots the epsilon of the releases for every delta from 1e-10 to 1e-2, by each accountant that
/// can account for them. The delta of the releases is marked, and the values beside the names are
/// read there. Estimates are dashed. Where two curves differ by less than 1 % everywhere, the
/// first is drawn broad and pale, and the name of the second says so.
///
/// ```no_run
/// # use epsilab::prelude::*;
/// # fn draw(data: &Dataset) -> Result<()> {
/// let plan = DpSgd::new().target(Epsilon(3.0), Delta(1e-6)).plan(data)?;
/// figures::epsilon_vs_delta(&plan)?.show();
/// figures::epsilon_vs_delta((&[plan.event()], Delta(1e-7)))?.show();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Kind `Setting` for an empty list of events or a delta outside (0, 1), kind `Accounting` with the
/// first refusal if no accountant can account for the events.
pub fn epsilon_vs_delta(releases: impl Into<Releases>) -> Result<Chart> {
    let Releases { events, delta } = releases.into();
    delta.check()?;
    check_events(&events)?;
    build_chart(&events, delta, &compared_accountants(&events))
}

fn build_chart(
    events: &[Event],
    Delta(read_at): Delta,
    accountants: &[(Box<dyn Accountant>, usize)],
) -> Result<Chart> {
    // Four points for each power of ten, and the delta that is marked.
    let even = geomspace(1e-10, 1e-2, 33).into_iter();
    let others = even.filter(|delta| (delta / read_at - 1.0).abs() > 1e-9);
    let deltas = sorted(others.chain([read_at]));
    let mut drawn: Vec<Series> = Vec::new();
    let mut refused: Vec<String> = Vec::new();
    let mut refusals: Vec<Error> = Vec::new();
    for (accountant, colour) in accountants {
        let name = accountant_label(accountant.name());
        let answers = epsilons(accountant.as_ref(), events, &deltas);
        if let Some(refusal) = refusal_of_all(&answers) {
            refused.push(name);
            refusals.push(refusal.into());
            continue;
        }
        let series = Series::line(name, epsilon_points(&deltas, &answers)).colour(*colour);
        drawn.push(if accountant.is_approximate() { series.approximate() } else { series });
    }
    if drawn.is_empty() {
        let no_accountant = || {
            Error::new(
                ErrorKind::Accounting,
                "no epsilon for these releases",
                "no accountant supports these releases",
            )
        };
        return Err(refusals.into_iter().next().unwrap_or_else(no_accountant));
    }
    mark_coinciding(&mut drawn);
    let relation = TightestAccountant::for_events(events).neighbouring();
    // A single line is named by its panel.
    let label = match drawn.as_slice() {
        [only] => format!("epsilon ({relation}), {}", only.name()),
        _ => format!("epsilon ({relation})"),
    };
    let mut panel = Panel::new(label)
        .epsilon()
        .values_at(read_at, format!("delta = {}", format::delta(read_at)))
        .slider();
    if let Some(top) = axis_upper_limit(&drawn) {
        panel = panel.y_range(0.0, top);
        for series in drawn.iter_mut().filter(|series| finite(series).all(|y| y > top)) {
            series.name.push_str(" (above the axis)");
        }
    }
    if !refused.is_empty() {
        panel = panel.badge(format!("not accounted by {}", refused.join(", ")));
    }
    let panel = drawn.into_iter().fold(panel, Panel::series);
    Ok(Chart::new("Epsilon for every delta, by accountant")
        .coverage(Coverage::Public)
        .note(describe_events(events))
        .panel(panel)
        .x_label("delta")
        .x_log())
}

/// Returns a table of the epsilon by each accountant at `delta`, what the accountant uses of the
/// privacy loss, and why its epsilon differs from the others.
///
/// ```
/// use epsilab::prelude::*;
/// let table = figures::accountant_comparison(&[Event::poisson(0.01, 1.0, 1000)], Delta(1e-5))?;
/// assert!(table.text().contains("2.102")); // by RDP
/// table.show();
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for an empty list of events or a delta outside (0, 1), kind `Accounting` if no
/// accountant can account for the events.
pub fn accountant_comparison(events: &[Event], delta: Delta) -> Result<Table> {
    delta.check()?;
    check_events(events)?;
    let relation = TightestAccountant::for_events(events).neighbouring();
    let mut answers: Vec<(String, privacy::Result<PrivacyCost>)> =
        compare_accountants(events, delta, relation)
            .into_iter()
            .map(|result| (result.accountant, result.cost))
            .collect();
    if let Some(refusal) = answers.iter().all(|(_, a)| a.is_err()).then(|| answers.remove(0).1) {
        refusal?;
    }
    // Below RDP: the conversion that older software used.
    let classic = Rdp::default().with_conversion(Conversion::Classic).epsilon(events, delta);
    let after_rdp = answers.iter().position(|(name, _)| name == "rdp").map_or(0, |at| at + 1);
    answers.insert(after_rdp, ("rdp_classic".into(), classic));

    let row = |(name, spent): (String, privacy::Result<PrivacyCost>)| {
        let (label, knows, why) = describe_accountant(&name);
        let (epsilon, why) = match spent {
            Ok(spent) => (format::eps(spent.epsilon), why.to_string()),
            Err(error) => ("-".into(), format!("refuses: {}", error.why())),
        };
        [label, epsilon, knows.into(), why]
    };
    let (description, delta) = (describe_events(events), format::delta(delta.0));
    Ok(Table::new(["accountant", "epsilon", "what it uses", "why it differs"])
        .rows(answers.into_iter().map(row))
        .coverage(Coverage::Public)
        .caption(format!("{description} (delta = {delta}, neighbours: {relation})")))
}

/// Returns the label, what the accountant uses of the privacy loss, and why its epsilon differs.
fn describe_accountant(name: &str) -> (String, &'static str, &'static str) {
    let (knows, why) = match name {
        "rdp_classic" => {
            let why = "uses an older and looser conversion (Mironov 2017)";
            return ("RDP, classic conversion".into(), "the same moments", why);
        }
        "pld" => (
            "the distribution of the privacy loss",
            "exact up to rounding losses up to a fine grid",
        ),
        "rdp" => (
            "only moments of that distribution (Rényi divergences)",
            "the conversion from moments to (epsilon, delta) is not tight",
        ),
        "gdp" => (
            "one parameter: the distance mu of two unit Gaussians",
            "exact: without sampling, the privacy loss is Gaussian",
        ),
        "gdp_clt" => (
            "only mean and variance of the privacy loss",
            "replaces the loss by a Gaussian, which ignores its tail; no guarantee",
        ),
        "zcdp" => (
            "one linear bound on all moments",
            "the conversion is looser, and there is no amplification by sampling",
        ),
        _ => ("", ""),
    };
    (accountant_label(name), knows, why)
}

/// Returns the accountants that are compared, with their colours. The central limit theorem for
/// GDP is used only where exact GDP refuses.
fn compared_accountants(events: &[Event]) -> Vec<(Box<dyn Accountant>, usize)> {
    let relation = TightestAccountant::for_events(events).neighbouring();
    let exact = Gdp::with_neighbouring(relation);
    let gdp: Box<dyn Accountant> = match exact.epsilon(events, Delta::DEFAULT) {
        Ok(_) => Box::new(exact),
        Err(_) => Box::new(GdpClt::with_neighbouring(relation)),
    };
    vec![
        (Box::new(Pld::with_neighbouring(relation)), colour::PLD),
        (Box::new(Rdp::with_neighbouring(relation)), colour::RDP),
        (gdp, colour::GDP),
        (Box::new(Zcdp::with_neighbouring(relation)), colour::ZCDP),
    ]
}

fn epsilons(
    accountant: &dyn Accountant,
    events: &[Event],
    deltas: &[f64],
) -> Vec<privacy::Result<PrivacyCost>> {
    if accountant.name() == "pld" {
        let all: Vec<Delta> = deltas.iter().copied().map(Delta).collect();
        // One loss distribution gives all deltas. If one of them is refused, they are computed one
        // by one and that one is a gap.
        if let Ok(answers) =
            Pld::with_neighbouring(accountant.neighbouring()).epsilons_at(events, &all)
        {
            return answers.into_iter().map(Ok).collect();
        }
    }
    deltas.iter().map(|&delta| accountant.epsilon(events, Delta(delta))).collect()
}

fn refusal_of_all(answers: &[privacy::Result<PrivacyCost>]) -> Option<privacy::Error> {
    answers.iter().all(Result::is_err).then(|| answers.iter().find_map(|a| a.clone().err()))?
}

/// Makes coinciding curves visible: the first becomes broad, and the names of the others refer to
/// it.
fn mark_coinciding(drawn: &mut [Series]) {
    for later in 1..drawn.len() {
        let Some(first) = (0..later).find(|&first| curves_coincide(&drawn[first], &drawn[later]))
        else {
            continue;
        };
        drawn[first].broad = true;
        let name = drawn[first].name().to_owned();
        drawn[later].name.push_str(&format!(" (within 1 % of {name})"));
    }
}

/// Returns whether two curves over the same deltas differ by less than 1 % everywhere.
fn curves_coincide(a: &Series, b: &Series) -> bool {
    let near = |(a, b): (f64, f64)| match (a.is_finite(), b.is_finite()) {
        (true, true) => (a - b).abs() <= 0.01 * a.abs().max(b.abs()),
        (a, b) => a == b,
    };
    let values = |series: &Series| series.points().iter().map(|p| p.1).collect::<Vec<_>>();
    !a.is_approximate() && values(a).into_iter().zip(values(b)).all(near)
}

/// Returns the upper end of the axis, if one curve is so far above the others that they would look
/// flat. The legend still shows its value.
fn axis_upper_limit(drawn: &[Series]) -> Option<f64> {
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

    /// Returns `scale * ln(1/delta)`; an approximate one refuses deltas below 1e-9.
    struct Fake {
        name: &'static str,
        scale: f64,
        approximate: bool,
    }

    impl Accountant for Fake {
        fn name(&self) -> &str {
            self.name
        }
        fn epsilon(&self, _: &[Event], delta: Delta) -> privacy::Result<PrivacyCost> {
            if self.scale <= 0.0 || (self.approximate && delta.0 < 1e-9) {
                return Err(privacy::Error::new(
                    privacy::ErrorKind::Accounting,
                    "this",
                    "is not for me",
                ));
            }
            Ok(PrivacyCost::new(-self.scale * delta.0.ln(), self.name))
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
        let found = chart.panels()[0].all_series().iter().find(|s| s.name().starts_with(name));
        found.unwrap_or_else(|| panic!("no line {name}")).clone()
    }

    #[test]
    fn estimates_are_dashed_and_far_curves_end_above_the_axis() {
        let list = [("rdp", 0.2, false), ("gdp_clt", 0.15, true), ("zcdp", 9.0, false)];
        let chart = build_chart(&[], Delta::DEFAULT, &asked(&list)).unwrap();
        let clt = named(&chart, "GDP CLT (approximate: may be below or above)");
        assert!(clt.is_approximate() && !named(&chart, "RDP").is_approximate());
        // A delta that was refused is a gap.
        assert!(clt.points()[0].1.is_nan() && clt.points()[20].1 > 0.0);
        let far = named(&chart, "zCDP");
        assert_eq!(far.name(), "zCDP (above the axis)");
        // The legend shows its value: 9 ln(1e5) = 103.617, rounded up.
        assert!(chart.text().contains("103.7"), "{}", chart.text());
        let near = [("rdp", 0.2, false), ("zcdp", 0.4, false)];
        let chart = build_chart(&[], Delta::DEFAULT, &asked(&near)).unwrap();
        assert_eq!(named(&chart, "zCDP").name(), "zCDP");
    }

    #[test]
    fn coinciding_curves_are_both_visible_and_have_a_note() {
        let list = [("pldx", 0.2, false), ("rdp", 0.4, false), ("zcdp", 0.2001, false)];
        let chart = build_chart(&[], Delta::DEFAULT, &asked(&list)).unwrap();
        assert_eq!(named(&chart, "zCDP").name(), "zCDP (within 1 % of PLDX)");
        assert!(named(&chart, "PLDX").broad && !named(&chart, "RDP").broad);
        assert_eq!(named(&chart, "RDP").name(), "RDP");
    }

    #[test]
    fn accountants_that_refuse_are_named_and_refusal_by_all_is_an_error() {
        let list = [("pldx", 0.0, false), ("rdp", 0.2, false)];
        let chart = build_chart(&[], Delta::DEFAULT, &asked(&list)).unwrap();
        assert!(chart.text().contains("[not accounted by PLDX]"), "{}", chart.text());
        let error = build_chart(&[], Delta::DEFAULT, &asked(&list[..1])).unwrap_err();
        assert!(error.to_string().contains("is not for me"), "{error}");
    }
}
