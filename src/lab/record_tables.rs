//! Plans, run records and curves as tables.

use std::fmt;

use crate::lab::Preview;
use crate::methods::Plan;
use crate::show::{Coverage, MimeBundle, Table, format, run_coverage};
use crate::train::{Curve, Ending, RunRecord};

/// Returns the settings of a plan and what they cost, as in a preview without a ledger.
pub(super) fn plan_bundle(plan: &Plan) -> MimeBundle {
    match Preview::without_ledger(plan) {
        Ok(preview) => preview.bundle(),
        Err(error) => MimeBundle::prose(format!(
            "plan: {}, {}; its epsilon can't be computed: {error}",
            plan.method(),
            format::pluralise(plan.steps(), "step")
        )),
    }
}

/// Returns a run's record without the names and hashes that are made of private data.
pub(super) fn record_table(record: &RunRecord) -> Table {
    let plan = &record.plan;
    let ending = describe_ending(record.ending);
    let none = "infinite: nothing is guaranteed";
    let epsilon = |epsilon: Option<f64>| epsilon.map_or(none.to_owned(), format::eps);
    let delta = plan
        .privacy()
        .map_or(String::new(), |privacy| format!(" at delta {}", format::delta(privacy.delta.0)));
    let steps = format!(
        "{} of {}: {ending}",
        format::format_count(record.steps),
        format::format_count(plan.steps())
    );
    let waiting = record.waiting_fraction().map_or(String::new(), |share| {
        format!(", {} of it waiting for files", format::percent(share))
    });
    let secret = "secret, as the number of trials";
    let time = |seconds| format::seconds(seconds) + &waiting;
    let time = record.publishable_seconds().map_or(secret.to_owned(), time);
    Table::new(["run", ""])
        .row(["method", plan.method()])
        .row(["data", &record.data])
        .row(["trained at", record.trained_at.as_deref().unwrap_or(secret)])
        .row(["steps", &steps])
        .row([format!("epsilon spent{delta}"), epsilon(record.epsilon)])
        .row(["epsilon planned".to_owned(), epsilon(record.planned_epsilon)])
        .row(["test accuracy", &record.test_accuracy.map_or("-".into(), format::percent)])
        .row(["training time", &time])
        .row(["device", &record.device])
        .rows(
            record
                .published_claim()
                .map(|claim| ["claimed by the paper".into(), format!("{claim}: not valid")]),
        )
        .rows(record.events().iter().map(|event| ["released".to_owned(), event.to_string()]))
        .rows(
            record.curve.divergence().map(|divergence| ["note".to_owned(), divergence.to_string()]),
        )
        .coverage(run_coverage(record))
}

/// Describes how a run ended.
pub(super) fn describe_ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Finished => "all steps were taken",
        Ending::Interrupted => "interrupted",
    }
}

/// Returns the measurements of a run, one row for each point.
pub(super) fn curve_bundle(curve: &Curve) -> MimeBundle {
    let optional = |value: Option<f64>, text: fn(f64) -> String| value.map_or("-".into(), text);
    let mut head = vec!["step", "training loss (not covered)", "test accuracy", "epsilon"];
    let adapted = curve.points.iter().any(|point| point.threshold.is_some());
    head.extend(adapted.then_some("clip norm"));
    let has_norms = curve.points.iter().any(|point| point.gradient_norm.is_some());
    head.extend(has_norms.then_some("gradient norm (not covered)"));
    let table = curve.points.iter().fold(Table::new(head), |table, point| {
        let mut row = vec![
            format::format_count(point.step),
            optional(point.loss, |loss| format::significant(loss, 3)),
            optional(point.test_accuracy, format::percent),
            optional(point.epsilon, format::eps),
        ];
        row.extend(adapted.then(|| optional(point.threshold, |t| format::significant(t, 3))));
        let norm = || optional(point.gradient_norm, |norm| format::significant(norm, 3));
        row.extend(has_norms.then(norm));
        table.row(row)
    });
    table.coverage(Coverage::NotCovered).bundle()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(plan_bundle(self).text.trim_end())
    }
}

impl fmt::Display for RunRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(record_table(self).text().trim_end())
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(curve_bundle(self).text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use crate::data;
    use crate::lab::Show;
    use crate::methods::DpSgd;
    use crate::nn::models;
    use crate::privacy::{Delta, Epsilon};
    use crate::show::with_capture;
    use crate::store::open_ledger;
    use crate::train::{NoopObserver, fit};

    #[test]
    fn plans_records_and_curves_are_shown_as_tables_without_hashes() -> crate::Result<()> {
        let data = data::glyphs_with(200, 20, 95)?;
        let model = models::linear(&data).seed(1).build()?;
        let plan = DpSgd::new().target(Epsilon(3.0), Delta(1e-4)).batch_size(40).steps(3);
        let plan = plan.seed(1).plan(&data)?;
        let folder = tempfile::tempdir().unwrap();
        let ledger = open_ledger(&folder.path().join(format!("{}.jsonl", data.origin())))?;
        let run = fit("a-name-of-a-run", &plan, &model, &data, &ledger, &mut NoopObserver)?;
        let shown = with_capture(|| {
            plan.evcxr_display();
            run.record().evcxr_display();
            run.curve().evcxr_display();
        });
        let [plan_shown, record, curve] = &shown[..] else { panic!("{shown:?}") };
        for bundle in &shown {
            assert!(bundle.html.as_ref().is_some_and(|html| html.contains("<table")));
            for hidden in ["a-name-of-a-run", data.hash(), data.origin(), "Some(", "Plan {"] {
                assert!(!bundle.text.contains(hidden), "{hidden}: {bundle}");
            }
        }
        assert_eq!(plan.to_string(), plan_shown.text);
        for part in ["epsilon at delta 1e-4", "noise multiplier", "3 steps"] {
            assert!(plan_shown.text.contains(part), "{part}: {plan_shown}");
        }
        for part in ["3 of 3: all steps were taken", "epsilon spent at delta 1e-4", "trained at"] {
            assert!(record.text.contains(part), "{part}: {record}");
        }
        assert_eq!(curve.text.lines().count(), 2 + run.curve().points.len(), "{curve}");
        Ok(())
    }
}
