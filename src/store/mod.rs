//! The run store: a finished run is shown again instead of trained again.
//!
//! `runs/<id>/` holds `settings.json`, `curve.json`, `result.json`, `model.safetensors`, the
//! figures and, of a sparse run, `mask.safetensors` and `touched.json`; `result.json` has the
//! SHA-256 of the others that are read back, but for the settings. `ledger/<data hash>.jsonl` is
//! what was spent on each data set, with its `.head` beside it.
//! A stored run that its ledger does not know is evidence of a lost ledger ([`evidence`]).

mod claim;
mod draft;
mod earlier;
mod evidence;
mod home;
mod obtain;
mod record;
#[cfg(test)]
mod tests;

pub use home::home;

use draft::Draft;
use record::{MASK, MODEL, TOUCHED};

use crate::data::Dataset;
use crate::mask::Mask;
use crate::methods::Plan;
use crate::nn::{Model, models};
use crate::privacy::Ledger;
use crate::train::{Ending, Run};
use crate::{Error, ErrorKind, Result};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

/// Raised when a change of the library makes equal settings mean another run.
const FORMAT: u32 = 1;

/// The runs and ledgers in one project folder.
pub(crate) struct Store {
    home: PathBuf,
}

impl Store {
    /// The store of a project folder; nothing is created until something is written.
    pub(crate) fn at(home: PathBuf) -> Self {
        Self { home }
    }

    /// The ledger of a data set, shared by everything cut from it; made if there is none and no
    /// stored run was ever charged to it.
    ///
    /// # Errors
    /// As [`Store::known_ledger`].
    pub(crate) fn ledger(&self, data: &Dataset) -> Result<Ledger> {
        match self.known_ledger(data)? {
            Some(ledger) => Ok(ledger),
            None => Ledger::open(&self.ledger_path(data.origin())),
        }
    }

    /// The ledger of a data set if there is one: looking makes no file and needs no right to write,
    /// unless something is on record under a name that earlier versions gave to the data.
    ///
    /// # Errors
    /// As [`Ledger::open`]; kind `Ledger` also if a stored run on this data is not in it.
    pub(crate) fn known_ledger(&self, data: &Dataset) -> Result<Option<Ledger>> {
        // Before the ledger: a run that ends meanwhile was charged long before it was stored.
        let runs = evidence::stored_runs(&self.runs())?;
        self.take_over_former(data)?;
        let ledger = self.ledger_if_there(data.origin())?;
        let runs = runs.iter().filter(|run| data.is_known_as(&run.charged.origin));
        evidence::are_charged(runs, ledger.as_slice())?;
        Ok(ledger)
    }

    /// Where runs on these data are charged, and how many are: `/project/.epsilab/ledger: 2 runs on
    /// these data`. Ledgers belong to a project folder, so another project counts from zero. The
    /// name of the ledger itself is a hash of the data and stays out of what notebooks show.
    ///
    /// # Errors
    /// As [`Store::known_ledger`].
    pub(crate) fn ledger_in_words(&self, data: &Dataset) -> Result<String> {
        let runs =
            self.known_ledger(data)?.map_or(Ok(0), |ledger| ledger.runs().map(|r| r.len()))?;
        let runs = match runs {
            0 => "no run".to_owned(),
            1 => "1 run".to_owned(),
            n => format!("{n} runs"),
        };
        Ok(format!("{}: {runs} on these data so far", self.ledgers().display()))
    }

    /// Earlier versions kept a ledger for each way of reading a file. They stay where they are, in
    /// case such a version is used again, but what is in them counts in the ledger of the data.
    fn take_over_former(&self, data: &Dataset) -> Result<()> {
        for name in data.former_origins() {
            let Some(former) = self.ledger_if_there(name)? else { continue };
            if former.entries()?.is_empty() {
                continue;
            }
            let ledger = match self.ledger_if_there(data.origin())? {
                Some(ledger) => ledger,
                None => Ledger::open(&self.ledger_path(data.origin()))?,
            };
            let new = ledger.take_over(&former)?;
            if new > 0 {
                eprintln!(
                    "{new} entries on {}, made by an earlier version in the ledger {name}.jsonl, \
                     were taken over into the ledger that all readings of this data share",
                    data.name()
                );
            }
        }
        Ok(())
    }

    fn ledger_if_there(&self, name: &str) -> Result<Option<Ledger>> {
        let path = self.ledger_path(name);
        // A head alone is a ledger that was lost, which opening it says.
        let known = path.exists() || path.with_extension("head").exists();
        known.then(|| Ledger::existing(&path)).transpose()
    }

    /// All ledgers of the project, without those that were taken over into another one.
    ///
    /// # Errors
    /// As [`Ledger::open`], for the first that can't be trusted; kind `Ledger` also if a stored
    /// run is in none of them.
    pub(crate) fn all_ledgers(&self) -> Result<Vec<Ledger>> {
        let runs = evidence::stored_runs(&self.runs())?;
        let ledgers = self.ledger_files()?;
        evidence::are_charged(&runs, &ledgers)?;
        evidence::not_taken_over(ledgers)
    }

    fn ledger_files(&self) -> Result<Vec<Ledger>> {
        let folder = self.ledgers();
        let reading = |e: std::io::Error| Error::io(format!("reading {}", folder.display()), &e);
        let files = match fs::read_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.map_err(reading)?,
        };
        let mut paths = files
            .map(|entry| entry.map(|e| e.path()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(reading)?;
        paths.retain(|path| path.extension().is_some_and(|e| e == "jsonl" || e == "head"));
        let mut paths: Vec<_> = paths.iter().map(|path| path.with_extension("jsonl")).collect();
        paths.sort();
        paths.dedup();
        paths.iter().map(|path| Ledger::existing(path)).collect()
    }

    fn ledger_path(&self, name: &str) -> PathBuf {
        self.ledgers().join(format!("{name}.jsonl"))
    }

    /// Folder of all ledgers.
    fn ledgers(&self) -> PathBuf {
        self.home.join("ledger")
    }

    /// Folder of all runs.
    fn runs(&self) -> PathBuf {
        self.home.join("runs")
    }

    /// Folder of one run.
    pub(crate) fn folder(&self, id: &str) -> PathBuf {
        self.runs().join(id)
    }

    /// A stored run, if it was finished. `model` is one with the same code: the file of a module of
    /// the user's own holds nothing but parameters.
    ///
    /// # Errors
    /// `CorruptData` if its files are missing, changed or can't be understood: nothing is
    /// overwritten or trained then. An epsilon that is too small is no error: it is
    /// [raised](claim::settle), with a warning.
    pub(crate) fn finished(&self, id: &str, model: &Model) -> Result<Option<Run>> {
        let Some((mut record, files)) = record::read(&self.folder(id))? else { return Ok(None) };
        if record.ending != Ending::Finished {
            return Ok(None);
        }
        let path = files.needed(MODEL)?;
        let model = match model.is_own_module() {
            true => model.load_parameters(path)?,
            false => models::load(path)?,
        };
        // Without its mask the run would pass for one that trained everything.
        let pruned = record.plan.sparsity().is_some_and(|sparsity| sparsity.pre_prune.is_some());
        let mask = if pruned { Some(files.needed(MASK)?) } else { files.path(MASK)? };
        let mask = mask.map(Mask::load).transpose()?;
        let touched = files.path(TOUCHED)?.map(|path| record::read_json(&path)).transpose()?;
        let mut warnings = Vec::from_iter(claim::settle(&mut record));
        if !files.are_checked() {
            warnings.push(UNCHECKED.to_owned());
        }
        Ok(Some(Run::restored(record, model, mask, touched, warnings)))
    }

    /// Writes a run; an earlier one of the same name is kept beside it. A run that ended early
    /// never takes the place of a finished one, nor of one that can't be read.
    ///
    /// # Errors
    /// `Io` if it can't be written: nothing of it is left then.
    pub(crate) fn save(&self, run: &Run, figures: &[(&str, Vec<u8>)]) -> Result<PathBuf> {
        let folder = self.folder(&run.record().id);
        let draft = Draft::beside(&folder)?;
        run.model().save(draft.path(MODEL))?;
        if let Some(mask) = run.mask() {
            mask.save(draft.path(MASK))?;
        }
        if let Some(touched) = run.touched() {
            let text = serde_json::to_string(&touched).map_err(|e| {
                Error::new(ErrorKind::Io, "what a run touched, as JSON", e.to_string())
            })?;
            draft.write(TOUCHED, text)?;
        }
        for (name, text) in record::texts(run.record(), draft.sums()?)? {
            draft.write(name, text)?;
        }
        for (name, bytes) in figures {
            draft.write(name, bytes)?;
        }
        let beside = (1u64..)
            .map(|n| folder.with_extension(n.to_string()))
            .find(|path| !path.exists())
            .unwrap_or_else(|| folder.with_extension("beside"));
        if !run.is_finished() && !matches!(self.finished(&run.record().id, &run.model()), Ok(None))
        {
            draft.keep_as(&beside)?;
            return Ok(beside);
        }
        let moving = |e: std::io::Error| Error::io(format!("moving {}", folder.display()), &e);
        let earlier = folder.exists();
        if earlier {
            fs::rename(&folder, &beside).map_err(moving)?;
        }
        if let Err(error) = draft.keep_as(&folder) {
            if earlier {
                // Else the earlier run would no longer be found.
                fs::rename(&beside, &folder).map_err(moving)?;
            }
            return Err(error);
        }
        Ok(folder)
    }
}

/// What is said of a run from before checksums were recorded.
const UNCHECKED: &str = "This run was stored before runs had checksums: that its weights are those \
                         that were trained can't be checked.";

/// Name of the run that `plan` makes of `model` and `data`: equal settings, equal name.
pub(crate) fn run_id(plan: &Plan, model: &Model, data: &Dataset) -> Result<String> {
    let settings = json!({
        "format": FORMAT,
        "plan": plan,
        "model": model.fingerprint(),
        "data": data.hash(),
        "test_examples": data.test().len(),
    });
    let digest = Sha256::digest(settings.to_string().as_bytes());
    Ok(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}
