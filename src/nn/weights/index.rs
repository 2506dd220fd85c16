//! Reading of sharded weights: an index in JSON, which names the file of each tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};

use serde::Deserialize;

use super::weight_file::{DOWNLOAD_ADVICE, WeightFile, damaged, failed, printable, refused};
use crate::Result;
use crate::privacy::digits::pluralise;

/// Largest index in bytes. The largest published ones have some megabytes.
const MAX_INDEX_LEN: u64 = 64 << 20;

/// The content of `model.safetensors.index.json`.
#[derive(Deserialize)]
struct ShardIndex {
    /// Name of the file of each tensor.
    weight_map: BTreeMap<String, String>,
}

/// Returns whether a file begins like an index: JSON whose first entry is one of an index.
pub(super) fn is_index(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let Some(rest) = text.trim_start().strip_prefix('{') else { return false };
    ["\"metadata\"", "\"weight_map\""].iter().any(|key| rest.trim_start().starts_with(key))
}

/// Opens all shards of an index.
///
/// # Errors
/// As [`WeightFile::open`] of each shard; `CorruptData` if the index names files in other folders,
/// or if the shards hold other tensors than it lists.
pub(super) fn open_shards(path: &Path) -> Result<WeightFile> {
    let mut text = String::new();
    let file = File::open(path).map_err(|e| failed(path, &e))?;
    file.take(MAX_INDEX_LEN).read_to_string(&mut text).map_err(|e| failed(path, &e))?;
    let ShardIndex { weight_map } = serde_json::from_str(&text).map_err(|e| damaged(path, e))?;
    let shards: BTreeSet<&String> = weight_map.values().collect();
    let mut all =
        WeightFile { format: String::new(), entries: BTreeMap::new(), skipped: Vec::new() };
    for shard in &shards {
        let opened = WeightFile::open_single(&shard_path(path, shard)?)?;
        all.format = format!("{}, {}", opened.format, pluralise(shards.len(), "shard"));
        all.skipped.extend(opened.skipped);
        for (name, entry) in opened.entries {
            if weight_map.get(&name) != Some(*shard) {
                let why = format!(
                    "{shard} has a tensor {} that it does not list there",
                    printable(&name)
                );
                return Err(refused(path, why).fix(DOWNLOAD_ADVICE));
            }
            all.entries.insert(name, entry);
        }
    }
    match weight_map.iter().find(|(name, _)| !all.entries.contains_key(*name)) {
        None => Ok(all),
        Some((name, shard)) => {
            let why = format!("{} has no tensor {}", printable(shard), printable(name));
            Err(refused(path, why).fix(DOWNLOAD_ADVICE))
        }
    }
}

/// Returns the path of a shard, which is beside the index.
fn shard_path(index: &Path, shard: &str) -> Result<std::path::PathBuf> {
    let mut components = Path::new(shard).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(name)), None) => Ok(index.with_file_name(name)),
        _ => {
            Err(refused(index, format!("it names a file in another folder: {}", printable(shard))))
        }
    }
}
