//! The run store: finished runs are shown again instead of trained again.
//!
//! `format.json` names the format of the whole folder. `runs/<id>/` holds
//! `settings.json`, `curve.json`, `result.json`, `model.safetensors`, the figures and, of a sparse
//! run, `mask.safetensors` and `touched.json`; `result.json` has the SHA-256 of the files that are
//! read back, except of the settings. `ledger/<origin>.jsonl` is the ledger of a data set, with its
//! `.head` beside it.
//!
//! A stored run that is missing in its ledger is evidence of a lost ledger (`ledger_check`).
//!
//! Begin with `RunStore`. The modules by subject:
//!
//! - the folder: `home`, `format`, `disk_space`, `host`, `shared_folder`;
//! - runs: `draft`, `run_files`, `run_summary`, `report_data`, `claimed_epsilon`;
//! - ledgers: `ledger`, `ledger_cache`, `ledger_check`.

mod claimed_epsilon;
mod disk_space;
mod draft;
mod format;
mod home;
pub(crate) mod host;
mod ledger;
mod ledger_cache;
mod ledger_check;
mod report_data;
mod run_files;
mod run_summary;
pub(crate) mod shared_folder;
#[cfg(test)]
mod tests;

pub use home::home;
pub use ledger::open_ledger;
pub(crate) use ledger_cache::LedgerCache;
pub(crate) use report_data::StoredReportData;
pub use run_summary::{RunState, RunSummary};

use draft::Draft;
pub(crate) use draft::rename_if_absent;
use ledger::open_existing_ledger;
use run_files::{MASK, MODEL, TOUCHED};

use crate::data::Dataset;
use crate::data::digest::hex;
use crate::device::is_rehearsal;
use crate::mask::Mask;
use crate::methods::Plan;
use crate::nn::{Model, models};
use crate::privacy::Ledger;
use crate::program::NUMERICS;
use crate::train::{Ending, LedgerEntryRef, Run, start};
use crate::{Error, ErrorKind, Result};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Version of the run ids. Raise it when the same settings would train a different run. Where only
/// the rounding differs, seeded runs get other ids by [`NUMERICS`], and runs without a seed keep
/// theirs.
const FORMAT: u32 = 1;

/// The runs and ledgers in one project folder.
pub(crate) struct RunStore {
    home: PathBuf,
}

impl RunStore {
    /// Opens the store of a project folder. Nothing is created before something is written.
    ///
    /// # Errors
    /// `CorruptData` if the project has a format that this version does not read.
    pub(crate) fn open(home: PathBuf) -> Result<Self> {
        format::check(&home)?;
        Ok(Self { home })
    }

    /// Returns the project folder.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Opens the ledger of a data set and of all data sets derived from it. It is created if there
    /// is none and no stored run was charged to it.
    ///
    /// # Errors
    /// As [`RunStore::existing_ledger`].
    pub(crate) fn ledger(&self, data: &Dataset) -> Result<Ledger> {
        match self.existing_ledger(data)? {
            Some(ledger) => Ok(ledger),
            None => {
                format::write(&self.home)?;
                open_ledger(&self.ledger_path(data.origin()))
            }
        }
    }

    /// Opens the ledger of a data set, if there is one. This creates no file and needs no write
    /// permission.
    ///
    /// # Errors
    /// As [`open_ledger`]; kind `Ledger` also if a stored run on this data is not in it.
    pub(crate) fn existing_ledger(&self, data: &Dataset) -> Result<Option<Ledger>> {
        // Read before the ledger: a run that is stored meanwhile was charged before.
        let runs = ledger_check::stored_runs(&self.runs_dir())?;
        let ledger = self.open_ledger_if_exists(data.origin())?;
        let runs = runs.iter().filter(|run| run.charged.origin == data.origin());
        ledger_check::check_runs_charged(runs, ledger.as_slice())?;
        Ok(ledger)
    }

    /// Describes where runs on these data are charged, and how many are: `/project/.epsilab/ledger:
    /// 2 runs on these data so far`. Ledgers belong to a project folder, so another project counts
    /// from zero. The name of the ledger itself is a hash of the data and stays out of what
    /// notebooks show.
    ///
    /// # Errors
    /// As [`RunStore::existing_ledger`].
    pub(crate) fn describe_ledger(&self, data: &Dataset) -> Result<String> {
        LedgerCache::open(self, data).map(|books| books.describe_ledger())
    }

    fn open_ledger_if_exists(&self, name: &str) -> Result<Option<Ledger>> {
        let path = self.ledger_path(name);
        // A head without its ledger is a lost ledger: opening it is an error.
        let known = path.exists() || path.with_extension("head").exists();
        known.then(|| open_existing_ledger(&path)).transpose()
    }

    /// Returns all ledgers of the project.
    ///
    /// # Errors
    /// As [`open_ledger`], for the first that can't be trusted; kind `Ledger` also if a stored
    /// run is in none of them.
    pub(crate) fn all_ledgers(&self) -> Result<Vec<Ledger>> {
        let runs = ledger_check::stored_runs(&self.runs_dir())?;
        let ledgers = self.ledger_files()?;
        ledger_check::check_runs_charged(&runs, &ledgers)?;
        Ok(ledgers)
    }

    fn ledger_files(&self) -> Result<Vec<Ledger>> {
        let mut paths = paths_in(&self.ledgers_dir())?;
        paths.retain(|path| path.extension().is_some_and(|e| e == "jsonl" || e == "head"));
        let mut paths: Vec<_> = paths.iter().map(|path| path.with_extension("jsonl")).collect();
        paths.sort();
        paths.dedup();
        paths.iter().map(|path| open_existing_ledger(path)).collect()
    }

    fn ledger_path(&self, name: &str) -> PathBuf {
        self.ledgers_dir().join(format!("{name}.jsonl"))
    }

    /// Returns the folder of all ledgers.
    fn ledgers_dir(&self) -> PathBuf {
        self.home.join("ledger")
    }

    /// Returns the folder of all runs.
    fn runs_dir(&self) -> PathBuf {
        self.home.join("runs")
    }

    /// Returns the folder of one run.
    pub(crate) fn run_dir(&self, id: &str) -> PathBuf {
        self.runs_dir().join(id)
    }

    /// Returns the folder of the checkpoint of one run.
    pub(crate) fn checkpoint_dir(&self, id: &str) -> PathBuf {
        self.checkpoints_dir().join(id)
    }

    /// Returns the folder of all checkpoints.
    fn checkpoints_dir(&self) -> PathBuf {
        self.home.join("checkpoints")
    }

    /// Returns a stored run that started from `model` on `data`, if it was finished.
    ///
    /// The provenance of its parameters follows from `model` and `data`, not from the files.
    ///
    /// # Errors
    /// `CorruptData` if its files are missing, changed or can't be parsed: nothing is overwritten
    /// or trained then. An epsilon that is too small is
    /// [raised](claimed_epsilon::reconcile_epsilon), with a warning. `Device` if the test part is
    /// another one and can't be evaluated.
    pub(crate) fn load_finished(
        &self,
        id: &str,
        model: &Model,
        data: &Dataset,
    ) -> Result<Option<Run>> {
        let Some(run) = self.read_finished(id, model)? else { return Ok(None) };
        run.with_start(model.provenance(), data).evaluated_on(data).map(Some)
    }

    /// Returns a stored run, if it was finished. `model` provides the code of a user-defined
    /// module, whose file holds parameters only.
    fn read_finished(&self, id: &str, model: &Model) -> Result<Option<Run>> {
        let Some((mut record, files)) = run_files::read(&self.run_dir(id))? else {
            return Ok(None);
        };
        if record.ending != Ending::Finished {
            return Ok(None);
        }
        let path = files.required_path(MODEL)?;
        let model =
            if model.is_user_module() { model.load_parameters(path)? } else { models::load(path)? };
        // Without its mask the run would look like one that trained all coordinates.
        let pruned = record.plan.sparsity().is_some_and(|sparsity| sparsity.pre_prune.is_some());
        let mask =
            if pruned { Some(files.required_path(MASK)?) } else { files.verified_path(MASK)? };
        let mask = mask.map(Mask::load).transpose()?;
        let selection_log =
            files.verified_path(TOUCHED)?.map(|path| run_files::read_json(&path)).transpose()?;
        let warnings = Vec::from_iter(claimed_epsilon::reconcile_epsilon(&mut record));
        Ok(Some(Run::new(record, model, mask, selection_log).restored(warnings)))
    }

    /// Returns a finished run that is stored, to be shown instead of trained.
    ///
    /// # Errors
    /// As [`load_finished`](Self::load_finished), and as training if `model` may not be the start
    /// of a run on these data. As [`existing_ledger`](Self::existing_ledger): a run that is shown
    /// must be charged, because without its ledger the data looks unused. `CorruptData` if the
    /// record's releases are not those that the ledger charged.
    pub(crate) fn load_charged_run(
        &self,
        id: &str,
        model: &Model,
        data: &Dataset,
    ) -> Result<Option<Run>> {
        let Some(run) = self.load_finished(id, model, data)? else { return Ok(None) };
        start::check_provenance(run.plan(), model, data)?;
        if let Some(ledger) = self.existing_ledger(data)? {
            let account = ledger.state()?;
            ledger_check::check_releases_match_charge(&self.run_dir(id), run.record(), &account)?;
        }
        Ok(Some(run))
    }

    /// Checks that a run of this plan can be written, before anything is charged for it.
    ///
    /// # Errors
    /// `Io` if there is no room for it, or its folder can't be written.
    pub(crate) fn check_disk_space(&self, plan: &Plan, model: &Model) -> Result<()> {
        format::write(&self.home)?;
        disk_space::check(&self.runs_dir(), plan, model)
    }

    /// Stores a run; an earlier run with the same id stays beside it. A run that ended early never
    /// replaces a finished run, or one that can't be read.
    ///
    /// # Errors
    /// `Io` if it can't be written: no part of it remains then.
    pub(crate) fn save(&self, run: &Run, figures: &[(&str, Vec<u8>)]) -> Result<PathBuf> {
        let folder = self.run_dir(&run.record().id);
        let draft = self.draft(run, figures)?;
        let sibling = self.sibling_path(&folder);
        if !run.is_finished()
            && !matches!(self.read_finished(&run.record().id, &run.model()), Ok(None))
        {
            draft.commit(&sibling)?;
            return Ok(sibling);
        }
        let moving = |e: io::Error| Error::io(format!("moving {}", folder.display()), &e);
        let earlier = folder.exists();
        if earlier {
            fs::rename(&folder, &sibling).map_err(moving)?;
        }
        if let Err(error) = draft.commit(&folder) {
            if earlier {
                // Otherwise the earlier run would not be found any more.
                fs::rename(&sibling, &folder).map_err(moving)?;
            }
            return Err(error);
        }
        Ok(folder)
    }

    /// Writes a complete draft of a run.
    fn draft(&self, run: &Run, figures: &[(&str, Vec<u8>)]) -> Result<Draft> {
        format::write(&self.home)?;
        let draft = Draft::create_beside(&self.run_dir(&run.record().id))?;
        run.model().save(draft.path(MODEL))?;
        if let Some(mask) = run.mask() {
            mask.save(draft.path(MASK))?;
        }
        if let Some(selection_log) = run.selection_log() {
            let text = serde_json::to_string(&selection_log).map_err(|e| {
                Error::new(ErrorKind::Io, "what a run touched, as JSON", e.to_string())
            })?;
            draft.write(TOUCHED, text)?;
        }
        for (name, text) in run_files::to_json_files(run.record(), draft.checksums()?)? {
            draft.write(name, text)?;
        }
        for (name, bytes) in figures {
            draft.write(name, bytes)?;
        }
        Ok(draft)
    }

    /// Returns a free name for another run with the same id.
    fn sibling_path(&self, folder: &Path) -> PathBuf {
        (1u64..)
            .map(|n| folder.with_extension(n.to_string()))
            .find(|path| !path.exists())
            .unwrap_or_else(|| folder.with_extension("beside"))
    }

    /// Returns whether a finished run with this id is stored.
    ///
    /// # Errors
    /// `CorruptData` if its record is damaged.
    pub(crate) fn has_finished(&self, id: &str) -> Result<bool> {
        Ok(self.finished_entry_ref(id)?.is_some())
    }

    /// Returns the ledger entry that charges a stored run, if the run is finished.
    ///
    /// # Errors
    /// As [`has_finished`](Self::has_finished).
    pub(crate) fn finished_entry_ref(&self, id: &str) -> Result<Option<LedgerEntryRef>> {
        let stored = run_files::read(&self.run_dir(id))?.map(|(record, _)| record);
        let finished = stored.filter(|record| record.ending == Ending::Finished);
        Ok(finished.map(|record| record.charged))
    }

    /// Puts a finished run into the store by one rename, which replaces no finished run: that of a
    /// worker on another machine may have been first. Its results are compared then, and the later
    /// run is kept as `discarded` if they differ.
    ///
    /// # Errors
    /// `Io` if it can't be written: no part of it remains then.
    pub(crate) fn publish(
        &self,
        run: &Run,
        figures: &[(&str, Vec<u8>)],
        discarded: &Path,
    ) -> Result<PublishOutcome> {
        let id = &run.record().id;
        let (folder, draft) = (self.run_dir(id), self.draft(run, figures)?);
        if folder.exists() && matches!(self.has_finished(id), Ok(false)) {
            // A run that ended early: `save` would move it too.
            let _ = fs::rename(&folder, folder.with_extension(host::unique_id()?));
        }
        let Some(draft) = draft.commit_if_absent(&folder)? else {
            return Ok(PublishOutcome::New);
        };
        if draft.checksums()? == run_files::checksums(&folder)? {
            return Ok(PublishOutcome::Identical);
        }
        draft.commit(discarded)?;
        Ok(PublishOutcome::Conflicting)
    }
}

/// Returns the paths in a folder, in order; none if it does not exist.
///
/// # Errors
/// `Io` if the folder can't be read.
fn paths_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let Some(entries) = if_exists(folder, fs::read_dir(folder))? else { return Ok(Vec::new()) };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths
        .collect::<io::Result<_>>()
        .map_err(|e| Error::io(format!("reading {}", folder.display()), &e))?;
    paths.sort();
    Ok(paths)
}

/// Returns what was read at this path; `None` if nothing is there.
///
/// # Errors
/// `Io` if it can't be read.
fn if_exists<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>> {
    match read {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|e| Error::io(format!("reading {}", path.display()), &e)),
    }
}

/// Outcome of putting a run into the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublishOutcome {
    /// It was the first with its id.
    New,
    /// One with the same results was there.
    Identical,
    /// One with other results was there, and this one was set aside.
    Conflicting,
}

/// Returns the id of a run: 16 hexadecimal digits of a hash of its settings, model and data.
pub(crate) fn run_id(plan: &Plan, model: &Model, data: &Dataset) -> Result<String> {
    let mut settings = json!({
        "format": FORMAT,
        "plan": plan,
        "model": model.fingerprint(),
        "data": data.hash(),
        "test_examples": data.test().len(),
    });
    if plan.seed().is_some() && NUMERICS > 1 {
        // The noise of a seeded run follows from its id: other bits must have other noise.
        settings["numerics"] = NUMERICS.into();
    }
    if plan.selection().is_some() {
        // The test part decides which trial is shown.
        settings["test"] = data.test_hash().into();
    }
    if is_rehearsal() {
        // Its runs are no results, and must never be shown as such.
        settings["rehearsal"] = true.into();
    }
    let digest = Sha256::digest(settings.to_string().as_bytes());
    Ok(hex(&digest[..8]))
}
