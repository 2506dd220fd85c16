//! The folder of a stored run: its record as JSON, and its other files with their checksums.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind::NotFound};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::if_exists;
use crate::data::digest::sha256;
use crate::nn::read_regular_file;
use crate::train::RunRecord;
use crate::{Error, ErrorKind, Result};

pub(super) const MODEL: &str = "model.safetensors";
pub(super) const MASK: &str = "mask.safetensors";
pub(super) const TOUCHED: &str = "touched.json";
const SETTINGS: &str = "settings.json";
const CURVE: &str = "curve.json";
const RESULT: &str = "result.json";

/// The fields of a record that are in `settings.json`.
const IN_SETTINGS: [&str; 5] = ["id", "plan", "data", "data_hash", "charged"];
/// The key of the checksums in `result.json`.
const SUMS: &str = "sha256";

/// SHA-256 of files by name.
pub(super) type Checksums = BTreeMap<String, String>;

/// Returns the checksums of the model, mask and selection files in `folder`.
pub(super) fn checksums(folder: &Path) -> Result<Checksums> {
    let mut sums = Checksums::new();
    for name in [MODEL, MASK, TOUCHED] {
        let path = folder.join(name);
        if let Some(bytes) = if_exists(&path, read_regular_file(&path))? {
            sums.insert(name.to_owned(), sha256(&bytes));
        }
    }
    Ok(sums)
}

/// Returns a record as the three JSON files of the store.
pub(super) fn to_json_files(
    record: &RunRecord,
    mut sums: Checksums,
) -> Result<[(&'static str, String); 3]> {
    let corrupt = |e: serde_json::Error| {
        Error::new(ErrorKind::Io, "a run that can't be written as JSON", e.to_string())
    };
    let Value::Object(all) = serde_json::to_value(record).map_err(corrupt)? else {
        return Err(Error::new(ErrorKind::Io, "a run record", "is not a JSON object"));
    };
    let (settings, result): (Map<_, _>, Map<_, _>) =
        all.into_iter().partition(|(key, _)| IN_SETTINGS.contains(&key.as_str()));
    let (curve, mut result): (Map<_, _>, Map<_, _>) =
        result.into_iter().partition(|(key, _)| key == "curve");
    let pretty = |value: Map<String, Value>| serde_json::to_string_pretty(&value).map_err(corrupt);
    let (settings, curve) = (pretty(settings)?, pretty(curve)?);
    sums.insert(CURVE.to_owned(), sha256(curve.as_bytes()));
    result.insert(SUMS.to_owned(), json!(sums));
    Ok([(SETTINGS, settings), (CURVE, curve), (RESULT, pretty(result)?)])
}

/// The other files of a stored run.
pub(super) struct RunFiles {
    folder: PathBuf,
    checksums: Checksums,
}

/// Reads the run in `folder`; `None` if there is none.
///
/// # Errors
/// `CorruptData` if one of its files is missing, has changed or can't be parsed; `Io` if it can't
/// be read.
pub(super) fn read(folder: &Path) -> Result<Option<(RunRecord, RunFiles)>> {
    let path = folder.join(RESULT);
    let result = match read_regular_file(&path) {
        Err(e) if e.kind() == NotFound && !has_partial_run(folder) => return Ok(None),
        result => result.map_err(|e| unread(&path, &e))?,
    };
    let mut all: Map<String, Value> = parse_optional(&path, &result)?;
    let sums = serde_json::from_value(all.remove(SUMS).unwrap_or_default());
    let sums = sums.map_err(|e| damaged(&path, &e))?;
    let files = RunFiles { folder: folder.to_owned(), checksums: sums };
    let curve = files.required_path(CURVE)?;
    all.extend(read_json::<Map<String, Value>>(&folder.join(SETTINGS))?);
    all.extend(read_json::<Map<String, Value>>(&curve)?);
    let record = serde_json::from_value(Value::Object(all)).map_err(|e| damaged(folder, &e))?;
    Ok(Some((record, files)))
}

/// Returns whether a folder without `result.json` has other files of a run.
fn has_partial_run(folder: &Path) -> bool {
    [SETTINGS, MODEL].iter().any(|name| folder.join(name).exists())
}

impl RunFiles {
    /// Returns the path of a file whose checksum was compared; `None` if the run has no such file.
    ///
    /// # Errors
    /// `CorruptData` if the file has changed or is missing.
    pub(super) fn verified_path(&self, name: &str) -> Result<Option<PathBuf>> {
        // A file that was added later is not part of the run.
        let Some(sum) = self.checksums.get(name) else { return Ok(None) };
        let path = self.folder.join(name);
        let bytes = read_regular_file(&path).map_err(|e| unread(&path, &e))?;
        if *sum != sha256(&bytes) {
            return Err(changed(&path));
        }
        Ok(Some(path))
    }

    /// Returns the path as [`verified_path`](Self::verified_path), for a file that the run must
    /// have.
    pub(super) fn required_path(&self, name: &str) -> Result<PathBuf> {
        self.verified_path(name)?.ok_or_else(|| missing(&self.folder.join(name)))
    }
}

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    parse_optional(path, &read_regular_file(path).map_err(|e| unread(path, &e))?)
}

fn parse_optional<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| damaged(path, &e))
}

fn unread(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        NotFound => missing(path),
        _ => Error::io(format!("reading {}", path.display()), error).fix(advice(path)),
    }
}

fn missing(path: &Path) -> Error {
    let what = format!("{} is missing", path.display());
    let why = "the file is part of a stored run, which would be incomplete without it";
    Error::new(ErrorKind::CorruptData, what, why).fix(advice(path))
}

fn changed(path: &Path) -> Error {
    let what = format!("{} is not the file that was stored with its run", path.display());
    let why = "the SHA-256 differs: the file was damaged or edited since the run was trained and \
               charged";
    Error::new(ErrorKind::CorruptData, what, why).fix(advice(path))
}

fn damaged(path: &Path, error: &serde_json::Error) -> Error {
    let what = format!("the stored run in {}", path.display());
    Error::new(ErrorKind::CorruptData, what, format!("can't be read ({error})")).fix(advice(path))
}

/// Returns advice about a damaged file: removing the run would lose a result that was charged.
fn advice(path: &Path) -> String {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    format!(
        "restore the file from a backup; or, to train (and spend) again, move the folder {} \
         outside the project's runs",
        folder.display()
    )
}
