//! The file of a checkpoint: safetensors whose metadata hold the header.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Checkpoint, CheckpointPayload};
use crate::data::digest::hex;
use crate::device::DeviceArray;
use crate::file::StoredTensor;
use crate::nn::read_regular_file;
use crate::train::train_state::Arrays;
use crate::{Error, ErrorKind, Result, file, program};

/// The metadata key that marks a safetensors file as a checkpoint.
const KEY: &str = "epsilab_checkpoint";
/// The metadata key of the checksum.
const SUM: &str = "sha256";
/// The version of the file. Runs are short compared to releases of the lab, so a checkpoint is read
/// by the version that wrote it.
const FORMAT: u32 = 1;
/// The largest header that is read: that of safetensors itself.
const MAX_HEADER_LEN: u64 = 100_000_000;
/// The tensors beside the arrays.
const NUMBERS: &str = "numbers";
const MASK: &str = "mask";
const ARRAYS: &str = "arrays/";

/// Header of a checkpoint, which describes its run. It holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointHeader {
    /// Version of the file.
    pub format: u32,
    /// Version of the lab that wrote it.
    pub lab: String,
    /// Id of the run, a hash of its plan, model and data.
    pub id: String,
    /// Name of the run's entry in the ledger.
    pub attempt: String,
    /// Name of the method.
    pub method: String,
    /// Name of the model.
    pub model: String,
    /// Name of the data.
    pub data: String,
    /// Steps taken.
    pub step: u64,
    /// Steps of the plan.
    pub steps: u64,
    /// Whether the run was stopped after this step and took no further one.
    pub stopped: bool,
    /// The device: `cpu`, `cuda:0`.
    pub device: String,
    /// Architecture and vector instructions of the processor.
    pub processor: String,
    /// Interval at which checkpoints are written.
    pub every: String,
    /// The arguments of the command that trains the run; empty if it is trained otherwise.
    pub command: Vec<String>,
    /// The folder in which that command was given.
    pub folder: String,
    /// Time at which the checkpoint was written: UTC, ISO 8601.
    pub at: String,
}

impl CheckpointHeader {
    /// Returns the versions of this program.
    pub(super) fn current_versions() -> (u32, String) {
        (FORMAT, program::numerics())
    }
}

/// Writes a checkpoint atomically. Only the owner may read the file, from its first byte on. It is
/// on disk when this returns.
///
/// # Errors
/// `Io` if it can't be written; an earlier file is then unchanged.
pub(super) fn write(
    path: &Path,
    header: &CheckpointHeader,
    payload: &CheckpointPayload,
    mask: Option<&[u8]>,
    arrays: &Arrays,
) -> Result<()> {
    let failed = |why: String| Error::new(ErrorKind::Io, "writing a checkpoint", why);
    let mut tensors: Vec<StoredTensor> = Vec::with_capacity(arrays.len() + 2);
    let bytes = |name: &str, bytes: Vec<u8>| (name.to_owned(), Dtype::U8, vec![bytes.len()], bytes);
    // Numbers in this format are read back bit for bit, which JSON does not promise.
    let mut encoded = Vec::new();
    ciborium::into_writer(payload, &mut encoded).map_err(|e| failed(e.to_string()))?;
    tensors.push(bytes(NUMBERS, encoded));
    tensors.extend(mask.map(|mask| bytes(MASK, mask.to_vec())));
    let (names, values): (Vec<&String>, Vec<DeviceArray>) =
        arrays.iter().map(|(name, values)| (name, values.clone())).unzip();
    for (name, values) in names.into_iter().zip(DeviceArray::to_vecs(&values)) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        tensors.push((format!("{ARRAYS}{name}"), Dtype::F32, vec![values.len()], bytes));
    }
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let header = serde_json::to_string(header).map_err(|e| failed(e.to_string()))?;
    let sum = checksum(&header, tensors.iter().map(|(name, .., bytes)| (&**name, &**bytes)));
    let bytes = file::safetensors(&tensors, [(KEY, header), (SUM, sum)]).map_err(failed)?;
    file::write_private(path, &bytes)
}

/// Computes the SHA-256 over the header and all tensors in the order of their names. It detects
/// damage, not forgery.
fn checksum<'a>(header: &str, tensors: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(header.as_bytes());
    tensors.for_each(|(name, bytes)| {
        add(name.as_bytes());
        add(bytes);
    });
    hex(&hash.finalize())
}

/// Returns whether there is a checkpoint at this path.
pub(crate) fn checkpoint_exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Reads the header of a checkpoint. The rest of the file is not read.
///
/// # Errors
/// `Io` if the file can't be read; `CorruptData` if it has no such header.
pub(crate) fn read_header(path: &Path) -> Result<CheckpointHeader> {
    let reading = |e: io::Error| Error::io(format!("reading {}", path.display()), &e);
    let mut file = File::open(path).map_err(reading)?;
    if !file.metadata().map_err(reading)?.is_file() {
        return Err(damaged(path, "not a regular file"));
    }
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| damaged(path, "the file is truncated"))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_LEN {
        return Err(damaged(path, "not a safetensors file"));
    }
    let mut bytes = Vec::new();
    let read = file.take(length).read_to_end(&mut bytes).map_err(reading)?;
    if (read as u64) < length {
        return Err(damaged(path, "the file is truncated"));
    }
    parse_header(path, &bytes).map(|(header, _, _)| header)
}

/// The header of a safetensors file, as far as it is needed here.
#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "__metadata__", default)]
    metadata: HashMap<String, String>,
}

/// Parses the header of a checkpoint, its text, and the checksum, from the header of the file.
fn parse_header(path: &Path, bytes: &[u8]) -> Result<(CheckpointHeader, String, String)> {
    let Metadata { metadata } = serde_json::from_slice(bytes)
        .map_err(|e| damaged(path, &format!("not a safetensors file ({e})")))?;
    let (Some(text), Some(sum)) = (metadata.get(KEY), metadata.get(SUM)) else {
        return Err(damaged(path, "the safetensors file is not a checkpoint"));
    };
    let header = serde_json::from_str(text)
        .map_err(|e| damaged(path, &format!("the header can't be read ({e})")))?;
    Ok((header, text.clone(), sum.clone()))
}

/// Reads a checkpoint.
///
/// # Errors
/// `Io` if it can't be read; `CorruptData` if it is damaged.
pub(super) fn read(path: &Path) -> Result<Checkpoint> {
    let bytes = read_regular_file(path)
        .map_err(|e| Error::io(format!("reading the checkpoint {}", path.display()), &e))?;
    let (length, _) = SafeTensors::read_metadata(&bytes)
        .map_err(|e| damaged(path, &format!("the file is truncated or changed ({e})")))?;
    let (header, text, sum) = parse_header(path, &bytes[8..8 + length])?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|e| damaged(path, &format!("the file is truncated or changed ({e})")))?;
    let mut tensors = file.tensors();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    if checksum(&text, tensors.iter().map(|(name, view)| (&**name, view.data()))) != sum {
        return Err(damaged(path, "the checksum does not match"));
    }
    let (mut numbers, mut mask, mut arrays) = (None, None, HashMap::new());
    for (name, view) in tensors {
        match (&*name, view.dtype(), name.strip_prefix(ARRAYS)) {
            (NUMBERS, Dtype::U8, _) => {
                let read = ciborium::from_reader(view.data());
                numbers = Some(
                    read.map_err(|e| damaged(path, &format!("the file can't be read ({e})")))?,
                );
            }
            (MASK, Dtype::U8, _) => mask = Some(view.data().to_vec()),
            (_, Dtype::F32, Some(name)) => {
                let (floats, _) = view.data().as_chunks::<4>();
                let values = floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
                arrays.insert(name.to_owned(), values);
            }
            _ => return Err(damaged(path, "the file has tensors of another type")),
        }
    }
    let numbers = numbers.ok_or_else(|| damaged(path, "the numbers of the run are missing"))?;
    Ok(Checkpoint { header, payload: numbers, mask, arrays })
}

fn damaged(path: &Path, why: &str) -> Error {
    let what = format!("the checkpoint {}", path.display());
    Error::new(ErrorKind::CorruptData, what, why).fix(format!(
        "restore it from a backup; or remove it with `{}`: the run then starts again and is \
         charged again",
        program::command("runs remove ID")
    ))
}

#[cfg(test)]
mod tests;
