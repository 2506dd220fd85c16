//! The run store: a finished run is shown again instead of trained again.
//!
//! `runs/<id>/` holds `settings.json`, `curve.json`, `result.json`, `model.safetensors`, the
//! figures and, of a sparse run, `mask.safetensors` and `touched.json`; `ledger/<data hash>.jsonl` what was spent on each data set, with its `.head` beside it.
//! A stored run that its ledger does not know is evidence of a lost ledger ([`evidence`]).

mod evidence;
mod home;
mod obtain;

pub use home::home;

use crate::data::Dataset;
use crate::mask::Mask;
use crate::methods::Plan;
use crate::nn::{Model, models};
use crate::privacy::Ledger;
use crate::train::{Ending, Run, RunRecord};
use crate::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// Raised when a change of the library makes equal settings mean another run.
const FORMAT: u32 = 1;
const SETTINGS: [&str; 5] = ["id", "plan", "data", "data_hash", "charged"];

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

    /// The ledger of a data set if there is one: looking makes no file, unless something is on
    /// record under a name that earlier versions gave to the data.
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

    /// Earlier versions kept a ledger for each way of reading a file. They stay where they are, in
    /// case such a version is used again, but what is in them counts in the ledger of the data.
    fn take_over_former(&self, data: &Dataset) -> Result<()> {
        for name in data.former_origins() {
            let Some(former) = self.ledger_if_there(name)? else { continue };
            if former.entries()?.is_empty() {
                continue;
            }
            let new = Ledger::open(&self.ledger_path(data.origin()))?.take_over(&former)?;
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
        known.then(|| Ledger::open(&path)).transpose()
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
        paths.iter().map(|path| Ledger::open(path)).collect()
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

    /// A stored run, if it was finished.
    ///
    /// # Errors
    /// `CorruptData` if its files can't be read: nothing is overwritten or trained then.
    pub(crate) fn finished(&self, id: &str) -> Result<Option<Run>> {
        let folder = self.folder(id);
        if !folder.join("result.json").is_file() {
            return Ok(None);
        }
        let record = read_record(&folder)?;
        if record.ending != Ending::Finished {
            return Ok(None);
        }
        let model = models::load(folder.join("model.safetensors"))?;
        let path = folder.join("mask.safetensors");
        let pruned = record.plan.sparsity().is_some_and(|sparsity| sparsity.pre_prune.is_some());
        if pruned && !path.is_file() {
            let what = format!("{} is missing", path.display());
            let why = "without its mask the run would pass for one that trained everything";
            return Err(Error::new(ErrorKind::CorruptData, what, why)
                .fix(format!("put it back, or move {} away to train again", folder.display())));
        }
        let mask = (pruned || path.is_file()).then(|| Mask::load(&path)).transpose()?;
        let path = folder.join("touched.json");
        let touched = path.is_file().then(|| read_json(&path)).transpose()?;
        Ok(Some(Run::restored(record, model, mask, touched)))
    }

    /// Writes a run; an earlier one of the same name is kept beside it. An interrupted run never
    /// takes the place of a finished one.
    pub(crate) fn save(&self, run: &Run, figures: &[(&str, Vec<u8>)]) -> Result<PathBuf> {
        let folder = self.folder(&run.record().id);
        let writing = folder.with_extension(format!("writing-{}", std::process::id()));
        let failed = |e: &std::io::Error| Error::io(format!("writing {}", writing.display()), e);
        fs::create_dir_all(&writing).map_err(|e| failed(&e))?;
        for (name, text) in record_files(run.record())? {
            fs::write(writing.join(name), text).map_err(|e| failed(&e))?;
        }
        for (name, bytes) in figures {
            fs::write(writing.join(name), bytes).map_err(|e| failed(&e))?;
        }
        run.model().save(writing.join("model.safetensors"))?;
        if let Some(mask) = run.mask() {
            mask.save(writing.join("mask.safetensors"))?;
        }
        if let Some(touched) = run.touched() {
            let text = serde_json::to_string(&touched).map_err(|e| {
                Error::new(ErrorKind::Io, "what a run touched, as JSON", e.to_string())
            })?;
            fs::write(writing.join("touched.json"), text).map_err(|e| failed(&e))?;
        }
        let beside = (1u64..)
            .map(|n| folder.with_extension(n.to_string()))
            .find(|path| !path.exists())
            .unwrap_or_else(|| folder.with_extension("beside"));
        if run.interrupted() && self.finished(&run.record().id).is_ok_and(|run| run.is_some()) {
            fs::rename(&writing, &beside).map_err(|e| failed(&e))?;
            return Ok(beside);
        }
        if folder.exists() {
            fs::rename(&folder, beside).map_err(|e| failed(&e))?;
        }
        fs::rename(&writing, &folder).map_err(|e| failed(&e))?;
        Ok(folder)
    }
}

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

/// The record as the store's three text files.
fn record_files(record: &RunRecord) -> Result<[(&'static str, String); 3]> {
    let corrupt = |e: serde_json::Error| {
        Error::new(ErrorKind::Io, "a run that can't be written as JSON", e.to_string())
    };
    let Value::Object(all) = serde_json::to_value(record).map_err(corrupt)? else {
        return Err(Error::new(ErrorKind::Io, "a run record", "is not a JSON object"));
    };
    let (settings, result): (Map<_, _>, Map<_, _>) =
        all.into_iter().partition(|(key, _)| SETTINGS.contains(&key.as_str()));
    let (curve, result): (Map<_, _>, Map<_, _>) =
        result.into_iter().partition(|(key, _)| key == "curve");
    let pretty = |value: Map<String, Value>| serde_json::to_string_pretty(&value).map_err(corrupt);
    Ok([
        ("settings.json", pretty(settings)?),
        ("curve.json", pretty(curve)?),
        ("result.json", pretty(result)?),
    ])
}

fn read_record(folder: &Path) -> Result<RunRecord> {
    let mut all = Map::new();
    for name in ["settings.json", "curve.json", "result.json"] {
        all.extend(read_json::<Map<String, Value>>(&folder.join(name))?);
    }
    serde_json::from_value(Value::Object(all)).map_err(|e| damaged(folder, e))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path)
        .map_err(|e| Error::io(format!("reading {}", path.display()), &e))?;
    serde_json::from_str(&text).map_err(|e| damaged(path, e))
}

fn damaged(path: &Path, error: serde_json::Error) -> Error {
    Error::new(
        ErrorKind::CorruptData,
        format!("the stored run in {}", path.display()),
        format!("can't be read ({error})"),
    )
    .fix("remove the run's folder to forget it, or add .fresh() to train (and spend) anew")
}
