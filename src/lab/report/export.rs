//! Export of a ledger: the releases, without identifying the data.
//!
//! The content hash is not exported, nor anything derived from it: someone who knows all other
//! examples could use it to test a guess of the remaining one. The links of the chain and the ids
//! of runs depend on the hash, so the export numbers the runs instead. The times of runs are not
//! exported either: that of a private selection tells how many trials it had.

use serde::Serialize;
use serde_json::json;

use crate::clock::utc_now;
use crate::privacy::ledger::LedgerState;
use crate::privacy::{Budget, Delta, Event, NeighbouringRelation};
/// Version of the exported format.
const FORMAT: u32 = 1;

/// One data set of the export.
#[derive(Clone, Debug, Serialize)]
pub(in crate::lab) struct ExportedDataSet {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    runs: Vec<Run>,
    /// The charged events, one per run: the complete input for another accountant.
    events: Vec<Event>,
    /// The epsilon of all events together; `None` if an event has no guarantee.
    epsilon: Option<f64>,
    /// The delta at which the epsilons are computed.
    pub(in crate::lab) delta: Delta,
    #[serde(skip_serializing_if = "Option::is_none")]
    accountant: Option<String>,
    /// The neighbouring relation of the epsilons.
    pub(in crate::lab) neighbouring: NeighbouringRelation,
    /// Reason for a missing epsilon.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    runs_without_privacy: usize,
    /// The epsilon of all runs that have a guarantee.
    epsilon_of_private_runs: Option<f64>,
    budget: Option<Budget>,
}

#[derive(Clone, Debug, Serialize)]
struct Run {
    /// Position in the ledger, from 1.
    run: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
    event: Event,
    /// Whether the run was closed. Otherwise its whole plan is charged.
    closed: bool,
    /// Whether the run took fewer steps than planned: its event holds under the condition in its
    /// note.
    stopped_early: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    closing_note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon_claimed: Option<f64>,
}

impl ExportedDataSet {
    /// Returns the ledger of one data set, for export.
    pub(in crate::lab) fn from_account(account: &LedgerState) -> Self {
        let delta = account.budget().map_or(Delta::DEFAULT, |budget| budget.delta);
        let total = account.total(delta);
        let private = account.private_total(delta);
        let runs = account.charges().iter().enumerate().map(|(i, charge)| Run {
            run: i + 1,
            note: charge.note.clone(),
            event: charge.event.clone(),
            closed: charge.closed,
            stopped_early: charge.stopped_early,
            closing_note: charge.closing_note.clone(),
            epsilon_claimed: charge.epsilon_claimed,
        });
        Self {
            name: data_set_names(account.charges().iter().map(|charge| charge.note.as_str())),
            runs: runs.collect(),
            events: account.events(),
            epsilon: total.as_ref().ok().map(|spent| spent.epsilon),
            delta,
            accountant: total.as_ref().ok().map(|spent| spent.accountant.clone()),
            neighbouring: account.neighbouring(),
            why: total.err().map(|error| error.summary()),
            runs_without_privacy: account.non_private_runs(),
            epsilon_of_private_runs: private.ok().map(|spent| spent.epsilon),
            budget: account.budget(),
        }
    }
}

/// Returns the JSON document of these data sets.
pub(in crate::lab) fn to_json(data_sets: &[&ExportedDataSet]) -> String {
    let at = utc_now();
    format!("{:#}", json!({ "format": FORMAT, "exported_at": at, "data_sets": data_sets }))
}

/// Returns the data set names in notes such as `DP-SGD on MNIST, study mode`.
fn data_set_names<'a>(notes: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for note in notes {
        let Some((_, name)) = note.split_once(" on ") else { continue };
        let name = name.strip_suffix(", study mode").unwrap_or(name);
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::{Accountant, Entry, Epsilon, Ledger, TightestAccountant};
    use crate::store::open_ledger;

    fn training(steps: u64) -> Event {
        Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.1, steps }
    }

    fn to_text(ledger: &Ledger) -> String {
        to_json(&[&ExportedDataSet::from_account(&ledger.state().unwrap())])
    }

    #[test]
    fn the_export_is_complete_and_does_not_identify_the_data() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = open_ledger(&folder.path().join("abc123.jsonl")).unwrap();
        let entry = Entry::planned("abc123-run", "abc123", &training(100));
        ledger.record(&entry.with_note("DP-SGD on MNIST, study mode")).unwrap();
        ledger.close_run("abc123-run", &training(90)).unwrap();
        ledger.set_budget(Epsilon(8.0), Delta(1e-6)).unwrap();
        ledger.begin_run("2", &training(5)).unwrap();
        let text = to_text(&ledger);
        assert!(!text.contains("abc123") && !text.contains("chain"), "{text}");
        // The time of a private selection tells how many trials it had.
        assert!(!text.contains("\"at\""), "{text}");

        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["format"], 1);
        let data = &json["data_sets"][0];
        assert_eq!(data["name"], "MNIST");
        let events: Vec<Event> = serde_json::from_value(data["events"].clone()).unwrap();
        assert_eq!(events, ledger.events().unwrap());
        let again = TightestAccountant::new().epsilon(&events, Delta(1e-6)).unwrap();
        assert!((data["epsilon"].as_f64().unwrap() - again.epsilon).abs() < 1e-12);
        assert_eq!(data["accountant"], again.accountant);
        assert_eq!((&data["delta"], &data["budget"]["epsilon"]), (&1e-6.into(), &8.0.into()));
        assert_eq!(data["neighbouring"], "add_or_remove_one");
        assert_eq!(
            (&data["runs"][0]["closed"], &data["runs"][1]["closed"]),
            (&true.into(), &false.into())
        );
        assert_eq!(data["runs"][1]["run"], 2);

        let open_run = Ledger::in_memory();
        let open = Event::Unaccountable { why: "raw gradients".into() };
        open_run.begin_run("run", &open).unwrap();
        let text = to_text(&open_run);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let data = &json["data_sets"][0];
        assert!(
            data["epsilon"].is_null() && data["why"].as_str().unwrap().contains("raw gradients")
        );
        assert_eq!(data["runs_without_privacy"], 1);
    }
}
