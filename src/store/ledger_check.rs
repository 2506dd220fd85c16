//! Stored runs as evidence: a ledger that lacks one of them was lost or replaced.
//!
//! Otherwise removing the files of a ledger would silently reset it, while the models that were
//! charged to it still exist.

use super::draft::is_draft;
use super::{if_exists, paths_in};
use crate::data::Dataset;
use crate::privacy::ledger::LedgerState;
use crate::privacy::{Event, Ledger};
use crate::train::{LedgerEntryRef, RunRecord};
use crate::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A stored run and its ledger entry.
pub(super) struct StoredRun {
    folder: PathBuf,
    pub(super) charged: LedgerEntryRef,
}

/// The fields of `settings.json` that are needed here.
#[derive(Deserialize)]
struct SettingsFile {
    charged: LedgerEntryRef,
}

/// Returns all stored runs of a project, including those kept beside a newer run with the same id.
///
/// # Errors
/// `Io` or `CorruptData` if one can't be read: it might be the one that is not charged.
pub(super) fn stored_runs(runs: &Path) -> Result<Vec<StoredRun>> {
    let stored = |folder: PathBuf| match read_entry_ref(&folder) {
        Ok(charged) => charged.map(|charged| Ok(StoredRun { folder, charged })),
        Err(error) => Some(Err(error)),
    };
    paths_in(runs)?.into_iter().filter_map(stored).collect()
}

/// Returns the ledger entry that the run in `folder` records, if there is a run.
fn read_entry_ref(folder: &Path) -> Result<Option<LedgerEntryRef>> {
    // A draft is not a stored run.
    let path = folder.join("settings.json");
    if is_draft(folder) || !path.is_file() {
        return Ok(None);
    }
    // A newer run with the same id may have replaced it meanwhile.
    let Some(text) = if_exists(&path, fs::read_to_string(&path))? else { return Ok(None) };
    let settings: SettingsFile = serde_json::from_str(&text).map_err(|e| {
        Error::new(
            ErrorKind::CorruptData,
            format!("the stored run in {}", folder.display()),
            format!("can't be read ({e}), so it is unknown whether the ledger counts the run"),
        )
        .fix(
            "restore its settings.json from a backup; or, if the run was charged to this ledger, \
             move its folder outside the project's runs",
        )
    })?;
    Ok(Some(settings.charged))
}

/// Checks that each of `runs` is in its ledger.
///
/// # Errors
/// `Ledger` for the first that is missing; as [`Ledger::entries`] if a ledger can't be read.
pub(super) fn check_runs_charged<'a>(
    runs: impl IntoIterator<Item = &'a StoredRun>,
    ledgers: &[Ledger],
) -> Result<()> {
    let mut known = HashSet::new();
    for ledger in ledgers {
        for charge in ledger.state()?.charges() {
            known.insert((ledger.data_hash().to_owned(), charge.run.clone()));
        }
    }
    let lost =
        |run: &&StoredRun| !known.contains(&(run.charged.origin.clone(), run.charged.run.clone()));
    match runs.into_iter().find(lost) {
        None => Ok(()),
        Some(run) => Err(missing(run)),
    }
}

/// Compares the releases of a finished run with what the ledger charged for it. An edit that lowers
/// releases and epsilon together is found here: the record alone still looks consistent.
///
/// # Errors
/// `CorruptData` if they differ.
pub(super) fn check_releases_match_charge(
    folder: &Path,
    record: &RunRecord,
    account: &LedgerState,
) -> Result<()> {
    let Some(charge) = account.charge_of(&record.charged.run) else { return Ok(()) };
    // Comparing in both directions allows for the last bit of a float that went through a file.
    let same = |event: &Event| {
        event.reduced_to(&charge.event).is_ok() && charge.event.reduced_to(event).is_ok()
    };
    let recorded = record.released.charged_event();
    if same(&recorded) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::CorruptData,
        format!("the releases of the stored run in {}", folder.display()),
        format!("the record of the run states {recorded}, but the ledger charged {}", charge.event),
    )
    .fix(
        "restore its result.json from a backup; or, to train (and spend) again, move the run's \
         folder outside the project's runs",
    ))
}

/// Checks that a stored run on `data` is in their ledger, and was charged for what it released. A
/// run whose record names the ledger of other data is not looked up.
///
/// # Errors
/// `Ledger` if it is not in the ledger; `CorruptData` if its releases are others.
pub(super) fn check_run_charged(
    account: &LedgerState,
    folder: &Path,
    record: &RunRecord,
    data: &Dataset,
) -> Result<()> {
    let charged = &record.charged;
    if data.origin() == charged.origin && account.charge_of(&charged.run).is_none() {
        return Err(missing(&StoredRun { folder: folder.to_owned(), charged: charged.clone() }));
    }
    check_releases_match_charge(folder, record, account)
}

fn missing(run: &StoredRun) -> Error {
    Error::new(
        ErrorKind::Ledger,
        format!(
            "the stored run {} is not in the ledger of its data, {}.jsonl",
            run.folder.display(),
            run.charged.origin
        ),
        "the ledger was probably removed, renamed, cut or replaced by an older copy; without it \
         the cost of this run would not be counted",
    )
    .fix(
        "restore the ledger's .jsonl and .head from a backup; or, if this run must not be counted, \
         remove its folder",
    )
}
