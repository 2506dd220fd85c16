//! Attack of an audit beside the bound by the ledger.

use super::{check_not_empty, colour};
use crate::Result;
use crate::audit::{AuditReport, Verdict};
use crate::show::{Chart, Coverage, Panel, Series};

/// Plots the true positive rate of each audit's attack over its false positive rate, beside the
/// largest one that the claim of the first audit allows, or, if its method has no claim, clipped
/// steps of the same noise.
///
/// The curves are measured and have sampling error, so an attack that stays within what is allowed
/// may cross the line a little. The verdicts of the reports use confidence bounds; the title counts
/// these verdicts.
///
/// ```
/// use epsilab::prelude::*;
/// let options = audit::Options { trials: 400, dimension: 8, ..Default::default() };
/// let right = audit::by_name("dp-sgd", &options)?.run()?;
/// let wrong = audit::by_name("no-clip", &options)?.run()?;
/// let chart = figures::attack_curves(&[&right, &wrong])?;
/// assert!(chart.text().contains("Some attacks exceed what is allowed"));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for an empty list.
pub fn attack_curves(reports: &[&AuditReport]) -> Result<Chart> {
    check_not_empty("reports", reports, "pass for example &[&Audit::for_plan(&plan).run()?]")?;
    let percent = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let shown = points.iter().filter(|(alarms, _)| *alarms >= 1e-4);
        shown.map(|(alarms, caught)| (100.0 * alarms, *caught)).collect()
    };
    let allowed = match reports[0].why {
        None => "allowed by the ledger",
        Some(_) => "allowed to clipped steps",
    };
    let mut panel = Panel::new("members caught (true positive rate; both axes logarithmic)")
        .percent_bound()
        .log()
        .y_range(1e-4, 1.0)
        .series(Series::line(allowed, percent(&reports[0].allowed_roc_curve)).colour(colour::PLD));
    // The first colour is that of the claim.
    for (slot, report) in reports.iter().enumerate() {
        let name = format!("{} ({})", report.method, report.verdict);
        panel = panel.series(Series::line(name, percent(&report.roc_curve)).colour(slot + 1));
    }
    let refuted = reports.iter().filter(|report| report.verdict == Verdict::Refuted).count();
    let title = match (refuted, reports.len()) {
        (0, _) => "No attack exceeds what is allowed",
        (some, all) if some == all => "Every attack exceeds what is allowed",
        _ => "Some attacks exceed what is allowed",
    };
    let mut note = "The measured curves have sampling error; the verdicts in the names use \
                    confidence bounds."
        .to_owned();
    let unclaimed = reports.iter().filter(|report| report.why.is_some());
    let unclaimed: Vec<&str> = unclaimed.map(|report| report.method.as_str()).collect();
    if !unclaimed.is_empty() {
        let names = unclaimed.join(", ");
        note += &format!(" Without a claim, held to clipped steps of the same noise: {names}.");
    }
    Ok(Chart::new(title)
        .coverage(Coverage::Public)
        .note(note)
        .panel(panel)
        .x_label("false alarms (false positive rate, %)")
        .x_log())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Options, by_name};

    #[test]
    fn attacks_are_drawn_beside_what_the_claim_allows() {
        let options = Options { trials: 400, dimension: 8, ..Options::default() };
        let report = |name: &str| by_name(name, &options).unwrap().run().unwrap();
        let (right, wrong) = (report("dp-sgd"), report("no-clip"));
        let chart = attack_curves(&[&right, &wrong]).unwrap();
        let lines = chart.panels()[0].all_series();
        assert_eq!(lines.len(), 3);
        let at = |line: &Series, alarms: f64| {
            let after = line.points().iter().find(|point| point.0 >= alarms).unwrap();
            after.1
        };
        assert!(at(&lines[1], 10.0) < at(&lines[0], 10.0) + 0.1);
        assert!(at(&lines[2], 1.0) > at(&lines[0], 1.0) + 0.1);
        let text = chart.text();
        assert!(text.contains("Some attacks exceed what is allowed"), "{text}");
        assert!(text.contains("sampling error") && !text.contains("Without a claim"), "{text}");
        assert!(text.contains("allowed by the ledger"), "{text}");
        let auto = report("auto-dp-sgd");
        let text = attack_curves(&[&auto]).unwrap().text();
        assert!(text.contains("Every attack exceeds"), "{text}");
        assert!(text.contains("Without a claim") && text.contains("auto-dp-sgd."), "{text}");
        assert!(text.contains("allowed to clipped steps") && !text.contains("ledger"), "{text}");
        assert!(attack_curves(&[]).is_err());
    }
}
