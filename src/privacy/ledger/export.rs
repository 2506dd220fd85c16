//! Export of a ledger: what was released, without identifying the data.
//!
//! The content hash is not exported, nor anything derived from it: someone who knows all other
//! examples could use it to test a guess of the remaining one. The links of the chain and the ids
//! of runs depend on the hash, so the export numbers the runs instead. The times of runs are not
//! exported either: that of a private selection tells how many trials it had.

use serde::Serialize;
use serde_json::{Value, json};

use super::account::Account;
use super::entry::now;
use super::{Budget, Ledger, first_line};
use crate::privacy::{Delta, Event, Neighbouring};
use crate::{Error, ErrorKind, Result};

/// Version of the exported format.
const FORMAT: u32 = 1;

/// The delta used for a ledger without a budget.
pub(crate) const DELTA: Delta = Delta(1e-5);

/// One data set of the export.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DataSet {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    runs: Vec<Run>,
    /// The charged events, one per run: the complete input for another accountant.
    events: Vec<Event>,
    /// The epsilon of all events together; `None` if an event has no guarantee.
    epsilon: Option<f64>,
    delta: Delta,
    #[serde(skip_serializing_if = "Option::is_none")]
    accountant: Option<String>,
    neighbouring: Neighbouring,
    /// The reason why there is no epsilon.
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
    /// The run took fewer steps than planned: its event holds under the condition in its note.
    stopped_early: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    closing_note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon_claimed: Option<f64>,
}

impl DataSet {
    /// The account of one data set, for export.
    pub(crate) fn from_account(account: &Account) -> Self {
        let delta = account.budget().map_or(DELTA, |budget| budget.delta);
        let total = account.total(delta);
        let private = account.private_total(delta);
        let runs = account.runs().iter().enumerate().map(|(i, charge)| Run {
            run: i + 1,
            note: charge.note.clone(),
            event: charge.event.clone(),
            closed: charge.closed,
            stopped_early: charge.stopped_early,
            closing_note: charge.closing_note.clone(),
            epsilon_claimed: charge.epsilon_claimed,
        });
        Self {
            name: data_set_names(account.runs().iter().map(|charge| charge.note.as_str())),
            runs: runs.collect(),
            events: account.events(),
            epsilon: total.as_ref().ok().map(|spent| spent.epsilon),
            delta,
            accountant: total.as_ref().ok().map(|spent| spent.accountant.clone()),
            neighbouring: account.neighbouring(),
            why: total.err().map(|error| first_line(&error)),
            runs_without_privacy: account.non_private_runs(),
            epsilon_of_private_runs: private.ok().map(|spent| spent.epsilon),
            budget: account.budget(),
        }
    }

    /// The neighbouring relation of the epsilons.
    pub(crate) fn neighbouring(&self) -> Neighbouring {
        self.neighbouring
    }

    /// The delta at which the epsilons are computed.
    pub(crate) fn delta(&self) -> Delta {
        self.delta
    }
}

impl Ledger {
    /// The ledger as JSON, without the content hash of the data, for checking by others:
    /// `{"format":1, "exported_at":.., "data_sets":[{"runs":[..], "events":[..], "epsilon":..,
    /// "delta":.., ..}]}` with this one data set.
    ///
    /// # Errors
    /// As [`Ledger::entries`]. A total that no accountant supports is not an error: `epsilon` is
    /// then `null`, and `why` gives the reason.
    pub fn export_json(&self) -> Result<String> {
        to_json(&[&DataSet::from_account(&self.account()?)])
    }
}

/// The JSON document of these data sets.
pub(crate) fn to_json(data_sets: &[&DataSet]) -> Result<String> {
    let document: Value = json!({"format": FORMAT, "exported_at": now(), "data_sets": data_sets});
    serde_json::to_string_pretty(&document).map_err(|e| {
        Error::new(ErrorKind::Ledger, "the ledger cannot be written as JSON", e.to_string())
    })
}

/// The data set names in notes such as `DP-SGD on MNIST, study mode`.
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
