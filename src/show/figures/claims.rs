//! Epsilons of methods side by side: claimed, proved and attacked.

use super::check_not_empty;
use crate::audit::{AuditReport, Verdict};
use crate::privacy::digits::RoundedDown;
use crate::show::axis::Axis;
use crate::show::bars::{Bar, Bars};
use crate::show::figure_card::FigureHeader;
use crate::show::palette::{self, Rgb};
use crate::show::series::extent;
use crate::show::{Coverage, Figure, Table, format};
use crate::{Error, Result};

const CLAIMED_COLOUR: Rgb = palette::AXIS;
const PROVED_COLOUR: Rgb = palette::SERIES[0];
const AUDITED_COLOUR: Rgb = palette::SERIES[1];

/// The epsilons of one method at the same delta, for [`epsilon_claims`].
#[derive(Clone, Debug, PartialEq)]
pub struct EpsilonClaim {
    name: String,
    claimed: Option<f64>,
    proved: Option<f64>,
    audited: Option<f64>,
    /// Whether an audit refuted the claim.
    refuted: bool,
}

impl EpsilonClaim {
    /// Creates the entry of a method, without any epsilon.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), claimed: None, proved: None, audited: None, refuted: false }
    }

    /// Sets the epsilon that the authors of the method or its program state.
    pub fn claimed(self, epsilon: f64) -> Self {
        Self { claimed: Some(epsilon), ..self }
    }

    /// Sets the proved epsilon: that of the ledger.
    pub fn proved(self, epsilon: f64) -> Self {
        Self { proved: Some(epsilon), ..self }
    }

    /// Sets the lower bound that an attack shows.
    pub fn audited(self, lower_bound: f64) -> Self {
        Self { audited: Some(lower_bound), ..self }
    }

    /// Returns whether there is a claim that an attack contradicts.
    fn is_refuted(&self) -> bool {
        self.claimed.is_some() && (self.refuted || self.audited > self.claimed)
    }

    fn values(&self) -> [Option<f64>; 3] {
        [self.claimed, self.proved, self.audited]
    }

    /// Returns the text beside bar number `i`.
    fn bar_label(&self, i: usize) -> String {
        let none = ["no claim", "no proof", ""];
        let mut label = self.formatted_values()[i].clone().unwrap_or_else(|| none[i].to_owned());
        if i == 2 && self.is_refuted() {
            label += ": refuted";
        }
        label
    }

    /// Formats the values: claimed and proved epsilons are rounded up, the lower bound down.
    fn formatted_values(&self) -> [Option<String>; 3] {
        let audited = self.audited.map(|bound| RoundedDown(bound).to_string());
        [self.claimed.map(format::eps), self.proved.map(format::eps), audited]
    }
}

/// The claim and the lower bound of the report. The claim counts as proved if the plan's own
/// mechanism was played and the audit did not refute it.
impl From<&AuditReport> for EpsilonClaim {
    fn from(report: &AuditReport) -> Self {
        let refuted = report.verdict == Verdict::Refuted;
        Self {
            name: report.method.clone(),
            claimed: report.claimed_epsilon,
            proved: report.claimed_epsilon.filter(|_| report.is_proved && !refuted),
            audited: Some(report.lower_bound),
            refuted,
        }
    }
}

/// Draws the claimed, proved and audited epsilon of each method, as bars on one logarithmic axis.
///
/// The attack's bar is a lower bound on the true epsilon: a short one shows nothing. A claim is
/// refuted where it is shorter than that bar, and where the audit's verdict says so: a trade-off
/// curve claims more than its epsilon at one delta.
///
/// ```
/// use epsilab::prelude::*;
/// let claims = [
///     figures::EpsilonClaim::new("DP-SGD").claimed(3.0).proved(3.0).audited(2.1),
///     figures::EpsilonClaim::new("without clipping").claimed(3.0).audited(8.0),
/// ];
/// let figure = figures::epsilon_claims(claims)?; // or of the reports of audits
/// assert_eq!(figure.title(), "An attack refutes 1 of 2 claims");
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// `Setting` for an empty list, and for an epsilon that is negative or not a number.
pub fn epsilon_claims<C: Into<EpsilonClaim>>(
    claims: impl IntoIterator<Item = C>,
) -> Result<Figure> {
    let claims: Vec<EpsilonClaim> = claims.into_iter().map(Into::into).collect();
    let values = claims.iter().flat_map(EpsilonClaim::values).flatten();
    if let Some(epsilon) = values.clone().find(|epsilon| epsilon.is_nan() || *epsilon < 0.0) {
        return Err(Error::setting("epsilon", epsilon, "no guarantee has such an epsilon")
            .fix("pass epsilons of 0 or more"));
    }
    let fix = "pass for example [&audit::by_name(\"dp-sgd\", &options)?.run()?]";
    check_not_empty("claims", &claims, fix)?;
    let refuted = claims.iter().filter(|claim| claim.is_refuted()).count();
    let claimed = claims.iter().filter(|claim| claim.claimed.is_some()).count();
    let title = match refuted {
        0 => "No attack shows more than what is claimed".to_owned(),
        n => format!("An attack refutes {n} of {}", format::pluralise(claimed, "claim")),
    };
    // Otherwise the figure shows a refuted claim whose bar is the longer one.
    let by_curve = claims.iter().any(|claim| claim.is_refuted() && claim.audited <= claim.claimed);
    let curve = "Refuted with a shorter bar: the attack crosses the claim's trade-off curve.";
    let head = FigureHeader::new(title)
        .note("Epsilon, logarithmic. The attack's bar is a lower bound on the true epsilon.")
        .note_if(by_curve, || curve.to_owned())
        .coverage(Coverage::Public)
        .key(CLAIMED_COLOUR, "claimed")
        .key(PROVED_COLOUR, "proved")
        .key(AUDITED_COLOUR, "shown by an attack (at least)");
    let row = |claim: &EpsilonClaim| {
        let bars = claim.values().into_iter().enumerate();
        let bars = bars.map(|(i, value)| Bar::new(value, claim.bar_label(i)));
        (claim.name.clone(), bars.collect())
    };
    let bars = Bars {
        name: "epsilon",
        axis: axis_for(values),
        kinds: vec![
            ("claimed", CLAIMED_COLOUR),
            ("proved", PROVED_COLOUR),
            ("shown by an attack", AUDITED_COLOUR),
        ],
        rows: claims.iter().map(row).collect(),
        mark: None,
    };
    Ok(head.figure(&bars, table(&claims)))
}

/// Returns an axis from below the smallest bar to the largest one.
fn axis_for(values: impl Iterator<Item = f64>) -> Axis {
    let drawn = values.filter(|value| *value > 0.0 && value.is_finite());
    // Bars that are shorter than a hundredth of the longest are cut.
    let ends = extent(drawn).map(|(low, high)| ((low / 1.5).max(high / 200.0), high));
    let (low, high) = ends.unwrap_or((0.1, 10.0));
    Axis::log_exact(low, high, 7)
}

fn table(claims: &[EpsilonClaim]) -> Table {
    let row = |claim: &EpsilonClaim| {
        let [claimed, proved, audited] =
            claim.formatted_values().map(|values| values.unwrap_or("none".into()));
        let verdict = if claim.is_refuted() { "refuted" } else { "" };
        [claim.name.clone(), claimed, proved, audited, verdict.into()]
    };
    let head = ["method", "claimed", "proved", "attack (at least)", "claim"];
    Table::new(head).rows(claims.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Options, by_name};

    #[test]
    fn a_claim_below_the_attack_is_counted_and_its_proof_is_gone() {
        let options = Options { trials: 1_000, dimension: 8, ..Options::default() };
        let report = |name: &str| by_name(name, &options).unwrap().run().unwrap();
        let (right, wrong, none) = (report("dp-sgd"), report("no-clip"), report("auto-dp-sgd"));
        let figure = epsilon_claims([&right, &wrong, &none]).unwrap();
        let text = figure.text();
        assert!(text.contains("An attack refutes 1 of 2 claims"), "{text}");
        let line = |name: &str| {
            let found = text.lines().find(|line| line.starts_with(name));
            found.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
        };
        assert_eq!(line("dp-sgd").matches("4.378").count(), 2, "{text}");
        assert_eq!(line("no-clip").matches("4.378").count(), 1, "{text}");
        assert_eq!(line("auto-dp-sgd").matches("none").count(), 2, "{text}");
        assert!(figure.svg().contains("no proof"));

        // A claim that a paper makes can be added.
        let published = EpsilonClaim::from(&none).claimed(0.5);
        let two = epsilon_claims([EpsilonClaim::from(&right), published]).unwrap().text();
        assert!(two.contains("An attack refutes 1 of 2 claims"), "{two}");
        // The trade-off curve refutes it, not the bound on epsilon.
        let half = report("half-noise");
        assert!(half.lower_bound < half.compared_epsilon, "{half}");
        let crossed = epsilon_claims([&half]).unwrap().text();
        assert!(crossed.contains("refutes 1 of 1 claim\n"), "{crossed}");
        assert!(crossed.contains("trade-off curve") && !text.contains("trade-off"), "{crossed}");
        let fine = epsilon_claims([&right]).unwrap().text();
        assert!(fine.contains("No attack shows more"), "{fine}");
    }

    #[test]
    fn invalid_epsilons_are_refused() {
        assert!(epsilon_claims(Vec::<EpsilonClaim>::new()).is_err());
        for wrong in [f64::NAN, -1.0] {
            assert!(epsilon_claims([EpsilonClaim::new("a").proved(wrong)]).is_err());
        }
        // Infinite and zero epsilons have a bar at the end of the axis, or none.
        let ends = EpsilonClaim::new("ends").proved(f64::INFINITY).audited(0.0);
        assert!(epsilon_claims([ends]).is_ok());
    }
}
