//! Reading of safetensors files of any program.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::weight_file::{ElementType, TensorEntry, damaged, failed, refused};
use crate::Result;

/// Largest header, in bytes, as in the library of the format.
const MAX_HEADER_LEN: u64 = 100_000_000;
/// Bytes of the header's length.
const LENGTH: u64 = 8;

/// Returns whether a file begins like a safetensors file: the length of the header, then JSON.
pub(super) fn is_safetensors(beginning: &[u8]) -> bool {
    let length = beginning.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    length.is_some_and(|length| length <= MAX_HEADER_LEN)
        && beginning.get(LENGTH as usize) == Some(&b'{')
}

/// Returns the tensors of the file. Only its header is read.
pub(super) fn entries(path: &Path) -> Result<Vec<TensorEntry>> {
    let failed = |e: io::Error| failed(path, &e);
    let mut file = File::open(path).map_err(failed)?;
    let in_file = file.metadata().map_err(failed)?.len();
    let mut length = [0; LENGTH as usize];
    file.read_exact(&mut length).map_err(failed)?;
    let length = u64::from_le_bytes(length);
    let start = LENGTH + length;
    if start > in_file || length > MAX_HEADER_LEN {
        let why = format_args!("the header has {length} bytes, but the file has {in_file}");
        return Err(damaged(path, why));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(failed)?;
    let invalid = |e: serde_json::Error| damaged(path, format_args!("the header is invalid ({e})"));
    let HeaderKeys(names) = serde_json::from_slice(&header).map_err(invalid)?;
    let mut seen = HashSet::new();
    if let Some(duplicate) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(refused(path, format!("the file holds two tensors with the name {duplicate}"))
            .fix("save the weights again, each tensor under a unique name"));
    }
    let metadata: Metadata = serde_json::from_slice(&header).map_err(invalid)?;
    let announced = start + metadata.data_len() as u64;
    if announced != in_file {
        let why = format_args!("the tensors need {announced} bytes, but the file has {in_file}");
        return Err(damaged(path, why));
    }
    let file = Arc::new(file);
    let entry = |(name, info): (String, &TensorInfo)| {
        let (file, (from, to)) = (Arc::clone(&file), info.data_offsets);
        let read = move || {
            let mut bytes = vec![0; to - from];
            let mut file = &*file;
            file.seek(SeekFrom::Start(start + from as u64))?;
            file.read_exact(&mut bytes)?;
            Ok(bytes)
        };
        TensorEntry {
            name,
            shape: info.shape.clone(),
            dtype: ElementType::from_debug(info.dtype),
            read: Box::new(read),
        }
    };
    Ok(metadata.tensors().into_iter().map(entry).collect())
}

/// The keys of a JSON object in order, repeated ones too.
struct HeaderKeys(Vec<String>);

impl<'de> Deserialize<'de> for HeaderKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Vec<String>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with an entry for each tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    keys.push(key);
                }
                Ok(keys)
            }
        }
        deserializer.deserialize_map(Keys).map(HeaderKeys)
    }
}
