//! Reading of files that `torch.save` wrote.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use pytorch_reader::{MAX_PICKLE_SIZE, PytorchReader};
use zip::{ZipArchive, ZipReadOptions};

use super::pickle_scan::{PickleScan, scan};
use super::weight_file::{ElementType, TensorEntry, damaged, failed, printable, refused};
use crate::Result;
use crate::privacy::digits::pluralise;

/// First bytes of a ZIP archive.
const ZIP_MAGIC: &[u8] = b"PK";
/// Offset and text of the mark of a tape archive, the form before PyTorch 0.1.10.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");
/// Pickles of a file of PyTorch before 1.6: magic number, version, system, tensors, storages.
const LEGACY_PICKLES: usize = 5;
/// The magic number of these files, in the two ways that a pickle writes it.
const LEGACY_MAGIC: [&[u8]; 2] =
    [b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", b"119547037146038801333356"];

/// Returns the tensors of a file by `torch.save`, whose first bytes are `beginning`. Pickles that
/// name other code are refused.
pub(super) fn entries(path: &Path, beginning: &[u8]) -> Result<Vec<TensorEntry>> {
    if beginning.get(TAR_MAGIC.0..).is_some_and(|rest| rest.starts_with(TAR_MAGIC.1)) {
        return Err(refused(path, "the file has the format of PyTorch before 0.1.10")
            .fix("load it with PyTorch, and save its state_dict again"));
    }
    // Pickles begin with their protocol, or in the oldest protocols with a container.
    let pickle = beginning.first().is_some_and(|first| b"\x80(}]cL".contains(first));
    if !pickle && !beginning.starts_with(ZIP_MAGIC) {
        return Err(refused(
            path,
            "the file is neither a safetensors file nor one that torch.save wrote",
        ));
    }
    let PickleScan { unknown_imports, tensor_count } =
        scan_file(path, beginning).map_err(|e| failed(path, &e))?;
    if !unknown_imports.is_empty() {
        let shown: Vec<String> =
            unknown_imports.iter().take(3).map(|name| printable(name)).collect();
        let more = if unknown_imports.len() > 3 { ", ..." } else { "" };
        let why = format!(
            "the pickle names code that is not part of a tensor: {}{more}. Programs that unpickle \
             it may run that code; none of it was run here",
            shown.join(", ")
        );
        return Err(refused(path, why).fix(
            "take weights from a source that you trust, as safetensors; or save only the \
             parameters: torch.save(model.state_dict(), path)",
        ));
    }
    let reader = PytorchReader::new(path).map_err(|e| damaged(path, e))?;
    if tensor_count > reader.len() {
        let why = format!(
            "the file holds {} under {}, so names are ambiguous",
            pluralise(tensor_count, "tensor"),
            pluralise(reader.len(), "name")
        );
        return Err(
            refused(path, why).fix("save a state_dict in which every tensor has a unique name")
        );
    }
    let tensors = reader.into_tensors().into_iter();
    Ok(tensors
        .map(|(name, tensor)| TensorEntry {
            name,
            shape: tensor.shape().to_vec(),
            dtype: ElementType::from_debug(tensor.dtype()),
            read: Box::new(move || tensor.read()),
        })
        .collect())
}

/// Scans the pickles of the file.
fn scan_file(path: &Path, beginning: &[u8]) -> io::Result<PickleScan> {
    if beginning.starts_with(ZIP_MAGIC) {
        return scan(&mut pickle_of_archive(path)?.as_slice());
    }
    let mut reader = BufReader::new(File::open(path)?);
    let mut all = scan(&mut reader)?;
    let begins = &beginning[..beginning.len().min(64)];
    if LEGACY_MAGIC.iter().any(|magic| begins.windows(magic.len()).any(|part| part == *magic)) {
        for _ in 1..LEGACY_PICKLES {
            let next = scan(&mut reader)?;
            all.unknown_imports.extend(next.unknown_imports);
            all.tensor_count += next.tensor_count;
        }
    }
    Ok(all)
}

/// Reads the pickle of an archive that `torch.save` wrote, located as the reader locates it.
fn pickle_of_archive(path: &Path) -> io::Result<Vec<u8>> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
    let mut names = Vec::new();
    for name in archive.file_names() {
        let name = name?.into_owned();
        if name == "data.pkl" || name.ends_with("/data.pkl") {
            names.push(name);
        }
    }
    let Some(name) = names.into_iter().min_by_key(String::len) else {
        let why = "the archive is from another program: it has no data.pkl";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    };
    let index = archive.index_for_name(&name).ok_or(io::ErrorKind::InvalidData)?;
    // The reader checks the sum, which some files lack.
    let entry = archive.by_index_with_options(index, ZipReadOptions::new().ignore_crc32(true))?;
    let mut pickle = Vec::new();
    entry.take(MAX_PICKLE_SIZE).read_to_end(&mut pickle)?;
    Ok(pickle)
}
