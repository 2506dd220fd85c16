//! A ledger as a document for others: what was released, without what names the data.
//!
//! The content hash stays at home, and with it everything that is made of it: whoever holds all
//! other examples could test one by it. The links of the chain and the ids of runs are hashes of
//! that hash, so runs are numbered instead.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::account::Account;
use super::entry::now;
use super::{Budget, Ledger, in_one_line};
use crate::privacy::{Delta, Event, Neighbouring};
use crate::{Error, ErrorKind, Result};

/// The version of the exported document.
const FORMAT: u32 = 1;

/// The delta at which a ledger without a budget is added up.
pub(crate) const DELTA: Delta = Delta(1e-5);

/// One data set of the document.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DataSet {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    runs: Vec<Run>,
    /// What is charged, one event per run: all that another accountant needs.
    events: Vec<Event>,
    /// Of all events together; none if one of them has no guarantee.
    epsilon: Option<f64>,
    delta: Delta,
    #[serde(skip_serializing_if = "Option::is_none")]
    accountant: Option<String>,
    neighbouring: Neighbouring,
    /// Why there is no epsilon.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    runs_without_privacy: usize,
    /// Of the runs with privacy together.
    epsilon_of_private_runs: Option<f64>,
    budget: Option<Budget>,
}

#[derive(Clone, Debug, Serialize)]
struct Run {
    /// Its place in the ledger, from 1.
    run: usize,
    at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
    event: Event,
    /// Reduced to what was released; else the whole plan is charged.
    closed: bool,
    /// The run took fewer steps than planned: its event holds under the condition in its note.
    stopped_early: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    closing_note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon_claimed: Option<f64>,
}

impl DataSet {
    /// The account of one data set as others may see it.
    pub(crate) fn of(account: &Account) -> Self {
        let delta = account.budget().map_or(DELTA, |budget| budget.delta);
        let total = account.total(None, delta);
        let private = account.private_total(delta);
        let runs = account.runs().iter().enumerate().map(|(i, charge)| Run {
            run: i + 1,
            at: charge.at.clone(),
            note: charge.note.clone(),
            event: charge.event.clone(),
            closed: charge.closed,
            stopped_early: charge.stopped_early,
            closing_note: charge.closing_note.clone(),
            epsilon_claimed: charge.epsilon_claimed,
        });
        Self {
            name: name_in(account.runs().iter().map(|charge| charge.note.as_str())),
            runs: runs.collect(),
            events: account.events(),
            epsilon: total.as_ref().ok().map(|spent| spent.epsilon),
            delta,
            accountant: total.as_ref().ok().map(|spent| spent.accountant.clone()),
            neighbouring: Neighbouring::AddOrRemoveOne,
            why: total.err().map(|error| in_one_line(&error)),
            runs_without_privacy: account.without_privacy(),
            epsilon_of_private_runs: private.ok().map(|spent| spent.epsilon),
            budget: account.budget(),
        }
    }

    /// The delta that it is added up at.
    pub(crate) fn delta(&self) -> Delta {
        self.delta
    }
}

impl Ledger {
    /// Everything on record as JSON that others can check again, without the content hash of the
    /// data: `{"format":1, "exported_at":.., "data_sets":[{"runs":[..], "events":[..],
    /// "epsilon":.., "delta":.., ..}]}` with this one data set.
    ///
    /// # Errors
    /// As [`Ledger::entries`]. A total that nobody can compute is not an error: `epsilon` is
    /// `null` then, and `why` says why.
    pub fn export_json(&self) -> Result<String> {
        text(&[&DataSet::of(&self.account()?)])
    }
}

/// The document with these data sets.
pub(crate) fn text(data_sets: &[&DataSet]) -> Result<String> {
    let document: Value = json!({"format": FORMAT, "exported_at": now(), "data_sets": data_sets});
    serde_json::to_string_pretty(&document).map_err(|e| {
        Error::new(ErrorKind::Ledger, "a ledger that can't be written as JSON", e.to_string())
    })
}

/// Writes a document, with its folders.
pub(crate) fn write(path: &Path, document: &str) -> Result<()> {
    let writing = |e: std::io::Error| Error::io(format!("writing {}", path.display()), &e);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(writing)?;
    }
    std::fs::write(path, format!("{document}\n")).map_err(writing)
}

/// The names of the data in notes such as `DP-SGD on MNIST, study mode`.
fn name_in<'a>(notes: impl Iterator<Item = &'a str>) -> Option<String> {
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
